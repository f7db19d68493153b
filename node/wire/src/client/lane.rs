//! The connection of one role: reopened whenever it ends, with pauses between attempts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connection::{Connection, open};
use super::counts::Counts;
use super::{CallError, Config, Event, Transport};
use crate::Random;
use crate::backoff::Backoff;
use crate::header::Role;
use crate::refusal::Refusal;
use crate::service::Answer;

/// How long the first attempt may take to reach the store; each one that takes so long doubles it. Where a cluster forwards
/// connections, the packets of one that began while the store moved go to its old place for ever, and a new one arrives.
const REACH: Duration = Duration::from_secs(1);

/// The connection of a role.
pub(super) struct Lane {
    role: Role,
    wait: Duration,
    state: watch::Receiver<State>,
    keeper: JoinHandle<()>,
}

/// The state of the connection, as calls see it.
#[derive(Clone)]
enum State {
    /// No connection now; one is being opened.
    Away,
    /// A connection.
    Up(Arc<Connection>),
    /// The store refuses, and would refuse again.
    Refused(Refusal),
}

impl Lane {
    pub(super) fn start<T: Transport>(
        role: Role,
        transport: &Arc<T>,
        (config, counts): (&Arc<Config>, &Arc<Counts>),
        events: &mpsc::Sender<Event>,
        random: &Random,
    ) -> Self {
        let (state, seen) = watch::channel(State::Away);
        let backoff = Backoff::new(config.pauses.0, config.pauses.1);
        let keeper = Keeper {
            role,
            transport: Arc::clone(transport),
            config: Arc::clone(config),
            counts: Arc::clone(counts),
            events: events.clone(),
            random: Arc::clone(random),
            state,
            backoff,
            reach: REACH,
        };
        Self { role, wait: config.wait, state: seen, keeper: tokio::spawn(keeper.keep()) }
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) async fn call(&self, head: Bytes, payload: Bytes, reply_bytes: u32) -> Result<Answer, CallError> {
        self.connection().await?.call(head, payload, reply_bytes).await
    }

    pub(super) async fn notice(&self, head: Bytes) -> Result<(), CallError> {
        self.connection().await?.notice(head).await
    }

    /// The open connection; waits for one.
    async fn connection(&self) -> Result<Arc<Connection>, CallError> {
        if let State::Up(connection) = &*self.state.borrow() {
            return Ok(Arc::clone(connection));
        }
        let mut state = self.state.clone();
        let decided = timeout(self.wait, state.wait_for(|state| !matches!(state, State::Away))).await;
        match decided {
            Ok(Ok(state)) => match &*state {
                State::Up(connection) => Ok(Arc::clone(connection)),
                State::Refused(refusal) => Err(CallError::Refused(refusal.clone())),
                State::Away => Err(CallError::NotSent(self.wait)),
            },
            Ok(Err(_)) => Err(CallError::Closed),
            Err(_) => Err(CallError::NotSent(self.wait)),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Keeps a connection open.
struct Keeper<T> {
    role: Role,
    transport: Arc<T>,
    config: Arc<Config>,
    counts: Arc<Counts>,
    events: mpsc::Sender<Event>,
    random: Random,
    state: watch::Sender<State>,
    backoff: Backoff,
    /// How long the next attempt may take to reach the store.
    reach: Duration,
}

impl<T: Transport> Keeper<T> {
    async fn keep(mut self) {
        loop {
            let begun = Instant::now();
            let sources = (&self.config, &self.counts);
            let opened = open(&*self.transport, sources, self.role, self.reach, &self.events, &self.random).await;
            if opened.is_ok() {
                self.reach = REACH;
            } else if begun.elapsed() >= self.reach {
                self.reach = self.reach.saturating_mul(2).min(self.config.connect);
            }
            match opened {
                Ok((connection, driven)) => {
                    let began = Instant::now();
                    self.counts.admitted(self.role);
                    // The event first, so that nothing on the connection overtakes it.
                    self.tell(Event::Connected(self.role)).await;
                    self.state.send_replace(State::Up(connection));
                    let refusal = driven.run().await;
                    self.counts.down(self.role, refusal.as_ref().map(|refusal| &*refusal.message));
                    // A store that is full or stopping admits a connection and ends it at once: that is no success.
                    if began.elapsed() >= self.config.pauses.1 {
                        self.backoff.reset();
                    }
                    self.down(refusal).await;
                }
                Err(failed) => {
                    tracing::debug!(role = ?self.role, %failed, "the store cannot be reached");
                    let refusal = failed.refusal(!self.transport.trusts_any_certificate());
                    let why = refusal.as_ref().map_or_else(|| failed.why(), |refusal| refusal.message.clone());
                    self.counts.down(self.role, Some(&why));
                    match refusal {
                        Some(refusal) => self.down(Some(refusal)).await,
                        None => drop(self.state.send_replace(State::Away)),
                    }
                }
            }
            let pause = self.pause();
            tokio::time::sleep(pause).await;
        }
    }

    /// The connection ended or was refused.
    async fn down(&mut self, refusal: Option<Refusal>) {
        let lasting = refusal.as_ref().filter(|refusal| !refusal.passes());
        let state = lasting.map_or(State::Away, |refusal| State::Refused(refusal.clone()));
        self.state.send_replace(state);
        self.tell(match refusal {
            Some(refusal) => Event::Refused(self.role, refusal),
            None => Event::Lost(self.role),
        })
        .await;
    }

    /// The pause before the next attempt: the longest one where the store would refuse again.
    fn pause(&mut self) -> Duration {
        let mut bytes = [0; 8];
        (self.random)(&mut bytes);
        let random = u64::from_le_bytes(bytes);
        if matches!(*self.state.borrow(), State::Refused(_)) {
            let longest = self.config.pauses.1;
            return Backoff::new(longest, longest).pause(random);
        }
        self.backoff.pause(random)
    }

    async fn tell(&self, event: Event) {
        // Without a receiver the events have no reader.
        let _ = self.events.send(event).await;
    }
}
