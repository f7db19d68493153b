//! Bugs that random schedules have found, each as the shortest schedule that shows it.

use super::must;
use super::operation::{At, Operation, Rule};
use super::schedule::Plan;
use crate::store::Versioning;
use crate::volume::Allocate;

pub(super) fn at(path: &str) -> At {
    At { bucket: "alpha".into(), path: path.into() }
}

pub(super) fn bucket() -> Operation {
    Operation::CreateBucket { bucket: "alpha".into(), quota: None, versioning: Versioning::Disabled, locking: false }
}

pub(super) fn put(path: &str, size: usize) -> Operation {
    Operation::Put { at: at(path), size, stamp: 77, until: None }
}

pub(super) fn write(at: At, offset: usize, size: usize) -> Operation {
    Operation::Write { at, offset, size, stamp: 5 }
}

/// Power cuts after a script that ends with a PUT of something else, which puts all records on disk.
fn survives(script: fn(u64) -> Vec<Operation>) {
    for seed in 0..20 {
        must(Plan { lives: 1, script: Some(script), ..Plan::of(seed) });
    }
}

#[test]
fn a_record_names_no_in_place_blob_whose_name_is_not_on_disk() {
    survives(|_| vec![bucket(), Operation::Make { at: at("f") }, write(at("f"), 9000, 100), put("other", 10)]);
}

#[test]
fn what_a_clone_took_over_stays_on_disk_when_it_moves() {
    survives(|_| {
        let cloned = At { bucket: "clone-one".into(), path: "f".into() };
        vec![
            bucket(),
            Operation::Make { at: at("f") },
            write(at("f"), 0, 100),
            Operation::Fsync { at: at("f"), data_only: true },
            Operation::Clone { source: "alpha".into(), bucket: "clone-one".into() },
            write(cloned, 200, 6000),
            put("other", 10),
        ]
    });
}

#[test]
fn what_a_snapshot_put_on_disk_stays_there_when_it_moves() {
    survives(|_| {
        vec![
            bucket(),
            Operation::Make { at: at("f") },
            write(at("f"), 0, 100),
            Operation::Snapshot { bucket: "alpha".into(), name: "snap-one".into() },
            write(at("f"), 200, 6000),
            put("other", 10),
        ]
    });
}

/// A file in its in-place blob that the second of two writes finds open by passthrough, created as number `ino`.
pub(super) fn open_past_the_server(ino: u64) -> Vec<Operation> {
    let before = (2..ino).map(|other| put(&format!("before-{other}"), 10));
    let made = [Operation::Make { at: at("f") }, write(at("f"), 0, 9000), write(at("f"), 10, 100)];
    std::iter::once(bucket()).chain(before).chain(made).collect()
}

fn snapshot() -> Operation {
    Operation::Snapshot { bucket: "alpha".into(), name: "snap-one".into() }
}

#[test]
fn what_a_snapshot_gets_of_a_file_that_is_open_past_the_server_is_on_disk() {
    survives(|_| [open_past_the_server(3), vec![snapshot(), write(at("f"), 200, 6000), put("other", 10)]].concat());
}

#[test]
fn what_a_snapshot_gets_of_a_file_that_is_mapped_past_the_server_is_on_disk() {
    survives(|_| [open_past_the_server(6), vec![snapshot(), write(at("f"), 200, 6000), put("other", 10)]].concat());
}

#[test]
fn what_a_copy_gets_of_a_file_that_is_open_past_the_server_is_on_disk() {
    survives(|_| {
        [open_past_the_server(3), vec![Operation::Copy { from: at("f"), to: at("g") }, put("other", 10)]].concat()
    });
}

#[test]
fn what_s3_put_stays_on_disk_when_a_mount_changes_a_byte_and_then_lets_it_grow() {
    survives(|_| vec![bucket(), put("f", 4000), write(at("f"), 10, 1), write(at("f"), 4000, 3000), put("other", 10)]);
}

#[test]
fn what_was_synced_stays_on_disk_when_more_is_written_and_then_it_grows() {
    survives(|_| {
        vec![
            bucket(),
            Operation::Make { at: at("f") },
            write(at("f"), 0, 3000),
            Operation::SyncVolume { bucket: "alpha".into() },
            write(at("f"), 3000, 10),
            write(at("f"), 3010, 3000),
            put("other", 10),
        ]
    });
}

/// A file is cut by a process that is killed at each of its calls; the next one changes the file.
fn cut_and(script: fn(u64) -> Vec<Operation>) {
    // Before that the file is made and written.
    for call in 36..56 {
        for seed in 0..4 {
            must(Plan { lives: 2, crash_at: Some(call), script: Some(script), ..Plan::of(seed) });
        }
    }
}

fn cut_or(life: u64, then: Operation) -> Vec<Operation> {
    match life {
        0 => {
            let cut = Operation::Truncate { at: at("f"), size: 5_000 };
            vec![bucket(), Operation::Make { at: at("f") }, write(at("f"), 0, 10_000), cut]
        }
        _ => vec![then, put("other", 10)],
    }
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_file_becomes_dirty() {
    cut_and(|life| {
        cut_or(life, Operation::Allocate { at: at("f"), how: Allocate::ZeroRangeKeepSize, offset: 100, size: 1 })
    });
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_file_grows() {
    cut_and(|life| cut_or(life, Operation::Truncate { at: at("f"), size: 9_000 }));
}

#[test]
fn what_was_there_when_the_store_was_opened_stays_on_disk_when_it_moves() {
    survives(|_| {
        vec![
            bucket(),
            Operation::Make { at: at("f") },
            write(at("f"), 0, 3000),
            Operation::Reopen,
            write(at("f"), 3000, 3000),
            put("other", 10),
        ]
    });
}

#[test]
fn a_copy_of_a_file_nothing_was_written_to_is_a_version_like_any_other() {
    survives(|_| {
        let copy = At { bucket: "kept".into(), path: "copy".into() };
        vec![
            bucket(),
            Operation::CreateBucket {
                bucket: "kept".into(),
                quota: None,
                versioning: Versioning::Enabled,
                locking: false,
            },
            Operation::Make { at: at("f") },
            Operation::Copy { from: at("f"), to: copy.clone() },
            Operation::Unlink { at: copy, hold: false },
            put("other", 10),
        ]
    });
}

/// A script whose first process is killed at each of its calls, with content in extents.
fn survives_kills(script: fn(u64) -> Vec<Operation>) {
    for seed in 0..2 {
        let plan = Plan { lives: 2, script: Some(script), in_extents: true, ..Plan::of(seed) };
        let plan = Plan { crash_at: Some(u64::MAX / 2), ..plan };
        for call in 1..=must(plan).calls {
            must(Plan { crash_at: Some(call), ..plan });
        }
    }
}

#[test]
fn what_is_written_over_content_elsewhere_does_not_become_zeros() {
    survives(|_| vec![bucket(), put("f", 20_000), write(at("f"), 8_000, 1_000), put("other", 10)]);
}

#[test]
fn what_was_punched_away_does_not_come_back_when_it_is_written() {
    survives_kills(|life| match life {
        0 => {
            let hole = Operation::Allocate { at: at("f"), how: Allocate::PunchHole, offset: 8_500, size: 3_000 };
            let synced = Operation::Fsync { at: at("f"), data_only: false };
            vec![bucket(), put("f", 20_000), write(at("f"), 8_000, 4_000), synced, hole]
        }
        _ => vec![write(at("f"), 9_000, 1_000), put("other", 10)],
    });
}

#[test]
fn what_was_cut_off_in_extents_does_not_come_back_when_the_file_grows() {
    survives_kills(|life| match life {
        0 => {
            let cut = Operation::Truncate { at: at("f"), size: 15_000 };
            vec![bucket(), put("f", 20_000), write(at("f"), 14_000, 6_000), cut]
        }
        _ => vec![Operation::Append { at: at("f"), size: 1_000, stamp: 9 }, put("other", 10)],
    });
}

#[test]
fn a_write_that_ended_with_its_process_does_not_show_in_the_next() {
    survives_kills(|life| match life {
        0 => vec![bucket(), put("f", 20_000), write(at("f"), 8_000, 1_000)],
        _ => vec![Operation::Write { at: at("f"), offset: 8_100, size: 500, stamp: 9 }, put("other", 10)],
    });
}

#[test]
fn who_writes_a_file_goes_on_when_it_is_renamed_where_what_is_new_is_retained() {
    survives(|_| {
        let append = |path: &str, size| Operation::Append { at: at(path), size, stamp: 3 };
        let mut script = vec![Operation::CreateBucket {
            bucket: "alpha".into(),
            quota: None,
            versioning: Versioning::Enabled,
            locking: true,
        }];
        for (from, to, size) in [("a", "b", 100), ("c", "d", 5_000)] {
            let renamed = Operation::Rename { at: at(from), to: to.into() };
            script.extend([
                Operation::SetRetention { bucket: "alpha".into(), compliance: None },
                Operation::Make { at: at(from) },
            ]);
            script.extend([
                append(from, size),
                Operation::SetRetention { bucket: "alpha".into(), compliance: Some(true) },
                renamed,
            ]);
            // Goes on, and is protected all the same from everybody else.
            script.extend([append(to, size), Operation::Unlink { at: at(to), hold: false }]);
        }
        script
    });
}

/// A bucket that keeps versions, and a file in it whose first version was closed and never synced, and of whose second a
/// part was written.
fn second_version() -> Vec<Operation> {
    let versions = Operation::SetVersioning { bucket: "alpha".into(), versioning: Versioning::Enabled };
    vec![bucket(), put("f", 20_000), write(at("f"), 20_000, 9_000), versions, write(at("f"), 8_000, 1_000)]
}

fn survives_in_extents(script: fn(u64) -> Vec<Operation>) {
    for seed in 0..40 {
        must(Plan { lives: 1, script: Some(script), in_extents: true, ..Plan::of(seed) });
    }
}

#[test]
fn what_a_version_before_wrote_is_on_disk_once_the_file_is_synced() {
    survives_in_extents(|_| {
        [second_version(), vec![Operation::Fsync { at: at("f"), data_only: false }, put("other", 10)]].concat()
    });
}

#[test]
fn what_a_version_before_wrote_is_on_disk_in_a_copy() {
    survives_in_extents(|_| [second_version(), vec![Operation::Copy { from: at("f"), to: at("copy") }]].concat());
}

#[test]
fn no_key_has_two_null_versions_after_one_of_two_names_of_a_file_was_to_move() {
    survives(|_| {
        let versions = |versioning| Operation::SetVersioning { bucket: "alpha".into(), versioning };
        vec![
            bucket(),
            put("b", 10),
            Operation::Link { at: at("b"), to: "c".into() },
            versions(Versioning::Enabled),
            write(at("b"), 0, 10),
            versions(Versioning::Suspended),
            Operation::Rename { at: at("c"), to: "d".into() },
            put("other", 10),
        ]
    });
}

#[test]
fn a_quota_counts_no_null_version_that_a_mount_replaced() {
    survives(|_| {
        let versions = |versioning| Operation::SetVersioning { bucket: "alpha".into(), versioning };
        vec![
            bucket(),
            put("f", 60_000),
            versions(Versioning::Enabled),
            put("f", 140_000),
            put("g", 60_000),
            versions(Versioning::Suspended),
            Operation::Truncate { at: at("f"), size: 44 },
            Operation::SetQuota { bucket: "alpha".into(), quota: Some(200_000) },
            put("other", 10),
        ]
    });
}

#[test]
fn over_its_quota_a_bucket_takes_what_is_smaller_than_the_dirty_file_it_replaces() {
    survives(|_| {
        let quota = Operation::SetQuota { bucket: "alpha".into(), quota: Some(30_000) };
        let grown = Operation::Append { at: at("f"), size: 50_000, stamp: 9 };
        vec![bucket(), Operation::Make { at: at("f") }, write(at("f"), 0, 10_000), grown, quota, put("f", 40_000)]
    });
}

#[test]
fn a_version_that_a_write_began_and_did_not_reach_is_as_old_as_its_beginning() {
    survives_kills(|life| {
        let rule = Rule { prefix: "", expire: Some(1), noncurrent: None, markers: false, uploads: None };
        let rule = Operation::SetRule { bucket: "alpha".into(), rule: Some(rule) };
        let versions = Operation::SetVersioning { bucket: "alpha".into(), versioning: Versioning::Enabled };
        match life {
            0 => vec![bucket(), versions, rule, put("f", 20_000), Operation::Day, write(at("f"), 100, 5_000)],
            _ => vec![Operation::Day, Operation::Expire, put("other", 10)],
        }
    });
}

#[test]
fn what_was_deleted_by_who_may_and_is_still_open_protects_no_bucket() {
    survives(|_| {
        let index = 0;
        vec![
            Operation::CreateBucket {
                bucket: "alpha".into(),
                quota: None,
                versioning: Versioning::Enabled,
                locking: true,
            },
            Operation::Create { at: at("f") },
            write(at("f"), 0, 5_000),
            Operation::Delete { at: at("f") },
            Operation::Retain { at: at("f"), index, until: 1, compliance: false, bypass: false },
            Operation::DeleteVersion { at: at("f"), index, bypass: true },
            Operation::DeleteBucket { bucket: "alpha".into() },
            bucket(),
            put("other", 10),
        ]
    });
}
