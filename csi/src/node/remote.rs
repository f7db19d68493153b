//! Volumes of a store on another machine.
//!
//! - The node has no store, and no power but the tickets of volumes that are published to it. A Secret narrows a ticket.
//! - The store is asked through sessions alone: it judges ticket and key when a session is opened, and again whenever the
//!   node reconnects. So a stage whose credentials open nothing fails when its volume is mounted.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use objstore::Result as StoreResult;
use objstore::name::BucketName;
use objstore::volume::Space;
use tonic::Status;

use super::record::Stage;
use super::volumes::{Figures, Opened, Report, Request, Volumes};
use crate::credentials::Credentials;
use crate::{secret, status};

/// How the session of a mount stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its lease is renewed.
    Served,
    /// The store is not reached: calls wait for it.
    Unreached,
    /// It ended, or nothing is mounted: every call fails.
    Lost,
}

/// The sessions of this node's mounts. A call may wait for the store for some seconds, never longer.
pub trait Sessions: Send + Sync {
    /// Whether the credentials open the volume for reading only. A session that is opened to find out is ended at once.
    ///
    /// # Errors
    /// [`objstore::Error::Denied`] if they open nothing.
    fn is_read_only(&self, volume: &BucketName, credentials: &Credentials) -> StoreResult<bool>;

    /// Space of the volume that is mounted at `at`, as statfs(2) shows it. The mount itself is not asked.
    ///
    /// # Errors
    /// If its session does not answer.
    fn space(&self, at: &Path) -> StoreResult<Space>;

    /// How the session of the mount at `at` stands; the store is not asked.
    fn standing(&self, at: &Path) -> Standing;
}

/// The volumes that are published to this node.
pub(super) struct Remote(pub(super) Arc<dyn Sessions>);

impl Volumes for Remote {
    fn open(&self, request: &Request<'_>) -> Result<Opened, Status> {
        name(request.volume)?;
        let ticket = request.context.ticket.clone().ok_or_else(|| {
            Status::failed_precondition(
                "the publish context has no ticket: the server needs --volume-listen, and the volume has to be attached \
                 to this node",
            )
        })?;
        let (key, authority) = (key(request.secrets)?, request.context.authority.clone());
        Ok(Opened { credentials: Some(Credentials { ticket, key, authority }), ..Opened::default() })
    }

    fn find(&self, volume: &str) -> Result<(), Status> {
        name(volume).map(drop)
    }

    fn narrow(&self, stage: &Stage, secrets: &HashMap<String, String>) -> Result<bool, Status> {
        let Some(key) = key(secrets)? else { return Ok(false) };
        let staged = stage.options.credentials.clone().ok_or_else(|| no_ticket(stage))?;
        let credentials = Credentials { key: Some(key), ..staged };
        self.0.is_read_only(&name(&stage.volume)?, &credentials).map_err(status::of)
    }

    fn again(&self, stage: &Stage) -> Result<bool, Status> {
        match stage.options.credentials {
            // The store judges them when the session is opened.
            Some(_) => Ok(false),
            None => Err(no_ticket(stage)),
        }
    }

    fn make_inline(&self, _name: &BucketName, _attributes: &HashMap<String, String>) -> Result<Opened, Status> {
        Err(no_inline())
    }

    /// None was made.
    fn remove_inline(&self, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    fn open_named(&self, _bucket: &BucketName, _secrets: &HashMap<String, String>) -> Result<Opened, Status> {
        Err(no_inline())
    }

    fn report(&self, stage: &Stage) -> Result<Report, Status> {
        let fault = |why: &str| Report { usage: Vec::new(), fault: Some(why.to_owned()) };
        Ok(match self.0.standing(&stage.path) {
            Standing::Lost => fault("the session with the store is lost; stage the volume again"),
            Standing::Unreached => fault("the store is not reached; calls wait for it"),
            Standing::Served => match self.0.space(&stage.path) {
                Ok(space) => Report { usage: figures(&space).usage(), fault: None },
                Err(error) => fault(&format!("the store does not say how much space is used: {error}")),
            },
        })
    }

    /// The controller raises the quota, and every session sees it: a node has nothing to do.
    fn size(&self, _volume: &str) -> Result<Option<u64>, Status> {
        Ok(None)
    }
}

/// The bucket of a volume. An id that is not a valid bucket name cannot exist.
fn name(volume: &str) -> Result<BucketName, Status> {
    volume.parse().map_err(|_| status::no_such_volume(volume))
}

fn key(secrets: &HashMap<String, String>) -> Result<Option<secret::AccessKey>, Status> {
    secret::parse(secrets).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// This node opens volumes by the tickets of their publications, and an inline volume has none.
fn no_inline() -> Status {
    Status::invalid_argument(
        "this node has no store, so it has no inline volumes: use a generic ephemeral volume (ephemeral.volumeClaimTemplate)",
    )
}

/// A record of a server that had the store in its process.
fn no_ticket(stage: &Stage) -> Status {
    Status::failed_precondition(format!("volume \"{}\" is staged without a ticket; stage it again", stage.volume))
}

fn figures(space: &Space) -> Figures {
    let Space { total_bytes, used_bytes, free_bytes, inodes } = *space;
    Figures { total_bytes, used_bytes, free_bytes, inodes, disk_free_bytes: free_bytes }
}
