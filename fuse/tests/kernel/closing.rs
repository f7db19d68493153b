//! The end of a version: it ends with the last close, although the kernel reports that only after close(2) has
//! returned.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::process::Command;

use crate::test_store::{TestStore, run_all};
use crate::versions::{history, keep_versions, shell, some};

/// The versions of a file that is saved `count` times.
fn saves(name: &str, count: usize) -> Vec<Option<Vec<u8>>> {
    (0..count).rev().map(|number| Some(format!("{name} {number}").into_bytes())).collect()
}

/// Asserts the versions of a key, oldest first.
fn assert_versions(test: &TestStore, key: &str, texts: &[&str]) {
    let newest_first: Vec<&str> = texts.iter().rev().copied().collect();
    assert_eq!(history(test, key), some(&newest_first), "{key}");
}

/// Several programs save at the same time, so that several threads read the device, and a program's next save may
/// arrive before the close of its previous one.
#[test]
fn saves_that_follow_each_other_are_versions_though_many_save() {
    const SAVES: usize = 60;
    run_all(|test| {
        keep_versions(test);
        let mount = test.mount("m");
        let names = ["a", "b", "c", "d"];
        std::thread::scope(|threads| {
            for name in names {
                let path = mount.path().join(name);
                threads.spawn(move || {
                    for number in 0..SAVES {
                        fs::write(&path, format!("{name} {number}")).unwrap();
                    }
                });
            }
        });
        for name in names {
            assert_eq!(history(test, name), saves(name, SAVES));
        }
    });
}

#[test]
fn programs_that_follow_each_other_make_a_version_each() {
    run_all(|test| {
        keep_versions(test);
        let (mount, other) = (test.mount("m"), test.mount("other"));
        let line =
            "for n in 0 1 2 3 4 5 6 7 8 9; do sh -c \"printf 'by n' > f; printf ' $n' >> f\"; truncate -s 2 f; done";
        assert_eq!(shell(line, mount.path()), None);
        let versions = history(test, "f");
        assert_eq!(versions.len(), 30);
        for (number, round) in versions.rchunks(3).enumerate() {
            assert_eq!(
                round,
                [Some(b"by".to_vec()), Some(format!("by n {number}").into_bytes()), Some(b"by n".to_vec())]
            );
        }
        for number in 0..20 {
            let mount = if number % 2 == 0 { &mount } else { &other };
            fs::write(mount.path().join("both"), format!("both {number}")).unwrap();
        }
        assert_eq!(history(test, "both"), saves("both", 20));
    });
}

#[test]
fn a_version_goes_on_while_a_copy_of_a_descriptor_is_open() {
    run_all(|test| {
        keep_versions(test);
        let mount = test.mount("m");
        assert_eq!(shell("(sh -c 'printf 1'; sh -c 'printf 2'; sh -c 'printf 3') > f", mount.path()), None);
        assert_eq!(shell("(sh -c 'printf 1'; printf 2 >> f; sh -c 'printf 3') >> f", mount.path()), None);
        assert_versions(test, "f", &["123", "123123"]);
        let path = mount.path().join("g");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let copy = file.try_clone().unwrap();
        file.write_all(b"4").unwrap();
        drop(copy);
        fs::write(&path, "5").unwrap();
        file.write_all(b"6").unwrap();
        assert_versions(test, "g", &["56"]);
    });
}

#[test]
fn a_version_goes_on_while_it_is_mapped() {
    run_all(|test| {
        keep_versions(test);
        let mount = test.mount("m");
        test.put("f", b"before");
        // In a separate process: munmap(2) waits for the server, and holds a lock that threads of the same process may
        // need.
        let script = "import mmap,os\nf=os.open('f',os.O_RDWR)\nm=mmap.mmap(f,6)\nos.pwrite(f,b'mapped',0)\nos.close(f)\n\
                      g=os.open('f',os.O_WRONLY)\nos.pwrite(g,b'M',0)\nos.close(g)\nm[5]=ord('D')\nm.close()";
        assert_eq!(shell(&format!("python3 -c \"{script}\""), mount.path()), None);
        assert_versions(test, "f", &["before", "MappeD"]);
    });
}

#[test]
fn a_file_that_is_open_when_versions_begin_to_be_kept_is_at_one_until_it_is_closed() {
    run_all(|test| {
        let mount = test.mount("m");
        let path = mount.path().join("f");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"1").unwrap();
        keep_versions(test);
        file.write_all(b"2").unwrap();
        file.write_all(b"3").unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"4").unwrap();
        assert_versions(test, "f", &["1", "1234"]);
        drop(file);
        // The close of a file opened before is not reported at once: its version ends later.
        let ended = |test: &TestStore| {
            fs::write(&path, "5").unwrap();
            history(test, "f").len() > 2
        };
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !ended(test) {
            assert!(std::time::Instant::now() < limit, "the version has no end");
        }
        fs::write(&path, "6").unwrap();
        assert_eq!(history(test, "f")[0], Some(b"6".to_vec()));
    });
}

#[test]
fn who_is_killed_has_closed() {
    run_all(|test| {
        keep_versions(test);
        let mount = test.mount("m");
        for number in 0..10 {
            let line = format!("printf 'f {number}' > f; exec 3>> f; kill -9 $$");
            let killed = Command::new("sh").args(["-c", &line]).current_dir(mount.path()).status().unwrap();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(9));
        }
        assert_eq!(history(test, "f"), saves("f", 10));
    });
}
