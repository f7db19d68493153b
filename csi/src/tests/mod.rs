//! The CSI services on a real store, with simulated mounts.

mod block;
mod controller;
mod group;
mod inline;
mod metadata;
mod modify;
mod mount_group;
mod node;
mod recovery;
mod remote;
mod rules;
mod selinux;
mod single_writer;
mod template;
mod topology;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use objstore::clock::{Scripted, SystemClock};
use objstore::disk::{MountEntry, RealDisk};
use objstore::name::BucketName;
use objstore::store::{Mode, Options};
use objstore::{Error, Store};
use parking_lot::Mutex;
use proto::csi::v1::controller_server::Controller as _;
use proto::csi::v1::group_controller_server::GroupController as _;
use proto::csi::v1::volume_capability::access_mode;
use proto::csi::v1::*;
use tonic::{Code, Request, Status};

use crate::bind::{BindFlags, Binder};
use crate::node::Place;
use crate::{Config, FS_TYPE, MountOptions, MountState, Mounter, Node, Nodes, Topology};

const DRIVER: &str = "csi.amphora.dev";
const NODE: &str = "node-1";
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

/// A machine whose mounts are entries of a table.
#[derive(Default)]
struct Machine {
    mounts: Mutex<BTreeMap<PathBuf, Vec<MountEntry>>>,
    sessions: Mutex<BTreeSet<String>>,
    options: Mutex<BTreeMap<PathBuf, MountOptions>>,
    /// Mount points of the administrator's mounts.
    administrators: Mutex<BTreeSet<PathBuf>>,
    devices: AtomicU64,
    /// Mounting waits while a test holds this lock.
    gate: Mutex<()>,
    /// The attached loop devices by number, and the number of attachments ever made.
    loops: Mutex<block::Loops>,
    /// The size of every disk; 0 stands for 8 MiB.
    disk_bytes: AtomicU64,
    mounts_fail: AtomicBool,
    binds_fail: AtomicBool,
}

impl Machine {
    /// Simulates the death of the process that serves the mounts.
    fn die(&self) {
        self.sessions.lock().clear();
    }

    fn count(&self) -> usize {
        self.mounts.lock().values().map(Vec::len).sum()
    }

    /// Simulates `amphora mount`.
    fn mount_for_administrator(&self, bucket: &str, at: &Path) {
        Mounter::mount(self, &name(bucket), at, &MountOptions::default()).unwrap();
        self.administrators.lock().insert(at.to_owned());
    }

    fn push(&self, at: &Path, mounted: MountEntry) {
        self.mounts.lock().entry(at.to_owned()).or_default().push(mounted);
    }

    fn top(&self, at: &Path) -> Option<MountEntry> {
        self.mounts.lock().get(at).and_then(|stack| stack.last().cloned())
    }

    /// Whether the mount at `at` works, and whether it is read-only.
    fn serves(&self, at: &Path) -> Option<&'static str> {
        let mounted = self.top(at).filter(|mounted| self.sessions.lock().contains(&mounted.device))?;
        Some(if mounted.options.contains(&"ro".to_owned()) { "ro" } else { "rw" })
    }
}

fn switch(read_only: bool) -> Vec<String> {
    vec![if read_only { "ro" } else { "rw" }.to_owned()]
}

impl Mounter for Machine {
    fn mount(&self, bucket: &BucketName, at: &Path, options: &MountOptions) -> objstore::Result<()> {
        if self.mounts_fail.load(Ordering::Relaxed) {
            return Err(Error::io("mounting", io::Error::from_raw_os_error(19)));
        }
        drop(self.gate.lock());
        let device = format!("0:{}", self.devices.fetch_add(1, Ordering::Relaxed));
        self.sessions.lock().insert(device.clone());
        self.options.lock().insert(at.to_owned(), options.clone());
        let options = switch(options.read_only);
        self.push(
            at,
            MountEntry {
                device,
                fs_type: FS_TYPE.into(),
                source: bucket.to_string(),
                options,
                ..MountEntry::default()
            },
        );
        Ok(())
    }

    fn unmount(&self, at: &Path) -> objstore::Result<()> {
        self.mounts.lock().remove(at);
        Ok(())
    }

    fn state(&self, at: &Path) -> objstore::Result<MountState> {
        Ok(match self.top(at) {
            None => MountState::NotMounted,
            Some(mounted) if mounted.fs_type != FS_TYPE || self.is_administrators(at) => MountState::Other,
            Some(mounted) if self.sessions.lock().contains(&mounted.device) => {
                MountState::Ours(mounted.source.parse().unwrap())
            }
            Some(_) => MountState::Stale,
        })
    }

    fn is_administrators(&self, at: &Path) -> bool {
        self.administrators.lock().contains(at) && self.top(at).is_some()
    }
}

impl Binder for Machine {
    fn bind(&self, source: &Path, target: &Path, flags: BindFlags) -> io::Result<()> {
        if self.binds_fail.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(1));
        }
        let below = self.top(source).ok_or_else(|| io::Error::from_raw_os_error(22))?;
        let read_only = flags.read_only || below.options.contains(&"ro".to_owned());
        self.push(target, MountEntry { options: switch(read_only), ..below });
        Ok(())
    }

    fn detach(&self, target: &Path) -> io::Result<()> {
        let mut mounts = self.mounts.lock();
        let stack = mounts.get_mut(target).ok_or_else(|| io::Error::from_raw_os_error(22))?;
        stack.pop();
        if stack.is_empty() {
            mounts.remove(target);
        }
        Ok(())
    }

    fn mounted(&self, path: &Path) -> io::Result<Option<MountEntry>> {
        Ok(self.top(path))
    }
}

struct Fixture {
    dir: tempfile::TempDir,
    store: Store,
    machine: Arc<Machine>,
    controller: crate::controller::Service,
    node: crate::node::Service,
    /// The connection of a node on another machine than its store.
    wire: Option<Arc<remote::Wire>>,
}

/// A node in the process of its store.
async fn fixture() -> Fixture {
    start(Nodes::Own).await
}

async fn start(nodes: Nodes) -> Fixture {
    start_in(nodes, Topology::default()).await
}

/// A driver whose volumes can be used in one place only.
async fn start_in(nodes: Nodes, topology: Topology) -> Fixture {
    start_with(|config| Config { nodes, topology, ..config }).await
}

/// A driver with another configuration than the usual one.
async fn start_with(change: impl FnOnce(Config) -> Config) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(dir.path().join("data"));
    options.clock = Arc::new(SystemClock);
    options.random = Arc::new(Scripted::new(7));
    // Opening waits for the disk, which async workers must not do.
    let store = tokio::task::spawn_blocking(|| objstore::open(options).unwrap()).await.unwrap();
    std::fs::create_dir(dir.path().join("staging")).unwrap();
    let machine = Arc::new(Machine::default());
    let config = change(config(dir.path()));
    let wire = (config.nodes == Nodes::Any).then(|| Arc::new(remote::Wire::new(&store, &machine)));
    let node = match &wire {
        Some(wire) => remote::node(wire, &machine, &config),
        None => node(&store, &machine, &config),
    };
    let controller = crate::controller::Service::new(store.clone(), Arc::new(config));
    Fixture { dir, store, machine, controller, node: crate::node::Service::new(node), wire }
}

fn config(dir: &Path) -> Config {
    Config {
        driver_name: DRIVER.into(),
        vendor_version: "1".into(),
        node_id: NODE.into(),
        nodes: Nodes::Own,
        authority: Some(AUTHORITY.into()),
        max_volumes: 0,
        topology: Topology::default(),
        state_dir: dir.join("node"),
    }
}

fn node(store: &Store, machine: &Arc<Machine>, config: &Config) -> Node {
    Node::with(Place::Store(store.clone()), config.clone(), parts(machine.clone(), machine)).unwrap()
}

/// A machine that mounts through `mounter`.
fn parts(mounter: Arc<dyn Mounter>, machine: &Arc<Machine>) -> crate::node::Machine {
    let disk = Arc::new(RealDisk::new());
    crate::node::Machine { mounter, binder: machine.clone(), devices: machine.clone(), disk }
}

impl Fixture {
    fn path(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    async fn create(&self, name: &str) -> String {
        let request =
            CreateVolumeRequest { name: name.into(), volume_capabilities: vec![writer()], ..Default::default() };
        self.controller.create_volume(Request::new(request)).await.unwrap().into_inner().volume.unwrap().volume_id
    }

    /// A bucket of another owner, and the secret of an account with this grant.
    async fn foreign_bucket(&self, bucket: &str, mode: Option<Mode>) -> HashMap<String, String> {
        self.store.create_account("alice", false).await.unwrap();
        self.store.create_account("bob", false).await.unwrap();
        let request = objstore::store::CreateBucket {
            name: name(bucket),
            owner: "alice".into(),
            quota_bytes: None,
            versioning: objstore::store::Versioning::Disabled,
            source: None,
            attributes: BTreeMap::new(),
            root: objstore::store::RootAttributes::default(),
        };
        self.store.create_bucket(request).await.unwrap();
        self.secret_of_bob(bucket, mode).await
    }

    async fn secret_of_bob(&self, bucket: &str, mode: Option<Mode>) -> HashMap<String, String> {
        self.store.create_account("bob", false).await.unwrap();
        if let Some(mode) = mode {
            self.store.add_grant(&name(bucket), "bob", mode).await.unwrap();
        }
        let key = self.store.ensure_key("bob").await.unwrap();
        HashMap::from([
            ("accessKeyId".to_owned(), key.id),
            ("secretAccessKey".to_owned(), key.secret.reveal().to_owned()),
        ])
    }
}

fn name(name: &str) -> BucketName {
    name.parse().unwrap()
}

fn capability(mode: access_mode::Mode) -> VolumeCapability {
    crate::capability::tests::mount(mode)
}

fn writer() -> VolumeCapability {
    capability(access_mode::Mode::SingleNodeMultiWriter)
}

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}
