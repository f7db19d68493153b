//! `amphora serve` with invalid settings or an unusable data folder: it ends at once, and nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use objstore::meta::{Durability, Meta, fjall_engine};
use objstore::record::key;
use tests::tls::Certificate;

use crate::support::*;

/// A time limit for machines under load: a start that fails ends at once.
const LIMIT: Duration = Duration::from_secs(30);

/// A server that must not start: its additional arguments, and what its one line of output must contain.
pub(super) struct Case {
    what: &'static str,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    status: i32,
    words: Vec<String>,
}

impl Case {
    pub(super) fn new(what: &'static str, status: i32, args: &[&str], words: &[&str]) -> Self {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Self { what, args: owned(args), env: Vec::new(), status, words: owned(words) }
    }

    fn env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    /// Starts the server in `home`, with free ports and its own sockets unless the case names others.
    #[track_caller]
    pub(super) fn refused(&self, home: &Home) {
        let mut command = Command::new(amphora().expect("built"));
        command.arg("serve").args(&self.args).current_dir(home.path());
        let named = |flag: &str| self.args.iter().any(|arg| arg.split('=').next() == Some(flag));
        for (flag, value) in [
            ("--data-dir", home.data_dir().display().to_string()),
            ("--s3-listen", "127.0.0.1:0".to_owned()),
            ("--http-listen", "127.0.0.1:0".to_owned()),
        ] {
            if !named(flag) && !self.env.iter().any(|(name, _)| *name == variable(flag)) {
                command.arg(format!("{flag}={value}"));
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let outcome = run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{}: {error}", self.what));
        assert_eq!(outcome.status.code(), Some(self.status), "{}: {outcome}", self.what);
        assert_eq!(outcome.stdout, "", "{}: nothing is announced", self.what);
        for word in &self.words {
            assert!(outcome.stderr.contains(word.as_str()), "{}: no {word:?} in: {outcome}", self.what);
        }
        assert!(!outcome.stderr.contains("panicked"), "{}: {outcome}", self.what);
    }
}

fn variable(flag: &str) -> String {
    format!("AMPHORA_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase())
}

/// Every file below a folder, with its content.
pub(super) fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable").flatten() {
            let kind = entry.file_type().expect("known");
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.insert(entry.path().display().to_string(), fs::read(entry.path()).expect("readable"));
            }
        }
    }
    files
}

#[test]
fn invalid_settings_are_refused_before_anything_changes() {
    let home = Home::new().expect("a folder");
    let long = format!("--cosi-endpoint=unix:///tmp/{}", "s".repeat(110));
    let deep = format!("--data-dir=/tmp/{}", "d".repeat(110));
    for case in [
        Case::new("an unknown flag", 2, &["--s3-lisen=127.0.0.1:1"], &["--s3-lisen", "--s3-listen"]),
        Case::new("an address without a port", 2, &["--s3-listen=127.0.0.1"], &["--s3-listen", "127.0.0.1:9000"]),
        Case::new("a host name", 2, &["--http-listen=localhost:1"], &["--http-listen", "IP address"]),
        Case::new("a TCP socket for CSI", 2, &["--csi-endpoint=tcp://127.0.0.1:1"], &["--csi-endpoint", "unix://"]),
        Case::new("a socket path too long", 2, &[&long], &["--cosi-endpoint", "107", "shorter"]),
        Case::new("a data folder too deep for its sockets", 2, &[&deep], &["107", "--admin-endpoint"]),
        Case::new(
            "one socket for two services",
            2,
            &["--csi-endpoint=/tmp/a", "--cosi-endpoint=/tmp/a"],
            &["--cosi-endpoint"],
        ),
        Case::new("a region of two words", 2, &["--region=us east"], &["--region", "lower-case"]),
        Case::new("an endpoint that is no URL", 2, &["--s3-endpoint-url=s3.example"], &["http://"]),
        Case::new("a driver name CSI forbids", 2, &["--csi-driver-name=a b"], &["--csi-driver-name"]),
        Case::new("a node name CSI forbids", 2, &["--node-id="], &["--node-id"]),
        Case::new("an unknown log format", 2, &["--log-format=xml"], &["--log-format", "json"]),
        Case::new("an invalid log filter", 2, &["--log-level=shout=loud"], &["--log-level"]),
        Case::new("a missing config file", 2, &["--config=/nonexistent/a.toml"], &["/nonexistent/a.toml"]),
        Case::new("a certificate without its key", 2, &["--tls-cert=a"], &["--tls-cert", "--tls-key", "both"]),
        Case::new("a key without its certificate", 2, &["--tls-key=a"], &["--tls-cert", "--tls-key", "both"]),
        Case::new("a domain with a port", 2, &["--s3-domain=s3.example:9000"], &["--s3-domain", "DNS name"]),
        Case::new("a domain that is an address", 2, &["--s3-domain=a.b,127.0.0.1"], &["--s3-domain", "127.0.0.1"]),
        Case::new("no connections", 2, &["--s3-max-connections=0"], &["--s3-max-connections", "whole number"]),
        Case::new(
            "a boolean that is neither true nor false",
            2,
            &["--s3-block-public-access=yes"],
            &["--s3-block-public-access", "true"],
        ),
        Case::new("a day without a unit", 2, &["--lifecycle-day=24"], &["--lifecycle-day", "24h"]),
        Case::new("a bad variable", 2, &[], &["AMPHORA_REGION", "A B"]).env("AMPHORA_REGION", "A B"),
        Case::new("a root key id without its secret", 2, &[], &["AMPHORA_ROOT_SECRET_ACCESS_KEY", "both"])
            .env("AMPHORA_ROOT_ACCESS_KEY_ID", "AKEXAMPLE"),
        Case::new("a root secret too short", 2, &[], &["AMPHORA_ROOT_SECRET_ACCESS_KEY", "8 to 128"])
            .env("AMPHORA_ROOT_ACCESS_KEY_ID", "AKEXAMPLE")
            .env("AMPHORA_ROOT_SECRET_ACCESS_KEY", "hunter2"),
    ] {
        case.refused(&home);
        assert!(!home.data_dir().exists(), "{}: a data folder was made", case.what);
    }
}

#[test]
fn an_invalid_certificate_prevents_the_start() {
    let home = Home::new().expect("a folder");
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    let [good, other] = [&first, &second].map(|folder| {
        fs::create_dir(folder).expect("made");
        Certificate::new(folder)
    });
    let (good, other) = (need!(good), need!(other));
    let (text, none) = (home.path().join("text"), home.path().join("none"));
    write_private(&text, "no PEM");
    let shared = home.path().join("shared");
    fs::copy(&good.key, &shared).expect("copied");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o644)).expect("set");
    for (certificate, key, words) in [
        (&none, &good.key, ["none", "cannot be read"]),
        (&good.certificate, &none, ["none", "cannot be read"]),
        (&text, &good.key, ["text", "no certificate"]),
        (&good.certificate, &text, ["text", "no private key"]),
        (&good.certificate, &shared, ["shared", "open to others (mode 0644): run chmod 640"]),
        (&good.certificate, &other.key, ["does not belong to", "first certificate"]),
    ] {
        let args = [format!("--tls-cert={}", certificate.display()), format!("--tls-key={}", key.display())];
        let words = [words[0], words[1], "--tls-cert, --tls-key"];
        Case::new("TLS files", 1, &args.each_ref().map(String::as_str), &words).refused(&home);
        assert!(!home.data_dir().exists(), "{words:?}: a data folder was made");
    }
}

#[test]
fn config_files_are_refused_with_the_key_named() {
    let home = Home::new().expect("a folder");
    let file = home.path().join("amphora.toml");
    let flag = format!("--config={}", file.display());
    for (text, words) in [
        ("s3_listen = \"127.0.0.1:1\"", &["amphora.toml", "s3_listen", "s3-listen"][..]),
        ("quota = \"1Gi\"", &["unknown key quota"]),
        ("region = 5.5", &["region", "text or a number"]),
        ("region = \"UPPER\"", &["region", "lower-case"]),
        ("region = ", &["amphora.toml", "line 1", "TOML"]),
        ("[serve]\nregion = \"a\"", &["unknown key serve"]),
    ] {
        fs::write(&file, text).expect("written");
        Case::new("a config file", 2, &[&flag], words).refused(&home);
        assert!(!home.data_dir().exists(), "{text}: a data folder was made");
    }
}

#[test]
fn a_folder_port_or_socket_in_use_is_refused() {
    let server = Server::start();
    cli::json(&server, &["bucket", "create", "docs"]);
    let before = cli::listings(&server);
    let home = Home::new().expect("a folder");

    let theirs = format!("--data-dir={}", server.home().data_dir().display());
    let ours = ["admin", "csi", "cosi"].map(|name| format!("--{name}-endpoint={}", home.socket(name).display()));
    let [admin, csi, cosi] = ours.each_ref().map(String::as_str);
    let folder = server.home().data_dir().display().to_string();
    Case::new("a second server on one folder", 1, &[&theirs, admin, csi, cosi], &[&folder, "stop it first"])
        .refused(&home);

    let port = TcpListener::bind("127.0.0.1:0").expect("free");
    let address = port.local_addr().expect("bound").to_string();
    for (flag, variable) in [("--s3-listen", "AMPHORA_S3_LISTEN"), ("--http-listen", "AMPHORA_HTTP_LISTEN")] {
        let arg = format!("{flag}={address}");
        Case::new("a port in use", 1, &[&arg], &[&address, flag, variable]).refused(&home);
    }
    assert!(!home.data_dir().exists(), "a port is tried before the store is made");

    for word in ["admin", "csi", "cosi"] {
        let arg = format!("--{word}-endpoint={}", server.ready().word(word));
        let flag = format!("--{word}-endpoint");
        Case::new("a socket in use", 1, &[&arg], &[server.ready().word(word), &flag, "running process"]).refused(&home);
    }
    let file = home.path().join("file");
    fs::write(&file, "mine").expect("written");
    let arg = format!("--csi-endpoint={}", file.display());
    Case::new("a file where a socket should be", 1, &[&arg], &["--csi-endpoint", "not a socket"]).refused(&home);
    assert_eq!(fs::read(&file).expect("there"), b"mine");

    assert_eq!(cli::listings(&server), before, "the running server continues");
}

#[test]
fn leftovers_of_a_crash_are_not_in_use() {
    let home = Home::new().expect("a folder");
    // A socket file whose owner has died is replaced, since no process answers.
    drop(UnixListener::bind(home.socket("csi")).expect("bound"));
    let mut server = Server::start();
    server.kill9();
    assert!(server.home().socket("csi").exists(), "a kill leaves the socket files");
    server.restart();
    assert_eq!(cli::json(&server, &["bucket", "list"]), serde_json::json!([]));
}

#[test]
fn a_data_folder_that_cannot_be_opened_is_left_unchanged() {
    let home = Home::new().expect("a folder");
    fs::write(home.data_dir(), "a file").expect("written");
    Case::new("a file as data folder", 1, &[], &["data"]).refused(&home);
    assert_eq!(fs::read(home.data_dir()).expect("there"), b"a file");

    let mut server = Server::start();
    cli::json(&server, &["bucket", "create", "docs"]);
    assert_eq!(server.terminate().code(), Some(0));
    let data = server.home().data_dir();
    let key = data.join("master.key");
    let kept = fs::read(&key).expect("there");
    let data_arg = format!("--data-dir={}", data.display());

    fs::remove_file(&key).expect("removed");
    Case::new("a store without its master key", 1, &[&data_arg], &["master.key"]).refused(&home);
    assert!(!key.exists(), "no other key is made for a store that has one");
    let put = |bytes: &[u8]| {
        fs::write(&key, bytes).expect("written");
        // A key file that others may read is refused, regardless of its content.
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("set");
    };
    put(b"short");
    Case::new("a master key of another kind", 1, &[&data_arg], &["master.key"]).refused(&home);
    put(&kept);
    server.restart();
    assert_eq!(cli::json(&server, &["bucket", "list"])[0]["name"], "docs");
}

#[test]
fn a_store_of_another_format_is_refused_unchanged() {
    let mut server = Server::start();
    cli::json(&server, &["bucket", "create", "docs"]);
    assert_eq!(server.terminate().code(), Some(0));
    let data = server.home().data_dir();
    set_format(&data, 99);
    let before = tree(&data.join("content"));
    let home = Home::new().expect("a folder");
    let arg = format!("--data-dir={}", data.display());
    Case::new("format 99", 1, &[&arg], &["format 99", "format 1", "use the build that made it"]).refused(&home);
    assert_eq!(tree(&data.join("content")), before);
    set_format(&data, 1);
    server.restart();
    assert_eq!(cli::json(&server, &["bucket", "list"])[0]["name"], "docs");
}

/// Writes another format version into the header of a closed store.
fn set_format(data: &Path, format: u8) {
    let options = fjall_engine::Options::default();
    let meta = Meta::new(fjall_engine::open(&data.join("meta"), options).expect("closed by the server"));
    let written = meta.write(Durability::Synced, move |txn| {
        let mut header = txn.get(&key::header())?.expect("every store has one").to_vec();
        // The field with tag 1, as a varint of one byte.
        assert_eq!(header[0], 8, "the format comes first");
        header[1] = format;
        txn.put(key::header(), header);
        Ok(())
    });
    written.wait().expect("written");
}
