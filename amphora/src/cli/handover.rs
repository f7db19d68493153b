//! `amphora handover`

use std::time::{Duration, Instant};

use clap::Args;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Client, answer};
use super::output::{Printer, Row};
use super::progress::Line;
use crate::config::{Period, SocketPath};
use crate::failure::Failure;

/// The time limit until this server is a standby: requests in progress end first.
const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);
/// How long one question may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// The hand-over.
#[derive(Debug, Args)]
pub struct Handover {
    /// How long to wait for a standby that is replaying the log
    #[arg(long, value_name = "TIME", default_value = "30s")]
    wait: Period,
}

/// The printed result of a hand-over.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HandoverReport {
    from_server: String,
    to_server: String,
    took_ms: u64,
}

impl Row for HandoverReport {
    const HEADERS: &'static [&'static str] = &["FROM", "TO", "TOOK"];

    fn cells(&self) -> Vec<String> {
        vec![self.from_server.clone(), self.to_server.clone(), format!("{} ms", self.took_ms)]
    }
}

impl Handover {
    /// Requests the hand-over, and waits until this server says which other one owns the log.
    pub(super) async fn run(
        self,
        mut client: Client,
        socket: &SocketPath,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let wait_ms = u64::try_from(self.wait.0.as_millis()).unwrap_or(u64::MAX);
        let last = answer(client.status(admin::StatusRequest {}).await)?.started_unix_ms;
        let begun = answer(client.handover(admin::HandoverRequest { wait_ms: Some(wait_ms) }).await)?;
        let since = Instant::now();
        drop(client);
        let to_server = successor(&begun.http_address, socket, last).await?;
        let took_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        printer.one(&HandoverReport { from_server: begun.from_server, to_server, took_ms })
    }
}

/// The name of the server that owns the log now, as this machine's standby says.
async fn successor(http_address: &str, socket: &SocketPath, last: i64) -> Result<String, Failure> {
    let (begun, mut line) = (Instant::now(), Line::new());
    while begun.elapsed() < LIMIT {
        if let Some(owner) = readyz(http_address).await.as_deref().and_then(owner_in) {
            return Ok(owner.to_owned());
        }
        if let Some(started) = started(socket).await
            && started != last
        {
            let why =
                "no standby took the store over within 5 s, so this server serves it again: see the standby's log";
            return Err(Failure::failed(why));
        }
        line.show(&|| format!("handover: waiting for {} s, {} s at most", begun.elapsed().as_secs(), LIMIT.as_secs()));
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::failed("this server has not become a standby: see its log"))
}

/// The owner's name in the answer of a standby.
fn owner_in(answer: &str) -> Option<&str> {
    let (_, rest) = answer.split_once("standby: the server \"")?;
    rest.split_once("\" owns the log").map(|(name, _)| name)
}

/// The answer of `/readyz`, if there is one.
async fn readyz(address: &str) -> Option<String> {
    // A server that listens on all addresses is asked on this machine's own.
    let address = address.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:");
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: amphora\r\nConnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    tokio::time::timeout(ANSWER_LIMIT, asked).await.ok()?.ok()
}

/// When the server at the socket was started, if one answers.
async fn started(socket: &SocketPath) -> Option<i64> {
    let asked = async {
        let mut client = Client::connect(socket).await.ok()?;
        answer(client.status(admin::StatusRequest {}).await).ok()
    };
    Some(tokio::time::timeout(ANSWER_LIMIT, asked).await.ok()??.started_unix_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_owner_is_read_from_the_standbys_answer() {
        let answer = "HTTP/1.1 503 x\r\n\r\nstandby: the server \"b (12)\" owns the log of the metadata\n";
        assert_eq!(owner_in(answer), Some("b (12)"));
        assert_eq!(owner_in("HTTP/1.1 200 OK\r\n\r\nready\n"), None);
    }
}
