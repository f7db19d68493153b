//! Random schedules: servers that share a log, which loses, delays and reorders; compared with a plain map.
//!
//! - Each batch writes its own name, so that a state tells which batches made it: the name leads to the batch before,
//!   and to the whole content that it has to have.
//! - A schedule follows from its seed. `AMPHORA_SEED` runs one, `AMPHORA_SCHEDULES` another number of them.

#![expect(clippy::print_stdout, reason = "the harness shows it with the failure")]

use objstore_log::memory::Faults;
use objstore_testing::random::{Choices, given, usual_seed};

use super::*;

/// The key under which each batch writes its name.
const NAME: &str = "name";

/// A schedule beyond the usual ones, in which a zombie writes after the failed opening of another server.
const FOUND_ONCE: u64 = 120_006_105;

type Name = usize;

/// What a batch leads to.
#[derive(Clone, Default)]
struct Made {
    before: Name,
    content: BTreeMap<String, String>,
}

#[derive(Default)]
struct Server {
    name: String,
    disk: Disk,
    /// Earlier states of the disk, which a power cut may leave.
    older: Vec<Disk>,
    running: Option<Running>,
    /// The copy of a server that follows the log and does not own it.
    standby: Option<Follower<Disk>>,
    /// The last batch that the disk has, if no other server has owned the log since.
    kept: Option<Name>,
}

struct Running {
    shipped: Shipped<Disk>,
    number: u64,
    last: Name,
    failed: bool,
}

struct World {
    log: Arc<Memory>,
    servers: Vec<Server>,
    made: Vec<Made>,
    /// The last batch that was acknowledged as synced.
    acknowledged: Name,
    owner: usize,
    choices: Choices,
    opened: usize,
    lost: usize,
}

#[test]
fn servers_with_a_lossy_log_keep_what_they_acknowledged() {
    let (first, count) = match given("AMPHORA_SEED") {
        Some(seed) => (seed, 1),
        None => (usual_seed(), given("AMPHORA_SCHEDULES").unwrap_or(2000)),
    };
    let (mut opened, mut lost) = (0, 0);
    let found_once = (count > 1).then_some(FOUND_ONCE);
    for seed in (first..first + count).chain(found_once) {
        let ran = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..120).for_each(|_| world.step());
            (world.opened, world.lost)
        });
        let (more, others) = ran.unwrap_or_else(|panic| {
            println!("replay with AMPHORA_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        (opened, lost) = (opened + more, lost + others);
    }
    println!("{count} schedules opened {opened} times, and lost what was only buffered {lost} times");
    assert!(count == 1 || opened as u64 > count * 3, "too few were opened");
}

impl World {
    fn new(seed: u64) -> Self {
        let mut faults = Choices::with(seed ^ 0x5555);
        let one_in = [0, 4, 12][faults.below(3)];
        let log = Memory::with(LogId([1; 16]), Faults::chosen(move |end| faults.below(end), one_in));
        let servers = ["a", "b", "c"].map(|name| Server { name: name.to_owned(), ..Server::default() });
        Self {
            log: Arc::new(log),
            servers: servers.into(),
            made: vec![Made::default()],
            acknowledged: 0,
            owner: 0,
            choices: Choices::with(seed),
            opened: 0,
            lost: 0,
        }
    }

    fn step(&mut self) {
        let server = self.choices.below(self.servers.len());
        match self.choices.below(20) {
            0..=11 if self.servers[server].running.is_some() => self.write(server),
            12..=13 if self.servers[server].running.is_some() => self.sync(server),
            14 => self.end(server, End::Kill),
            15 => self.end(server, End::PowerCut),
            16 => self.end(server, End::Fire),
            17 => self.end(server, End::Close),
            _ => {
                if self.choices.once_in(2) {
                    self.log.pass(Duration::from_secs(61));
                }
                self.open(server);
            }
        }
    }

    fn follows(&self, batch: Name, before: Name) -> bool {
        let mut at = batch;
        while at > before {
            at = self.made[at].before;
        }
        at == before
    }

    fn open(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if server.running.is_some() {
            return;
        }
        let standby = match server.standby.take() {
            Some(standby) => Ok(standby),
            None => follower(&self.log, &server.name, &server.disk),
        };
        let Ok(mut standby) = standby else { return };
        for _ in 0..self.choices.below(3) {
            // What the log has lost is found by the claim.
            drop(standby.follow());
        }
        if self.choices.once_in(4) {
            server.standby = Some(standby);
            return;
        }
        let opened = owned(standby);
        if !opened.as_ref().is_err_and(|error| error.to_string().contains("owns the log")) {
            // Also a failed opening ends the ownership of the other servers, and may have appended: a server that runs is
            // a zombie from now on, and what it buffers is no longer kept.
            self.owner = usize::MAX;
            let others = self.servers.iter_mut().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, other)| other.kept = None);
        }
        let Ok(shipped) = opened else { return };
        self.opened += 1;
        let found = content(&shipped);
        let last = found.get(NAME).map_or(0, |name| name.parse().unwrap());
        assert_eq!(found, self.made[last].content, "the content is that of its last batch");
        assert!(
            self.follows(last, self.acknowledged),
            "batch {} was acknowledged, {last} was found",
            self.acknowledged
        );
        let number = decode_batch(shipped.snapshot().get(BATCH_KEY).unwrap().as_deref()).unwrap();
        if let Some(kept) = self.servers[at].kept {
            assert!(self.follows(last, kept), "batch {kept} was on this server's disk, {last} was found");
        }
        self.lost += usize::from(last < self.made.len() - 1);
        // What the next owner has read is the log's: it must not be lost later.
        self.acknowledged = last;
        self.owner = at;
        self.servers[at].kept = Some(last);
        self.servers[at].running = Some(Running { shipped, number, last, failed: false });
    }

    fn write(&mut self, at: usize) {
        let (name, durability) = (self.made.len(), *self.choices.of(&[Synced, Buffered, Buffered]));
        let keys: Vec<_> = (0..1 + self.choices.below(3)).map(|_| format!("key {}", self.choices.below(6))).collect();
        let deletes = self.choices.once_in(4);
        let server = &mut self.servers[at];
        let Some(running) = server.running.as_mut().filter(|running| !running.failed) else { return };
        let mut content = self.made[running.last].content.clone();
        let mut changes = batch(running.number + 1, &[(NAME, &name.to_string())]);
        content.insert(NAME.to_owned(), name.to_string());
        for key in keys {
            let value = (!deletes).then(|| Bytes::from(name.to_string()));
            if deletes {
                content.remove(&key)
            } else {
                content.insert(key.clone(), name.to_string())
            };
            changes.insert(Bytes::from(key), value);
        }
        self.made.push(Made { before: running.last, content });
        server.older.push(Disk(Arc::new(server.disk.0.copy())));
        if running.shipped.room().is_err() || running.shipped.commit(changes, durability).is_err() {
            running.failed = true;
            return;
        }
        (running.last, running.number) = (name, running.number + 1);
        if at == self.owner {
            server.kept = Some(name);
        }
        if durability == Synced {
            assert_eq!(at, self.owner, "a zombie's commit was acknowledged");
            self.acknowledged = name;
        }
    }

    fn sync(&mut self, at: usize) {
        let Some(running) = self.servers[at].running.as_mut().filter(|running| !running.failed) else { return };
        let last = running.last;
        if running.shipped.sync().is_err() {
            running.failed = true;
        } else if at == self.owner {
            assert!(self.follows(last, self.acknowledged));
            self.acknowledged = last;
        } else {
            assert!(self.follows(self.acknowledged, last), "a zombie's sync acknowledged what the log lacks");
        }
    }

    fn end(&mut self, at: usize, end: End) {
        let server = &mut self.servers[at];
        let stood_by = server.standby.take().is_some();
        let shipped = server.running.take().map(|running| running.shipped);
        if shipped.is_none() && !stood_by {
            return;
        }
        match end {
            End::Close => drop(shipped),
            End::Kill => shipped.into_iter().for_each(kill),
            End::PowerCut => {
                shipped.into_iter().for_each(kill);
                let back = self.choices.below(server.older.len().min(6) + 1);
                let left = server.older.len() - back;
                if back > 0 {
                    server.disk = server.older[left].clone();
                }
                server.kept = None;
            }
            End::Fire => {
                shipped.into_iter().for_each(kill);
                (server.disk, server.kept) = (Disk::default(), None);
            }
        }
        server.older.clear();
    }
}

#[derive(Clone, Copy)]
enum End {
    /// The process is closed.
    Close,
    /// The process dies.
    Kill,
    /// The machine loses what was not synced.
    PowerCut,
    /// The machine is lost.
    Fire,
}
