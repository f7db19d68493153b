//! The `opendal` crate: conditional writes, writers in parts, copies, listings.

use futures::TryStreamExt as _;
use opendal::services::S3;
use opendal::{ErrorKind, HttpTransporter, OperationContext, Operator};
use opendal_http_transport_reqwest::ReqwestTransport;

use super::files::bytes;
use super::object_store::crypto;
use crate::support::*;

const BUCKET: &str = "store";

/// A server with a bucket, and a client of it.
fn start() -> (Server, Operator) {
    crypto();
    let server = Server::start();
    make_bucket(&server, BUCKET, &[]);
    let Credentials { access_key_id, secret_access_key } = server.credentials();
    let service = S3::default().endpoint(server.s3()).bucket(BUCKET).region("us-east-1");
    let service = service.access_key_id(&access_key_id).secret_access_key(&secret_access_key);
    let operator = Operator::new(service.disable_config_load().disable_ec2_metadata()).expect("an operator");
    let transport = HttpTransporter::new(ReqwestTransport::default());
    (server, operator.with_context(OperationContext::new().with_http_transport(transport)))
}

#[tokio::test]
async fn conditional_writes_create_and_swap() {
    let (_server, store) = start();
    let path = "dir/a b é";
    store.write_with(path, "first").if_not_exists(true).await.expect("created");
    let again = store.write_with(path, "again").if_not_exists(true).await.expect_err("it is there");
    assert_eq!(again.kind(), ErrorKind::ConditionNotMatch, "{again}");
    let etag = store.stat(path).await.expect("there").etag().expect("an ETag").to_owned();
    store.write_with(path, "second").if_match(&etag).await.expect("swapped");
    let stale = store.write_with(path, "third").if_match(&etag).await.expect_err("it changed");
    assert_eq!(stale.kind(), ErrorKind::ConditionNotMatch, "{stale}");
    assert_eq!(store.read(path).await.expect("there").to_vec(), b"second");
    let stale = store.read_with(path).if_match(&etag).await.expect_err("it changed");
    assert_eq!(stale.kind(), ErrorKind::ConditionNotMatch, "{stale}");
    let absent = store.stat("absent").await.expect_err("not there");
    assert_eq!(absent.kind(), ErrorKind::NotFound, "{absent}");
}

#[tokio::test]
async fn writers_go_up_in_parts_and_under_a_condition() {
    let (_server, store) = start();
    let content = bytes((17 << 20) + 5);
    for round in ["created", "refused"] {
        let options = store.writer_with("large").chunk(5 << 20).concurrent(3).if_not_exists(true);
        let mut writer = options.content_type("text/x").await.expect("a writer");
        for piece in content.chunks(1 << 20) {
            writer.write(piece.to_vec()).await.expect("a part");
        }
        match (round, writer.close().await) {
            ("created", Ok(_)) => {}
            ("refused", Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::ConditionNotMatch, "{error}");
                writer.abort().await.expect("aborted");
            }
            (_, other) => panic!("{round}: {other:?}"),
        }
    }
    let meta = store.stat("large").await.expect("there");
    assert_eq!((meta.content_length(), meta.content_type()), (content.len() as u64, Some("text/x")));
    assert!(store.read("large").await.expect("there").to_vec() == content, "the content is the parts in order");
    let part = store.read_with("large").range(100..6 << 20).await.expect("a range").to_vec();
    assert!(part == content[100..6 << 20], "a range over two parts");
    let read = store.read_with("large").chunk(3 << 20).concurrent(4).await.expect("read in pieces").to_vec();
    assert!(read == content, "read in pieces at once");
}

#[tokio::test]
async fn keys_are_listed_copied_and_deleted_at_once() {
    let (_server, store) = start();
    for number in 0..30 {
        store.write(&format!("d{}/k {number:02}", number % 3), format!("{number}")).await.expect("written");
    }
    let all = store.list_with("").recursive(true).limit(7).await.expect("listed");
    assert_eq!(all.iter().filter(|entry| entry.metadata().is_file()).count(), 30);
    let folders: Vec<_> = store.lister("").await.expect("a lister").try_collect().await.expect("listed");
    let names: Vec<_> = folders.iter().map(opendal::Entry::path).filter(|path| *path != "/").collect();
    assert_eq!(names, ["d0/", "d1/", "d2/"]);
    store.copy("d0/k 00", "copy").await.expect("copied");
    assert_eq!(store.read("copy").await.expect("there").to_vec(), b"0");
    store.create_dir("folder/").await.expect("a folder");
    assert!(store.stat("folder/").await.expect("there").is_dir());
    let doomed: Vec<_> = all.into_iter().map(|entry| entry.path().to_owned()).collect();
    store.delete_iter(doomed).await.expect("deleted");
    let left = store.list_with("").recursive(true).await.expect("listed");
    let left: Vec<_> = left.iter().map(opendal::Entry::path).filter(|path| *path != "/").collect();
    assert_eq!(left, ["copy", "folder/"]);
}
