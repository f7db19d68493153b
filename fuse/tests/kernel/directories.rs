//! Listings of directories.

use std::collections::BTreeSet;
use std::path::Path;

use crate::test_store::run_all;

fn names(path: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let set: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "no name twice");
    set
}

#[test]
fn every_name_is_listed_once() {
    run_all(|test| {
        let mount = test.mount("m");
        let dir = mount.path().join("many");
        std::fs::create_dir(&dir).unwrap();
        let all: BTreeSet<String> = (0..1_500).map(|at| format!("{at:04}-{}", "x".repeat(at % 100))).collect();
        for name in &all {
            std::fs::write(dir.join(name), name).unwrap();
        }
        assert_eq!(names(&dir), all);
        let fresh = test.mount("fresh");
        let dir = fresh.path().join("many");
        assert_eq!(names(&dir), all);
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().len(), entry.file_name().len() as u64);
        }
    });
}

/// A reply of a store on another machine has at most 4,096 names.
#[test]
fn a_listing_in_several_pages_is_whole() {
    run_all(|test| {
        let mount = test.mount("m");
        let all: BTreeSet<String> = (0..5_000).map(|at| format!("{at:04}")).collect();
        for name in &all {
            std::fs::write(mount.path().join(name), "").unwrap();
        }
        assert_eq!(names(mount.path()), all);
    });
}

#[test]
fn a_listing_is_stable_while_names_change() {
    run_all(|test| {
        let mount = test.mount("m");
        let names: BTreeSet<String> = (0..600).map(|at| format!("name-{at:05}-{}", "y".repeat(60))).collect();
        for name in &names {
            std::fs::write(mount.path().join(name), "").unwrap();
        }
        let mut seen = BTreeSet::new();
        for entry in std::fs::read_dir(mount.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            std::fs::remove_file(mount.path().join(&name)).unwrap();
            std::fs::write(mount.path().join(format!("a-{name}")), "").unwrap();
            if !name.starts_with("a-") {
                assert!(seen.insert(name));
            }
        }
        assert_eq!(seen, names);
    });
}

#[test]
fn rewinding_reads_anew() {
    run_all(|test| {
        let mount = test.mount("m");
        let mut dir = rustix::fs::Dir::read_from(std::fs::File::open(mount.path()).unwrap()).unwrap();
        let list = |dir: &mut rustix::fs::Dir| {
            dir.by_ref().map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        assert_eq!(list(&mut dir), BTreeSet::from([".".into(), "..".into()]));
        std::fs::write(mount.path().join("new"), "").unwrap();
        test.put("other", b"");
        dir.rewind();
        assert_eq!(list(&mut dir), BTreeSet::from([".".into(), "..".into(), "new".into(), "other".into()]));
    });
}

#[test]
fn what_a_listing_caches_is_never_older_than_a_change() {
    run_all(|test| {
        let mount = test.mount("m");
        for at in 0..400 {
            test.put(&format!("dir/{at:04}-{}", "z".repeat(80)), b"old");
        }
        let dir = mount.path().join("dir");
        let mut entries = std::fs::read_dir(&dir).unwrap();
        let first = entries.next().unwrap().unwrap().file_name();
        assert!(first.to_str().unwrap().ends_with('z'));
        let last = format!("dir/0399-{}", "z".repeat(80));
        test.put(&last, b"newer");
        assert_eq!(entries.count(), 399);
        assert_eq!(std::fs::read(mount.path().join(&last)).unwrap(), b"newer");
        assert_eq!(mount.path().join(&last).metadata().unwrap().len(), 5);
    });
}
