//! The `object_store` crate, as databases use it: conditional puts, uploads in parts, ranges, listings.

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    Certificate, ClientOptions, Error, GetOptions, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions,
    RetryConfig, UpdateVersion, WriteMultipart,
};

use super::files::bytes;
use crate::support::*;

const BUCKET: &str = "store";

/// A server with a bucket, and a client of it that retries nothing.
fn start(options: Options) -> (Server, AmazonS3) {
    crypto();
    let server = options.start();
    make_bucket(&server, BUCKET, &[]);
    let Credentials { access_key_id, secret_access_key } = server.credentials();
    let mut options = ClientOptions::new().with_allow_http(true);
    if let Some(authority) = server.authority() {
        let pem = std::fs::read(authority).expect("the certificate");
        options = options.with_root_certificate(Certificate::from_pem(&pem).expect("a certificate"));
    }
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let builder = AmazonS3Builder::new().with_endpoint(server.s3()).with_bucket_name(BUCKET).with_region("us-east-1");
    let builder = builder.with_access_key_id(access_key_id).with_secret_access_key(secret_access_key);
    let store = builder.with_client_options(options).with_retry(retry).build().expect("a store");
    (server, store)
}

/// Installs rustls's cryptography: this build of reqwest has none by default.
pub fn crypto() {
    // Another test may have installed it already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

async fn read(store: &AmazonS3, path: &Path) -> Vec<u8> {
    store.get(path).await.expect("there").bytes().await.expect("its content").to_vec()
}

#[tokio::test]
async fn conditional_puts_create_and_swap() {
    let (_server, store) = start(Options::default());
    conditional_puts(&store).await;
}

#[tokio::test]
async fn conditional_puts_over_tls() {
    need!(required("openssl"));
    let (_server, store) = start(Options::default().tls());
    conditional_puts(&store).await;
}

async fn conditional_puts(store: &AmazonS3) {
    let path = Path::from("dir/a b é");
    let put = |content: &'static str, mode: PutMode| {
        store.put_opts(&path, content.into(), PutOptions { mode, ..PutOptions::default() })
    };
    let first = put("first", PutMode::Create).await.expect("created");
    let again = put("again", PutMode::Create).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let version = UpdateVersion::from(first);
    put("second", PutMode::Update(version.clone())).await.expect("swapped");
    let stale = put("third", PutMode::Update(version)).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
    assert_eq!(read(store, &path).await, b"second");
}

#[tokio::test]
async fn conditional_reads_follow_the_etag() {
    let (_server, store) = start(Options::default());
    let path = Path::from("k");
    let etag = store.put(&path, "content".into()).await.expect("put").e_tag;
    let get = |options: GetOptions| store.get_opts(&path, options);
    let same = get(GetOptions { if_match: etag.clone(), ..GetOptions::default() }).await.expect("it matches");
    assert_eq!(same.meta.size, 7);
    let unchanged = get(GetOptions { if_none_match: etag, ..GetOptions::default() }).await;
    assert!(matches!(unchanged, Err(Error::NotModified { .. })), "{unchanged:?}");
    let other = get(GetOptions { if_match: Some("\"other\"".to_owned()), ..GetOptions::default() }).await;
    assert!(matches!(other, Err(Error::Precondition { .. })), "{other:?}");
    let absent = store.head(&Path::from("absent")).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
}

#[tokio::test]
async fn uploads_go_up_in_parts_and_ranges_come_back() {
    let (_server, store) = start(Options::default());
    let (path, content) = (Path::from("large"), bytes((17 << 20) + 5));
    let mut upload = WriteMultipart::new(store.put_multipart(&path).await.expect("begun"));
    for piece in content.chunks(700_000) {
        upload.wait_for_capacity(4).await.expect("the parts before");
        upload.write(piece);
    }
    let done = upload.finish().await.expect("completed");
    assert!(done.e_tag.is_some_and(|etag| etag.ends_with("-4\"")), "four parts of 5 MiB");
    assert!(read(&store, &path).await == content, "the content is the parts in order");
    let ranges = [0..10, 5 << 20..(5 << 20) + 100, 100..2000, (17 << 20)..(17 << 20) + 5];
    let found = store.get_ranges(&path, &ranges).await.expect("ranges");
    for (range, found) in ranges.into_iter().zip(found) {
        let expected = usize::try_from(range.start).expect("small")..usize::try_from(range.end).expect("small");
        assert!(found == content[expected], "range {range:?}");
    }
    let mut aborted = store.put_multipart(&Path::from("aborted")).await.expect("begun");
    aborted.put_part(vec![1; 5 << 20].into()).await.expect("stored");
    aborted.abort().await.expect("aborted");
    assert!(store.head(&Path::from("aborted")).await.is_err());
}

#[tokio::test]
async fn keys_are_listed_copied_and_deleted_at_once() {
    let (_server, store) = start(Options::default());
    let keys: Vec<_> = (0..30).map(|number| Path::from(format!("d{}/k {number:02}", number % 3))).collect();
    for key in &keys {
        store.put(key, key.to_string().into()).await.expect("put");
    }
    let listed: Vec<_> = store.list(None).try_collect().await.expect("listed");
    assert_eq!(listed.len(), keys.len());
    let after = store.list_with_offset(None, &Path::from("d1/k 28")).try_collect::<Vec<_>>().await.expect("listed");
    assert_eq!(after.len(), 10, "the keys after the offset");
    let folders = store.list_with_delimiter(None).await.expect("listed");
    assert_eq!(folders.common_prefixes, ["d0", "d1", "d2"].map(Path::from));
    store.copy(&keys[0], &Path::from("copy")).await.expect("copied");
    assert_eq!(read(&store, &Path::from("copy")).await, keys[0].to_string().as_bytes());
    store.rename(&Path::from("copy"), &Path::from("renamed")).await.expect("renamed");
    let doomed = store.list(None).map_ok(|object| object.location).boxed();
    let gone: Vec<_> = store.delete_stream(doomed).try_collect().await.expect("deleted");
    assert_eq!(gone.len(), keys.len() + 1);
    assert!(store.list(None).try_next().await.expect("listed").is_none(), "nothing is left");
}
