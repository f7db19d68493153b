//! `amphora upgrade`: the state that the new program takes over besides the mounts, and refusals.

use std::fs;
use std::time::Duration;

use crate::support::cli::{json, refusal};
use crate::support::{Mounted, make_bucket};
use tests::prelude::*;

/// The children of a server that have ended and were not waited for.
fn zombies(server: &Server) -> usize {
    let pid = server.pid().expect("running").to_string();
    let processes = fs::read_dir("/proc").expect("the processes").filter_map(|entry| Some(entry.ok()?.path()));
    let stats = processes.filter_map(|path| fs::read_to_string(path.join("stat")).ok());
    let state_and_parent = |stat: String| {
        let rest = stat.rsplit_once(')')?.1.to_owned();
        let mut words = rest.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    stats.filter_map(state_and_parent).filter(|(state, parent)| state == "Z" && *parent == pid).count()
}

#[test]
fn an_upgrade_leaves_no_zombies() {
    need!(root_and_fuse());
    let mut server = Options::default().holder().start();
    make_bucket(&server, "kept", &[]);
    let mounted = Mounted::held(&server, "kept", "mnt");
    for number in 0..3 {
        fs::write(mounted.path().join("file"), number.to_string()).expect("written");
        server.upgrade();
    }
    assert_eq!(fs::read_to_string(mounted.path().join("file")).expect("read"), "2");
    let gone = wait_until(Duration::from_secs(20), || (zombies(&server) == 0).then_some(()));
    assert!(gone.is_some(), "{} zombies", zombies(&server));
    mounted.unmount(&server);
}

#[test]
fn an_upgrade_with_invalid_settings_is_refused() {
    let home = Home::new().expect("a folder");
    let config = home.path().join("amphora.toml");
    fs::write(&config, "lifecycle-day = \"24h\"\n").expect("written");
    let mut server = Options::default().args(["--config", config.to_str().expect("a path of ours")]).start();
    fs::write(&config, "lifecycle-day = \"a day\"\n").expect("written");
    let text = refusal(&server, &["upgrade"], 1);
    assert!(text.contains("lifecycle-day") && text.contains("does not accept"), "{text}");
    json(&server, &["bucket", "list"]);
    fs::write(&config, "lifecycle-day = \"12h\"\n").expect("written");
    server.upgrade();
    json(&server, &["bucket", "list"]);
}
