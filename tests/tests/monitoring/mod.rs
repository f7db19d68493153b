//! Monitoring: the audit trail, the access log, the metrics, and the alert rules and dashboard built on them.

mod access_log;
mod audit;
mod metrics;
mod rules;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support::*;

/// How long a line may take to be written.
const LINE: Duration = Duration::from_secs(20);

/// A server that writes its log as JSON.
fn server(args: &[&str]) -> Server {
    Options::default().args(["--log-format", "json"]).args(args.iter().copied()).start()
}

/// The answer of `/metrics` to this Accept header: the head and the body.
fn scrape(server: &Server, accept: &str) -> (String, String) {
    let mut socket = TcpStream::connect(server.ready().address("http")).expect("it accepts");
    write!(socket, "GET /metrics HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\nconnection: close\r\n\r\n").expect("asked");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    (head.to_owned(), body.to_owned())
}

/// The lines of a log with this target.
fn lines(log: &str, target: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == target).collect()
}

/// The first line of a server's log with this target that `wanted` accepts.
#[track_caller]
fn line(server: &Server, target: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let found = wait_until(LINE, || lines(&server.log(), target).into_iter().find(|line| wanted(line)));
    found.unwrap_or_else(|| panic!("no such line: {:#?}", lines(&server.log(), target)))
}
