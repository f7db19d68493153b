//! The table of operations in `docs/s3.md`: each row's request is sent, and the response has to match the row.

use std::collections::BTreeSet;
use std::time::Duration;

use prometheus_client::registry::Registry;

use crate::endpoint::Endpoint;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/s3.md");
const HEADING: &str = "## Every operation";
/// The header of a form upload; the body here is not a valid form.
const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=b");

/// Operations that accept only settings without effect: each with an accepted and with a refused document.
const HALF_OFFERED: [(&str, &str, &str); 4] = [
    (
        "PutBucketAbac",
        "<AbacStatus><Status>Disabled</Status></AbacStatus>",
        "<AbacStatus><Status>Enabled</Status></AbacStatus>",
    ),
    (
        "PutBucketAccelerateConfiguration",
        "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>",
        "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>",
    ),
    (
        "PutBucketNotificationConfiguration",
        "<NotificationConfiguration/>",
        "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>",
    ),
    (
        "PutBucketRequestPayment",
        "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>",
        "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>",
    ),
];

/// A row of the table.
struct Row {
    operation: String,
    method: String,
    path: String,
    query: String,
    copies: bool,
    answer: String,
}

impl Row {
    fn parse(line: &str) -> Self {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [operation, request, answer] = cells[..] else { panic!("three cells: {line}") };
        let (target, more) = request.trim_start_matches('`').split_once('`').expect(line);
        let (method, target) = target.split_once(' ').expect(line);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut pairs: Vec<String> = query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        pairs.iter_mut().filter(|pair| !pair.contains('=')).for_each(|pair| pair.push('='));
        // Parameters are signed in the order of their names.
        pairs.sort_by_key(|pair| pair.split('=').next().map(str::to_owned));
        Self {
            operation: operation.to_owned(),
            method: method.to_owned(),
            path: path.strip_prefix("/b").map_or_else(|| path.to_owned(), |rest| format!("/wire{rest}")),
            query: pairs.join("&"),
            copies: more.contains("x-amz-copy-source"),
            answer: answer.to_owned(),
        }
    }

    fn ask(&self, endpoint: &Endpoint, body: &str) -> (u16, String) {
        let mut headers = vec![];
        if self.copies {
            headers.push(("x-amz-copy-source", "/wire/none"));
        }
        if self.operation == "PostObject" {
            headers.push(FORM);
        }
        let answer = endpoint.send(&self.method, &self.path, &self.query, &headers, body.as_bytes());
        (answer.status, answer.code())
    }
}

fn rows() -> Vec<Row> {
    let page = std::fs::read_to_string(PAGE).expect(PAGE);
    let (_, table) = page.split_once(HEADING).expect(HEADING);
    let rows: Vec<Row> = table.lines().filter(|line| line.starts_with("| ")).skip(2).map(Row::parse).collect();
    assert!(
        rows.windows(2).all(|pair| pair[0].operation < pair[1].operation),
        "the rows are sorted, without duplicates"
    );
    rows
}

/// The status and the code that a cell names: `404 `Code``, `200, …`.
fn named(cell: &str) -> (u16, String) {
    let (status, rest) = cell.trim().split_at(3);
    let code = rest.trim().strip_prefix('`').and_then(|rest| rest.split_once('`')).map(|(code, _)| code.to_owned());
    (status.parse().expect(cell), code.unwrap_or_else(|| "OK".into()))
}

/// The metrics, once they count the last request: a client has its answer shortly before it is counted.
fn stats(registry: &Registry) -> String {
    let mut stats = String::new();
    for _ in 0..200 {
        stats.clear();
        prometheus_client::encoding::text::encode(&mut stats, registry).expect("text");
        if stats.contains("operation=\"DeleteBucket\"") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    stats
}

#[test]
fn every_operation_is_answered_as_the_table_says() {
    let mut registry = Registry::default();
    let metrics = s3::Metrics::new(&mut registry);
    let endpoint = Endpoint::start_with(|config| config.metrics = metrics);
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"content").code(), "OK");
    // The operations that delete the object and the bucket come last.
    let (last, first): (Vec<Row>, Vec<Row>) =
        rows().into_iter().partition(|row| ["DeleteBucket", "DeleteObject"].contains(&row.operation.as_str()));
    for row in first.iter().chain(last.iter().rev()) {
        let (operation, answer) = (&row.operation, &row.answer);
        if let Some(expected) = answer.strip_prefix("unset: ").or(answer.strip_prefix("refused: ")) {
            assert_eq!(row.ask(&endpoint, ""), named(expected), "{operation}");
        } else if let Some((_, expected)) = answer.split_once(", else refused: ") {
            let half = HALF_OFFERED.iter().find(|(name, ..)| name == operation).expect(operation);
            assert_eq!(row.ask(&endpoint, half.1).1, "OK", "{operation}");
            assert_eq!(row.ask(&endpoint, half.2), named(expected), "{operation}");
        } else {
            assert_eq!(answer, "offered", "{operation}");
            let (status, code) = row.ask(&endpoint, "");
            assert!(![405, 500, 501].contains(&status), "{operation}: {status} {code}");
        }
    }
    let stats = stats(&registry);
    let mut offered: BTreeSet<&str> = s3::operations().collect();
    for row in rows().iter().filter(|row| !row.answer.starts_with("refused: ")) {
        // The operation of a form is known only after its body is read.
        let routed = stats.contains(&format!("operation=\"{}\"", row.operation));
        assert!(routed || row.operation == "PostObject", "{} was counted as another operation", row.operation);
        assert!(offered.remove(row.operation.as_str()) || row.operation == "PostObject", "{}", row.operation);
    }
    assert!(offered.is_empty(), "docs/s3.md has no row, or a wrong one, for {offered:?}");
}
