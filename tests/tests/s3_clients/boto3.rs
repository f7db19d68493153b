//! The checks of `tests/python`, each script on its own store.

use crate::support::cli::{account, json};
use crate::support::*;

/// Why a test of this module may be skipped.
macro_rules! script {
    ($server:expr, $script:literal, $keys:expr) => {{
        let Some(python) = python() else { skip!("boto3 is missing: run tests/setup.sh") };
        let server = $server;
        let keys = $keys(&server);
        let keys: Vec<_> = keys.iter().map(|(name, key)| (*name, key)).collect();
        run_script(&python, &server, $script, &keys);
    }};
}

type Keys = Vec<(&'static str, Credentials)>;

fn none(_: &Server) -> Keys {
    Vec::new()
}

/// A bucket `granted`, and an account for each mode.
fn granted(server: &Server) -> Keys {
    json(server, &["bucket", "create", "granted"]);
    let mut keys = Keys::new();
    for (name, mode) in [("RO", "ro"), ("RW", "rw"), ("WO", "wo")] {
        keys.push((name, account(server, mode)));
        json(server, &["grant", "add", "granted", "--account", mode, "--mode", mode]);
    }
    keys.push(("NONE", account(server, "none")));
    let stale = account(server, "stale");
    json(server, &["key", "delete", &stale.access_key_id]);
    keys.push(("STALE", stale));
    keys
}

#[test]
fn objects_round_trip_with_their_attributes_and_keys() {
    script!(Server::start(), "objects.py", none);
}

#[test]
fn objects_round_trip_over_tls() {
    script!(Options::default().tls().start(), "objects.py", none);
}

#[test]
fn multipart_uploads_over_tls() {
    script!(Options::default().tls().start(), "multipart.py", none);
}

#[test]
fn presigned_urls_over_tls() {
    script!(Options::default().tls().start(), "buckets.py", granted);
}

#[test]
fn five_thousand_keys_list_as_a_model_does() {
    script!(Server::start(), "listing.py", none);
}

#[test]
fn multipart_uploads_keep_the_rules_of_s3() {
    script!(Server::start(), "multipart.py", none);
}

#[test]
fn buckets_grants_and_presigned_urls() {
    script!(Server::start(), "buckets.py", granted);
}

#[test]
fn settings_of_buckets_take_effect() {
    script!(Server::start(), "settings.py", none);
}

#[test]
fn access_logs_are_delivered_into_a_bucket() {
    script!(Options::default().args(["--s3-access-log-delay", "1s"]).start(), "access_logs.py", none);
}

#[test]
fn websites_are_set_and_served() {
    let options = Options::default().args(["--website-listen", "127.0.0.1:0", "--s3-block-public-access", "false"]);
    script!(options.start(), "websites.py", none);
}

#[test]
fn forms_of_browsers_put_objects() {
    script!(Server::start(), "forms.py", none);
}

#[test]
fn versions_are_kept_listed_and_deleted() {
    script!(Server::start(), "versions.py", none);
}
