//! Rebuilding what a process that ended left behind.
//!
//! - A mount that still answers stays as it is; a dead one is detached and mounted again, and so are its targets.
//! - The grant of the account that opened a volume is asked for anew: what was revoked is taken down, and what may
//!   only be read by now is mounted read-only.
//! - A volume that is gone is taken down. One that fails stays recorded, and the next stage or publish tries again.

use objstore::{Error, Noun};
use tonic::{Code, Status};
use tracing::{info, warn};

use super::record::{Stage, Target};
use super::{Inner, Node, access};
use crate::status;

/// What a recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Stages that answer now.
    pub stages: usize,
    /// Targets that show their volume now.
    pub targets: usize,
    /// Stages and targets taken down, since the volume or the right to it is gone.
    pub removed: usize,
    /// Stages and targets that could not be rebuilt; each is in the log.
    pub failed: usize,
}

impl Node {
    /// Rebuilds all recorded stages and targets. Call it once, before the first request; never fails as a whole.
    pub async fn recover(&self) -> Recovered {
        let inner = self.0.clone();
        let recovered = tokio::task::spawn_blocking(move || inner.recover()).await.unwrap_or_default();
        if recovered != Recovered::default() {
            info!(?recovered, "volumes of the process before this one");
        }
        recovered
    }
}

impl Inner {
    fn recover(&self) -> Recovered {
        let mut recovered = Recovered::default();
        for stage in self.records.stages() {
            match self.recover_stage(&stage) {
                Ok(()) => {
                    recovered.stages += 1;
                    self.recover_targets(&stage, &mut recovered);
                }
                Err(status) if matches!(status.code(), Code::NotFound | Code::PermissionDenied) => {
                    warn!(volume = stage.volume, reason = status.message(), "a volume is taken down");
                    self.remove(&stage, &mut recovered);
                }
                Err(status) => {
                    warn!(volume = stage.volume, reason = status.message(), "a volume could not be mounted again");
                    recovered.failed += 1;
                }
            }
        }
        recovered
    }

    fn recover_stage(&self, stage: &Stage) -> Result<(), Status> {
        let bucket = self.bucket(&stage.volume)?;
        if bucket.id != stage.bucket_id {
            return Err(status::of(Error::not_found(Noun::Bucket, &stage.volume)));
        }
        let mut narrowed = stage.clone();
        if let Some(name) = &stage.options.account {
            let account = self.store.account(name).map_err(status::of)?;
            if stage.options.account_id.is_some_and(|id| id != account.id) {
                return Err(status::of(Error::not_found(Noun::Account, name)));
            }
            narrowed.options.read_only |= access::read_only(&self.store, &account, &bucket)?;
        }
        if narrowed != *stage {
            // A live mount would stay as wide as it was.
            self.unmount_stage(stage).map_err(status::of)?;
            self.records.put_stage(&narrowed).map_err(status::of)?;
        }
        self.revive(&narrowed)
    }

    fn recover_targets(&self, stage: &Stage, recovered: &mut Recovered) {
        for target in self.records.targets(&stage.volume) {
            match self.recover_target(stage, &target) {
                Ok(true) => recovered.targets += 1,
                Ok(false) => recovered.removed += 1,
                Err(status) => {
                    let path = target.path.display();
                    warn!(%path, reason = status.message(), "a volume could not be published again");
                    recovered.failed += 1;
                }
            }
        }
    }

    /// Binds a dead target anew; whether it shows the volume now. One whose folder is gone was cleaned up by hand.
    fn recover_target(&self, stage: &Stage, target: &Target) -> Result<bool, Status> {
        if self.is_shown(stage, &target.path, target.flags)? {
            return Ok(true);
        }
        self.hide(&target.path)?;
        if std::fs::symlink_metadata(&target.path).is_err() {
            return self.records.forget_target(&target.path).map(|()| false).map_err(status::of);
        }
        let bound = self.binder.bind(&stage.path, &target.path, target.flags);
        bound
            .map(|()| true)
            .map_err(|error| Status::internal(format!("binding \"{}\" failed: {error}", target.path.display())))
    }

    fn remove(&self, stage: &Stage, recovered: &mut Recovered) {
        for target in self.records.targets(&stage.volume) {
            let removed = self.hide(&target.path);
            recovered.count(removed.and_then(|()| self.records.forget_target(&target.path).map_err(status::of)));
        }
        let unmounted = self.unmount_stage(stage);
        recovered.count(unmounted.and_then(|()| self.records.forget_stage(&stage.volume)).map_err(status::of));
    }
}

impl Recovered {
    fn count(&mut self, removed: Result<(), Status>) {
        match removed {
            Ok(()) => self.removed += 1,
            Err(status) => {
                warn!(reason = status.message(), "a mount could not be taken down");
                self.failed += 1;
            }
        }
    }
}
