//! A bucket of another S3 store, for the content of the store that is tested: another Amphora.
//!
//! `AMPHORA_TEST_CONTENT=URL` with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY names any other S3 store instead, and
//! AMPHORA_TEST_CONTENT_BUCKET a bucket of it that may be filled (docs/internals/testing.md).

use super::{Options, Server, make_bucket};

/// The store that keeps the content: another Amphora, or what the environment names.
pub struct Elsewhere {
    /// The other Amphora, if it is one.
    pub server: Option<Server>,
    /// The options of a server whose content is there.
    pub options: Options,
}

/// A place for the content of one store, below the prefix `name`.
pub fn elsewhere(name: &str) -> Elsewhere {
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let (Some(endpoint), Some(bucket)) = (given("AMPHORA_TEST_CONTENT"), given("AMPHORA_TEST_CONTENT_BUCKET")) {
        let unique = format!("{name}-{}", std::process::id());
        let options = content(&endpoint, &format!("s3://{bucket}/{unique}"));
        let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        let options = keys.iter().fold(options, |options, key| options.env(key, &given(key).unwrap_or_default()));
        return Elsewhere { server: None, options };
    }
    let server = Server::start();
    make_bucket(&server, "content", &[]);
    let key = server.credentials();
    let options = content(server.s3(), &format!("s3://content/{name}"))
        .env("AWS_ACCESS_KEY_ID", &key.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key);
    Elsewhere { server: Some(server), options }
}

fn content(endpoint: &str, url: &str) -> Options {
    Options::default().args([&*format!("--content-url={url}"), &*format!("--content-endpoint={endpoint}")])
}
