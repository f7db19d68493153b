//! What operators see of a mount on another machine, on both sides, and how they end it.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{BUCKET, folder, text};
use crate::support::cli::{cli, json};
use crate::support::*;

/// The time limit of what follows by itself, also on a busy machine.
const SOON: Duration = Duration::from_secs(30);

fn served() -> (Server, std::path::PathBuf) {
    let server = Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    (server, dir)
}

fn mount(server: &Server, dir: &Path) {
    let (store, key) = (server.ready().word("volume"), server.ready().word("credentials"));
    json(server, &["mount", BUCKET, text(dir), "--server", store, "--credentials", key]);
}

/// The only session of the store.
fn session(server: &Server) -> Value {
    let sessions = json(server, &["session", "list"]);
    let [session] = &sessions.as_array().expect("a list")[..] else { panic!("{sessions}") };
    session.clone()
}

/// The status of the machine's nodes, asked where no server runs; the mount at a directory.
fn status_of_node(server: &Server, dir: &Path) -> (Value, Value) {
    let mut command = server.cli(["status", "--output", "json"]);
    command.env_remove("AMPHORA_ADMIN_ENDPOINT").env("AMPHORA_DATA_DIR", server.home().path().join("no-server"));
    let outcome = run(&mut command, SOON).expect("it ends");
    assert!(outcome.status.success(), "{outcome}");
    let status: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let mounts = status["mounts"].as_array().expect("mounts");
    let mount = mounts.iter().find(|mount| mount["dir"] == text(dir)).unwrap_or_else(|| panic!("{status}")).clone();
    (status, mount)
}

#[test]
fn a_session_is_shown_on_both_machines_until_an_operator_ends_it() {
    need!(root_and_fuse());
    let (server, dir) = served();
    mount(&server, &dir);
    let mut open = std::fs::File::create(dir.join("a file")).expect("made");
    std::io::Write::write_all(&mut open, b"content").expect("written");

    let shown = session(&server);
    let id = shown["id"].as_str().expect("an id");
    assert_eq!(
        (&shown["bucket"], &shown["state"], &shown["readOnly"]),
        (&BUCKET.into(), &"served".into(), &false.into())
    );
    assert_eq!(shown["byTicket"], false, "{shown}");
    assert!(
        shown["account"].is_string() && shown["servedSince"].is_string() && shown["leaseLeftMs"].as_u64() > Some(0)
    );
    assert!(shown["calls"].as_u64() > Some(0) && shown["receivedBytes"].as_u64() > Some(0), "{shown}");
    assert_eq!(shown["openForWriting"], 1, "{shown}");
    let control = &shown["connections"][0];
    assert!(control["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{shown}");
    let summary = json(&server, &["status"])["sessions"].clone();
    assert_eq!((&summary["sessions"], &summary["nodes"], &summary["fenced"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(summary["volumeAddress"], server.ready().word("volume"));
    let nodes = json(&server, &["node", "list"]);
    assert_eq!((&nodes[0]["name"], &nodes[0]["sessions"]), (&shown["node"], &1.into()), "{nodes}");

    let (_, mounted) = status_of_node(&server, &dir);
    let link = &mounted["link"];
    assert_eq!((&link["session"], &link["standing"]), (&id.into(), &"served".into()), "{mounted}");
    assert_eq!((&link["connections"], &link["reconnects"], &link["why"]), (&3.into(), &0.into(), &Value::Null));
    assert!(link["roundTrips"].as_u64() > Some(0) && link["leaseLeftMs"].as_u64() > Some(0), "{mounted}");
    assert_eq!(mounted["server"], server.ready().word("volume"));
    let stats = cli(&server, &["mount", "stats", text(&dir)]);
    assert!(stats.stdout.contains(id), "{stats}");

    json(&server, &["session", "end", id]);
    assert_eq!(json(&server, &["session", "list"]), serde_json::json!([]));
    let ended = json(&server, &["session", "list", "--ended"]);
    assert_eq!(
        (&ended[0]["id"], &ended[0]["why"], &ended[0]["bucket"]),
        (&id.into(), &"administrator".into(), &BUCKET.into())
    );
    let error = std::fs::read_dir(&dir).and_then(|mut entries| entries.next().transpose()).expect_err("it is fenced");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()));
    let is_lost = || (status_of_node(&server, &dir).1["link"]["standing"] == "lost").then_some(());
    wait_until(SOON, is_lost).expect("the node knows");
    drop(open);
    cli(&server, &["umount", "--lazy", text(&dir)]);
    mount(&server, &dir);
    assert_ne!(session(&server)["id"], id, "a new session");
    json(&server, &["umount", text(&dir)]);
    let closed = json(&server, &["session", "list", "--ended"]);
    assert_eq!((&closed[0]["why"], closed.as_array().map(Vec::len)), (&"closed".into(), Some(2)), "{closed}");
}

#[test]
fn an_unknown_session_is_refused_with_advice() {
    let server = Options::default().start();
    assert_eq!(json(&server, &["session", "list"]), serde_json::json!([]));
    for (id, why) in [("7", "32 hex digits"), ("00000000000000000000000000000007", "does not exist")] {
        let refused = cli(&server, &["session", "end", id]);
        assert!(refused.status.code() == Some(1) && refused.stderr.contains(why), "{refused}");
    }
    let status = json(&server, &["status"]);
    assert_eq!((&status["sessions"]["volumeAddress"], &status["sessions"]["sessions"]), (&Value::Null, &0.into()));
}

#[test]
fn a_session_that_no_listener_serves_is_shown_and_can_be_ended() {
    need!(root_and_fuse());
    let settings = Home::new().expect("a folder");
    let file = settings.path().join("amphora.toml");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let listening = format!("volume-listen = \"127.0.0.1:{port}\"");
    std::fs::write(&file, &listening).expect("written");
    let mut server = Options::default().env("AMPHORA_CONFIG", text(&file)).start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    mount(&server, &dir);
    let id = session(&server)["id"].clone();
    std::fs::write(&file, "").expect("written");
    server.restart();
    let left = session(&server);
    assert_eq!((&left["id"], &left["state"], &left["leaseLeftMs"]), (&id, &"unlistened".into(), &Value::Null));
    json(&server, &["session", "end", id.as_str().expect("an id")]);
    assert_eq!(json(&server, &["session", "list"]), serde_json::json!([]));
    // The node learns of the end when it reaches the store again.
    std::fs::write(&file, &listening).expect("written");
    server.restart();
    let is_lost = || (status_of_node(&server, &dir).1["link"]["standing"] == "lost").then_some(());
    wait_until(SOON, is_lost).expect("the node knows");
    cli(&server, &["umount", "--lazy", text(&dir)]);
}
