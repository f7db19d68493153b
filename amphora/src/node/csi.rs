//! CSI on a machine without a store: volumes are mounted with the tickets of their publications.
//!
//! - The store is known by the authority that the publication names, or else by that of `--ca`.
//! - A mount whose session is lost counts as dead, so that the next stage makes it again.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use csi::credentials::Credentials;
use csi::{MountOptions, MountState, Mounter, Sessions, Standing};
use objstore::name::BucketName;
use objstore::volume::Space;
use objstore::{Error, Posix, Result};
use objstore_files::SessionStanding;

use crate::config::TlsFiles;
use crate::mounts::{Node, Proof, Remote, Request, Table};

/// How long the store may take to say how much space is used.
const SPACE: Duration = Duration::from_secs(5);

/// The volumes of a store on another machine.
pub(super) struct Volumes {
    pub(super) mounts: Arc<Table>,
    pub(super) node: Node,
    /// The volume listener of the store, as `HOST:PORT`.
    pub(super) server: String,
    /// The authority (PEM) of `--ca`.
    pub(super) authority: Option<String>,
    /// The certificate of this node.
    pub(super) identity: Option<TlsFiles>,
}

impl Volumes {
    fn remote(&self, credentials: &Credentials) -> Result<Remote> {
        let authority = credentials.authority.clone().or_else(|| self.authority.clone());
        let authority = authority.ok_or_else(|| Error::Unusable {
            why: "the store shows a certificate of another authority than its own: name that authority with --ca"
                .into(),
        })?;
        let ticket = credentials.ticket.reveal().to_owned();
        let proof = match &credentials.key {
            None => Proof::Ticket(ticket),
            Some(key) => Proof::TicketAndKey { ticket, id: key.id.clone(), secret: key.secret.reveal().to_owned() },
        };
        Ok(Remote::new(self.server.clone(), Some(authority), proof).showing(self.identity.clone()))
    }
}

impl Mounter for Volumes {
    fn mount(&self, bucket: &BucketName, at: &Path, options: &MountOptions) -> Result<()> {
        let none = || Error::Unusable { why: "the volume is staged without a ticket: stage it again".into() };
        let remote = self.remote(options.credentials.as_ref().ok_or_else(none)?)?;
        self.mounts.mount_volume(Request::of_volume(bucket, options, Some(remote)), at)
    }

    fn unmount(&self, at: &Path) -> Result<()> {
        let files = self.mounts.files(at);
        let unmounted = Mounter::unmount(&*self.mounts, at);
        // Asked afterwards: the session may have ended just now, and its node notices that with the first refused call.
        let is_lost = files.is_some_and(|files| files.standing() == SessionStanding::Lost);
        match unmounted {
            // Programs had their errors when the session was lost: what was not synced then cannot be synced now.
            Err(error)
                if (is_lost || matches!(error, Error::Posix(Posix::Stale)))
                    && Mounter::state(&*self.mounts, at)? == MountState::NotMounted =>
            {
                tracing::warn!(at = %at.display(), %error, "a mount whose session was lost is unmounted");
                Ok(())
            }
            done => done,
        }
    }

    fn state(&self, at: &Path) -> Result<MountState> {
        Ok(match Mounter::state(&*self.mounts, at)? {
            MountState::Ours(_) if self.standing(at) == Standing::Lost => MountState::Stale,
            state => state,
        })
    }

    fn is_administrators(&self, at: &Path) -> bool {
        self.mounts.is_administrators(at)
    }
}

impl Sessions for Volumes {
    fn is_read_only(&self, volume: &BucketName, credentials: &Credentials) -> Result<bool> {
        let remote = self.remote(credentials)?;
        let request = Request::of_volume(volume, &MountOptions::default(), Some(remote.clone()));
        let files = self.node.open(&request, &remote, false)?;
        let read_only = files.about().read_only;
        files.end();
        Ok(read_only)
    }

    fn space(&self, at: &Path) -> Result<Space> {
        let files = self.mounts.files(at).ok_or_else(|| Error::Unusable { why: "nothing is mounted there".into() })?;
        let (answer, answered) = mpsc::channel();
        // It waits for the store, which may be out of reach for long.
        std::thread::spawn(move || answer.send(files.own().space()));
        let late = |_| Error::Busy { what: "the store, which does not answer".into() };
        answered.recv_timeout(SPACE).map_err(late)?
    }

    fn standing(&self, at: &Path) -> Standing {
        match self.mounts.files(at).map(|files| files.standing()) {
            Some(SessionStanding::Served) => Standing::Served,
            Some(SessionStanding::Unreached) => Standing::Unreached,
            Some(SessionStanding::Lost) | None => Standing::Lost,
        }
    }
}
