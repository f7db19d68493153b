//! A store that keeps its sessions in memory: each ticket names what opens the files of its session.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use node_server::{Opened, Opening, Store, StoredSession};
use node_session::{Boot, SessionId, Terms};
use node_wire::credential::{Claim, Secret};
use node_wire::refusal::{Reason, Refusal};
use objstore_base::error::Result;
use objstore_files::FileService;
use parking_lot::Mutex;

/// Opens the files of a session; called again for a session that goes on after a restart of the listener.
pub type Files = Box<dyn Fn(&Opening) -> Option<Arc<dyn StoredSession>> + Send + Sync>;

/// What outlives the listener.
#[derive(Default)]
pub struct Tickets(pub Mutex<HashMap<Bytes, Files>>);

/// The store behind one listener.
pub struct Memory {
    pub boot: Boot,
    pub terms: Terms,
    pub tickets: Arc<Tickets>,
    pub sessions: Mutex<HashMap<SessionId, Arc<dyn StoredSession>>>,
}

/// A session that is its files alone.
pub struct Plain(pub Box<dyn FileService>);

impl StoredSession for Plain {
    fn files(&self) -> &dyn FileService {
        &*self.0
    }
}

fn unknown() -> Refusal {
    Refusal::new(Reason::Credential, "the ticket is unknown")
}

impl Store for Memory {
    fn boot(&self) -> Boot {
        self.boot
    }

    fn secret(&self, _access_key: &str) -> Option<Secret> {
        None
    }

    fn admit(&self, claim: &Claim, _node: &str, _certificate: Option<&[u8]>) -> std::result::Result<(), Refusal> {
        match claim {
            Claim::Ticket(ticket) if self.tickets.0.lock().contains_key(ticket) => Ok(()),
            _ => Err(unknown()),
        }
    }

    fn open(&self, opening: &Opening) -> std::result::Result<Opened, Refusal> {
        let Claim::Ticket(ticket) = &opening.claim else { return Err(unknown()) };
        let session = self.tickets.0.lock().get(ticket).ok_or_else(unknown)?(opening);
        let session = session.ok_or_else(|| Refusal::new(Reason::Session, "the session is ended"))?;
        self.sessions.lock().insert(opening.session, Arc::clone(&session));
        Ok(Opened { session, terms: self.terms })
    }

    fn end(&self, session: SessionId) -> Result<()> {
        let ended = self.sessions.lock().remove(&session);
        if let Some(session) = ended {
            session.files().close_changes();
            session.files().end();
        }
        Ok(())
    }
}
