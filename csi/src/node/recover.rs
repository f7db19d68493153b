//! Recovery: rebuilding the mounts that an earlier process left.
//!
//! - A working mount stays. A dead one is detached and mounted again, and so are its targets.
//! - The grant of the account that opened a volume is checked again, here or by the store that the mount connects to: a mount without it is removed, and one whose grant
//!   is now read-only is mounted read-only.
//! - The mounts of a deleted volume are removed. Mounts that cannot be rebuilt stay recorded, and the next stage or
//!   publish tries again.

use tonic::{Code, Status};
use tracing::{info, warn};

use super::record::{Shown, Stage, Target};
use super::{Inner, Node};
use crate::capability::Kind;
use crate::status;

/// The result of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Number of stages that work.
    pub stages: usize,
    /// Number of targets that show their volume.
    pub targets: usize,
    /// Number of stages and targets removed because the volume or the grant is gone.
    pub removed: usize,
    /// Number of stages and targets that could not be rebuilt; each is logged.
    pub failed: usize,
}

impl Node {
    /// Rebuilds all recorded stages and targets. Call it once, before the first request; it never fails as a whole.
    pub async fn recover(&self) -> Recovered {
        let inner = self.0.clone();
        let recovered = tokio::task::spawn_blocking(move || inner.recover()).await.unwrap_or_default();
        if recovered != Recovered::default() {
            info!(?recovered, "recovered the volumes of the previous process");
        }
        recovered
    }
}

impl Inner {
    fn recover(&self) -> Recovered {
        let mut recovered = Recovered::default();
        self.drop_left_devices();
        for stage in self.records.stages() {
            match self.recover_stage(&stage) {
                Ok(()) => {
                    recovered.stages += 1;
                    // It may have been narrowed.
                    let stage = self.records.stage(&stage.volume).unwrap_or(stage);
                    self.recover_targets(&stage, &mut recovered);
                }
                Err(status) if matches!(status.code(), Code::NotFound | Code::PermissionDenied) => {
                    warn!(
                        volume = stage.volume,
                        reason = status.message(),
                        "unmounting a volume: it was deleted or its grant is gone"
                    );
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
        let mut narrowed = stage.clone();
        narrowed.options.read_only |= self.volumes.again(stage)?;
        if narrowed != *stage {
            // A working mount would keep its wider access.
            self.unmount_own(&stage.volume)?;
            self.unmount_stage(stage)?;
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

    /// Binds a dead target again. Returns whether it shows the volume now. A target whose folder is gone was cleaned up
    /// manually.
    fn recover_target(&self, stage: &Stage, target: &Target) -> Result<bool, Status> {
        if self.shows_target(stage, target)? {
            return Ok(true);
        }
        self.hide_target(target)?;
        if std::fs::symlink_metadata(&target.path).is_err() {
            return self.records.forget_target(&target.path).map(|()| false).map_err(status::of);
        }
        if target.kind == Kind::Block {
            return self.show_device(stage, target).map(|()| true);
        }
        if let Shown::Own { group } = target.shown {
            return self.show_own(stage, target, group).map(|()| true);
        }
        let bound = self.binder.bind(&stage.path, &target.path, target.flags);
        bound
            .map(|()| true)
            .map_err(|error| Status::internal(format!("binding \"{}\" failed: {error}", target.path.display())))
    }

    fn remove(&self, stage: &Stage, recovered: &mut Recovered) {
        for target in self.records.targets(&stage.volume) {
            let removed = self.hide_target(&target);
            recovered.count(removed.and_then(|()| self.records.forget_target(&target.path).map_err(status::of)));
        }
        let unmounted = self.unmount_stage(stage);
        recovered.count(unmounted.and_then(|()| self.records.forget_stage(&stage.volume).map_err(status::of)));
    }
}

impl Recovered {
    fn count(&mut self, removed: Result<(), Status>) {
        match removed {
            Ok(()) => self.removed += 1,
            Err(status) => {
                warn!(reason = status.message(), "cannot unmount a mount");
                self.failed += 1;
            }
        }
    }
}
