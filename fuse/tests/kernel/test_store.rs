//! The test store: a store in a temporary folder, mounts of it, and an S3 writer.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use bytes::Bytes;
use fuse::{Mount, Options};
use node_testing::Loopback;
use objstore::Store;
use objstore::name::{BucketName, Key};
use objstore::store::{self, CreateBucket, DeleteObject, PutObject, RootAttributes, Versioning};
use objstore::volume::VolumeOptions;
use objstore_files::FileSession;
use objstore_files_testing::Encoded;

/// The time limit of a test: some start thousands of programs, on a machine that runs other tests as well.
const LIMIT: Duration = Duration::from_secs(600);

/// A test store with one bucket.
pub struct TestStore {
    store: Store,
    bucket: BucketName,
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
    way: Way,
    /// The listener for nodes.
    loopback: OnceLock<Loopback>,
}

/// How the mounts of a test reach the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By calls of the same process.
    Direct,
    /// By calls that cross the codec of the wire, as on a node; without passthrough.
    Encoded,
    /// By calls over the network, as on another machine.
    Remote,
}

/// Runs `body` with a new test store, within the time limit, if this machine can mount.
pub fn run(body: impl FnOnce(&TestStore) + Send + 'static) {
    run_by(Way::Direct, body);
}

/// Runs `body` for each way to reach a store, each time with a new test store: directly, through the codec of the wire, and
/// over the network.
pub fn run_all(body: impl Fn(&TestStore) + Clone + Send + 'static) {
    run_by(Way::Direct, body.clone());
    run_by(Way::Encoded, body.clone());
    run_by(Way::Remote, body);
}

#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn run_by(way: Way, body: impl FnOnce(&TestStore) + Send + 'static) {
    if let Some(why) = unable() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Some tests act as users other than root.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().to_owned();
    let (done, finished) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let test = TestStore::new(&path, way);
        println!("mounts reach the store: {way:?}");
        body(&test);
        test.store.close();
        let _ = done.send(());
    });
    let outcome = finished.recv_timeout(LIMIT);
    detach_all(folder.path());
    match outcome {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not done after {LIMIT:?}; its mounts were detached"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn unable() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting needs root");
    }
    (!Path::new("/dev/fuse").exists()).then_some("there is no /dev/fuse")
}

fn detach_all(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        while fuse::mountpoint_state(&entry.path()) != fuse::MountpointState::NotMounted {
            fuse::unmount_path(&entry.path()).unwrap();
        }
    }
}

impl TestStore {
    fn new(folder: &Path, way: Way) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = objstore::open(store::Options::new(folder.join("data"))).unwrap();
        let bucket: BucketName = "bucket".parse().unwrap();
        let create = CreateBucket {
            name: bucket.clone(),
            owner: "root".into(),
            quota_bytes: None,
            versioning: Versioning::Disabled,
            source: None,
            attributes: Default::default(),
            root: RootAttributes { uid: 0, gid: 0, mode: 0o755 },
        };
        runtime.block_on(store.create_bucket(create)).unwrap();
        Self { store, bucket, folder: folder.to_owned(), runtime, way, loopback: OnceLock::new() }
    }

    /// The number of commits and syncs of the metadata that waited for the disk.
    pub fn syncs(&self) -> u64 {
        self.store.stats().syncs
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The bucket.
    pub fn bucket(&self) -> &BucketName {
        &self.bucket
    }

    /// Waits for an operation of a client.
    pub fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    /// A folder to mount at.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Mounts the whole bucket at `name`.
    pub fn mount(&self, name: &str) -> Mount {
        self.mount_with(name, VolumeOptions::default(), Options::default())
    }

    /// Mounts the bucket with options.
    pub fn mount_with(&self, name: &str, volume: VolumeOptions, options: Options) -> Mount {
        fuse::mount(self.files(volume), &self.folder(name), options).unwrap()
    }

    /// Mounts the whole bucket at `name`, by a way of its own.
    pub fn mount_by(&self, name: &str, way: Way) -> Mount {
        fuse::mount(self.files_by(VolumeOptions::default(), way), &self.folder(name), Options::default()).unwrap()
    }

    /// A session for a mount.
    pub fn files(&self, options: VolumeOptions) -> FileSession {
        self.files_by(options, self.way)
    }

    fn files_by(&self, options: VolumeOptions, way: Way) -> FileSession {
        let volume = self.store.open_volume(&self.bucket, options).unwrap();
        match way {
            Way::Direct => volume.into(),
            Way::Encoded => FileSession::new(Encoded(volume)),
            Way::Remote => FileSession::new(self.loopback.get_or_init(Loopback::default).serve(volume)),
        }
    }

    /// Stores an object as S3 does.
    pub fn put(&self, key: &str, content: &[u8]) {
        let request = async {
            let content = self.store.stage(Bytes::copy_from_slice(content)).await?;
            let etag = "0123456789abcdef0123456789abcdef".to_owned();
            let put = PutObject {
                bucket: self.bucket.clone(),
                key: key.parse()?,
                content,
                etag,
                headers: Default::default(),
                metadata: Default::default(),
                tags: Default::default(),
                checksums: Vec::new(),
                lock: Default::default(),
                access: Default::default(),
                condition: Default::default(),
            };
            self.store.put_object(put).await
        };
        self.runtime.block_on(request).unwrap();
    }

    /// Deletes an object as S3 does.
    pub fn delete(&self, key: &str) {
        let key: Key = key.parse().unwrap();
        let delete = self.store.delete_object(&self.bucket, DeleteObject::new(key));
        self.runtime.block_on(delete).unwrap();
    }

    /// An object's content, as S3 reads it.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let (object, reader) = self.store.open_object(&self.bucket, &key.parse().unwrap(), None).ok()?;
        let mut content = Vec::new();
        while (content.len() as u64) < object.size {
            let len = (object.size - content.len() as u64).min(1 << 20);
            content.extend_from_slice(&reader.read(content.len() as u64, len as usize).unwrap());
        }
        Some(content)
    }
}

/// The error number of a failed call.
pub fn errno<T>(result: std::io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Bytes that differ from offset to offset.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed)).collect()
}

/// Random numbers from a seed (rng).
pub struct Rng(pub u64);

impl Rng {
    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}
