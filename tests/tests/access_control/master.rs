//! The master key: the server refuses to start if other users may read it, and a rotation loses no secret, wherever it
//! is interrupted.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use proto::amphora::admin::v1::admin_client::AdminClient;
use proto::amphora::admin::v1::{CreateAccountRequest, CreateKeyRequest};

use crate::signatures::{Request, Signer};
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(60);

fn file(server: &Server) -> PathBuf {
    server.home().data_dir().join("master.key")
}

/// Starts a server that must refuse to start; returns its output.
#[track_caller]
fn refused_start(server: &Server) -> String {
    let mut command = Command::new(amphora().expect("built"));
    command.args(["serve", "--no-holder", "--s3-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir"]);
    let outcome = run(command.arg(server.home().data_dir()), LIMIT).expect("it ends");
    assert_eq!(outcome.status.code(), Some(1), "{outcome}");
    outcome.stderr
}

async fn make_keys(server: &Server, accounts: std::ops::Range<usize>) -> Vec<Credentials> {
    let mut admin = AdminClient::new(grpc::channel(&server.ready().socket("admin")).await);
    let mut keys = Vec::new();
    for number in accounts {
        let name = format!("account-{number}");
        admin.create_account(CreateAccountRequest { name: name.clone(), ..Default::default() }).await.expect("made");
        let key = admin.create_key(CreateKeyRequest { account: name }).await.expect("made").into_inner();
        keys.push(Credentials { access_key_id: key.access_key_id, secret_access_key: key.secret_access_key });
    }
    keys
}

/// Whether the server knows the secret of each key.
#[track_caller]
fn assert_keys_work(server: &Server, keys: &[Credentials]) {
    for key in keys {
        let signer = Signer { key: key.clone(), ..Signer::new(server) };
        let answer = signer.sign(&Request::new("GET", "/")).send(&signer.host);
        assert_eq!(answer.status, 200, "{}: {answer}", key.access_key_id);
    }
}

#[test]
fn a_master_key_readable_by_others_prevents_the_start() {
    let mut server = Server::start();
    assert_eq!(fs::metadata(file(&server)).expect("there").permissions().mode() & 0o7777, 0o600);
    server.terminate();
    for mode in [0o644, 0o640, 0o660] {
        fs::set_permissions(file(&server), Permissions::from_mode(mode)).expect("set");
        let said = refused_start(&server);
        assert!(said.contains("master.key") && said.contains("chmod 600"), "{said}");
    }
    fs::set_permissions(file(&server), Permissions::from_mode(0o600)).expect("set");
    server.restart();
}

#[tokio::test]
async fn a_named_master_key_is_not_stored_beside_the_data() {
    let keys = tempfile::tempdir().expect("a folder");
    let named = keys.path().join("amphora.key");
    let flag = format!("--master-key-file={}", named.display());
    let mut server = Options::default().args([flag.as_str()]).start();
    let known = make_keys(&server, 0..2).await;
    let before = fs::read(&named).expect("made at the first start");
    assert_eq!(fs::metadata(&named).expect("there").permissions().mode() & 0o7777, 0o600);
    cli::json(&server, &["master-key", "rotate"]);
    assert_ne!(fs::read(&named).expect("there"), before);
    assert_keys_work(&server, &known);
    server.restart();
    assert_keys_work(&server, &known);
    server.terminate();
    assert!(!file(&server).exists() && !keys.path().join("amphora.key.next").exists());
    let data = server.home().data_dir().display().to_string();
    assert_eq!(cli::json(&server, &["check", &data, flag.as_str()])["clean"], true);
    let without = cli::cli(&server, &["check", &data]);
    assert!(without.stdout.contains("--master-key-file"), "{without}");
    assert!(refused_start(&server).contains("--master-key-file"));
    fs::set_permissions(&named, Permissions::from_mode(0o604)).expect("set");
    let why = server.try_restart().expect_err("others may read it");
    assert!(why.contains("amphora.key") && why.contains("chmod"), "{why}");
}

#[tokio::test]
async fn after_a_rotation_only_the_new_master_key_opens_the_store() {
    let mut server = Server::start();
    let mut keys = make_keys(&server, 0..6).await;
    keys.push(server.credentials());
    let before = fs::read(file(&server)).expect("read");
    let rotated = cli::json(&server, &["master-key", "rotate"]);
    assert_eq!(rotated["resealedKeys"], keys.len());
    let after = fs::read(file(&server)).expect("read");
    assert_ne!(before, after);
    assert_eq!(fs::metadata(file(&server)).expect("there").permissions().mode() & 0o7777, 0o600);
    assert!(!server.home().data_dir().join("master.key.next").exists());
    assert_keys_work(&server, &keys);
    keys.extend(make_keys(&server, 6..8).await);
    server.restart();
    assert_keys_work(&server, &keys);
    server.terminate();
    cli::check_store(&server);

    fs::write(file(&server), &before).expect("the old one is put back");
    let said = refused_start(&server);
    assert!(said.contains("secret") || said.contains("master"), "{said}");
    fs::write(file(&server), &after).expect("and the new one");
    server.restart();
    assert_keys_work(&server, &keys);
}

/// The library's tests stop a rotation at each step; here the process is killed at any moment.
#[tokio::test]
async fn a_rotation_that_is_killed_loses_no_secret() {
    let mut server = Server::start();
    let keys = make_keys(&server, 0..12).await;
    let rounds = amount(6, 100);
    for round in 0..rounds {
        let mut rotation = server.cli(["master-key", "rotate"]);
        let mut rotation = rotation.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // The moments range from before the call arrives to after it is answered.
        std::thread::sleep(Duration::from_millis(u64::try_from(round * 60 / rounds).expect("small")));
        server.kill9();
        rotation.wait().expect("it ends with its server");
        server.restart();
        assert_keys_work(&server, &keys);
        assert!(!server.home().data_dir().join("master.key.next").exists(), "a start ends what was begun");
    }
    cli::json(&server, &["master-key", "rotate"]);
    assert_keys_work(&server, &keys);
}
