//! Versions and object lock through the kernel: programs on files of a bucket with versioning.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use objstore::store::{
    DefaultRetention, List, ListVersions, ObjectLock, RetentionMode, SetBucket, Settings, Versioning,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::test_store::{TestStore, pattern, run};

pub fn keep_versions(test: &TestStore) {
    let set = SetBucket { versioning: Some(Versioning::Enabled), ..SetBucket::default() };
    test.wait(test.store().set_bucket(test.bucket(), set)).unwrap();
}

fn lock_objects(test: &TestStore) {
    lock_by(test, None);
}

fn lock_by(test: &TestStore, default: Option<DefaultRetention>) {
    keep_versions(test);
    let change = move |settings: &mut Settings| {
        settings.object_lock = Some(ObjectLock { default });
        Ok(())
    };
    test.wait(test.store().change_settings(test.bucket(), change)).unwrap();
}

/// Enables object lock with a default retention of a day.
fn retain_by_default(test: &TestStore) {
    lock_by(test, Some(DefaultRetention { mode: RetentionMode::Compliance as i32, days: Some(1), years: None }));
}

fn is_retained(test: &TestStore, key: &str) -> bool {
    let object = test.store().head_object(test.bucket(), &key.parse().unwrap(), None).unwrap();
    object.lock.retention.is_some_and(|retention| retention.mode == RetentionMode::Compliance)
}

/// Runs a line of shell; returns its standard error if it failed.
pub fn shell(line: &str, folder: &Path) -> Option<String> {
    let done = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    (!done.status.success()).then(|| String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Asserts that no action of a program changes `name` and its content.
#[expect(clippy::disallowed_methods, reason = "renames and syncs on the mount, as programs do")]
fn assert_unchangeable(test: &TestStore, folder: &Path, name: &str) {
    let before = test.get(name).unwrap();
    let path = folder.join(name);
    for line in [
        "truncate --size=0 X",
        "truncate --size=+1 X",
        ": > X",
        "echo more >> X",
        "fallocate --punch-hole --offset 0 --length 1 X",
        "cp /etc/passwd X",
        "dd if=/etc/passwd of=X conv=notrunc",
        "rm -f X",
        "mv X moved",
        "ln X further",
    ] {
        let said = shell(&line.replace('X', name), folder).unwrap_or_default();
        assert!(said.contains("not permitted"), "{line}: {said:?}");
    }
    std::os::unix::fs::symlink("nothing", folder.join("other")).unwrap();
    assert!(not_permitted(fs::rename(folder.join("other"), &path)));
    let exchanged = renameat_with(CWD, folder.join("other"), CWD, &path, RenameFlags::EXCHANGE);
    assert_eq!(exchanged, Err(rustix::io::Errno::PERM));
    fs::remove_file(folder.join("other")).unwrap();
    assert!(not_permitted(OpenOptions::new().read(true).write(true).open(&path)));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(test.get(name).unwrap() == before);
}

fn hold(test: &TestStore, key: &str, on: bool) {
    test.wait(test.store().set_legal_hold(test.bucket(), &key.parse().unwrap(), None, on)).unwrap();
}

/// The versions of a key, newest first; a delete marker has no content.
pub fn history(test: &TestStore, key: &str) -> Vec<Option<Vec<u8>>> {
    let list = List { prefix: key.to_owned(), limit: usize::MAX, ..List::default() };
    let request = ListVersions { list, after_version: None };
    let versions = test.store().list_versions(test.bucket(), &request).unwrap().versions;
    let read = |version: &objstore::store::VersionInfo| {
        let id = version.object.version.as_deref();
        let (object, reader) = test.store().open_object(test.bucket(), &key.parse().unwrap(), id).unwrap();
        reader.read(0, usize::try_from(object.size).unwrap()).unwrap().to_vec()
    };
    versions.iter().filter(|version| version.object.key == key).map(|one| (!one.marker).then(|| read(one))).collect()
}

pub fn some(texts: &[&str]) -> Vec<Option<Vec<u8>>> {
    texts.iter().map(|text| (*text != "-").then(|| text.as_bytes().to_vec())).collect()
}

fn not_permitted<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "renames and syncs on the mount, as programs do")]
fn each_time_a_program_saves_a_file_it_is_a_version() {
    run(|test| {
        keep_versions(test);
        let mount = test.mount("m");
        let path = mount.path().join("note");
        for text in ["one", "two", "three"] {
            fs::write(&path, text).unwrap();
        }
        assert_eq!(history(test, "note"), some(&["three", "two", "one"]));
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"!").unwrap();
        assert_eq!(history(test, "note")[..2], some(&["three!", "three"]));
        let mut file = File::create(&path).unwrap();
        for _ in 0..10 {
            file.write_all(b"x").unwrap();
            file.sync_all().unwrap();
        }
        drop(file);
        assert_eq!(history(test, "note").len(), 5);
        fs::write(mount.path().join("note.tmp"), "saved").unwrap();
        fs::rename(mount.path().join("note.tmp"), &path).unwrap();
        assert_eq!(history(test, "note")[..2], some(&["saved", "xxxxxxxxxx"]));
        assert!(history(test, "note.tmp").is_empty());
        fs::remove_file(&path).unwrap();
        assert_eq!(history(test, "note")[..2], some(&["-", "saved"]));
        assert!(test.get("note").is_none());
    });
}

#[test]
fn pages_written_through_a_mapping_belong_to_the_version() {
    run(|test| {
        keep_versions(test);
        let mount = test.mount("m");
        let before = pattern(64 << 10, 1);
        test.put("mapped", &before);
        let script = "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\nf.close()\nm[5]=7\nm[60000]=9\nm.close()";
        let path = mount.path().join("mapped");
        let Ok(done) = Command::new("python3").args(["-c", script]).arg(&path).status() else { return };
        assert!(done.success());
        let mut after = before.clone();
        (after[5], after[60_000]) = (7, 9);
        assert!(history(test, "mapped") == [Some(after), Some(before)]);
    });
}

#[test]
fn a_program_that_writes_on_after_a_put_leaves_the_versions_alone() {
    run(|test| {
        keep_versions(test);
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let first = pattern(300_000, 1);
        fs::write(&path, &first).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.write_all_at(b"second", 0).unwrap();
        test.put("f", b"put");
        let kept = history(test, "f");
        assert_eq!(kept.len(), 3);
        file.write_all_at(b"third", 0).unwrap();
        let mut shown = [0; 6];
        file.read_exact_at(&mut shown, 0).unwrap();
        assert_eq!(&shown, b"thirdd");
        drop(file);
        assert!(history(test, "f") == kept);
        assert_eq!(fs::read(&path).unwrap(), b"put");
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "renames and syncs on the mount, as programs do")]
fn what_is_locked_cannot_be_changed_moved_or_removed() {
    run(|test| {
        lock_objects(test);
        let mount = test.mount("m");
        let at = |name: &str| mount.path().join(name);
        for name in ["held", "free"] {
            fs::write(at(name), "text").unwrap();
        }
        hold(test, "held", true);
        assert!(not_permitted(OpenOptions::new().write(true).open(at("held"))));
        assert!(not_permitted(fs::write(at("held"), "other")));
        assert!(not_permitted(fs::remove_file(at("held"))));
        assert!(not_permitted(fs::rename(at("held"), at("moved"))));
        assert!(not_permitted(fs::rename(at("free"), at("held"))));
        assert!(not_permitted(fs::hard_link(at("held"), at("link"))));
        let cut = Command::new("truncate").args(["--size=0"]).arg(at("held")).output().unwrap();
        assert!(!cut.status.success() && String::from_utf8_lossy(&cut.stderr).contains("not permitted"));
        fs::set_permissions(at("held"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::read(at("held")).unwrap(), b"text");
        hold(test, "held", false);
        fs::write(at("held"), "other").unwrap();

        fs::create_dir(at("dir")).unwrap();
        fs::write(at("dir/in"), "x").unwrap();
        let crossed = fs::rename(at("dir"), at("elsewhere")).unwrap_err();
        assert_eq!(crossed.kind(), ErrorKind::CrossesDevices);
        let moved = Command::new("mv").args([at("dir"), at("elsewhere")]).status().unwrap();
        assert!(moved.success() && at("elsewhere/in").exists() && !at("dir").exists());
    });
}

#[test]
fn a_lock_holds_against_a_program_that_has_the_file_open() {
    run(|test| {
        lock_objects(test);
        let mount = test.mount("m");
        let path = mount.path().join("f");
        fs::write(&path, pattern(100_000, 1)).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"before", 0).unwrap();
        file.write_all_at(b"before", 10).unwrap();
        hold(test, "f", true);
        assert!(not_permitted(file.write_all_at(b"after", 0)));
        assert_eq!(test.get("f").unwrap()[..6], *b"before");
    });
}

#[test]
fn links_from_before_the_lock_are_no_way_around_it() {
    run(|test| {
        let mount = test.mount("m");
        for (number, size) in [9, 100_000].into_iter().enumerate() {
            for what in ["put", "rm", "none"] {
                let (first, second) = (format!("{what}{number}-1"), format!("{what}{number}-2"));
                fs::write(mount.path().join(&first), pattern(size, 1)).unwrap();
                fs::hard_link(mount.path().join(&first), mount.path().join(&second)).unwrap();
            }
        }
        lock_objects(test);
        for number in 0..2 {
            test.put(&format!("put{number}-1"), b"put");
            fs::remove_file(mount.path().join(format!("rm{number}-1"))).unwrap();
            for what in ["put", "rm", "none"] {
                let second = format!("{what}{number}-2");
                OpenOptions::new().append(true).open(mount.path().join(&second)).unwrap().write_all(b"!").unwrap();
                assert_eq!(history(test, &second).len(), if what == "none" { 1 } else { 2 }, "{second}");
                hold(test, &second, true);
                assert_unchangeable(test, mount.path(), &second);
            }
        }
    });
}

#[test]
fn a_file_whose_known_name_went_before_it_had_versions_has_them_under_the_other() {
    run(|test| {
        let mount = test.mount("m");
        let at = |name: &str| mount.path().join(name);
        fs::write(at("a"), "one").unwrap();
        fs::hard_link(at("a"), at("b")).unwrap();
        assert_eq!(fs::read(at("b")).unwrap(), b"one");
        fs::remove_file(at("a")).unwrap();
        keep_versions(test);
        assert_eq!(shell("truncate --size=2 b", mount.path()), None);
        fs::write(at("b"), "two").unwrap();
        assert_eq!(history(test, "b")[0], Some(b"two".to_vec()));
        assert_eq!(history(test, "b").last().unwrap(), &Some(b"one".to_vec()));
    });
}

#[test]
fn default_retention_holds_however_a_program_makes_a_version() {
    run(|test| {
        for key in ["cut", "from", "to", "left", "right", "killed", "mapped"] {
            test.put(key, &pattern(20_000, 1));
        }
        retain_by_default(test);
        let mount = test.mount("m");
        let at = |name: &str| mount.path().join(name);
        for line in [
            "truncate --size=1 cut",
            "mv from to",
            "touch touched",
            "mknod made p && rm made",
            "echo text > written",
            "cp /etc/passwd copied",
            "exec 3<> both; echo one >&3; echo two >> both; echo three >&3",
        ] {
            assert_eq!(shell(line, mount.path()), None, "{line}");
        }
        renameat_with(CWD, at("left"), CWD, at("right"), RenameFlags::EXCHANGE).unwrap();
        let map =
            "import mmap;f=open('mapped','r+b');m=mmap.mmap(f.fileno(),0);f.close();m[5]=7;m.flush();m[6]=8;m.close()";
        assert_eq!(shell(&format!("python3 -c \"{map}\""), mount.path()), None);
        assert_eq!(test.get("mapped").unwrap()[5..7], [7, 8]);
        for name in ["cut", "to", "left", "right", "touched", "written", "copied", "both", "mapped"] {
            assert!(is_retained(test, name), "{name}");
            assert_unchangeable(test, mount.path(), name);
        }
        let file = OpenOptions::new().write(true).open(at("killed")).unwrap();
        file.write_all_at(b"before", 0).unwrap();
        assert!(is_retained(test, "killed"), "from the first write");
        file.write_all_at(b"again", 0).unwrap();
        drop(mount);
        drop(file);
        let again = test.mount("again");
        assert_unchangeable(test, again.path(), "killed");
    });
}

#[test]
fn a_lock_holds_against_a_mapping_from_before() {
    run(|test| {
        lock_objects(test);
        let mount = test.mount("m");
        let before = pattern(100_000, 1);
        test.put("f", &before);
        let script = "import mmap,sys;f=open('f','r+b');m=mmap.mmap(f.fileno(),0);print(m[0],flush=True);sys.stdin.readline();m[0]=77;m.flush()";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .current_dir(mount.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        hold(test, "f", true);
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(!child.wait().unwrap().success(), "msync(2) reports the error");
        assert!(test.get("f").unwrap() == before);
        assert_eq!(history(test, "f").len(), 1);
    });
}
