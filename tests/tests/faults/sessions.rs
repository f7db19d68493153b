//! Damage to a server's state of a persistent mount while no server runs: the mount continues, and appended data is
//! there exactly once.

use std::fs::OpenOptions;
use std::io::Write as _;

use super::damage::{HARMS, inflict};
use crate::support::cli::check_store;
use crate::support::*;

const BUCKET: &str = "kept";

#[test]
fn a_mount_continues_with_damaged_append_records() {
    need!(root_and_fuse());
    let mut server = Options::default().holder().start();
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::held(&server, BUCKET, "m");
    let path = mount.path().join("log");
    let mut log = OpenOptions::new().create(true).append(true).open(&path).expect("opened");
    let mut expected = String::new();
    for harm in HARMS {
        for number in 0..20 {
            let line = format!("{harm:?} {number}\n");
            log.write_all(line.as_bytes()).expect("appended");
            expected += &line;
        }
        server.kill9();
        let notes = std::fs::read_dir(server.home().data_dir().join("sessions")).expect("a folder");
        let notes: Vec<_> = notes.map(|entry| entry.expect("an entry").path()).collect();
        assert!(!notes.is_empty(), "a session that appended has a file");
        notes.iter().for_each(|file| inflict(file, harm));
        server.restart();
        assert_eq!(std::fs::read_to_string(&path).expect("read"), expected);
    }
    drop(log);
    mount.unmount(&server);
    server.terminate();
    check_store(&server);
}
