//! A mount that has its bucket alone answers changes ahead of the store: a program that makes files one after the other sees no
//! error over any fault, S3 sees each file as it was when its close returned, and at the end everything is there.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_s3::operation::get_object::GetObjectError;

use super::faults::Fault;
use super::{BUCKET, Remote};
use crate::support::access::root_client;
use crate::support::cli::{check_store, cli};
use crate::support::*;

/// Files whose calls have all been answered, by key.
type Files = Mutex<BTreeMap<String, Vec<u8>>>;

/// How many files a directory gets.
const FILES: usize = 40;

/// Makes files, and now and then renames, removes or syncs one; how many it made.
#[expect(clippy::disallowed_methods, reason = "what a program does on a mount")]
fn make(dir: &Path, files: &Files, going: &AtomicBool, rng: &mut Rng) -> usize {
    for number in 0.. {
        if !going.load(Ordering::SeqCst) {
            return number;
        }
        let folder = format!("d{}", number / FILES);
        if number % FILES == 0 {
            std::fs::create_dir(dir.join(&folder)).expect("a directory is made");
        }
        let key = format!("{folder}/f{number}");
        let content = vec![number as u8; 1 + rng.below(12_000)];
        let mut file = std::fs::File::create_new(dir.join(&key)).expect("a file is made");
        let (first, second) = content.split_at(rng.below(content.len()));
        file.write_all(first).and_then(|()| file.write_all(second)).expect("written");
        if rng.below(3) == 0 {
            file.set_modified(UNIX_EPOCH + Duration::from_secs(number as u64)).expect("its time is set");
        }
        if rng.below(12) == 0 {
            file.sync_all().expect("synced");
        }
        assert_eq!(file.metadata().expect("its attributes").len(), content.len() as u64);
        drop(file);
        let mut files = files.lock().expect("no thread panics while it holds the lock");
        files.insert(key.clone(), content);
        let other = files.keys().nth(rng.below(files.len())).cloned().expect("one of them");
        match rng.below(20) {
            0 => {
                let new = format!("{folder}/r{number}");
                std::fs::rename(dir.join(&other), dir.join(&new)).expect("renamed");
                let content = files.remove(&other).expect("it is known");
                files.insert(new, content);
            }
            1 => {
                std::fs::remove_file(dir.join(&other)).expect("removed");
                files.remove(&other);
            }
            2 => assert_eq!(&std::fs::read(dir.join(&other)).expect("read"), &files[&other]),
            _ => {}
        }
    }
    0
}

/// Reads one file after the other through S3; how many.
fn look(s3: &aws_sdk_s3::Client, files: &Files, going: &AtomicBool, rng: &mut Rng) -> usize {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut seen = 0;
    while going.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(50 + rng.below(900) as u64));
        let files = files.lock().expect("no thread panics while it holds the lock");
        let Some((key, content)) = files.iter().nth(rng.below(files.len().max(1))) else { continue };
        // The server may be away.
        if let Some(found) = runtime.block_on(get(s3, key)) {
            assert!(&found == content, "{key} has {} bytes, and should have {}", found.len(), content.len());
            seen += 1;
        }
    }
    seen
}

async fn get(s3: &aws_sdk_s3::Client, key: &str) -> Option<Vec<u8>> {
    match s3.get_object().bucket(BUCKET).key(key).send().await {
        Ok(object) => Some(object.body.collect().await.ok()?.into_bytes().to_vec()),
        Err(error) => {
            assert!(!error.as_service_error().is_some_and(GetObjectError::is_no_such_key), "{key} is not there");
            None
        }
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn what_a_mount_alone_has_answered_is_seen_by_s3_and_outlives_every_fault() {
    need!(root_and_fuse());
    let mut rng = Rng::new("network::what_a_mount_alone_has_answered_is_seen_by_s3_and_outlives_every_fault");
    let mut server = Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    make_bucket(&server, BUCKET, &[]);
    let mounts = [Remote::new(&server, "alone")];
    let (files, going) = (Files::default(), AtomicBool::new(true));
    let s3 = root_client(&server);
    let mut seeds = [Rng::new("network::ahead::make"), Rng::new("network::ahead::look")];
    let [making, looking] = &mut seeds;
    let (made, seen) = std::thread::scope(|threads| {
        let running = (
            threads.spawn(|| make(&mounts[0].dir, &files, &going, making)),
            threads.spawn(|| look(&s3, &files, &going, looking)),
        );
        for number in 0..amount(8, 200) {
            let fault = Fault::any(&mut rng);
            fault.happens(&mut server, &mounts[0], &mounts, &mut rng);
            std::thread::sleep(Duration::from_millis(1500));
            println!("{number}: {fault:?}");
            if running.0.is_finished() || running.1.is_finished() {
                break;
            }
        }
        going.store(false, Ordering::SeqCst);
        (running.0.join().expect("no call fails"), running.1.join().expect("S3 sees what was answered"))
    });
    println!("{made} files made, {seen} looked at");
    assert!(made > 50, "{made}");
    let stats = cli(&server, &["mount", "stats", &mounts[0].dir.display().to_string()]).ok();
    println!("{stats}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for (key, content) in files.lock().expect("no thread has it").iter() {
        let found = runtime.block_on(get(&s3, key)).expect("the server is there");
        assert!(&found == content, "{key} has {} bytes, and should have {}", found.len(), content.len());
        assert_eq!(&std::fs::read(mounts[0].dir.join(key)).expect("read"), content);
    }
    mounts.iter().for_each(|mount| mount.unmount(&server));
    drop(mounts);
    server.terminate();
    check_store(&server);
}
