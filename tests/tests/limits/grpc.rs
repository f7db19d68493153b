//! The gRPC endpoints: calls and connections beyond the limits.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use proto::csi::v1::ProbeRequest;
use tests::prelude::*;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::process::{process_use, wait_for_closed_files};
use crate::support::cli::refusal;

/// The server's limits: calls in total, calls on one connection, and connections of one endpoint.
const CALLS: usize = 256;
const STREAMS: usize = 100;
const CONNECTIONS: usize = 256;
/// The time limit of every answer.
const LIMIT: Duration = Duration::from_secs(20);

async fn connect(socket: PathBuf) -> Channel {
    let address = format!("unix://{}", socket.display());
    tonic::transport::Endpoint::from_shared(address).expect("an address").connect().await.expect("connected")
}

/// A call whose message never arrives; returns the refusal, if there is one.
async fn hang(channel: Channel) -> Status {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("connected");
    let codec = tonic_prost::ProstCodec::<ProbeRequest, proto::csi::v1::ProbeResponse>::default();
    let path = PathAndQuery::from_static("/csi.v1.Identity/Probe");
    let never = futures::stream::pending();
    client.client_streaming(Request::new(never), path, codec).await.err().unwrap_or_else(|| Status::ok("answered"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_limit_are_resource_exhausted() {
    let server = Server::start();
    let socket = server.ready().socket("csi");
    let mut calls = tokio::task::JoinSet::new();
    let mut channels = Vec::new();
    let connections = CALLS / STREAMS + 1;
    for _ in 0..connections {
        let channel = connect(socket.clone()).await;
        (0..STREAMS).for_each(|_| drop(calls.spawn(hang(channel.clone()))));
        channels.push(channel);
    }
    // Exactly the calls beyond the limit are refused.
    for _ in 0..connections * STREAMS - CALLS {
        let refused = tokio::time::timeout(LIMIT, calls.join_next()).await.expect("refused in time");
        let status = refused.expect("a call").expect("no panic");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    }
    let more = tokio::time::timeout(Duration::from_millis(300), calls.join_next()).await;
    assert!(more.is_err(), "{more:?}");
    // The other endpoints share the limit of calls, and say so.
    let text = refusal(&server, &["bucket", "list"], 1);
    assert!(text.contains("try again"), "{text}");
    calls.shutdown().await;
    drop(channels);
    let list = || run(&mut server.cli(["bucket", "list"]), LIMIT).ok()?.status.success().then_some(());
    assert!(wait_until(LIMIT, list).is_some(), "a call succeeds once the others have ended");
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    use std::io::Read as _;
    let server = Server::start();
    let base = process_use(&server);
    let socket = server.ready().socket("cosi");
    let mut open: Vec<UnixStream> =
        (0..CONNECTIONS + 50).map(|_| UnixStream::connect(&socket).expect("taken")).collect();
    let last = open.last_mut().expect("some");
    last.set_read_timeout(Some(LIMIT)).expect("a socket");
    // An HTTP/2 server sends first, so an end without data shows that the server closed the connection.
    assert_eq!(last.read(&mut [0; 64]).expect("the server closes the connection in time"), 0);
    assert!(process_use(&server).files <= base.files + CONNECTIONS + 24);
    drop(open);
    wait_for_closed_files(&server, base, LIMIT);
}
