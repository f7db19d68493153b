//! The connection limit, and what happens beyond it.
//!
//! - A new connection takes the slot of an idle one, the longest idle first: losing an idle connection costs a client
//!   nothing.
//! - If none is idle, the new connection waits for a second and is then answered 503 SlowDown. Only [`WAITING_MAX`] may
//!   wait; further ones are closed without an answer, so that descriptors stay bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most connections that wait for a slot or are being answered 503.
const WAITING_MAX: usize = 128;
/// How long a connection waits for a slot.
const WAIT: Duration = Duration::from_secs(1);

/// The connection slots of an endpoint.
pub(super) struct ConnectionSlots {
    seats: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The number of connections that wait for a slot.
    queue: AtomicUsize,
    /// One permit for each waiting connection for which no idle one has ended yet. Idle connections queue here.
    wanted: Semaphore,
}

/// The admission of a new connection.
pub(super) enum Ticket {
    /// A slot.
    Seat(OwnedSemaphorePermit),
    /// Permission to wait for one.
    Waiting(OwnedSemaphorePermit),
}

/// How a connection is served, until it is dropped.
pub(super) struct Admission {
    /// Whether it is only answered 503 SlowDown.
    pub(super) turned_away: bool,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    pub(super) fn new(connections: usize) -> Self {
        let seats = connections.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            seats: Arc::new(Semaphore::new(seats)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            queue: AtomicUsize::new(0),
            wanted: Semaphore::new(0),
        }
    }

    /// Admits a connection if there is a slot, or room to wait for one.
    pub(super) fn enter(&self) -> Option<Ticket> {
        if let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() {
            return Some(Ticket::Seat(seat));
        }
        Arc::clone(&self.waiting).try_acquire_owned().ok().map(Ticket::Waiting)
    }

    /// Waits for a slot, up to [`WAIT`].
    pub(super) async fn admit(&self, ticket: Ticket) -> Admission {
        let waiting = match ticket {
            Ticket::Seat(permit) => return Admission { turned_away: false, _permit: permit },
            Ticket::Waiting(permit) => permit,
        };
        let _queued = self.queue();
        match tokio::time::timeout(WAIT, Arc::clone(&self.seats).acquire_owned()).await {
            Ok(Ok(seat)) => Admission { turned_away: false, _permit: seat },
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Admission { turned_away: true, _permit: waiting },
        }
    }

    /// Asks an idle connection to end, until the guard is dropped.
    fn queue(&self) -> Queued<'_> {
        self.queue.fetch_add(1, Ordering::SeqCst);
        self.wanted.add_permits(1);
        Queued(self)
    }

    /// Completes when a slot is needed and the calling connection has been idle longest.
    pub(super) async fn wanted(&self) {
        if let Ok(wanted) = self.wanted.acquire().await {
            wanted.forget();
        }
    }
}

/// A connection that waits for a slot.
struct Queued<'a>(&'a ConnectionSlots);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let others = self.0.queue.fetch_sub(1, Ordering::SeqCst) - 1;
        // Otherwise the next connection that becomes idle would end for no one.
        self.0.wanted.forget_permits(self.0.wanted.available_permits().saturating_sub(others));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_idle_gives_way_and_the_busy_do_not() {
        let places = ConnectionSlots::new(2);
        let (Some(first), Some(second)) = (places.enter(), places.enter()) else { panic!("two places") };
        let (first, second) = (places.admit(first).await, places.admit(second).await);
        let idle = async {
            places.wanted().await;
            drop(first);
        };
        let new = async {
            let ticket = places.enter().expect("room to wait");
            places.admit(ticket).await
        };
        let ((), third) = tokio::join!(idle, new);
        assert!(!third.turned_away);

        let fourth = places.enter().expect("room to wait");
        assert!(places.admit(fourth).await.turned_away, "nobody gave way");
        let later = tokio::time::timeout(Duration::from_millis(50), places.wanted()).await;
        assert!(later.is_err(), "nobody has to give way to one who left");
        drop((second, third));
        assert!(matches!(places.enter(), Some(Ticket::Seat(_))));
    }

    #[tokio::test]
    async fn those_who_wait_are_bounded() {
        let places = ConnectionSlots::new(1);
        let held: Vec<Ticket> = (0..=WAITING_MAX).map_while(|_| places.enter()).collect();
        assert_eq!(held.len(), WAITING_MAX + 1);
        assert!(places.enter().is_none());
    }
}
