//! The shipped backend over logs in memory: conformance, recovery, takeovers, refusals.

mod schedules;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;

use objstore_log::memory::Memory;
use objstore_log::{Claim, LogId};
use tempfile::TempDir;

use super::*;
use crate::backend::encode_batch;
use crate::conformance::{Fixture, suite};
use crate::engine::Durability::{Buffered, Synced};
use crate::fjall_engine;
use crate::handle::Meta;
use crate::memory::Map;
use crate::writer::Writer;

/// A copy in memory that outlives its process.
#[derive(Clone, Default)]
struct Disk(Arc<Map>);

impl Backend for Disk {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.snapshot()
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<()> {
        assert_eq!(durability, Buffered, "the log is what is durable");
        self.0.commit(changes, durability)
    }

    fn sync(&self) -> Result<()> {
        unreachable!("the copy is never synced")
    }
}

fn place(log: &Arc<Memory>, server: &str) -> Place {
    let claim = Claim { server: server.to_owned(), lease: Duration::from_secs(60) };
    Place { lease: Lease::Untended, ..Place::new(log.clone(), claim, Arc::new(|_| {})) }
}

/// Opens the copy on `disk`, or a new one.
fn open(log: &Arc<Memory>, server: &str, disk: &mut Disk) -> Result<Shipped<Disk>> {
    owned(follower(log, server, disk)?)
}

fn follower(log: &Arc<Memory>, server: &str, disk: &Disk) -> Result<Follower<Disk>> {
    let disk = disk.clone();
    let local = move |start| {
        if start == Start::Empty {
            disk.0.clear();
        }
        Ok(disk.clone())
    };
    Follower::open(local, place(log, server))
}

fn owned(mut follower: Follower<Disk>) -> Result<Shipped<Disk>> {
    match follower.claim()? {
        Claimed::Owner => follower.into_owner(),
        Claimed::Held { server, .. } => Err(Error::Busy { what: format!("{server} owns the log, which") }),
    }
}

fn batch(number: u64, pairs: &[(&str, &str)]) -> Changes {
    let own = (Bytes::from_static(BATCH_KEY), Some(encode_batch(number)));
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let pairs = pairs.iter().map(|(key, value)| (bytes(key), Some(bytes(value))));
    pairs.chain([own]).collect()
}

fn content(backend: &impl Backend) -> BTreeMap<String, String> {
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let pairs = backend.snapshot().scan(b"", b"\xff", usize::MAX).unwrap();
    pairs.into_iter().map(|pair| (text(pair.key), text(pair.value))).collect()
}

/// Ends a process without a word to the log.
fn kill(shipped: Shipped<Disk>) {
    std::mem::forget(shipped);
}

fn fixture() -> Fixture {
    let log = Arc::new(Memory::new());
    let shipped = open(&log, "a", &mut Disk::default()).unwrap();
    Fixture { meta: Meta::new(Arc::new(Writer::start(shipped).unwrap())), folder: None }
}

suite!(fixture);

#[test]
fn a_lost_copy_is_read_from_the_log_and_an_old_one_is_brought_up_to_date() {
    let log = Arc::new(Memory::new());
    let mut disk = Disk::default();
    let shipped = open(&log, "a", &mut disk).unwrap();
    shipped.commit(batch(1, &[("a", "1"), ("b", "1")]), Synced).unwrap();
    let mut old = Disk(Arc::new(disk.0.copy()));
    shipped.commit(batch(2, &[("a", "2")]), Buffered).unwrap();
    let mut deletion = batch(3, &[]);
    deletion.insert(Bytes::from_static(b"b"), None);
    shipped.commit(deletion, Synced).unwrap();
    let expected = content(&shipped);
    assert_eq!(expected, BTreeMap::from([("a".to_owned(), "2".to_owned())]));
    drop(shipped);
    for disk in [&mut Disk::default(), &mut old, &mut disk] {
        let shipped = open(&log, "another", disk).unwrap();
        assert_eq!(content(&shipped), expected);
    }
}

#[test]
fn what_was_buffered_survives_the_process_and_is_appended_later() {
    let log = Arc::new(Memory::new());
    let mut disk = Disk::default();
    let shipped = open(&log, "a", &mut disk).unwrap();
    shipped.commit(batch(1, &[("a", "1")]), Buffered).unwrap();
    // Another fence ends the epoch, so the next append is refused after the copy has the batch.
    log.fence(&place(&log, "a").claim).unwrap();
    assert!(matches!(shipped.commit(batch(2, &[("a", "2")]), Buffered), Err(Error::Unusable { .. }) | Ok(())));
    assert!(shipped.sync().is_err() && matches!(shipped.room(), Err(Error::Poisoned { .. })));
    kill(shipped);
    let shipped = open(&log, "a", &mut disk).unwrap();
    assert_eq!(content(&shipped)["a"], "2");
    assert_eq!(log.tail().unwrap().next, 3);
    drop(shipped);
    let elsewhere = open(&log, "b", &mut Disk::default()).unwrap();
    assert_eq!(content(&elsewhere)["a"], "2");
}

#[test]
fn a_zombies_synced_commit_fails_and_its_copy_is_made_again() {
    let log = Arc::new(Memory::new());
    let (mut disk, mut other) = (Disk::default(), Disk::default());
    let zombie = open(&log, "a", &mut disk).unwrap();
    zombie.commit(batch(1, &[("a", "1")]), Synced).unwrap();
    assert!(open(&log, "b", &mut other).is_err(), "the lease lasts");
    log.pass(Duration::from_secs(61));
    let owner = open(&log, "b", &mut other).unwrap();
    owner.commit(batch(2, &[("a", "of b")]), Synced).unwrap();
    drop(zombie.commit(batch(2, &[("a", "of the zombie")]), Buffered));
    assert!(zombie.commit(batch(3, &[("a", "of the zombie")]), Synced).is_err());
    assert_eq!(content(&zombie)["a"], "of the zombie", "only its buffered batch is visible there");
    drop((zombie, owner));
    let again = open(&log, "a", &mut disk).unwrap();
    assert_eq!(content(&again)["a"], "of b");
}

#[test]
fn copies_that_do_not_belong_to_the_log_are_refused_and_kept() {
    let log = Arc::new(Memory::new());
    let mut disk = Disk::default();
    drop(open(&log, "a", &mut disk).map(|shipped| shipped.commit(batch(1, &[("a", "1")]), Synced)).unwrap());
    let stranger = Arc::new(Memory::with(LogId([9; 16]), objstore_log::memory::Faults::none()));
    let older = Arc::new(Memory::new());
    let unshipped = Disk::default();
    unshipped.0.commit(batch(1, &[("a", "1")]), Buffered).unwrap();
    let kept = content(&disk);
    for (log, mut disk, why) in [
        (&stranger, disk.clone(), "is a copy of the log"),
        (&older, disk, "the log has lost entries"),
        (&log, unshipped, "without a log"),
    ] {
        let refused = open(log, "a", &mut disk).err().expect(why).to_string();
        assert!(refused.contains(why), "{refused}");
        assert_eq!(content(&disk), kept);
    }
}

#[test]
fn an_old_copy_of_a_trimmed_log_is_refused() {
    let log = Arc::new(Memory::new());
    let mut disk = Disk::default();
    let shipped = open(&log, "a", &mut disk).unwrap();
    let mut copies = vec![Disk::default()];
    for number in 1..=5 {
        shipped.commit(batch(number, &[("a", "1")]), Synced).unwrap();
        copies.push(Disk(Arc::new(disk.0.copy())));
    }
    log.trim(1, 4).unwrap();
    drop(shipped);
    for (last, mut copy) in copies.into_iter().enumerate() {
        let opened = open(&log, "a", &mut copy);
        assert_eq!(opened.is_ok(), last >= 3, "a copy up to {last}: {:?}", opened.err());
    }
}

#[test]
fn a_standby_follows_the_log_and_continues_it_when_the_owner_is_gone() {
    let log = Arc::new(Memory::new());
    let (mut disk, own) = (Disk::default(), Disk::default());
    let owner = open(&log, "a", &mut disk).unwrap();
    let mut standby = follower(&log, "b", &own).unwrap();
    assert_eq!(standby.follow().unwrap(), Followed { at: 0, entries: 0 });
    for number in 1..=3 {
        owner.commit(batch(number, &[("a", &number.to_string())]), Synced).unwrap();
        assert_eq!(standby.follow().unwrap(), Followed { at: number, entries: 1 });
        assert_eq!(content(&own)["a"], number.to_string());
        assert!(matches!(standby.claim().unwrap(), Claimed::Held { server, .. } if server == "a"));
    }
    owner.commit(batch(4, &[("a", "last")]), Buffered).unwrap();
    owner.release();
    assert_eq!(standby.claim().unwrap(), Claimed::Owner);
    assert!(owner.commit(batch(5, &[("a", "late")]), Synced).is_err());
    let next = standby.into_owner().unwrap();
    assert_eq!(content(&next)["a"], "last", "it is released with everything appended");
    next.commit(batch(5, &[("b", "1")]), Synced).unwrap();
    // The former owner becomes the standby, and its copy with the late batch continues as the log does.
    drop(owner);
    let mut former = follower(&log, "a", &disk).unwrap();
    while former.follow().unwrap().entries > 0 {}
    assert_eq!(content(&disk), content(&next));
}

#[test]
fn a_standby_that_followed_what_the_log_lost_is_made_again() {
    let log = Arc::new(Memory::new());
    let own = Disk::default();
    let owner = open(&log, "a", &mut Disk::default()).unwrap();
    owner.commit(batch(1, &[("a", "1")]), Synced).unwrap();
    let mut standby = follower(&log, "b", &own).unwrap();
    standby.follow().unwrap();
    // What the standby saw is gone, as after a failover to a server that never had it.
    own.commit(Changes::from([(Bytes::from_static(b"\0log"), Some(position::tests::record(&log, 1, 9)))]), Buffered)
        .unwrap();
    let mut standby_again = follower(&log, "b", &own).unwrap();
    drop(standby);
    owner.commit(batch(2, &[("a", "2")]), Synced).unwrap();
    while standby_again.follow().unwrap().entries > 0 {}
    assert_eq!(content(&own)["a"], "2");
}

#[test]
fn an_owner_without_its_lease_refuses_reads_and_writes_and_says_so_once() {
    let log = Arc::new(Memory::new());
    let disk = Disk::default();
    let (sender, lost) = mpsc::channel();
    let claim = Claim { server: "a".to_owned(), lease: Duration::from_millis(900) };
    let report: Lost = Arc::new(move |why| sender.send(why.to_owned()).unwrap());
    let copy = disk.clone();
    let mut follower = Follower::open(move |_| Ok(copy.clone()), Place::new(log.clone(), claim, report)).unwrap();
    assert_eq!(follower.claim().unwrap(), Claimed::Owner);
    let owner = follower.into_owner().unwrap();
    owner.commit(batch(1, &[("a", "1")]), Synced).unwrap();
    let snapshot = owner.snapshot();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(snapshot.get(b"a").unwrap().as_deref(), Some(&b"1"[..]), "it is renewed");
    log.interrupt(true);
    let why = lost.recv().unwrap();
    assert!(why.contains("could not be renewed"), "{why}");
    for read in [snapshot.get(b"a"), owner.snapshot().get(b"a"), snapshot.scan(b"a", b"b", 1).map(|_| None)] {
        assert!(matches!(read, Err(Error::Busy { .. })), "{read:?}");
    }
    assert!(owner.room().is_err() && owner.commit(batch(2, &[("a", "2")]), Synced).is_err());
    log.interrupt(false);
    drop(owner);
    assert!(lost.try_recv().is_err(), "the loss is reported once");
}

#[test]
fn answers_are_withheld_once_the_log_is_lost() {
    let log = Arc::new(Memory::new());
    let withheld = Duration::from_millis(300);
    let (disk, place) = (Disk::default(), Place { withheld, ..place(&log, "a") });
    let mut follower = Follower::open(move |_| Ok(disk.clone()), place.clone()).unwrap();
    assert_eq!(follower.claim().unwrap(), Claimed::Owner);
    let owner = follower.into_owner().unwrap();
    owner.commit(batch(1, &[("a", "1")]), Synced).unwrap();
    log.fence(&place.claim).unwrap();
    let refused_late = |call: &dyn Fn() -> Result<()>| {
        let begun = std::time::Instant::now();
        assert!(call().is_err() && begun.elapsed() >= withheld);
    };
    refused_late(&|| owner.commit(batch(2, &[]), Synced));
    refused_late(&|| owner.room());
    owner.sync().unwrap_or_else(|error| panic!("what was acknowledged before is in the log: {error}"));
    // A planned end withholds nothing.
    owner.release();
    let begun = std::time::Instant::now();
    assert!(owner.room().is_err() && begun.elapsed() < withheld);
}

#[test]
fn a_log_that_is_behind_refuses_operations_before_they_are_queued() {
    let log = Arc::new(Memory::new());
    let shipped = open(&log, "a", &mut Disk::default()).unwrap();
    shipped.accepts().unwrap();
    log.interrupt(true);
    shipped.commit(batch(1, &[("a", "1")]), Buffered).unwrap();
    std::thread::sleep(LAG_MAX + Duration::from_millis(50));
    assert!(matches!(shipped.accepts(), Err(Error::Busy { .. })));
    log.interrupt(false);
    shipped.sync().unwrap();
    shipped.accepts().unwrap();
}

#[test]
fn a_store_whose_folder_was_deleted_comes_back_from_the_log() {
    let folder = TempDir::new().unwrap();
    let log = Arc::new(Memory::new());
    let claim = Claim { server: "a".to_owned(), lease: Duration::from_secs(60) };
    let place = Place::new(log, claim, Arc::new(|why| panic!("{why}")));
    let open = |path: &Path| {
        std::fs::create_dir_all(path).unwrap();
        let options = fjall_engine::Options::default();
        let mut standby = fjall_engine::Standby::open(path, options, place.clone()).unwrap();
        while standby.follow().unwrap().entries > 0 {}
        assert_eq!(standby.claim().unwrap(), Claimed::Owner);
        Meta::new(standby.into_engine().unwrap())
    };
    let path = folder.path().join("meta");
    let mut expected = 0;
    for round in 0..3_u32 {
        let meta = open(&path);
        let pairs = meta.snapshot().scan(b"k", b"l", usize::MAX).unwrap();
        assert_eq!(pairs.len(), expected);
        for number in 0..200_u32 {
            let durability = if number % 3 == 0 { Synced } else { Buffered };
            let write = meta.write(durability, move |txn| {
                txn.put([&b"k"[..], &(round * 1000 + number).to_be_bytes()].concat(), vec![7; 300]);
                Ok(())
            });
            write.wait().unwrap();
        }
        meta.sync_here().unwrap();
        meta.close();
        drop(meta);
        expected += 200;
        match round {
            0 => std::fs::remove_dir_all(&path).unwrap(),
            // A damaged copy is no worse than none.
            1 => std::fs::write(path.join("0.jnl"), vec![1; 5000]).unwrap(),
            _ => {}
        }
    }
    assert_eq!(open(&path).snapshot().scan(b"k", b"l", usize::MAX).unwrap().len(), expected);
    let refused = fjall_engine::open(&path, fjall_engine::Options::default()).err().expect("it is a copy");
    assert!(refused.to_string().contains("--metadata-url"), "{refused}");
}
