//! A store that is away for longer than half a lease, and comes back before the lease is over.

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::fs::{Advice, fadvise, fsync};
use rustix::process::{Pid, Signal, kill_process};

use super::{BUCKET, folder, text};
use crate::support::cli::json;
use crate::support::*;

/// The page that is read is locked until the store answers, so the kernel can drop it only then.
#[test]
fn a_read_that_is_under_way_outlasts_a_store_that_is_away_for_most_of_a_lease() {
    need!(root_and_fuse());
    let server = Options::default().args(["--volume-listen", "127.0.0.1:0", "--volume-lease", "24s"]).start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    let (store, key) = (server.ready().word("volume"), server.ready().word("credentials"));
    json(&server, &["mount", BUCKET, text(&dir), "--server", store, "--credentials", key]);
    let content = vec![7; 1 << 20];
    std::fs::write(dir.join("read"), &content).expect("written");
    std::fs::write(dir.join("other"), "other").expect("written");
    let open = std::fs::File::open(dir.join("read")).expect("opened");
    fsync(&open).expect("synced");
    fadvise(&open, 0, None, Advice::DontNeed).expect("its pages are dropped");
    let id = json(&server, &["session", "list"])[0]["id"].clone();

    let pid = server.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).expect("the server");
    kill_process(pid, Signal::STOP).expect("stopped");
    let reading = std::thread::spawn(move || {
        let mut page = vec![0; 64 << 10];
        open.read_exact_at(&mut page, 512 << 10).map(|()| page)
    });
    // Half of the lease, the two seconds that it took to give up before, and some more.
    std::thread::sleep(Duration::from_secs(17));
    assert!(!reading.is_finished(), "it waits for the store");
    kill_process(pid, Signal::CONT).expect("continued");
    let page = reading.join().expect("it ends").expect("read");
    assert!(page == content[..page.len()], "the content of the file");
    assert_eq!(std::fs::read(dir.join("other")).expect("read"), b"other");
    assert_eq!(json(&server, &["session", "list"])[0]["id"], id, "the session went on");
    json(&server, &["umount", text(&dir)]);
}
