//! `amphora handover`: what it refuses, and S3 clients with the retries of their SDK while the owner changes under load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use tokio::net::{TcpListener, TcpStream};

use super::report;
use super::shared::Shared;
use crate::support::access::root_client;
use crate::support::cli::{json, refusal};
use crate::support::*;

const BUCKET: &str = "handed";

/// One address for both servers, as a Service of Kubernetes is: a connection leads to the one whose S3 port is open, and
/// waits while neither is.
async fn service(servers: [SocketAddr; 2]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_secs(30) {
                    for address in servers {
                        if let Ok(mut server) = TcpStream::connect(address).await {
                            // Either side may end first.
                            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                            return;
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
    });
    address
}

/// A client as applications have it: an SDK that repeats a request whose connection broke.
fn retrying(server: &Server, service: SocketAddr) -> Client {
    let key = server.credentials();
    let plain = s3client(&format!("http://{service}"), &key.access_key_id, &key.secret_access_key);
    let config = plain.config().to_builder().retry_config(RetryConfig::standard().with_max_attempts(8)).build();
    Client::from_conf(config)
}

/// Puts objects and reads each back until `stop`; returns how many, and how long the slowest request took.
async fn work(client: Client, writer: usize, stop: Arc<AtomicBool>) -> (usize, Duration) {
    let (mut count, mut slowest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let body = content(writer, count);
        let begun = Instant::now();
        let key = format!("{writer}-{count}");
        let put = client.put_object().bucket(BUCKET).key(&key).body(body.clone().into()).send().await;
        put.unwrap_or_else(|error| panic!("PUT {key}: {error:?}"));
        let got = client.get_object().bucket(BUCKET).key(&key).send().await;
        let got = got.unwrap_or_else(|error| panic!("GET {key}: {error:?}")).body.collect().await.expect("a body");
        assert!(got.into_bytes() == body, "{key} differs");
        slowest = slowest.max(begun.elapsed());
        count += 1;
    }
    (count, slowest)
}

/// Sizes that lie in the record, in a pack, and in an object of their own.
fn content(writer: usize, number: usize) -> Vec<u8> {
    let len = [100, 20_000, 300_000][number % 3];
    (0..len).map(|at| (at * 7 + writer * 31 + number) as u8).collect()
}

fn is_standby(server: &Server) -> Option<String> {
    server.readyz().filter(|it| it.starts_with("HTTP/1.1 503") && it.contains("standby: the server"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handovers_under_load_show_clients_a_pause_and_no_error() {
    let shared = need!(Shared::new());
    let mut owner = shared.options().start();
    make_bucket(&owner, BUCKET, &[]);
    let mut standby = shared.options().start_standby();
    let service = service([owner.s3_address(), standby.s3_address()]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> =
        (0..4).map(|writer| tokio::spawn(work(retrying(&owner, service), writer, Arc::clone(&stop)))).collect();
    let rounds = amount(4, 100);
    let (mut pauses, mut processes) = (Vec::new(), [owner.pid(), standby.pid()]);
    for round in 0..rounds {
        wait_until(Duration::from_secs(30), || is_standby(&standby)).expect("the standby follows");
        // It announces itself every second.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        standby.forget_ready();
        let begun = Instant::now();
        let handed = json(&owner, &["handover"]);
        assert!(handed["toServer"].is_string() && handed["toServer"] != handed["fromServer"], "{handed}");
        standby.await_owner();
        pauses.push(handed["tookMs"].as_u64().expect("a number"));
        report(&format!("handover {round}: {handed}, ready after {:?}", begun.elapsed()));
        wait_until(Duration::from_secs(30), || is_standby(&owner)).expect("the former owner follows");
        std::mem::swap(&mut owner, &mut standby);
        processes.swap(0, 1);
        assert_eq!([owner.pid(), standby.pid()], processes, "each server is the process that it was");
    }
    stop.store(true, Ordering::Relaxed);
    let (mut done, mut slowest) = (Vec::new(), Duration::ZERO);
    for worker in workers {
        let (count, time) = worker.await.expect("no request fails");
        (slowest, _) = (slowest.max(time), done.push(count));
    }
    report(&format!("{rounds} handovers, {done:?} PUTs and GETs, the slowest pair took {slowest:?}; {pauses:?} ms"));
    assert!(done.iter().sum::<usize>() > rounds * 5, "{done:?}: too little load");
    let client = root_client(&owner);
    for (writer, count) in done.into_iter().enumerate() {
        for number in 0..count {
            let got = client.get_object().bucket(BUCKET).key(format!("{writer}-{number}")).send().await.expect("got");
            let body = got.body.collect().await.expect("a body").into_bytes();
            assert!(body == content(writer, number), "{writer}-{number} differs");
        }
    }
    assert_eq!((owner.terminate().code(), standby.terminate().code()), (Some(0), Some(0)));
}

#[test]
fn a_handover_is_refused_where_it_would_only_stop_the_store() {
    let embedded = Server::start();
    let why = refusal(&embedded, &["handover"], 1);
    assert!(why.contains("in its data folder") && why.contains("--metadata-url"), "{why}");
    drop(embedded);

    let shared = need!(Shared::new());
    let mut owner = shared.options().start();
    let why = refusal(&owner, &["handover"], 1);
    assert!(why.contains("no standby follows the log"), "{why}");
    // One that followed and is gone does not count for long.
    let mut standby = shared.options().start_standby();
    wait_until(Duration::from_secs(30), || is_standby(&standby)).expect("it follows");
    standby.kill9();
    std::thread::sleep(Duration::from_secs(6));
    let why = refusal(&owner, &["handover"], 1);
    assert!(why.contains("no standby follows the log"), "{why}");
    if root_and_fuse().is_ok() {
        make_bucket(&owner, BUCKET, &[]);
        standby.restart_as_standby();
        wait_until(Duration::from_secs(30), || is_standby(&standby)).expect("it follows again");
        let mount = Mounted::new(&owner, BUCKET, "m");
        let why = refusal(&owner, &["handover"], 1);
        assert!(why.contains("mounted on this machine") && why.contains(&*mount.path().to_string_lossy()), "{why}");
        mount.unmount(&owner);
    }
    assert!(owner.readyz().expect("an answer").starts_with("HTTP/1.1 200"), "the owner serves on");
    assert_eq!(owner.terminate().code(), Some(0));
}
