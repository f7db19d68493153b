//! A failing disk: writes and syncs of the running server return an error, until it is restarted.
//!
//! - strace injects the error into the system call of any component: the store, its segments, fjall.
//! - No acknowledged write is lost, none that is lost is acknowledged, and reading continues.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::fsync;
use rustix::process::{Pid, Signal, kill_process};

use super::full::is_ready;
use super::sample::{BUCKET, Sample};
use crate::support::access::{root_client, write};
use crate::support::cli::check_store;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(20);
const SIZES: [usize; 4] = [1_000, 50_000, 400_000, 3 << 20];

/// Which calls fail, and how.
struct Case {
    name: &'static str,
    calls: &'static str,
    error: &'static str,
    /// Whether only calls on the metadata journal fail.
    journal: bool,
    /// Whether the store refuses all writes afterwards.
    poisons: bool,
}

const CASES: [Case; 5] = [
    Case { name: "sync", calls: "fdatasync,fsync,syncfs", error: "EIO", journal: false, poisons: true },
    Case { name: "journal", calls: "write,writev", error: "EIO", journal: true, poisons: true },
    Case { name: "journal-full", calls: "write,writev", error: "ENOSPC", journal: true, poisons: true },
    Case { name: "content", calls: "pwrite64,pwritev,pwritev2", error: "EIO", journal: false, poisons: true },
    Case { name: "content-full", calls: "pwrite64,pwritev,pwritev2", error: "ENOSPC", journal: false, poisons: false },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_disk_loses_no_acknowledged_write() {
    need!(root_and_fuse());
    let strace = need!(required("strace"));
    let mut server = Server::start();
    make_bucket(&server, BUCKET, &[]);
    let client = root_client(&server);
    let mut sample = Sample::default();
    for case in &CASES {
        for len in SIZES {
            sample.put(&client, &format!("{}/before/{len}", case.name), len).await.expect("the disk works");
        }
        let mount = Mounted::new(&server, BUCKET, "m");
        let file = mount.path().join(format!("{}-file", case.name));
        let mut open = File::create(&file).expect("made");
        open.write_all(&[1; 100_000]).expect("written");
        fsync(&open).expect("synced");
        let journal = case.journal.then(|| newest_journal(&server.home().data_dir()));
        let failing = Failing::begin(&strace, &server, case, journal.as_deref());
        let mut refused = 0;
        for len in SIZES {
            let put = sample.put(&client, &format!("{}/during/{len}", case.name), len).await;
            refused += usize::from(put.inspect_err(|refusal| assert!(refusal.status >= 500, "{refusal:?}")).is_err());
        }
        assert!(refused > 0, "{}: nothing failed", case.name);
        let written = open.write_all(&[2; 300_000]).and_then(|()| Ok(fsync(&open)?));
        assert!(written.is_err(), "{}: fsync(2) succeeded on the failed disk", case.name);
        sample.whole(&client).await;
        drop(failing);
        assert_eq!(is_ready(&server).await, !case.poisons, "{}", case.name);
        if !case.poisons {
            sample.put(&client, &format!("{}/after", case.name), 70_000).await.expect("the disk works again");
        }
        drop((open, mount));
        server.kill9();
        check_store(&server);
        server.restart();
        sample.whole(&client).await;
        let mount = Mounted::new(&server, BUCKET, "m");
        let mut seen = Vec::new();
        File::open(&file).and_then(|mut file| file.read_to_end(&mut seen)).expect("read");
        assert!(seen.len() >= 100_000 && seen[..100_000] == [1; 100_000], "{}: the synced content is lost", case.name);
        mount.unmount(&server);
    }
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

/// After a failed write the page cache still has data that the disk never received: a start must read the disk.
#[tokio::test]
async fn a_start_reads_the_log_from_the_disk_and_refuses_lost_writes() {
    need!(loop_devices(Kind::Ext4));
    let mut server = Options::default().image(Kind::Ext4, 96 << 20).start();
    make_bucket(&server, BUCKET, &[]);
    let client = root_client(&server);
    let content: Vec<u8> = (0..750_u32).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
    write(&client, BUCKET, "in the log", &content).await;
    server.kill9();
    let below = server.home().path().join("disk");
    let mut bytes = std::fs::read(&below).expect("the file that the disk is");
    let places = places(&bytes, &content);
    assert!(!places.is_empty(), "it is on disk");
    let disk = File::options().write(true).open(&below).expect("opened");
    for at in places {
        bytes[at] ^= 4;
        disk.write_all_at(&bytes[at..=at], at as u64).expect("written");
    }
    let journal = std::fs::read(newest_journal(&server.home().data_dir())).expect("read");
    let held = !self::places(&journal, &content).is_empty();
    need!(held.then_some(()).ok_or("the kernel dropped the pages from its cache meanwhile"));
    let logged = server.log().len();
    assert!(server.try_restart().is_err(), "{}", server.log());
    assert!(server.log()[logged..].contains("0.jnl"), "{}", server.log());
}

fn places(bytes: &[u8], content: &[u8]) -> Vec<usize> {
    let found = bytes.windows(content.len()).enumerate().filter(|(_, window)| *window == content);
    found.map(|(at, _)| at).collect()
}

/// A server whose calls fail until this value is dropped.
struct Failing(Child);

impl Failing {
    fn begin(strace: &Path, server: &Server, case: &Case, only: Option<&Path>) -> Self {
        let trace = server.home().path().join("strace");
        let Case { calls, error, .. } = case;
        let mut command = Command::new(strace);
        command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={calls}:error={error}")]);
        if let Some(path) = only {
            command.arg("-P").arg(path);
        }
        command.args(["-p", &server.pid().expect("it runs").to_string()]).stdin(Stdio::null());
        command.stderr(File::create(&trace).expect("a file for what strace says"));
        let failing = Self(command.spawn().expect("strace starts"));
        let attached = || std::fs::read_to_string(&trace).is_ok_and(|text| text.contains("attached")).then_some(());
        wait_until(LIMIT, attached).expect("strace reaches the server");
        failing
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        // On SIGTERM, strace detaches from the server; it may also have ended with the server.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let ended = wait_until(LIMIT, || self.0.try_wait().ok().flatten());
        if ended.is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn newest_journal(data: &Path) -> PathBuf {
    let entries = std::fs::read_dir(data.join("meta")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let journals = entries.filter(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    let number = |path: &PathBuf| path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
    journals.max_by_key(number).expect("a journal")
}
