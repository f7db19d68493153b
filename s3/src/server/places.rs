//! How many connections there may be, and what happens to one too many.
//!
//! - An idle connection gives its place to a new one, the longest idle first: idle ones cost a client nothing to lose.
//! - Where none is idle, a new one waits a moment, and is then told to come again. Only [`WAITING_MAX`] wait at once;
//!   the next is closed unheard, so that descriptors stay bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that wait for a place, or are being turned away, at once.
const WAITING_MAX: usize = 128;
/// How long a connection waits for a place.
const WAIT: Duration = Duration::from_secs(1);

/// The places of an endpoint.
pub(super) struct Places {
    seats: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// How many wait for a seat now.
    queue: AtomicUsize,
    /// One permit for each of them that no idle connection has given way to yet. Idle ones wait here, in order.
    wanted: Semaphore,
}

/// What a connection came in with.
pub(super) enum Ticket {
    /// A place.
    Seat(OwnedSemaphorePermit),
    /// Leave to wait for one.
    Waiting(OwnedSemaphorePermit),
}

/// How a connection is served, until it drops this.
pub(super) struct Admission {
    /// Whether it is only told to come again.
    pub(super) turned_away: bool,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(connections: usize) -> Self {
        let seats = connections.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            seats: Arc::new(Semaphore::new(seats)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            queue: AtomicUsize::new(0),
            wanted: Semaphore::new(0),
        }
    }

    /// Lets a connection in, if there is room even to wait.
    pub(super) fn enter(&self) -> Option<Ticket> {
        if let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() {
            return Some(Ticket::Seat(seat));
        }
        Arc::clone(&self.waiting).try_acquire_owned().ok().map(Ticket::Waiting)
    }

    /// Waits for a place, not for long.
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

    /// Asks an idle connection to give way, until the guard drops.
    fn queue(&self) -> Queued<'_> {
        self.queue.fetch_add(1, Ordering::SeqCst);
        self.wanted.add_permits(1);
        Queued(self)
    }

    /// Ends when a place is wanted, and of those who wait here the caller has for longest.
    pub(super) async fn wanted(&self) {
        if let Ok(wanted) = self.wanted.acquire().await {
            wanted.forget();
        }
    }
}

/// One who waits for a seat.
struct Queued<'a>(&'a Places);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let others = self.0.queue.fetch_sub(1, Ordering::SeqCst) - 1;
        // Else the next connection that turns idle would give way to nobody.
        self.0.wanted.forget_permits(self.0.wanted.available_permits().saturating_sub(others));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_idle_gives_way_and_the_busy_do_not() {
        let places = Places::new(2);
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
        let places = Places::new(1);
        let held: Vec<Ticket> = (0..=WAITING_MAX).map_while(|_| places.enter()).collect();
        assert_eq!(held.len(), WAITING_MAX + 1);
        assert!(places.enter().is_none());
    }
}
