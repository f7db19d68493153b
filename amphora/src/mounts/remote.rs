//! Mounts of buckets whose store is on another machine.
//!
//! - What such a mount needs to connect again, its secret included, is part of the description that the holder keeps in
//!   memory. Nothing of it is written to a disk here.
//! - The session's id is chosen before the mount is made, so that opening it twice opens it once.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use node_client::{Options, Unopened};
use node_session::{Incarnation, SessionId as RemoteId};
use node_wire::client::Config;
use node_wire::credential::{Credential, Secret};
use node_wire::refusal::Reason;
use objstore::Posix;
use objstore::clock::{Random as _, SystemRandom};
use objstore::volume::SessionId;
use objstore_files::FileSession;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::connecting::Connecting;
use super::request::Request;
use crate::boot_clock;
use crate::config::TlsFiles;

/// How long a store may take to answer the opening of a mount.
const OPENING: Duration = Duration::from_secs(20);
/// How long a mount that another process left waits for its store, which may be restarting.
const TAKEOVER: Duration = Duration::from_secs(120);

/// The store of a mount, on another machine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Its volume listener, as `HOST:PORT`.
    pub server: String,
    /// The certificates (PEM) of the authority that it is known by; `None`: by its knowledge of the access key's secret.
    pub ca: Option<String>,
    /// What opens the session.
    pub proof: Proof,
    /// The certificate that the node shows, if it has one.
    #[serde(default)]
    pub identity: Option<TlsFiles>,
    /// The id of the session.
    session: u128,
}

/// What opens a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// An access key: no more than its account's grant.
    AccessKey {
        /// Its id.
        id: String,
        /// Its secret.
        secret: String,
    },
    /// The ticket of a publication to this node.
    Ticket(String),
    /// A ticket, and an access key that narrows it.
    TicketAndKey {
        /// The ticket.
        ticket: String,
        /// The id of the key.
        id: String,
        /// The secret of the key.
        secret: String,
    },
}

impl Proof {
    fn credential(&self) -> Credential {
        match self {
            Self::AccessKey { id, secret } => {
                Credential::AccessKey { id: id.clone(), secret: Secret::new(secret.as_bytes()) }
            }
            Self::Ticket(ticket) => Credential::Ticket(ticket.clone().into_bytes().into()),
            Self::TicketAndKey { ticket, id, secret } => Credential::TicketAndKey {
                ticket: ticket.clone().into_bytes().into(),
                id: id.clone(),
                secret: Secret::new(secret.as_bytes()),
            },
        }
    }
}

impl Remote {
    /// A store with a new session.
    pub fn new(server: String, ca: Option<String>, proof: Proof) -> Self {
        let mut id = [0; 16];
        SystemRandom.fill(&mut id);
        // Its lower half names the deposit with the holder, where zero is no id.
        Self { server, ca, proof, identity: None, session: u128::from_be_bytes(id) | 1 }
    }

    /// This store, to which the node shows a certificate.
    #[must_use]
    pub fn showing(self, identity: Option<TlsFiles>) -> Self {
        Self { identity, ..self }
    }

    /// The id of the deposit with the holder.
    pub(super) fn id(&self) -> Option<SessionId> {
        SessionId::new(self.session as u64)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("server", &self.server).finish_non_exhaustive()
    }
}

/// This process as a node: it opens sessions with stores on other machines.
#[derive(Clone)]
pub struct Node {
    /// The name of this machine.
    pub name: String,
    /// The number of this process, higher than that of all earlier ones.
    pub incarnation: Incarnation,
    /// Where connections are served.
    pub runtime: Handle,
    /// The folder for changes that are answered before the store has made them. `None` without a holder: no next process would
    /// hand them in.
    pub journals: Option<PathBuf>,
}

impl Node {
    /// Opens the session of a mount. `resumes`: an earlier process served it.
    ///
    /// # Errors
    /// Why the store refused, or was not reached.
    pub fn open(&self, request: &Request, remote: &Remote, resumes: bool) -> objstore::Result<FileSession> {
        let connecting = Connecting::new(remote);
        // The mount of an earlier process waits for its files as for its store: they may just be replaced.
        if let (Err(why), false) = (connecting.check(), resumes) {
            return Err(objstore::Error::Unusable { why });
        }
        let config = Config::new(&self.name, Default::default(), remote.proof.credential());
        let options = Options {
            session: RemoteId(remote.session),
            incarnation: self.incarnation,
            resumes,
            bucket: request.bucket.to_string(),
            prefix: request.prefix.clone(),
            read_only: request.fixed_read_only,
            kept: remote.id(),
            journal: self.journals.as_ref().map(|folder| folder.join(format!("{:032x}", remote.session))),
            limit: if resumes { TAKEOVER } else { OPENING },
            patience: node_client::PATIENCE,
            clock: boot_clock::clock(),
        };
        let random: node_wire::Random = Arc::new(|bytes: &mut [u8]| SystemRandom.fill(bytes));
        let opened = self.runtime.block_on(node_client::open(connecting, config, options, &random));
        opened.map(FileSession::new).map_err(|error| refused(&remote.server, &error))
    }
}

fn refused(server: &str, error: &Unopened) -> objstore::Error {
    let why = format!("{server}: {error}");
    match error {
        Unopened::Refused(refusal) => match refusal.reason {
            Reason::Session => Posix::Stale.into(),
            Reason::Credential => objstore::Error::Denied { why },
            Reason::Busy | Reason::Stopping => objstore::Error::Busy { what: why },
            _ => objstore::Error::Unusable { why },
        },
        Unopened::Unproven(_) | Unopened::Unreachable(_) => objstore::Error::Unusable { why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_in_no_text() {
        let (id, secret) = ("AKEXAMPLE".to_owned(), "hunter2".to_owned());
        for proof in [
            Proof::AccessKey { id: id.clone(), secret: secret.clone() },
            Proof::Ticket("hunter2".into()),
            Proof::TicketAndKey { ticket: "hunter2".into(), id, secret },
        ] {
            let remote = Remote::new("store:7000".into(), None, proof);
            assert!(!format!("{remote:?}").contains("hunter2"));
            let again: Remote = serde_json::from_slice(&serde_json::to_vec(&remote).expect("written")).expect("read");
            assert_eq!(again, remote);
            assert!(remote.id().is_some());
        }
    }
}
