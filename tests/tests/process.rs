//! `amphora serve` as a process: starting, crashing, stopping.

use crate::support::{Server, s3client};

#[tokio::test]
async fn a_killed_server_restarts_on_its_ports_and_sockets() {
    let mut server = Server::start();
    let before = server.ready().clone();
    server.kill9();
    server.restart();
    assert_eq!(server.ready(), &before);
    let key = server.credentials();
    let client = s3client(server.s3(), &key.access_key_id, &key.secret_access_key);
    let buckets = client.list_buckets().send().await.expect("the root key still opens the store");
    assert!(buckets.buckets().is_empty());
}

#[test]
fn a_terminated_server_drains_and_exits_with_zero() {
    let mut server = Server::start();
    let status = server.terminate();
    assert_eq!(status.code(), Some(0), "{}", server.log());
}
