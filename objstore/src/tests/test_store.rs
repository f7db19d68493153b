//! The test store: a store in a temporary folder, with short helpers.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use objstore_testing::faulty::{Faults, FaultyDisk};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::audit;
use crate::blob;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::disk::{Disk, RealDisk};
use crate::error::Result;
use crate::meta::{Meta, memory};
use crate::name::{BucketName, Key};
use crate::store::*;
use crate::volume::{Make, Ownership, SessionId, Volume, VolumeOptions};

/// The system's clock with an offset that the test sets.
#[derive(Default)]
pub(crate) struct Later(AtomicI64);

impl Later {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_nanos()).unwrap(), Ordering::Relaxed);
    }

    pub(crate) fn set_back(&self, by: Duration) {
        self.0.fetch_sub(i64::try_from(by.as_nanos()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Later {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::Relaxed))
    }
}

/// A test store.
pub(crate) struct TestStore {
    pub(crate) store: Store,
    pub(crate) faults: Arc<Faults>,
    pub(crate) dir: Arc<TempDir>,
    runtime: Runtime,
    /// The metadata, kept when the store is opened again, if it is in memory.
    meta: Option<Meta>,
    segment_bytes: u64,
}

pub(crate) fn name(name: &str) -> BucketName {
    name.parse().unwrap()
}

pub(crate) fn key(key: &str) -> Key {
    key.parse().unwrap()
}

/// The MD5 in hex.
pub(crate) fn md5(data: &[u8]) -> String {
    use md5::{Digest, Md5};
    hex_simd::encode_to_string(Md5::digest(data), hex_simd::AsciiCase::Lower)
}

/// Ownership by root, with a mode.
pub(crate) fn by_root(mode: u32) -> Ownership {
    Ownership { uid: 0, gid: 0, mode, umask: 0 }
}

/// A request to create an empty bucket.
pub(crate) fn bucket_request(bucket: &str) -> CreateBucket {
    CreateBucket {
        name: name(bucket),
        owner: ROOT_ACCOUNT.into(),
        quota_bytes: None,
        versioning: Versioning::Disabled,
        source: None,
        attributes: Default::default(),
        root: RootAttributes::default(),
    }
}

/// A bucket of an S3 server in memory for the content of each test store, if `AMPHORA_TEST_CONTENT` says so: the same tests then
/// run on content in S3.
fn given_bucket(dir: &std::path::Path) -> Option<crate::ContentBucket> {
    use crate::bucket::{Keys, Location, Options};
    use objstore_testing::s3::{BUCKET, FakeS3};

    static SERVER: std::sync::OnceLock<FakeS3> = std::sync::OnceLock::new();
    std::env::var_os("AMPHORA_TEST_CONTENT")?;
    let server = SERVER.get_or_init(FakeS3::start);
    let prefix = dir.file_name()?.to_str()?.trim_start_matches('.').to_owned();
    let location = Location::parse(&format!("s3://{BUCKET}/{prefix}")).unwrap();
    let keys = Some(Keys { id: "A".into(), secret: "S".into() });
    let bucket = Options { endpoint: Some(server.endpoint()), keys, ..Options::new(location) };
    Some(crate::ContentBucket { bucket, cache_bytes: 64 << 20 })
}

impl TestStore {
    /// A test store with metadata in memory: it is fast, and survives being opened again, but no crash.
    pub(crate) fn in_memory() -> Self {
        Self::with_segments(blob::Options::default().segment_bytes)
    }

    /// A test store with metadata in memory and segments of the given size.
    pub(crate) fn with_segments(segment_bytes: u64) -> Self {
        let meta = Meta::new(memory::open().unwrap());
        Self::open(Arc::new(tempfile::tempdir().unwrap()), Some(meta), segment_bytes).unwrap()
    }

    /// A test store with everything on disk.
    pub(crate) fn on_disk() -> Self {
        Self::at(Arc::new(tempfile::tempdir().unwrap())).unwrap()
    }

    /// Opens the store in a folder.
    pub(crate) fn at(dir: Arc<TempDir>) -> Result<Self> {
        Self::open(dir, None, blob::Options::default().segment_bytes)
    }

    /// Opens the store in a folder, with sessions that continue.
    pub(crate) fn going_on(dir: Arc<TempDir>, continued: &[SessionId]) -> Result<Self> {
        let continued = continued.to_vec();
        let segment_bytes = blob::Options::default().segment_bytes;
        Self::open_with(dir, None, segment_bytes, |options| Options { continued, ..options })
    }

    /// A test store with metadata in memory and the given clock.
    pub(crate) fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let meta = Meta::new(memory::open().unwrap());
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::open_by(dir, Some(meta), blob::Options::default().segment_bytes, clock).unwrap()
    }

    /// A test store with the given metadata.
    pub(crate) fn on(dir: Arc<TempDir>, meta: Meta) -> Self {
        Self::open(dir, Some(meta), blob::Options::default().segment_bytes).unwrap()
    }

    fn open(dir: Arc<TempDir>, meta: Option<Meta>, segment_bytes: u64) -> Result<Self> {
        Self::open_by(dir, meta, segment_bytes, Arc::new(SystemClock))
    }

    fn open_by(dir: Arc<TempDir>, meta: Option<Meta>, segment_bytes: u64, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::open_with(dir, meta, segment_bytes, |options| Options { clock, ..options })
    }

    fn open_with(
        dir: Arc<TempDir>,
        meta: Option<Meta>,
        segment_bytes: u64,
        with: impl FnOnce(Options) -> Options,
    ) -> Result<Self> {
        let disk = Arc::new(FaultyDisk::default());
        let faults = disk.faults.clone();
        let options =
            with(Options { disk: disk.clone(), bucket: given_bucket(dir.path()), ..Options::new(dir.path()) });
        let blobs = blob::Options { segment_bytes, ..blob::Options::default() };
        let store = match &meta {
            Some(meta) => crate::open::open_on(meta.clone(), disk.lock(&dir.path().join("lock"))?, options, blobs)?,
            None => crate::open(options)?,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Ok(Self { store, faults, dir, runtime, meta, segment_bytes })
    }

    /// Ends the store, without closing it if the metadata is on disk, and opens it again.
    pub(crate) fn reopen(self) -> Self {
        let Self { store, dir, meta, segment_bytes, runtime, .. } = self;
        drop((store, runtime));
        Self::open(dir, meta, segment_bytes).unwrap()
    }

    /// Ends the store as a killed process does, and opens it again; these sessions continue.
    pub(crate) fn killed(self, continued: &[SessionId]) -> Self {
        // Queued operations are not what a kill may lose here: they keep the folder locked until they are done.
        self.store.core.meta.sync().wait().unwrap();
        let Self { store, dir, meta, segment_bytes, runtime, .. } = self;
        drop((store, runtime));
        let continued = continued.to_vec();
        Self::open_with(dir, meta, segment_bytes, |options| Options { continued, ..options }).unwrap()
    }

    /// Mounts a bucket with a session that outlives the server.
    pub(crate) fn mount_persistent(&self, bucket: &BucketName) -> (Volume, SessionId) {
        let id = self.store.new_session();
        let options = VolumeOptions { session: Some(id), ..VolumeOptions::default() };
        (self.store.open_volume(bucket, options).unwrap(), id)
    }

    /// Takes over a session that continues.
    pub(crate) fn take_over(&self, bucket: &BucketName, id: SessionId) -> Volume {
        let options = VolumeOptions { session: Some(id), inherited: true, ..VolumeOptions::default() };
        self.store.open_volume(bucket, options).unwrap()
    }

    /// Runs an async operation.
    pub(crate) fn run<T>(&self, operation: impl Future<Output = T>) -> T {
        self.runtime.block_on(operation)
    }

    pub(crate) fn bucket(&self, bucket: &str) -> BucketName {
        self.run(self.store.create_bucket(bucket_request(bucket))).unwrap();
        name(bucket)
    }

    pub(crate) fn clone_of(&self, source: Source, bucket: &str) -> BucketName {
        let request = CreateBucket { source: Some(source), ..bucket_request(bucket) };
        self.run(self.store.create_bucket(request)).unwrap();
        name(bucket)
    }

    pub(crate) fn snapshot(&self, bucket: &BucketName, snapshot: &str) -> BucketName {
        self.run(self.store.create_snapshot(bucket, &name(snapshot))).unwrap();
        name(snapshot)
    }

    pub(crate) fn put_if(
        &self,
        bucket: &BucketName,
        at: &str,
        data: &[u8],
        condition: Condition,
    ) -> Result<ObjectInfo> {
        self.put_with(bucket, at, data, (condition, ObjectAccess::default()))
    }

    /// Puts an object with an owner and an access control list.
    pub(crate) fn put_as(
        &self,
        bucket: &BucketName,
        at: &str,
        data: &[u8],
        access: ObjectAccess,
    ) -> Result<ObjectInfo> {
        self.put_with(bucket, at, data, (Condition::default(), access))
    }

    fn put_with(
        &self,
        bucket: &BucketName,
        at: &str,
        data: &[u8],
        (condition, access): (Condition, ObjectAccess),
    ) -> Result<ObjectInfo> {
        self.run(async {
            let content = self.store.stage(data.to_vec().into()).await?;
            let request = PutObject {
                bucket: bucket.clone(),
                key: key(at),
                content,
                etag: md5(data),
                headers: Headers::default(),
                metadata: Default::default(),
                tags: Default::default(),
                checksums: Vec::new(),
                lock: Lock::default(),
                access,
                condition,
            };
            self.store.put_object(request).await
        })
    }

    pub(crate) fn put(&self, bucket: &BucketName, at: &str, data: &[u8]) -> Result<ObjectInfo> {
        self.put_if(bucket, at, data, Condition::default())
    }

    pub(crate) fn get(&self, bucket: &BucketName, at: &str) -> Result<Vec<u8>> {
        self.get_with_tag(bucket, at).map(|(_, data)| data)
    }

    pub(crate) fn get_with_tag(&self, bucket: &BucketName, at: &str) -> Result<(String, Vec<u8>)> {
        let (info, reader) = self.store.open_object(bucket, &key(at), None)?;
        let data = reader.read(0, usize::try_from(info.size).unwrap())?.to_vec();
        assert_eq!(data.len() as u64, info.size, "{at}");
        Ok((info.etag, data))
    }

    pub(crate) fn delete(&self, bucket: &BucketName, at: &str) -> Result<Deleted> {
        self.run(self.store.delete_object(bucket, DeleteObject::new(key(at))))
    }

    pub(crate) fn copy(&self, from: (&BucketName, &str), to: (&BucketName, &str)) -> Result<ObjectInfo> {
        self.run(self.store.copy_object(CopyObject {
            storage_class: None,
            website_redirect: None,
            source_bucket: from.0.clone(),
            source_key: key(from.1),
            source_version: None,
            source_condition: Condition::default(),
            bucket: to.0.clone(),
            key: key(to.1),
            metadata: Directive::Copy,
            tags: Directive::Copy,
            checksums: None,
            lock: Lock::default(),
            access: Default::default(),
            condition: Condition::default(),
        }))
        .map(|copied| copied.object)
    }

    /// All keys of a bucket.
    pub(crate) fn keys(&self, bucket: &BucketName) -> Vec<String> {
        let all = List { limit: usize::MAX, ..List::default() };
        self.store.list_objects(bucket, &all).unwrap().objects.into_iter().map(|object| object.key).collect()
    }

    pub(crate) fn begin_upload(&self, bucket: &BucketName, at: &str) -> UploadRef {
        let request = CreateUpload {
            bucket: bucket.clone(),
            key: key(at),
            headers: Headers::default(),
            metadata: Default::default(),
            tags: Default::default(),
            lock: Lock::default(),
            access: Default::default(),
            checksum_algorithm: None,
            initiator: ROOT_ACCOUNT.into(),
        };
        let begun = self.run(self.store.create_upload(request)).unwrap();
        UploadRef { bucket: bucket.clone(), key: key(at), id: begun.id }
    }

    pub(crate) fn put_part(&self, upload: &UploadRef, number: u32, data: &[u8]) -> Result<PartInfo> {
        self.run(async {
            let content = self.store.stage(data.to_vec().into()).await?;
            let (upload, etag) = (upload.clone(), md5(data));
            self.store.put_part(PutPart { upload, number, content, etag, checksums: Vec::new() }).await
        })
    }

    pub(crate) fn complete(&self, upload: &UploadRef, parts: &[&PartInfo]) -> Result<CompletedUpload> {
        self.run(self.store.complete_upload(CompleteUpload {
            upload: upload.clone(),
            parts: parts.iter().map(|part| (part.number, part.etag.clone())).collect(),
            condition: Condition::default(),
            checksums: Vec::new(),
        }))
    }

    pub(crate) fn mount(&self, bucket: &BucketName) -> Volume {
        self.store.open_volume(bucket, VolumeOptions::default()).unwrap()
    }

    /// Runs the collector until there is nothing to collect.
    pub(crate) fn collect(&self) {
        // The results of operations queued before are collected too.
        self.store.core.meta.sync().wait().unwrap();
        for _ in 0..3 {
            self.store.background.collect_now().unwrap();
        }
    }

    /// Panics with all inconsistencies.
    pub(crate) fn audit(&self) {
        let faults = audit::faults(&self.store);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// A copy of the folder of a store on disk as a crash would leave it now. The collector is stopped first, since it
    /// would change the folder meanwhile.
    pub(crate) fn folder_copy(&self) -> Arc<TempDir> {
        self.store.background.stop();
        copy_of(&self.dir)
    }

    /// Collects, and panics with all inconsistencies and with everything unreferenced that remains.
    pub(crate) fn audit_collected(&self) {
        self.collect();
        let faults = [audit::faults(&self.store), audit::leftovers(&self.store)].concat();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

/// Creates a file through a mount; it is not pinned.
pub(crate) fn make_file(volume: &Volume, parent: u64, name: &str) -> Result<u64> {
    make(volume, parent, name, Make::File)
}

/// Creates a file, directory or other node through a mount; it is not pinned.
pub(crate) fn make(volume: &Volume, parent: u64, name: &str, what: Make) -> Result<u64> {
    let mode = if what == Make::Directory { 0o755 } else { 0o644 };
    let made = volume.make(parent, name, what, by_root(mode))?;
    volume.forget(made.ino, 1);
    Ok(made.ino)
}

/// The inode that a path leads to; it is not pinned.
pub(crate) fn find(volume: &Volume, path: &str) -> Result<u64> {
    let mut at = volume.root();
    for component in path.split('/').filter(|component| !component.is_empty()) {
        let found = volume.lookup(at, component)?;
        volume.forget(found.ino, 1);
        at = found.ino;
    }
    Ok(at)
}

/// The whole content of a file, read through a mount.
pub(crate) fn read_file(volume: &Volume, ino: u64) -> Vec<u8> {
    let size = usize::try_from(volume.attr(ino).unwrap().size).unwrap();
    volume.read(ino, 0, size).unwrap().to_vec()
}

/// A copy of a folder as it is now, which no process changes.
pub(crate) fn copy_of(dir: &TempDir) -> Arc<TempDir> {
    let to = Arc::new(tempfile::tempdir().unwrap());
    std::fs::remove_dir(to.path()).unwrap();
    copy_tree(dir.path(), to.path());
    to
}

/// Copies a folder to a name that does not exist.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(std::result::Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The real disk, for what [`FaultyDisk`] wraps.
pub(crate) fn real_disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk::new())
}
