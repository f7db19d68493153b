//! System calls that no other tool here makes: each is made on a mount, and has to return what Linux documents.

use std::process::Command;

use super::mounted;
use crate::support::*;

/// A file has 65,000 names at full size.
const LIMIT: u64 = 300;

here_and_elsewhere! {
    fn system_calls_answer_as_on_a_local_disk() {
        need!(root_and_fuse());
        let python = need!(required("python3"));
        let (mount, server) = mounted();
        let mut calls = Command::new(python);
        calls.arg(repo().join("tests/python/calls.py")).arg(mount.path()).arg(amount("some", "full"));
        let outcome = run(&mut calls, limit(LIMIT)).expect("it ends");
        assert!(outcome.status.success(), "{outcome}");
        mount.unmount(&server);
    }
}
