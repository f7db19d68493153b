//! A server with a low limit of open files: clients wait or are refused, none gets wrong data, and service resumes when
//! they disconnect.

use std::net::TcpStream;
use std::time::Duration;

use super::sample::{BUCKET, Sample};
use crate::support::access::root_client;
use crate::support::cli::check_store;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_descriptors_refuse_or_delay_and_lose_nothing() {
    need!(required("prlimit"));
    for most in [64_u64, 128, 256] {
        let limit = format!("--nofile={most}:{most}");
        let mut server = Options::default().under(["prlimit", &limit]).start();
        make_bucket(&server, BUCKET, &[]);
        let client = root_client(&server);
        let mut sample = Sample::default();
        for number in 0..20 {
            sample.put(&client, &format!("before/{number}"), 200_000 * (number % 3) + 100).await.expect("put");
        }
        // More connections than there are descriptors. The kernel accepts them before the server does.
        let address = server.ready().address("s3");
        let idle: Vec<_> = (0..most + 50).map_while(|_| TcpStream::connect_timeout(&address, LIMIT).ok()).collect();
        for number in 0..10 {
            let key = format!("during/{number}");
            // The put may be refused or wait: without an answer its result is unknown, and it counts as not put.
            let put = sample.put(&client, &key, 200_000 + number);
            let _ = tokio::time::timeout(Duration::from_millis(300), put).await;
        }
        drop(idle);
        let again = async {
            while sample.put(&client, "after", 300_000).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, again).await.expect("it goes on once they are gone");
        sample.whole(&client).await;
        assert!(!server.log().contains("panicked"), "{}", server.log());
        server.kill9();
        check_store(&server);
        server.restart();
        sample.whole(&client).await;
    }
}
