//! A session: the threads that read requests, have a [`Service`] serve them, and send the replies.
//!
//! - It ends when the mount is gone (ENODEV). A reply whose caller no longer waits (ENOENT) is no error.
//! - A request at which the service panics is answered with EIO; its thread goes on.
//! - A paused session answers the requests that it read before the pause, and leaves later ones unanswered: the kernel
//!   keeps them for the next server, which asks for them again (RESEND).

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::abi::{Feature, WRITE_HEADER_BYTES};
use super::awake::Awake;
use super::device::{Device, Received};
use super::idle::Waiter;
use super::init::{Agreed, Agreement, Hello, send};
use super::operation::Operation;
use super::polling::{AdaptivePolling, RequestRate};
use super::reply::Frame;
use super::request::{Context, Request, Unreadable};
use super::stand_in::{Left, StandIn, stand_in};
use super::workers::Workers;

/// How often a pause checks whether the last replies are sent.
const PAUSE_STEP: Duration = Duration::from_millis(1);

/// The handler of a session's requests.
pub trait Service: Send + Sync + 'static {
    /// Serves one request, and may take any time. A request that takes a reply is answered through `reply`.
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>);
}

/// The reply to one request, to be sent once.
pub struct Reply<'a> {
    device: &'a Device,
    ticket: u64,
}

impl Reply<'_> {
    /// Sends a body of fixed layout.
    pub fn send(self, mut frame: Frame) {
        report(self.device.send(frame.seal(self.ticket)));
    }

    /// Sends raw bytes as the body.
    pub fn send_bytes(self, bytes: &[u8]) {
        report(self.device.send_both(Frame::new().seal_with(self.ticket, bytes.len()), bytes));
    }

    /// Sends a body of fixed layout followed by raw bytes.
    pub fn send_with(self, mut frame: Frame, bytes: &[u8]) {
        report(self.device.send_both(frame.seal_with(self.ticket, bytes.len()), bytes));
    }

    /// Sends an error number.
    pub fn refuse(self, errno: i32) {
        report(self.device.send(Frame::new().seal_error(self.ticket, errno)));
    }

    /// The reply, to be sent later by any thread: the request waits, and no thread waits with it. Until it is sent, the
    /// request is one that the next process is asked again.
    pub fn later(self) -> LaterReply {
        LaterReply { device: self.device.clone(), ticket: self.ticket }
    }
}

/// The reply to a request that waits, to be sent once.
pub struct LaterReply {
    device: Device,
    ticket: u64,
}

impl LaterReply {
    /// Sends success without a body.
    pub fn done(self) {
        report(self.device.send(Frame::new().seal(self.ticket)));
    }

    /// Sends an error number.
    pub fn refuse(self, errno: i32) {
        report(self.device.send(Frame::new().seal_error(self.ticket, errno)));
    }
}

/// Logs a reply that the kernel rejected. A reply that came too late, because its request was interrupted or the mount
/// is gone, is not an error.
fn report(sent: rustix::io::Result<()>) {
    if let Err(errno) = sent
        && !matches!(errno, Errno::NOENT | Errno::NODEV | Errno::INTR)
    {
        tracing::warn!(%errno, "the kernel rejected the reply to a request of a mount");
    }
}

/// A mount whose INIT has been answered.
#[derive(Debug)]
pub struct Session(Agreed);

impl Session {
    /// Answers the INIT of a new mount.
    ///
    /// # Errors
    /// The system's error.
    pub fn begin(hello: Hello) -> io::Result<Self> {
        hello.answer().map(Self)
    }

    /// Takes over a mount that another server began. A RESEND notice brings the requests that were left unanswered.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the agreement cannot be read.
    pub fn resume(device: OwnedFd, agreement: &Agreement) -> io::Result<Self> {
        Agreed::resume(device, agreement).map(Self)
    }

    /// The mount's device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Whether the kernel granted a requested feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.features.has(feature)
    }

    /// The size of a buffer for [`Self::stand_in`].
    pub fn buffer_bytes(&self) -> usize {
        WRITE_HEADER_BYTES + self.0.request_bytes
    }

    /// A buffer for [`Self::stand_in`].
    pub fn buffer(&self) -> Vec<u8> {
        // Resident from the start: see `Shared::buffer`.
        vec![1; self.buffer_bytes()]
    }

    /// Reads all requests that wait while no server runs, answers those that may be answered, and gives the others back to
    /// the kernel. Only for a process that keeps all others from reading the device meanwhile.
    ///
    /// # Errors
    /// The system's error, if the device cannot be read or written.
    pub fn stand_in(&self, buffer: &mut [u8], by: &mut impl StandIn) -> io::Result<Left> {
        stand_in(&self.0.device, self.0.features, buffer, by)
    }

    /// Prepares the session to run, with up to `readers` threads that wait for requests at a time.
    pub fn serve<S: Service>(self, service: S, readers: usize) -> Running<S> {
        let state = Arc::new(State::default());
        let workers = Workers::new(readers);
        let (polling, awake) = (AdaptivePolling::new(), Awake::new());
        Running(Arc::new(Shared { agreed: self.0, service, workers, polling, awake, state, failure: Mutex::new(None) }))
    }
}

/// A session that is ready to run.
pub struct Running<S>(Arc<Shared<S>>);

impl<S: Service> Running<S> {
    /// Serves requests until the mount is gone.
    ///
    /// # Errors
    /// The system's error, if the device cannot be read or no thread can be started.
    pub fn run(self) -> io::Result<()> {
        start(&self.0)?;
        self.0.workers.wait();
        let failure = self.0.failure.lock().take();
        failure.map_or(Ok(()), Err)
    }

    /// Pauses the session from another thread.
    pub fn pause_handle(&self) -> Pause {
        Pause(self.0.state.clone())
    }
}

/// A handle that pauses a session, for a process that ends while the mount goes on.
#[derive(Clone, Debug)]
pub struct Pause(Arc<State>);

impl Pause {
    /// Stops serving newly read requests. Returns whether all requests read before were answered within `limit`.
    pub fn pause(&self, limit: Duration) -> bool {
        self.0.paused.store(true, Ordering::SeqCst);
        let end = Instant::now() + limit;
        while self.0.busy.load(Ordering::SeqCst) > 0 {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(PAUSE_STEP);
        }
        true
    }
}

#[derive(Debug, Default)]
struct State {
    paused: AtomicBool,
    /// Number of requests being served.
    busy: AtomicUsize,
    /// Whether the last thread waits without a buffer.
    resting: AtomicBool,
    /// Whether an undecodable request was logged already.
    complained: AtomicBool,
}

struct Shared<S> {
    agreed: Agreed,
    service: S,
    workers: Workers,
    polling: AdaptivePolling,
    awake: Awake,
    state: Arc<State>,
    failure: Mutex<Option<io::Error>>,
}

/// Starts a worker thread, which is counted already.
fn start<S: Service>(shared: &Arc<Shared<S>>) -> io::Result<()> {
    let own = shared.clone();
    let started = std::thread::Builder::new().name("fuse".into()).spawn(move || own.live(&own));
    started.map(drop).inspect_err(|_| shared.workers.lost())
}

impl<S: Service> Shared<S> {
    /// The loop of a worker thread, from its first request to its last.
    fn live(&self, shared: &Arc<Self>) {
        let mut buffer = self.buffer();
        let waiter = Waiter::new();
        let mut at_once = false;
        loop {
            waiter.begin();
            let received = self.receive(&mut buffer, at_once, &waiter);
            waiter.end();
            match received {
                Ok(Received::Interrupted) => {
                    if self.workers.leave_rest() {
                        return;
                    }
                    // The last thread waits without a buffer, and allocates a new one before it reads a request.
                    drop(std::mem::take(&mut buffer));
                    self.state.resting.store(true, Ordering::Relaxed);
                    self.agreed.device.wait();
                    self.state.resting.store(false, Ordering::Relaxed);
                    buffer = self.buffer();
                    continue;
                }
                Ok(Received::Message(len)) => {
                    let taken = self.polling.taken();
                    let request = Request::decode(&buffer[..len], self.agreed.features);
                    let operation = request.as_ref().ok().map(|request| request.operation);
                    let waits = operation.is_some_and(|operation| operation.waits_for_disk());
                    if self.workers.took(self.polling.is_crowded() && waits)
                        && let Err(error) = start(shared)
                    {
                        tracing::warn!(%error, "cannot start a worker thread of a mount; it will be slower");
                    }
                    self.handle(&request);
                    at_once = operation.is_some_and(|operation| operation.is_background());
                    self.polling.answered(taken, || self.agreed.device.is_ready());
                }
                Ok(Received::Gone) => break,
                Err(error) => {
                    self.failure.lock().get_or_insert(error);
                    break;
                }
            }
            if !self.workers.back(|| self.agreed.device.is_ready()) {
                return;
            }
        }
        self.workers.close();
        self.workers.lost();
    }

    /// A buffer for the largest request. It is not zeroed lazily: if the process dies while the kernel copies a request
    /// into a page that is not yet resident, the kernel answers the request with EIO and no later server can resume it.
    fn buffer(&self) -> Vec<u8> {
        vec![1; WRITE_HEADER_BYTES + self.agreed.request_bytes]
    }

    /// Waits for a request. It polls for a while if the next request is likely to come at once and no other thread
    /// would be woken by it.
    fn receive(&self, buffer: &mut [u8], at_once: bool, waiter: &Waiter) -> io::Result<Received> {
        let flow = self.polling.flow();
        let quick = flow == RequestRate::Quick;
        if quick {
            self.awake.request();
        }
        if self.workers.alone(flow) && quick {
            self.polling.look_out(at_once, || self.agreed.device.is_ready());
        }
        self.agreed.device.receive_unless(buffer, || waiter.is_asked())
    }

    /// Serves a request, unless the session is paused: then the thread blocks here until the process ends.
    fn handle(&self, request: &Result<Request<'_>, Unreadable>) {
        self.state.busy.fetch_add(1, Ordering::SeqCst);
        if self.state.paused.load(Ordering::SeqCst) {
            self.state.busy.fetch_sub(1, Ordering::SeqCst);
            loop {
                std::thread::park();
            }
        }
        self.serve(request);
        self.state.busy.fetch_sub(1, Ordering::SeqCst);
    }

    fn serve(&self, request: &Result<Request<'_>, Unreadable>) {
        let reply = |ticket| Reply { device: &self.agreed.device, ticket };
        match request {
            Ok(request) => self.dispatch(request, reply(request.context.ticket())),
            Err(unreadable) => {
                self.complain(&unreadable.to_string());
                if let Some(ticket) = unreadable.ticket {
                    reply(ticket).refuse(libc::EIO);
                }
            }
        }
    }

    fn dispatch(&self, request: &Request<'_>, reply: Reply<'_>) {
        match request.operation {
            Operation::Init => self.greet(&request.context),
            Operation::Destroy => reply.send(Frame::new()),
            Operation::Refused(errno) => reply.refuse(errno),
            Operation::Unknown(opcode) => {
                self.complain(&format!("unknown FUSE opcode {opcode}"));
                reply.refuse(libc::ENOSYS);
            }
            Operation::NotifyReply => {}
            _ => self.guarded(request, reply),
        }
    }

    /// Serves a request and answers EIO if the service panics. If it panics after its reply, the second reply is
    /// dropped.
    fn guarded(&self, request: &Request<'_>, reply: Reply<'_>) {
        let last_resort = Reply { ..reply };
        if catch_unwind(AssertUnwindSafe(|| self.service.serve(request, reply))).is_err() {
            tracing::error!("a request of a mount panicked; EIO was answered");
            if request.operation.is_answered() {
                last_resort.refuse(libc::EIO);
            }
        }
    }

    /// Answers a repeated INIT: the earlier server ended between fixing the reply and sending it.
    fn greet(&self, context: &Context) {
        if let Err(error) = send(&self.agreed.device, context.ticket(), &self.agreed.answer) {
            tracing::warn!(%error, "the kernel rejected the reply to FUSE_INIT");
        }
    }

    /// Logs the first unsupported request as a warning and further ones at debug level, since a kernel that sends one
    /// sends many.
    fn complain(&self, what: &str) {
        if self.state.complained.swap(true, Ordering::Relaxed) {
            tracing::debug!(what, "not served");
        } else {
            tracing::warn!(what, "a request of a mount is not supported; further ones are logged at debug level");
        }
    }
}

#[cfg(test)]
mod tests;
