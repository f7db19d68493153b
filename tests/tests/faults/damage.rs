//! Every kind of file of a data folder, with a flipped bit, truncated, or missing.
//!
//! - Either the server refuses to start and says which file it is and what to do, or it serves: then a damaged object
//!   is an error, all others are intact, and `amphora check` names the damage.
//! - No wrong content is ever served, and no acknowledged object is ever reported as absent.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::sample::{BUCKET, Sample};
use crate::support::access::root_client;
use crate::support::cli::{cli, json};
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(120);
/// A copy, outside the data folder, of the master key before its rotation.
const FORMER: &str = "former.key";
/// The number of small objects, whose inode records suffice to make the metadata write tables.
const SMALL: usize = 2_600;

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    Flip,
    Cut,
    Remove,
}

pub(super) const HARMS: [Damage; 3] = [Damage::Flip, Damage::Cut, Damage::Remove];

/// The expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The server does not start, and its message contains these words.
    Refused(&'static [&'static str]),
    /// The server starts, some objects are errors, and `check` finds them.
    Damaged,
    /// The server starts, and nothing is missing.
    Whole,
    /// The server starts; content written by a mount may be wrong, since it has no checksum, but all else is intact.
    Unseen,
}

/// A kind of file: how to find one, and the result of each harm.
struct Kind {
    name: &'static str,
    find: fn(&Path) -> Option<PathBuf>,
    outcomes: [Expected; 3],
}

use Expected::{Damaged, Refused, Unseen, Whole};

const KINDS: [Kind; 17] = [
    Kind { name: "lock", find: |dir| Some(dir.join("lock")), outcomes: [Whole, Whole, Whole] },
    Kind {
        name: "master.key",
        find: |dir| Some(dir.join("master.key")),
        outcomes: [Refused(&["master.key"]), Refused(&["master.key"]), Refused(&["master.key"])],
    },
    Kind {
        // The last step of a rotation remains: all secrets are encrypted with the next key.
        name: "master.key.next",
        find: rotating,
        outcomes: [Refused(&["master.key"]), Refused(&["master.key.next"]), Refused(&["master.key"])],
    },
    Kind { name: "epoch of blobs", find: past_an_epoch, outcomes: [Refused(&["epoch"]), Refused(&["epoch"]), Whole] },
    Kind { name: "quarantine", find: quarantined, outcomes: [Whole, Whole, Whole] },
    Kind { name: "root-credentials", find: |dir| Some(dir.join("root-credentials")), outcomes: [Whole, Whole, Whole] },
    Kind {
        name: "format of the metadata",
        find: |dir| Some(dir.join("meta/version")),
        outcomes: [Refused(&["meta/version"]), Refused(&["meta/version"]), Refused(&["meta/version"])],
    },
    Kind { name: "lock of the metadata", find: |dir| Some(dir.join("meta/lock")), outcomes: [Whole, Whole, Whole] },
    Kind { name: "mark of the end", find: |dir| Some(dir.join("meta/synced")), outcomes: [Whole, Whole, Whole] },
    Kind {
        name: "journal",
        find: |dir| first(&dir.join("meta"), "jnl"),
        outcomes: [Refused(&["meta"]), Refused(&["meta"]), Refused(&["meta"])],
    },
    Kind {
        name: "table",
        find: |dir| largest(&dir.join("meta/keyspaces/1/tables")),
        outcomes: [Damaged, Refused(&["meta"]), Refused(&["meta"])],
    },
    Kind {
        name: "list of tables",
        find: |dir| starting(&dir.join("meta/keyspaces/1"), "v"),
        outcomes: [Refused(&["meta"]), Refused(&["meta"]), Refused(&["meta"])],
    },
    Kind {
        name: "name of the list of tables",
        find: |dir| Some(dir.join("meta/keyspaces/1/current")),
        outcomes: [Refused(&["meta"]), Refused(&["current"]), Refused(&["current"])],
    },
    Kind {
        name: "list of keyspaces",
        find: |dir| starting(&dir.join("meta/keyspaces/0"), "v"),
        outcomes: [Refused(&["meta"]), Refused(&["meta"]), Refused(&["meta"])],
    },
    Kind {
        name: "segment",
        find: |dir| first(&dir.join("content/segments"), "seg"),
        outcomes: [Damaged, Damaged, Damaged],
    },
    Kind {
        name: "blob of S3",
        find: |dir| sized(&dir.join("content/blobs"), 400_000),
        outcomes: [Damaged, Damaged, Damaged],
    },
    Kind {
        name: "in-place blob of a mounted file",
        find: |dir| sized(&dir.join("content/blobs"), 500_000),
        outcomes: [Unseen, Unseen, Damaged],
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_refused_or_reported_and_never_served() {
    need!(root_and_fuse());
    let (mut server, sample) = prepare().await;
    let data = server.home().data_dir();
    let kept = server.home().path().join("kept");
    copy(&data, &kept);
    let mut wrong = Vec::new();
    for kind in &KINDS {
        for (harm, expected) in HARMS.into_iter().zip(kind.outcomes) {
            let file = (kind.find)(&data).unwrap_or_else(|| panic!("no file of the kind {}", kind.name));
            inflict(&file, harm);
            let seen = look(&mut server, &sample).await;
            if let Err(why) = check_outcome(&seen, expected) {
                wrong.push(format!("{harm:?} of {} ({}): {why}\n  {seen:?}", kind.name, file.display()));
            }
            server.kill9();
            std::fs::remove_dir_all(&data).expect("removed");
            copy(&kept, &data);
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), KINDS.len() * 3, wrong.join("\n"));
    server.restart();
    sample.whole(&root_client(&server)).await;
}

/// A store that has every kind of file, and no running server.
async fn prepare() -> (Server, Sample) {
    let mut server = Server::start();
    make_bucket(&server, BUCKET, &[]);
    let client = root_client(&server);
    let mut sample = Sample::default();
    for (number, len) in [100, 3_000, 9_000, 60_000, 100_000, 120_000, 400_000, 900_000].into_iter().enumerate() {
        sample.put(&client, &format!("object/{number}"), len).await.expect("put");
    }
    let mount = Mounted::new(&server, BUCKET, "m");
    std::fs::write(mount.path().join("mounted"), vec![7; 500_000]).expect("written");
    for number in 0..SMALL {
        std::fs::write(mount.path().join(format!("small-{number}")), vec![7; 4_000]).expect("written");
    }
    sample.put(&client, "object/last", 2_000).await.expect("put");
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    // Records that are in a table now are in a table after the next start as well.
    server.restart();
    sample.put(&root_client(&server), "object/newest", 2_000).await.expect("put");
    let key = server.home().data_dir().join("master.key");
    std::fs::copy(&key, server.home().path().join(FORMER)).expect("copied");
    json(&server, &["master-key", "rotate"]);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    (server, sample)
}

/// The output of a start, of reading everything, and of a check.
#[derive(Debug)]
struct Seen {
    refusal: Option<String>,
    damaged: Vec<String>,
    check: String,
    clean: bool,
}

async fn look(server: &mut Server, sample: &Sample) -> Seen {
    let logged = server.log().len();
    let started = server.try_restart();
    let mut damaged = Vec::new();
    if started.is_ok() {
        damaged = sample.refused(&root_client(server)).await;
        server.kill9();
    }
    let said = server.log()[logged..].lines().filter(|line| line.starts_with("amphora: ")).collect::<String>();
    let outcome =
        cli(server, &["check", server.home().data_dir().to_str().expect("a path of ours"), "--output", "json"]);
    let check = outcome.stdout + &outcome.stderr;
    Seen { refusal: started.is_err().then_some(said), damaged, clean: outcome.status.success(), check }
}

fn check_outcome(seen: &Seen, expected: Expected) -> Result<(), &'static str> {
    let names_all = || seen.damaged.iter().all(|key| seen.check.contains(key.as_str()));
    match (expected, &seen.refusal) {
        (Refused(words), Some(why)) if words.iter().all(|word| why.contains(word)) => Ok(()),
        (Refused(_), Some(_)) => Err("the refusal does not name the file"),
        (Refused(_), None) => Err("the start should have been refused"),
        (_, Some(_)) => Err("the start should not have been refused"),
        (Whole, None) if !seen.damaged.is_empty() || !seen.clean => Err("nothing should be missing"),
        (Damaged, None) if seen.clean => Err("the check should find the damage"),
        (Damaged | Unseen, None) if !seen.damaged.is_empty() && !names_all() => {
            Err("the check should name the damaged objects")
        }
        _ => Ok(()),
    }
}

pub(super) fn inflict(file: &Path, harm: Damage) {
    let len = std::fs::metadata(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).len();
    match harm {
        Damage::Remove => std::fs::remove_file(file).expect("removed"),
        Damage::Cut => {
            let open = std::fs::OpenOptions::new().write(true).open(file).expect("opened");
            open.set_len(used(file).min(len) / 2).expect("cut");
        }
        Damage::Flip if len == 0 => {}
        Damage::Flip => {
            let mut bytes = std::fs::read(file).expect("read");
            let used = used(file);
            // The end of a journal is in no table yet. The rest may be in tables, and is not read then.
            let back = if file.extension().is_some_and(|end| end == "jnl") { 512 } else { used / 2 };
            let at = usize::try_from(used - back).expect("small");
            bytes[at] ^= 4;
            std::fs::write(file, bytes).expect("written");
        }
    }
}

/// The length of a file without the zeros at its end.
fn used(file: &Path) -> u64 {
    let bytes = std::fs::read(file).expect("read");
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1)
}

fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    drop(run(command.args(["-a", "--sparse=always"]).arg(from).arg(to), LIMIT).expect("cp ends").ok());
}

/// The next master key of an unfinished rotation.
fn rotating(dir: &Path) -> Option<PathBuf> {
    let (key, next) = (dir.join("master.key"), dir.join("master.key.next"));
    rustix::fs::rename(&key, &next).ok()?;
    std::fs::copy(dir.parent()?.join(FORMER), &key).ok()?;
    Some(next)
}

/// The file `epoch` of a store that gave out more than 2^32 blob ids within one opening.
fn past_an_epoch(dir: &Path) -> Option<PathBuf> {
    let (file, epoch) = (dir.join("content/epoch"), 1_000_u32);
    let sum = crc_fast::crc32_iscsi(&epoch.to_be_bytes());
    std::fs::write(&file, format!("{epoch} {sum:08x}\n")).ok()?;
    Some(file)
}

/// A record that `check --repair` keeps.
fn quarantined(dir: &Path) -> Option<PathBuf> {
    let file = dir.join("quarantine/10-0123456789abcdef.record");
    std::fs::create_dir_all(file.parent()?).ok()?;
    std::fs::write(&file, [7; 40]).ok()?;
    Some(file)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn first(dir: &Path, extension: &str) -> Option<PathBuf> {
    files(dir).into_iter().find(|file| file.extension().is_some_and(|seen| seen == extension))
}

fn starting(dir: &Path, with: &str) -> Option<PathBuf> {
    files(dir).into_iter().rfind(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(with)))
}

fn largest(dir: &Path) -> Option<PathBuf> {
    files(dir).into_iter().max_by_key(|file| std::fs::metadata(file).map_or(0, |found| found.len()))
}

/// A file of this length below a folder of folders.
fn sized(dir: &Path, len: u64) -> Option<PathBuf> {
    let found = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() == len);
    files(dir).iter().flat_map(|dir| files(dir)).find(found)
}
