//! The authority of the volume listener is the store's, not a server's: what a machine trusts holds after a takeover.

use std::path::Path;

use super::shared::Shared;
use crate::support::cli::{cli, json};
use crate::support::*;

const BUCKET: &str = "away";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

/// Mounts as another machine does, with the authority in the file `ca`.
fn mount(server: &Server, dir: &Path, ca: &Path) -> Outcome {
    std::fs::create_dir_all(dir).expect("a mount point");
    let (volume, credentials) = (server.ready().word("volume"), server.ready().word("credentials"));
    let own = ["mount", BUCKET, text(dir), "--server", volume, "--credentials", credentials];
    cli(server, &[&own[..], &["--ca", text(ca)]].concat())
}

#[test]
fn a_server_that_takes_over_is_known_by_the_same_authority() {
    need!(root_and_fuse());
    let shared = need!(Shared::new());
    let options = || shared.options().args(["--volume-listen", "127.0.0.1:0"]);
    let mut owner = options().start();
    make_bucket(&owner, BUCKET, &[]);
    let kept = tempfile::tempdir().expect("a folder");
    let ca = kept.path().join("ca.pem");
    std::fs::copy(owner.home().data_dir().join("volume-ca.pem"), &ca).expect("the authority");
    let dir = owner.home().path().join("before");
    drop(mount(&owner, &dir, &ca).ok());
    std::fs::write(dir.join("file"), "content").expect("written");
    json(&owner, &["umount", text(&dir)]);
    let entries_with = |text: &str| {
        shared.postgres.sql(&format!("SELECT count(*) FROM amphora.log WHERE position('{text}'::bytea in body) > 0"))
    };
    assert_eq!((&*entries_with("BEGIN CERTIFICATE"), &*entries_with("PRIVATE KEY")), ("1", "0"), "the key is sealed");
    assert!(!owner.home().data_dir().join("volume-ca-key.pem").exists(), "the folder is a cache");

    let mut standby = options().start_standby();
    for round in 0..amount(1, 10) {
        // Under the new master key the secret of the authority opens, too.
        json(&owner, &["master-key", "rotate"]);
        owner.kill9();
        std::fs::remove_dir_all(owner.home().data_dir()).expect("the data folder of the dead server");
        standby.await_owner();
        let dir = standby.home().path().join(format!("after-{round}"));
        drop(mount(&standby, &dir, &ca).ok());
        assert_eq!(std::fs::read(dir.join("file")).expect("readable"), b"content");
        json(&standby, &["umount", text(&dir)]);
        owner.restart_as_standby();
        std::mem::swap(&mut owner, &mut standby);
    }
    let other = need!(Certificate::new(kept.path()));
    let refused = mount(&owner, &owner.home().path().join("refused"), &other.authority);
    assert!(!refused.status.success(), "{refused}");
    assert_eq!((owner.terminate().code(), standby.terminate().code()), (Some(0), Some(0)));
}

#[test]
fn an_authority_that_is_in_the_data_folder_at_the_first_start_is_kept() {
    let shared = need!(Shared::new());
    let former = Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    let mut owner = shared.options().start();
    assert_eq!(owner.terminate().code(), Some(0));
    let file = |server: &Server, name| server.home().data_dir().join(name);
    for name in ["volume-ca.pem", "volume-ca-key.pem"] {
        std::fs::copy(file(&former, name), file(&owner, name)).expect("copied");
    }
    let trusted = std::fs::read(file(&former, "volume-ca.pem")).expect("the authority");
    let listening = owner.options().clone().args(["--volume-listen", "127.0.0.1:0"]);
    *owner.options() = listening;
    for _ in 0..2 {
        owner.restart();
        assert_eq!(std::fs::read(file(&owner, "volume-ca.pem")).expect("the authority"), trusted);
        assert_eq!(owner.terminate().code(), Some(0));
        std::fs::remove_dir_all(owner.home().data_dir()).expect("the data folder");
    }
}
