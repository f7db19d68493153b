//! `amphora upgrade`

use std::time::{Duration, Instant};

use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row};
use super::progress::Line;
use crate::config::SocketPath;
use crate::failure::Failure;

/// The time limit until the next program answers: the old one drains first, and the new one opens the store.
const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// The printed result of an upgrade.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpgradeReport {
    from_version: String,
    to_version: String,
    took_ms: u64,
}

impl Row for UpgradeReport {
    const HEADERS: &'static [&'static str] = &["FROM", "TO", "TOOK"];

    fn cells(&self) -> Vec<String> {
        vec![self.from_version.clone(), self.to_version.clone(), format!("{} ms", self.took_ms)]
    }
}

/// Requests the upgrade, and waits for the next program to answer.
pub(super) async fn run(mut client: Client, socket: &SocketPath, printer: &mut Printer) -> Result<(), Failure> {
    let last = answer(client.status(admin::StatusRequest {}).await)?.started_unix_ms;
    let begun = Instant::now();
    let api = answer(client.upgrade(admin::UpgradeRequest {}).await)?;
    drop(client);
    let to_version = next(socket, last).await?;
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    printer.one(&UpgradeReport { from_version: api.from_version, to_version, took_ms })
}

/// The version of the server that was started after `last`.
async fn next(socket: &SocketPath, last: i64) -> Result<String, Failure> {
    let (begun, mut line) = (Instant::now(), Line::new());
    let mut failed = Failure::failed("the upgraded server does not answer: see its log");
    while begun.elapsed() < LIMIT {
        // Either program may be starting or ending: the socket stays, but connections may break.
        match status(socket).await {
            Ok(status) if status.started_unix_ms != last => return Ok(status.version),
            Ok(_) => {}
            Err(failure) => failed = failure,
        }
        line.show(&|| {
            let waited = begun.elapsed().as_secs();
            format!("upgrade: waiting for the next program for {waited} s, {} s at most", LIMIT.as_secs())
        });
        tokio::time::sleep(PAUSE).await;
    }
    Err(failed)
}

async fn status(socket: &SocketPath) -> Result<admin::StatusResponse, Failure> {
    let limit = LIMIT.checked_div(4).unwrap_or(LIMIT);
    let asked = tokio::time::timeout(limit, async {
        let mut client = Client::connect(socket).await?;
        answer(client.status(admin::StatusRequest {}).await)
    });
    asked.await.unwrap_or_else(|_| Err(Failure::failed(format!("{socket} does not answer"))))
}
