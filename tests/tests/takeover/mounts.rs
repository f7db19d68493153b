//! Files of mounts, and the master key, on a server that is lost with its data folder.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use super::shared::Shared;
use crate::support::cli::cli;
use crate::support::*;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8 ^ seed).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "programs sync their files")]
fn what_fsync_acknowledged_survives_the_owner_and_its_data_folder() {
    need!(root_and_fuse());
    let shared = need!(Shared::new());
    let mut owner = shared.options().start();
    let mut standby = shared.options().start_standby();
    make_bucket(&owner, "files", &[]);
    for round in 0..amount(2, 30_u8) {
        let rotated = cli(&owner, &["master-key", "rotate"]);
        assert!(rotated.status.success(), "{rotated}");
        let mount = Mounted::new(&owner, "files", "m");
        let at = |name: &str| mount.path().join(format!("{name}-{round}"));
        let mut large = File::create(at("large")).expect("made");
        large.write_all(&pattern(2_000_000, round)).expect("written");
        large.sync_all().expect("synced");
        // Few changed bytes of a large file are in the metadata, not in an object of their own.
        large.write_all_at(&[round; 5000], 1_234_567).expect("written");
        large.sync_data().expect("synced");
        std::fs::write(at("small"), [round]).expect("written");
        File::open(at("small")).expect("there").sync_all().expect("synced");
        File::open(mount.path()).expect("a directory").sync_all().expect("synced");
        owner.kill9();
        mount.break_off();
        std::fs::remove_dir_all(owner.home().data_dir()).expect("the data folder of the dead server");
        standby.await_owner();
        let again = Mounted::new(&standby, "files", &format!("again-{round}"));
        for seed in 0..=round {
            let read = |name: &str| std::fs::read(again.path().join(format!("{name}-{seed}"))).expect("readable");
            let mut expected = pattern(2_000_000, seed);
            expected[1_234_567..1_239_567].fill(seed);
            assert!(read("large") == expected, "the file of round {seed} differs after round {round}");
            assert_eq!(read("small"), [seed]);
        }
        again.unmount(&standby);
        owner.restart_as_standby();
        std::mem::swap(&mut owner, &mut standby);
    }
    assert_eq!((owner.terminate().code(), standby.terminate().code()), (Some(0), Some(0)));
}
