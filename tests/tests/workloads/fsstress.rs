//! fsstress: four processes create, change, link, rename and delete random files; both handles have to agree
//! afterwards.

use std::process::Command;

use super::{BUCKET, checked_out, mounted};
use crate::support::agree::both_agree;
use crate::support::cli::check_store;
use crate::support::*;

here_and_elsewhere! {
    /// The program of xfstests, built as its README says.
    fn both_handles_agree_after_fsstress() {
        need!(root_and_fuse());
        let fsstress = need!(checked_out("AMPHORA_FSSTRESS", "fsstress"));
        let operations: u32 = amount(5_000, 100_000);
        let seed = Rng::new("workloads::fsstress").seed() % (1 << 30);
        let (mount, mut server) = mounted();
        let mut command = Command::new(fsstress);
        command.args(["-p", "4", "-n", &operations.to_string(), "-s", &seed.to_string(), "-d"]).arg(mount.path());
        drop(run(&mut command, limit(200)).expect("fsstress ends").ok());
        let compared = both_agree(&server, BUCKET, mount.path());
        assert!(compared.files > 20, "{compared:?}");
        mount.unmount(&server);
        assert_eq!(server.terminate().code(), Some(0));
        check_store(&server);
    }
}
