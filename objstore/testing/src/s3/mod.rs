//! An S3 server in memory, which fails as the test chooses.
//!
//! - It speaks HTTP/1.1 on a port of the loopback interface, so that a real client is tested, with its retries.
//! - It knows what the store uses: objects with conditions, ranges and metadata, multipart uploads, listings, removal.
//! - A [`Fault`] is chosen for each request by a function of the test.
//! - It checks no signatures.

mod answer;
mod http;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

/// The one bucket of the server.
pub const BUCKET: &str = "content";

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not done, and answered with this status, as 503 or 403.
    Status(u16),
    /// It is not done, and not answered for so long.
    Hang(Duration),
    /// It is done, and the connection ends without an answer.
    LoseAnswer,
    /// It is done, and answered with half of the body.
    CutBody,
    /// It is done, and answered with one byte changed.
    ChangeByte,
    /// It is done, and answered with a shorter body than was asked for, as if that was all.
    Shorten,
}

/// A request, as a fault is chosen for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The number of the request, from 0.
    pub number: u64,
    /// Its method.
    pub method: String,
    /// The key, without the bucket.
    pub key: String,
    /// Its query.
    pub query: String,
}

/// A stored object.
#[derive(Clone)]
pub(crate) struct Stored {
    pub bytes: Bytes,
    pub etag: String,
    pub metadata: Vec<(String, String)>,
}

#[derive(Default)]
pub(crate) struct Upload {
    pub key: String,
    pub metadata: Vec<(String, String)>,
    pub parts: BTreeMap<u32, Bytes>,
}

/// The content of the server.
#[derive(Default)]
pub(crate) struct Content {
    pub objects: BTreeMap<String, Stored>,
    pub uploads: BTreeMap<String, Upload>,
    pub old_listing: Option<BTreeMap<String, Stored>>,
    pub ignores_conditions: bool,
    pub numbers: u64,
}

type Choose = Arc<dyn Fn(&Seen) -> Option<Fault> + Send + Sync>;

pub(crate) struct Shared {
    pub content: Mutex<Content>,
    pub choose: Mutex<Option<Choose>>,
    pub seen: Mutex<Vec<Seen>>,
    pub closed: AtomicBool,
}

/// A running server; it ends when it is dropped.
pub struct FakeS3 {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FakeS3 {
    /// Starts a server with an empty bucket.
    ///
    /// # Panics
    /// If the system gives no port or no thread.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback interface");
        let address = listener.local_addr().expect("the address of a bound port");
        let shared = Arc::new(Shared {
            content: Mutex::default(),
            choose: Mutex::default(),
            seen: Mutex::default(),
            closed: AtomicBool::default(),
        });
        let accepting = shared.clone();
        let thread = std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared, thread: Some(thread) }
    }

    /// The address for clients.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Chooses a fault for each request from now on.
    pub fn fail(&self, choose: impl Fn(&Seen) -> Option<Fault> + Send + Sync + 'static) {
        *self.shared.choose.lock() = Some(Arc::new(choose));
    }

    /// Lets the first `count` requests fail of which `which` says so.
    pub fn fail_first(&self, count: u64, fault: Fault, which: impl Fn(&Seen) -> bool + Send + Sync + 'static) {
        let left = std::sync::atomic::AtomicU64::new(count);
        self.fail(move |seen| {
            let fails = which(seen)
                && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            fails.then_some(fault)
        });
    }

    /// Ends all faults.
    pub fn heal(&self) {
        *self.shared.choose.lock() = None;
    }

    /// Answers listings as they are now, until it is called with `false`.
    pub fn keep_listing(&self, old: bool) {
        let mut content = self.shared.content.lock();
        content.old_listing = old.then(|| content.objects.clone());
    }

    /// Ignores conditions of writes, as old servers do.
    pub fn ignore_conditions(&self) {
        self.shared.content.lock().ignores_conditions = true;
    }

    /// The stored objects by key.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        let content = self.shared.content.lock();
        content.objects.iter().map(|(key, stored)| (key.clone(), stored.bytes.clone())).collect()
    }

    /// Stores an object, or removes it.
    pub fn set(&self, key: &str, bytes: Option<Bytes>) {
        let mut content = self.shared.content.lock();
        match bytes {
            Some(bytes) => {
                let etag = content.etag();
                content.objects.insert(key.to_owned(), Stored { bytes, etag, metadata: Vec::new() });
            }
            None => drop(content.objects.remove(key)),
        }
    }

    /// The number of uploads that were begun and not ended.
    #[must_use]
    pub fn uploads(&self) -> usize {
        self.shared.content.lock().uploads.len()
    }

    /// The requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().clone()
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Content {
    pub(crate) fn etag(&mut self) -> String {
        self.numbers += 1;
        format!("\"{:032x}\"", self.numbers)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        // Detached: it ends with its connection.
        std::thread::spawn(move || http::serve(&stream, &shared));
    }
}
