//! copy_file_range(2): as on ext4, call by call.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::copy_file_range;

use crate::folder_pair::{FolderPair, ROOT, heard, shell, told};
use crate::test_store::{Rng, pattern, run_all};

fn open(path: &Path, flags: i32) -> Result<File, i32> {
    let write = flags & (libc::O_WRONLY | libc::O_RDWR) != 0;
    heard(OpenOptions::new().read(flags & libc::O_WRONLY == 0).write(write).custom_flags(flags).open(path))
}

/// Copies until nothing more is copied; returns the number of bytes.
fn copy(from: (&File, u64), to: (&File, u64), len: u64) -> Result<u64, i32> {
    let (mut at, mut into, mut done) = (from.1, to.1, 0);
    while done < len {
        let left = usize::try_from(len - done).unwrap();
        match told(copy_file_range(from.0, Some(&mut at), to.0, Some(&mut into), left)) {
            Ok(0) => break,
            Ok(copied) => done += copied as u64,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[test]
fn every_call_ends_as_on_ext4() {
    const LARGE: u64 = 3 << 19;
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.agree("making them", ROOT, |dir| {
            std::fs::write(dir.join("small"), pattern(3_000, 1)).unwrap();
            std::fs::write(dir.join("large"), pattern(LARGE as usize, 2)).unwrap();
            std::fs::write(dir.join("empty"), b"").unwrap();
            shell(dir, "truncate -s 3M sparse; printf end >> sparse")
        });
        let sources = ["small", "large", "empty", "sparse", "same"];
        let offsets = [0, 1_000, 2 << 20];
        for source in sources {
            for target in ["empty", "small", "large"] {
                for from in offsets {
                    for to in offsets {
                        for len in [0, 5_000, 4 << 20] {
                            pair.agree((source, target, from, to, len), ROOT, |dir| {
                                shell(dir, &format!("cp --reflink=never {target} target"));
                                let source = if source == "same" { "target" } else { source };
                                let from_file = open(&dir.join(source), libc::O_RDONLY).unwrap();
                                let to_file = open(&dir.join("target"), libc::O_WRONLY).unwrap();
                                let copied = copy((&from_file, from), (&to_file, to), len);
                                (copied, sum(&dir.join("target")))
                            });
                        }
                    }
                }
            }
        }
    });
}

/// The length of a file, and a checksum of its content.
fn sum(path: &Path) -> (u64, u64) {
    let content = std::fs::read(path).unwrap();
    let mut hasher = DefaultHasher::new();
    hasher.write(&content);
    (content.len() as u64, hasher.finish())
}

#[test]
fn what_cannot_be_copied_is_refused_as_on_ext4() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.agree("making them", ROOT, |dir| shell(dir, "echo content > f; cp f g; mkdir d; mkfifo p"));
        for (from, to) in [("f", "d"), ("d", "f"), ("f", "p"), ("f", "f")] {
            for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_WRONLY | libc::O_APPEND] {
                pair.agree((from, to, flags), ROOT, |dir| {
                    let source = open(&dir.join(from), libc::O_RDONLY | libc::O_NONBLOCK)?;
                    let target = open(&dir.join(to), flags | libc::O_NONBLOCK)?;
                    told(copy_file_range(&source, None, &target, None, 4))
                });
            }
        }
    });
}

#[test]
fn what_cp_copies_goes_on_alone() {
    run_all(|test| {
        let mount = test.mount("m");
        let at = |name: &str| mount.path().join(name);
        let mut content = pattern(20 << 20, 3);
        std::fs::write(at("a"), &content).unwrap();
        assert_eq!(shell(mount.path(), "cp --reflink=auto --sparse=never a b; cmp a b"), "Some(0) ");
        assert_eq!(test.get("b").as_deref(), Some(&content[..]));
        let file = OpenOptions::new().write(true).open(at("b")).unwrap();
        file.write_all_at(b"changed", 5_000_000).unwrap();
        assert!(std::fs::read(at("a")).unwrap() == content);
        content[5_000_000..5_000_007].copy_from_slice(b"changed");
        assert!(std::fs::read(at("b")).unwrap() == content);
        OpenOptions::new().write(true).open(at("a")).unwrap().set_len(10).unwrap();
        assert!(std::fs::read(at("b")).unwrap() == content);
        assert_eq!(at("a").metadata().unwrap().size(), 10);
    });
}

#[test]
fn what_is_mapped_or_was_just_written_is_copied() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.script(
            ROOT,
            &[
                "python3 - <<'E'\nimport mmap,os\nf=open('a','w+b'); f.truncate(3<<20)\nm=mmap.mmap(f.fileno(),0)\nm[0:4]=b'head'; m[-4:]=b'tail'\ng=open('b','w+b')\nn=0\nwhile n<3<<20:\n c=os.copy_file_range(f.fileno(),g.fileno(),3<<20)\n if c==0: break\n n+=c\nm[0:4]=b'late'\nprint(n, open('b','rb').read(4), open('b','rb').read()[-4:])\nE",
                "cmp a b | head -c 30",
            ],
        );
    });
}

#[test]
fn random_copies_match_those_of_ext4() {
    run_all(|test| {
        let mount = test.mount("m");
        let pair = FolderPair::new(test, &mount);
        pair.agree("making them", ROOT, |dir| {
            for (seed, name) in ["a", "b", "c"].into_iter().enumerate() {
                std::fs::write(dir.join(name), pattern(700_000 * (seed + 1), seed as u8)).unwrap();
            }
        });
        let mut rng = Rng(11);
        for step in 0..300 {
            let name = |rng: &mut Rng| ["a", "b", "c"][rng.below(3)];
            let (from, to) = (name(&mut rng), name(&mut rng));
            let (at, into, len) = (rng.below(2_500_000), rng.below(2_500_000), rng.below(1_500_000));
            let cut = (rng.below(6) == 0).then(|| rng.below(2_000_000));
            pair.agree((step, from, at, to, into, len, cut), ROOT, |dir| {
                let source = open(&dir.join(from), libc::O_RDONLY).unwrap();
                let target = open(&dir.join(to), libc::O_RDWR).unwrap();
                if let Some(cut) = cut {
                    target.set_len(cut as u64).unwrap();
                }
                let copied = copy((&source, at as u64), (&target, into as u64), len as u64);
                (copied, sum(&dir.join(to)))
            });
        }
        for name in ["a", "b", "c"] {
            assert!(test.get(&format!("twin/{name}")).unwrap() == std::fs::read(pair.mounted().join(name)).unwrap());
        }
    });
}
