//! `amphora check`: refused while a server runs, clean on an intact store; damage is found, quarantined, and resolved
//! by the object's owner.

use super::{count, data_dir, flip, largest, printed};
use crate::support::access::{code, read, root_client, write};
use crate::support::cli::{json, refusal};
use crate::support::*;

#[tokio::test]
async fn damage_is_found_quarantined_and_resolved_by_a_delete() {
    let mut server = Server::start();
    let dir = data_dir(&server);
    json(&server, &["bucket", "create", "docs"]);
    let client = root_client(&server);
    write(&client, "docs", "a/large", &vec![7; 3 << 20]).await;
    write(&client, "docs", "good", &vec![8; 1 << 20]).await;
    write(&client, "docs", "small", &[9; 10_000]).await;
    assert!(refusal(&server, &["check", &dir], 1).contains("stop it first"), "a store in use is refused");
    assert!(refusal(&server, &["check", &dir, "--repair"], 1).contains("stop it first"));
    server.terminate();
    let (status, clean) = printed(&server, &["check", &dir]);
    assert_eq!((status, clean["clean"].as_bool(), count(&clean["problems"])), (Some(0), Some(true), 0), "{clean}");

    flip(&largest(&server), 2 << 20);
    let (status, quick) = printed(&server, &["check", &dir, "--metadata-only"]);
    assert_eq!((status, &quick["verifiedBytes"]), (Some(0), &serde_json::json!(0)), "content is not read: {quick}");
    let (status, found) = printed(&server, &["check", &dir]);
    assert_eq!(status, Some(1));
    let problem = found["problems"][0].as_str().expect("a problem");
    assert!(problem.contains("bucket \"docs\" key \"a/large\"") && problem.contains("checksum"), "{found}");

    let (status, repaired) = printed(&server, &["check", &dir, "--repair"]);
    assert_eq!((status, count(&repaired["problems"]), count(&repaired["quarantined"])), (Some(1), 0, 1), "{repaired}");
    let (_, again) = printed(&server, &["check", &dir, "--repair"]);
    assert_eq!(count(&again["repaired"]), 0, "a second repair finds nothing to do: {again}");

    server.restart();
    let client = root_client(&server);
    assert_eq!(read(&client, "docs", "good").await, vec![8; 1 << 20]);
    assert_eq!(read(&client, "docs", "small").await, [9; 10_000]);
    let status = json(&server, &["status"]);
    assert_eq!(status["damagedCount"], 1, "{status}");
    let damaged = client.get_object().bucket("docs").key("a/large").send().await;
    let broken = match damaged {
        Ok(object) => object.body.collect().await.is_err(),
        Err(error) => !code::<(), _>(Err(error)).is_empty(),
    };
    assert!(broken, "a read of damaged content fails");
    client.delete_object().bucket("docs").key("a/large").send().await.expect("the owner may delete a damaged object");
    assert_eq!(json(&server, &["status"])["damagedCount"], 0);
    server.terminate();
    let (status, clean) = printed(&server, &["check", &dir]);
    assert_eq!((status, count(&clean["quarantined"])), (Some(0), 0), "{clean}");
}
