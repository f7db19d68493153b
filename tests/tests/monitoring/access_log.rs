//! The access log: caller, operation, result, and the bytes actually sent.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use serde_json::Value;

use super::{line, lines, server};
use crate::support::Server;
use crate::support::access::root_client;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Requests a presigned URL, with further headers.
fn ask(server: &Server, url: &str, headers: &str) -> TcpStream {
    let (_, path) = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).expect("a path");
    let address = server.ready().address("s3");
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {address}\r\n{headers}\r\n").expect("asked");
    stream
}

#[tokio::test]
async fn a_line_has_error_key_user_agent_version_and_trace_as_plain_strings() {
    let server = server(&[]);
    let client = root_client(&server);
    client.create_bucket().bucket("logged").send().await.expect("made");
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
    client.put_bucket_versioning().bucket("logged").versioning_configuration(enabled).send().await.expect("set");
    let body = aws_sdk_s3::primitives::ByteStream::from_static(b"twelve bytes");
    let put = client.put_object().bucket("logged").key("a \"b\"\\ü").body(body).send().await.expect("put");
    let version = put.version_id().expect("a version").to_owned();
    let config = PresigningConfig::expires_in(Duration::from_secs(600)).expect("a time");
    let url = client.get_object().bucket("logged").key("absent").presigned(config).await.expect("signed");
    let agent =
        format!("user-agent: odd\t\"agent\" {}\r\ntraceparent: {TRACE}\r\nconnection: close\r\n", "x".repeat(5_000));
    let mut answer = String::new();
    ask(&server, url.uri(), &agent).read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    client.head_object().bucket("logged").key("absent").version_id(&version).send().await.expect_err("absent");

    let of = |operation: &str| line(&server, "s3::access", |line| line["operation"] == operation);
    let put = of("PutObject");
    assert_eq!(put["key"].as_str(), Some("a \"b\"\\ü"), "plain: {put}");
    assert_eq!((put["method"].as_str(), put["version"].as_str()), (Some("PUT"), Some(version.as_str())), "{put}");
    let key = server.credentials().access_key_id;
    assert_eq!((put["key_id"].as_str(), put["account"].as_str()), (Some(key.as_str()), Some("root")), "{put}");
    assert!(
        put["code"].is_null() && put["user_agent"].as_str().is_some_and(|agent| agent.contains("aws-sdk-rust")),
        "{put}"
    );
    let (first, whole) = (put["first_ms"].as_f64().expect("a time"), put["ms"].as_f64().expect("a time"));
    assert!(first <= whole, "{put}");
    let get = of("GetObject");
    assert_eq!((get["status"].as_u64(), get["code"].as_str()), (Some(404), Some("NoSuchKey")), "{get}");
    assert_eq!(get["traceparent"].as_str(), Some(TRACE), "{get}");
    let agent = get["user_agent"].as_str().expect("a program");
    assert!(agent.starts_with("odd\t\"agent\" x") && agent.chars().count() == 256, "{agent}");
    let head = of("HeadObject");
    assert_eq!(head["version"].as_str(), Some(version.as_str()), "{head}");
    assert!(head["code"].as_str().is_some_and(|code| code.starts_with("NoSuch")), "an answer without a body: {head}");
    assert!(lines(&server.log(), "s3::access").iter().all(|line| line["cut"] == false));
}

#[tokio::test]
async fn a_download_that_was_cut_is_logged_with_its_sent_bytes_and_reason() {
    const LARGE: usize = 48 << 20;
    let server = server(&["--s3-download-stall", "2s"]);
    let client = root_client(&server);
    client.create_bucket().bucket("logged").send().await.expect("made");
    let body = vec![7; LARGE].into();
    client.put_object().bucket("logged").key("large").body(body).send().await.expect("put");
    let config = PresigningConfig::expires_in(Duration::from_secs(600)).expect("a time");
    let url = client.get_object().bucket("logged").key("large").presigned(config).await.expect("signed");
    let sip = || {
        let mut stream = ask(&server, url.uri(), "");
        stream.read_exact(&mut vec![0; 1 << 20]).expect("a part");
        stream
    };
    drop(sip());
    let kept = sip();
    for reason in ["client", "stalled"] {
        let line: Value = line(&server, "s3::access", |line| line["cut_by"] == reason);
        let sent = line["bytes_out"].as_u64().expect("bytes");
        assert!(line["cut"] == true && (1_000_000..LARGE as u64).contains(&sent), "{line}");
    }
    drop(kept);
    let whole = client.get_object().bucket("logged").key("large").send().await.expect("answered");
    assert_eq!(whole.body.collect().await.expect("whole").into_bytes().len(), LARGE);
    let line = line(&server, "s3::access", |line| line["operation"] == "GetObject" && line["cut"] == false);
    assert_eq!(line["bytes_out"].as_u64(), Some(LARGE as u64), "{line}");
}
