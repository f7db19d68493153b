//! The metrics: as documented, in Prometheus's conventions, correct, and bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use proto::csi::v1::NodeGetInfoRequest;
use proto::csi::v1::node_client::NodeClient;

use super::scrape;
use crate::support::access::root_client;
use crate::support::cli::{cli, json};
use crate::support::elsewhere::{Elsewhere, elsewhere};
use crate::support::*;

/// The time limit for a value to be current: values may be some seconds old, and a request counts once its answer is
/// sent.
const FRESH: Duration = Duration::from_secs(20);

/// A family of series.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Family {
    pub kind: String,
    pub labels: BTreeSet<String>,
}

/// The families that a server serves, by name, from the text format.
pub fn served(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let family = Family { kind: kind.to_owned(), labels: BTreeSet::new() };
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} is served twice");
        } else if !line.starts_with('#') {
            let end = line.find(['{', ' ']).expect("a name");
            let name = family_of(&line[..end], |name| families.contains_key(name)).expect(line);
            families.get_mut(&name).expect("known").labels.extend(labels(&line[end..]));
        }
    }
    families
}

/// The family of a series: a histogram has series with three suffixes.
pub fn family_of(series: &str, known: impl Fn(&str) -> bool) -> Option<String> {
    let names =
        std::iter::once(series).chain(["_bucket", "_sum", "_count"].iter().filter_map(|end| series.strip_suffix(end)));
    names.into_iter().find(|name| known(name)).map(str::to_owned)
}

/// The names of labels in `{a="b",c="d"}`, without `le`, the label of a histogram's buckets.
fn labels(text: &str) -> Vec<String> {
    let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) else { return Vec::new() };
    let names = inner.0.split("\",").filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.trim().to_owned());
    names.filter(|name| name != "le").collect()
}

/// The table of `docs/operations.md`.
pub fn documented() -> BTreeMap<String, Family> {
    let text = std::fs::read_to_string(repo().join("docs/operations.md")).expect("the manual");
    let mut families = BTreeMap::new();
    let rows = text.lines().skip_while(|line| !line.starts_with("| metric | type |")).skip(2);
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        let family = Family { kind: cells[2].to_owned(), labels };
        assert!(!cells[4].is_empty() && families.insert(name.clone(), family).is_none(), "{row}");
    }
    families
}

/// A server with a value in each family of series, as far as this machine permits.
///
/// Its content is in another store, which has to live as long.
pub async fn busy(openssl: &Path) -> (Elsewhere, Server) {
    let elsewhere = elsewhere("metrics");
    let server = elsewhere.options.clone().tls().holder().start();
    json(&server, &["bucket", "create", "busy", "--quota", "10Mi"]);
    json(&server, &["backup", "busy", server.home().path().join("backup").to_str().expect("ours")]);
    let mut node = NodeClient::new(grpc::channel(&server.ready().socket("csi")).await);
    node.node_get_info(NodeGetInfoRequest {}).await.expect("answered");
    // An unsigned request is refused, and counts as well. The client does not verify the certificate.
    let mut client = Command::new(openssl);
    client.args(["s_client", "-quiet", "-connect", &server.ready().address("s3").to_string()]);
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let request = b"GET /busy/k HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    client.stdin.take().expect("piped").write_all(request).expect("sent");
    client.wait().expect("it ends with the connection");
    if root_and_fuse().is_ok() {
        let mount = Mounted::held(&server, "busy", "mounted");
        std::fs::write(mount.path().join("file"), b"content").expect("written");
        std::fs::read(mount.path().join("absent")).expect_err("absent");
        mount.unmount(&server);
    }
    let counted = || scrape(&server, "*/*").1.contains("amphora_s3_requests_total{").then_some(());
    wait_until(FRESH, counted).expect("the request is counted");
    (elsewhere, server)
}

#[tokio::test]
async fn served_metrics_and_documented_metrics_are_the_same() {
    let (_elsewhere, server) = busy(&need!(required("openssl"))).await;
    let (head, text) = scrape(&server, "text/plain");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let (served, documented) = (served(&text), documented());
    let names = |families: &BTreeMap<String, Family>| families.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&served), names(&documented), "docs/operations.md, \"Metrics\"");
    for (name, family) in &served {
        let row = &documented[name];
        assert_eq!(family.kind, row.kind, "{name}");
        let has_series = text.lines().any(|line| line.starts_with(name.as_str()));
        assert!(!has_series || family.labels == row.labels, "{name}: {:?}, {:?}", family.labels, row.labels);
    }
    for name in names(&served) {
        assert!(name.starts_with("amphora_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), served[&name].kind == "counter", "{name}");
    }
    let (head, open) = scrape(&server, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(head.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{head}");
}

#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let promtool = need!(required("promtool"));
    let (_elsewhere, server) = busy(&need!(required("openssl"))).await;
    let (_, text) = scrape(&server, "*/*");
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().expect("it runs");
    check.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let outcome = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&[outcome.stdout, outcome.stderr].concat()).into_owned();
    assert!(outcome.status.success() && said.trim().is_empty(), "{said}");
}

/// The value of a series.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn metrics_of_a_bucket_have_its_content_and_its_requests() {
    let server = Server::start();
    json(&server, &["bucket", "create", "counted", "--quota", "10Mi"]);
    let at = |series: &str| value(&scrape(&server, "*/*").1, series);
    let known = || at("amphora_bucket_quota_bytes{bucket=\"counted\"}").filter(|quota| *quota == f64::from(10 << 20));
    wait_until(FRESH, known).expect("it has series of its own");
    let client = root_client(&server);
    let body = vec![7; 5_000].into();
    client.put_object().bucket("counted").key("k").body(body).send().await.expect("put");
    for _ in 0..3 {
        client.get_object().bucket("counted").key("k").send().await.expect("got").body.collect().await.expect("read");
    }
    client.get_object().bucket("counted").key("absent").send().await.expect_err("absent");
    client.head_bucket().bucket("no-such-bucket").send().await.expect_err("absent");
    for (series, expected) in [
        ("amphora_bucket_requests_total{bucket=\"counted\",class=\"read\"}", 4.0),
        ("amphora_bucket_requests_total{bucket=\"counted\",class=\"write\"}", 1.0),
        ("amphora_bucket_requests_total{bucket=\"counted\",class=\"list\"}", 0.0),
        ("amphora_bucket_requests_total{bucket=\"other\",class=\"settings\"}", 1.0),
        ("amphora_bucket_size_bytes{bucket=\"counted\"}", 5_000.0),
        ("amphora_bucket_objects{bucket=\"counted\"}", 1.0),
        ("amphora_bucket_hidden_keys{bucket=\"counted\"}", 0.0),
        ("amphora_buckets", 1.0),
    ] {
        let found = wait_until(FRESH, || at(series).filter(|found| *found == expected));
        assert_eq!(found, Some(expected), "{series}: {:?}", at(series));
    }
    assert_eq!(at("amphora_bucket_last_backup_timestamp_seconds{bucket=\"counted\"}"), None);
    json(&server, &["backup", "counted", server.home().path().join("backup").to_str().expect("ours")]);
    cli(&server, &["backup", "no-such-bucket", server.home().path().join("backup").to_str().expect("ours")]);
    let series = "amphora_bucket_last_backup_timestamp_seconds{bucket=\"counted\"}";
    let at_last = wait_until(FRESH, || at(series)).expect("it was backed up");
    assert!(at_last > 1_700_000_000.0);
    let (calls, commits) = (
        "amphora_grpc_calls_total{interface=\"admin\",method=\"Backup\",code=\"OK\"}",
        "amphora_store_commit_duration_seconds_count",
    );
    assert!(wait_until(FRESH, || at(calls).filter(|count| *count == 1.0)).is_some(), "{:?}", at(calls));
    assert!(
        at(commits).is_some_and(|count| count > 1.0)
            && at("amphora_store_fsync_duration_seconds_count").is_some_and(|count| count > 0.0)
    );
    assert!(at("process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6));
    assert_eq!(at("amphora_s3_body_memory_limit_bytes"), Some(f64::from(512 << 20)));
}

#[tokio::test]
async fn ten_thousand_buckets_are_scraped_in_bounded_time_and_size() {
    let count: usize = amount(1_500, 10_000);
    let server = Server::start();
    let client = root_client(&server);
    let make = |numbers: std::ops::Range<usize>| {
        let client = client.clone();
        async move {
            for number in numbers {
                client.create_bucket().bucket(format!("bucket-{number:05}")).send().await.expect("made");
            }
        }
    };
    let step = count.div_ceil(8);
    futures::future::join_all((0..8).map(|worker| make((worker * step).min(count)..((worker + 1) * step).min(count))))
        .await;
    let all = || value(&scrape(&server, "*/*").1, "amphora_buckets").filter(|found| *found == count as f64);
    wait_until(FRESH, all).expect("all are counted");
    let started = std::time::Instant::now();
    let (_, text) = scrape(&server, "*/*");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("amphora_bucket_size_bytes{"), s3::BUCKETS_MAX + 1);
    assert_eq!(series("amphora_bucket_requests_total{"), 6 * (s3::BUCKETS_MAX + 1));
    assert!(text.len() < 1 << 20, "{}", text.len());
}
