//! The deposits of a running server with the fd holder, repeated with the next holder if one dies.
//!
//! - This process keeps a copy of each deposit's descriptors, so its mounts go on without a holder. They end only if
//!   the server dies as well before a new holder has them.
//! - A thread waits for the end of the connection, and finds or starts a holder as long as anything is deposited.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::client::{Error, Holder, with_causes};
use super::deposits::Deposit;

/// The delay before the next attempt to find or start a holder.
const RETRY: Duration = Duration::from_secs(2);

/// How long [`FdHolder::status`] waits for another user of the connection.
const STATUS_WAIT: Duration = Duration::from_millis(100);

/// The state of the holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Number of deposits that it keeps, or will keep once there is a holder.
    pub mounts: usize,
    /// Name and version of the holder's program; `None` while there is no holder.
    pub program: Option<String>,
}

/// A function that finds or starts a holder.
pub type Dial = Box<dyn Fn() -> Result<Holder, Error> + Send + Sync>;

/// A server's deposits with the fd holder. Dropping it closes the connection and leaves the deposits with the holder.
pub struct FdHolder(Arc<Inner>);

struct Inner {
    dial: Dial,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    holder: Option<Arc<Holder>>,
    kept: BTreeMap<u64, Kept>,
    over: bool,
}

struct Kept {
    record: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl FdHolder {
    /// Begins with an existing connection and the deposits found there for this server. Without deposits, no holder is
    /// looked for.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(holder: Option<Holder>, dial: Dial) -> io::Result<Self> {
        let state = State { holder: holder.map(Arc::new), ..State::default() };
        let inner = Arc::new(Inner { dial, state: Mutex::new(state), changed: Condvar::new() });
        let watching = inner.clone();
        std::thread::Builder::new().name("holder-watch".into()).spawn(move || watching.watch())?;
        Ok(Self(inner))
    }

    /// Deposits `deposit` with the holder, replacing what has its id. If no holder can be found, it is deposited as
    /// soon as there is one.
    ///
    /// # Errors
    /// The deposit is not kept, at least not yet.
    pub fn deposit(&self, deposit: Deposit) -> Result<(), Error> {
        let Deposit { id, record, descriptors } = deposit;
        let mut state = self.0.state.lock();
        state.kept.insert(id, Kept { record, descriptors });
        let holder = state.holder.clone();
        let kept = match holder {
            Some(holder) => state.kept[&id].put(id, &holder),
            None => self.0.connect(&mut state),
        };
        if kept.as_ref().is_err_and(Error::is_broken) {
            state.holder = None;
            self.0.changed.notify_all();
        } else if kept.is_err() {
            state.kept.remove(&id);
        }
        kept
    }

    /// Records a deposit that the holder keeps already.
    pub fn adopt(&self, deposit: Deposit) {
        let Deposit { id, record, descriptors } = deposit;
        self.0.state.lock().kept.insert(id, Kept { record, descriptors });
    }

    /// Has the holder close a deposit, and forgets it here.
    ///
    /// # Errors
    /// If the holder cannot be reached. It notices by itself when the mount is gone.
    pub fn withdraw(&self, id: u64) -> Result<(), Error> {
        let mut state = self.0.state.lock();
        state.kept.remove(&id);
        let Some(holder) = state.holder.clone() else { return Ok(()) };
        holder.withdraw(id).inspect_err(|_| {
            state.holder = None;
            self.0.changed.notify_all();
        })
    }

    /// Whether a holder keeps all deposits.
    pub fn is_held(&self) -> bool {
        self.0.state.lock().holder.is_some()
    }

    /// The state of the holder, for metrics. It does not block: while a holder is looked for, it counts as absent.
    pub fn status(&self) -> Status {
        let Some(state) = self.0.state.try_lock_for(STATUS_WAIT) else { return Status::default() };
        let program = state.holder.as_ref().map(|holder| holder.program().to_owned());
        Status { mounts: state.kept.len(), program }
    }

    /// Breaks the connection, as the death of the holder would.
    #[cfg(test)]
    pub(super) fn cut(&self) {
        self.0.state.lock().holder.clone().unwrap().hang_up();
    }
}

impl Drop for FdHolder {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.over = true;
        if let Some(holder) = state.holder.take() {
            holder.hang_up();
        }
        self.0.changed.notify_all();
    }
}

impl Kept {
    fn put(&self, id: u64, holder: &Holder) -> Result<(), Error> {
        let descriptors: Vec<_> = self.descriptors.iter().map(AsFd::as_fd).collect();
        holder.deposit(id, &self.record, &descriptors)
    }
}

impl Inner {
    /// Finds a holder and deposits everything with it.
    fn connect(&self, state: &mut State) -> Result<(), Error> {
        let holder = (self.dial)()?;
        if holder.is_older() {
            let program = holder.program();
            tracing::warn!(program, "the running fd holder is of an older version; it is used nevertheless");
        }
        for (id, kept) in &state.kept {
            kept.put(*id, &holder)?;
        }
        state.holder = Some(Arc::new(holder));
        self.changed.notify_all();
        Ok(())
    }

    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.over {
            match state.holder.clone() {
                Some(holder) => {
                    MutexGuard::unlocked(&mut state, || holder.wait_gone());
                    let same = state.holder.as_ref().is_some_and(|current| Arc::ptr_eq(current, &holder));
                    if same && !state.over {
                        tracing::warn!(mounts = state.kept.len(), "the fd holder ended");
                        state.holder = None;
                    }
                }
                None if state.kept.is_empty() => self.changed.wait(&mut state),
                None => match self.connect(&mut state) {
                    Ok(()) => tracing::info!(mounts = state.kept.len(), "an fd holder keeps the mounts again"),
                    Err(error) => {
                        tracing::warn!(
                            error = with_causes(&error),
                            "no fd holder keeps the mounts; they end with this process"
                        );
                        self.changed.wait_for(&mut state, RETRY);
                    }
                },
            }
        }
    }
}
