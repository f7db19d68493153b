//! The simulated disk: a test disk in memory that keeps only what was synced.
//!
//! - Processes read what they wrote. A power cut ([`SimulatedDisk::after_power_cut`]) leaves everything synced, and of
//!   the rest any part that a real disk could leave: see [`crash`]. A killed process ([`SimulatedDisk::after_kill`])
//!   loses nothing that it wrote, and none of that is synced.
//! - The process dies at a chosen call ([`SimulatedDisk::dies_at`]): that call is done, half done or not done, and all
//!   later ones fail.
//! - Random choices follow from a seed, so a crash can be repeated.

mod crash;
mod file;
mod image;
#[cfg(test)]
mod tests;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use objstore_base::clock::Clock;
use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, File, Lock, Space};
use parking_lot::Mutex;

use self::file::SimulatedFile;
use self::world::{Node, World, missing, split, text};
use crate::random::Choices;

pub use self::world::{Amount, Death, FalseSyncs};

/// The simulated disk as one process sees it; clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    world: Arc<Mutex<World>>,
    clock: Arc<dyn Clock>,
}

impl SimulatedDisk {
    /// An empty simulated disk.
    pub fn new(clock: Arc<dyn Clock>, lies: FalseSyncs, reflinks: bool) -> Self {
        Self::of(World::new(lies, reflinks), clock)
    }

    fn of(world: World, clock: Arc<dyn Clock>) -> Self {
        Self { world: Arc::new(Mutex::new(world)), clock }
    }

    /// Makes the process die at a call, counted from now.
    pub fn dies_at(&self, death: Option<Death>) {
        let mut world = self.world.lock();
        world.death = death.map(|death| Death { call: death.call + world.calls, ..death });
    }

    /// Makes the process die now.
    pub fn dies(&self) {
        self.world.lock().dead = true;
    }

    /// Whether the process is dead.
    pub fn is_dead(&self) -> bool {
        self.world.lock().dead
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.world.lock().calls
    }

    /// A checksum over all calls so far.
    pub fn trace(&self) -> u64 {
        self.world.lock().trace
    }

    /// A disk with the same content, synced and unsynced, for the process that follows a killed one.
    pub fn after_kill(&self) -> Self {
        Self::of(self.world.lock().after_kill(), self.clock.clone())
    }

    /// A disk with what a power cut leaves of this one.
    pub fn after_power_cut(&self, choices: &mut Choices) -> Self {
        Self::of(self.world.lock().after_power_cut(choices), self.clock.clone())
    }

    /// A disk with the same content for another process, with its own clock and faults.
    pub fn given(&self, clock: Arc<dyn Clock>, lies: FalseSyncs, reflinks: bool) -> Self {
        let world = World { lies, reflinks, ..self.world.lock().after_kill() };
        Self::of(world, clock)
    }

    /// Performs a call, or the part of it that is done before the process dies.
    fn act<T>(&self, what: &[u8], number: u64, act: impl FnOnce(&mut World) -> Result<T>) -> Result<T> {
        let mut world = self.world.lock();
        let done = match world.count(what, number)? {
            Amount::All => act(&mut world),
            Amount::None | Amount::Some => Err(world::gone()),
        };
        world.alive().and(done)
    }

    fn look<T>(&self, look: impl FnOnce(&World) -> Result<T>) -> Result<T> {
        let world = self.world.lock();
        world.alive()?;
        look(&world)
    }

    fn handle(&self, inode: u64) -> Arc<dyn File> {
        Arc::new(SimulatedFile { disk: self.clone(), inode })
    }

    fn make(&self, path: &Path) -> Result<u64> {
        let now = self.clock.now();
        self.act(b"create", sum(path), |world| {
            if world.node(path).is_some() {
                let taken = std::io::Error::from_raw_os_error(libc::EEXIST);
                return Err(Error::io(format!("creating {}", path.display()), taken));
            }
            let inode = world.add_inode(now);
            world.set(path, Some(Node::File(inode)))?;
            Ok(inode)
        })
    }
}

/// A checksum that tells paths apart in the trace.
fn sum(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.handle(self.make(path)?))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        self.look(|world| match world.node(path) {
            Some(Node::File(inode)) => Ok(self.handle(inode)),
            _ => Err(missing(path)),
        })
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.look(|world| Ok(world.node(path).is_some()))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        if self.exists(path)? {
            self.act(b"remove", sum(path), |world| world.set(path, None))?;
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.look(|world| {
            let folder = world.folders.get(text(dir)).filter(|_| world.node(dir) == Some(Node::Folder));
            Ok(folder.ok_or_else(|| missing(dir))?.names.keys().cloned().collect())
        })
    }

    fn make_dir(&self, dir: &Path) -> Result<()> {
        if self.exists(dir)? {
            return Ok(());
        }
        self.act(b"make_dir", sum(dir), |world| world.set(dir, Some(Node::Folder)))
    }

    fn make_dir_all(&self, dir: &Path) -> Result<()> {
        if self.exists(dir)? {
            return Ok(());
        }
        let (parent, _) = split(dir);
        self.make_dir_all(parent)?;
        self.make_dir(dir)?;
        self.sync_dir(parent)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.act(b"sync_dir", sum(dir), |world| world.sync_folder(dir))
    }

    fn machine(&self) -> Result<u64> {
        self.look(|world| Ok(world.machine))
    }

    fn sync_everything(&self, _dir: &Path) -> Result<()> {
        self.act(b"sync_everything", 0, |world| {
            world.sync_all();
            Ok(())
        })
    }

    fn read_all(&self, path: &Path) -> Result<Vec<u8>> {
        self.look(|world| match world.node(path) {
            Some(Node::File(inode)) => Ok(world.inodes[&inode].now.to_vec()),
            _ => Err(missing(path)),
        })
    }

    fn write_atomic(&self, path: &Path, content: &[u8], _mode: u32) -> Result<()> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".tmp");
        let draft = PathBuf::from(draft);
        self.remove(&draft)?;
        let inode = self.make(&draft)?;
        let file = self.handle(inode);
        file.write_at(content, 0)?;
        file.sync_with_time()?;
        self.act(b"rename", sum(path), |world| {
            world.set(&draft, None)?;
            world.set(path, Some(Node::File(inode)))
        })?;
        self.sync_dir(split(path).0)
    }

    fn space(&self, _dir: &Path) -> Result<Space> {
        Ok(Space { total_bytes: 1 << 40, free_bytes: 1 << 39 })
    }

    fn lock(&self, path: &Path) -> Result<Lock> {
        let mut world = self.world.lock();
        world.alive()?;
        if !world.locks.insert(path.to_owned()) {
            return Err(Error::Unusable { why: "another server runs on the folder".into() });
        }
        Ok(Lock::new(Held { world: self.world.clone(), path: path.to_owned() }))
    }
}

/// A held lock.
struct Held {
    world: Arc<Mutex<World>>,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.world.lock().locks.remove(&self.path);
    }
}
