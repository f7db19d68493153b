//! A log whose reader stopped reading.

use std::time::Duration;

use tests::prelude::*;

use crate::support::access::root_client;

/// The length of the key in each line of the log. With [`REQUESTS`] lines the log is longer than a pipe's buffer.
const KEY_BYTES: usize = 1_000;
const REQUESTS: usize = 150;
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn an_unread_log_does_not_block_the_server() {
    // The server's stderr is a pipe whose reader sleeps.
    let reader = "exec \"$@\" 2> >(exec sleep 30)";
    let server = Options::default().under(["bash", "-c", reader, "bash"]).start();
    let client = root_client(&server);
    let ask = async {
        client.create_bucket().bucket("quiet").send().await.expect("the bucket");
        let key = "x".repeat(KEY_BYTES);
        for _ in 0..REQUESTS {
            let absent = client.head_object().bucket("quiet").key(&key).send().await;
            assert!(absent.is_err_and(|error| error.raw_response().is_some_and(|raw| raw.status().as_u16() == 404)));
        }
    };
    tokio::time::timeout(LIMIT, ask).await.expect("the server continues without the reader of its log");
}
