//! A planned hand-over of the store to a standby, for the admin service.
//!
//! - It is refused before anything stops: without a standby that follows, with one that lacks too much, with mounts on
//!   this machine, and for a store in its data folder.
//! - What is behind is saved while the server still serves, so that the pause is short.
//!
//! A crash at any point is that of an owner: a standby takes over when the lease ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use objstore::meta::log::{Epoch, Log, Standing};
use proto::amphora::admin::v1 as api;
use tokio::sync::Notify;
use tonic::Status;

use super::{Service, finished};

/// How long ago a standby may have announced itself; it does so every second.
const SEEN: Duration = Duration::from_secs(4);
/// How many entries a standby may lack. It replays as many in a fraction of a second.
const BEHIND_MAX: u64 = 1024;
/// The default time to wait for a standby that replays.
const WAIT: Duration = Duration::from_secs(30);
/// The longest time to wait.
const WAIT_MAX: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_millis(200);
/// How long the former owner leaves the log to others before it claims it again.
const SUCCESSOR_LIMIT: Duration = Duration::from_secs(5);
const SUCCESSOR_LOOK: Duration = Duration::from_millis(20);

/// The log of the store's metadata, and the trigger of a hand-over.
#[derive(Clone)]
pub struct Handover {
    /// The log.
    pub log: Arc<dyn Log>,
    /// Notifies the server that a hand-over is wanted.
    pub wanted: Arc<Notify>,
    /// Where the server answers `/readyz`.
    pub http_address: String,
}

impl Handover {
    /// Completes when a hand-over is wanted; never without a log.
    pub async fn wanted(handover: Option<&Self>) {
        match handover {
            Some(handover) => handover.wanted.notified().await,
            None => std::future::pending().await,
        }
    }

    /// The epoch of the present owner, which is asked before the log is released. Blocking.
    ///
    /// # Errors
    /// If the log does not answer.
    pub fn epoch(&self) -> objstore::meta::log::Result<Epoch> {
        self.log.standing(SEEN).map(|standing| standing.epoch)
    }

    /// Waits until another server owns the log that this one released at `epoch`, so that its next program does not take
    /// it back at once. Blocking, for a bounded time.
    pub fn await_successor(&self, epoch: Epoch) {
        let begun = Instant::now();
        while begun.elapsed() < SUCCESSOR_LIMIT {
            if let Ok(standing) = self.log.standing(SEEN)
                && standing.epoch > epoch
            {
                tracing::info!(server = standing.server, "handed over: this server continues as a standby");
                return;
            }
            std::thread::sleep(SUCCESSOR_LOOK);
        }
        tracing::warn!("no standby took the log within {} s: this server claims it again", SUCCESSOR_LIMIT.as_secs());
    }
}

/// Answers once a standby is ready. The server then drains, releases the log, and starts again as a standby.
pub(super) async fn begin(service: &Service, request: &api::HandoverRequest) -> Result<api::HandoverResponse, Status> {
    let Some(handover) = service.handover.clone() else {
        return Err(Status::failed_precondition(
            "the metadata of this store is in its data folder, so no other server can take it over: a hand-over needs \
             --metadata-url and a second server with the same settings",
        ));
    };
    let mounts = service.mounts.clone();
    let free = tokio::task::spawn_blocking(move || match mounts.is_empty() {
        true => Ok(()),
        false => Err(mounts.list().iter().map(|mount| mount.dir.display().to_string()).collect::<Vec<_>>()),
    });
    finished(free.await)?.map_err(|dirs| {
        Status::failed_precondition(format!(
            "buckets are mounted on this machine ({}), and these mounts would end: unmount them, or mount from other \
             machines with --server; SIGTERM of this server leaves them waiting instead",
            dirs.join(", ")
        ))
    })?;
    let limit = request.wait_ms.map_or(WAIT, Duration::from_millis).min(WAIT_MAX);
    let standing = ready_standby(&handover, limit).await?;
    service.blocking(objstore::Store::save_everything).await?;
    let Some(next) = standing.followers.into_iter().next() else { return Err(no_standby()) };
    tracing::info!(to = next.server, behind = next.behind, "handing over");
    handover.wanted.notify_one();
    Ok(api::HandoverResponse {
        from_server: standing.server,
        to_server: next.server,
        behind: next.behind,
        http_address: handover.http_address,
    })
}

fn no_standby() -> Status {
    Status::failed_precondition(
        "no standby follows the log: start a second server with the same --metadata-url and --content-url on another \
         machine, and wait until its /readyz says \"standby\"",
    )
}

/// Waits until a standby lacks little.
async fn ready_standby(handover: &Handover, limit: Duration) -> Result<Standing, Status> {
    let begun = Instant::now();
    loop {
        let log = Arc::clone(&handover.log);
        let standing = finished(tokio::task::spawn_blocking(move || log.standing(SEEN)).await)?;
        let standing =
            standing.map_err(|error| Status::unavailable(format!("asking the log for standbys: {error}")))?;
        let Some(nearest) = standing.followers.first() else { return Err(no_standby()) };
        if nearest.behind <= BEHIND_MAX {
            return Ok(standing);
        }
        if begun.elapsed() >= limit {
            return Err(Status::failed_precondition(format!(
                "the standby \"{}\" lacks {} entries of the log, more than {BEHIND_MAX}, and did not catch up within {} \
                 s: try again later, or wait longer with --wait",
                nearest.server,
                nearest.behind,
                limit.as_secs()
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use objstore::meta::log::memory::Memory;
    use objstore::meta::log::{Batch, Claim};

    use super::*;

    #[tokio::test]
    async fn a_handover_waits_for_a_standby_that_is_near_and_names_what_is_missing() {
        let log = Arc::new(Memory::new());
        let claim = Claim { server: "a".into(), lease: Duration::from_secs(9) };
        let epoch = log.fence(&claim).expect("owned").epoch;
        let handover = Handover { log: log.clone(), wanted: Arc::default(), http_address: String::new() };
        let none = ready_standby(&handover, Duration::ZERO).await.expect_err("nobody follows");
        assert!(none.message().contains("no standby follows"), "{none}");
        for first in (1..=2048).step_by(256) {
            let bodies = vec![b"x".to_vec().into(); 256];
            log.append(Batch { epoch, first, bodies }, Box::new(|appended| appended.expect("appended")));
            while log.drive() {}
        }
        log.announce("b", 1000).expect("announced");
        let far = ready_standby(&handover, Duration::ZERO).await.expect_err("it is far behind");
        assert!(far.message().contains("\"b\" lacks 1048 entries"), "{far}");
        log.announce("b", 1024).expect("announced");
        let near = ready_standby(&handover, Duration::ZERO).await.expect("it is near");
        assert_eq!((&*near.server, &*near.followers[0].server), ("a", "b"));
    }
}
