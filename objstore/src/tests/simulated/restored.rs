//! A bucket restored from a backup, on the simulated disk.

use std::sync::Arc;

use super::found::{at, bucket, put, write};
use super::operation::Operation;
use super::process::Process;
use super::repairing::readable;
use super::schedule::having_done;
use crate::backup::{Folder, ProgressSink, create, newest, restore};
use crate::tests::random::Choices;
use crate::tests::test_store::name;

#[test]
fn a_restored_bucket_is_on_disk_whole() {
    // In the record, in a segment, in a blob's file, and in the in-place blob of a file.
    let objects = [put("small", 10), put("packed", 9_000), put("large", 300_000)];
    let file = [bucket(), Operation::Make { at: at("f") }, write(at("f"), 0, 200_000)];
    let (machine, process) = having_done(file.into_iter().chain(objects));
    let dir = tempfile::tempdir().unwrap();
    let told: ProgressSink = Arc::new(|_| Ok(()));
    let folder = Arc::new(Folder::for_writing(dir.path()).unwrap());
    machine.runtime.block_on(create(&process.store, &name("alpha"), &folder, &told)).unwrap();
    let id = newest(&folder, "alpha").unwrap();
    machine.runtime.block_on(restore(&process.store, &folder, ("alpha", &id), &name("back"), &told)).unwrap();
    process.disk.dies();
    for seed in 0..20 {
        let left = process.disk.after_power_cut(&mut Choices::with(seed));
        let found = readable(Process::open(machine.clone(), left).unwrap()).unwrap();
        let of = |bucket: &str| -> Vec<_> {
            let objects = found.iter().filter(|((of, _, _), _)| of == bucket);
            objects.map(|((_, key, version), bytes)| (key, version, bytes)).collect()
        };
        let back = of("back");
        assert!(back.len() == 4 && back.iter().all(|(_, _, bytes)| bytes.is_some()), "seed {seed}");
        assert!(back == of("alpha"), "seed {seed}: it holds something else");
    }
}
