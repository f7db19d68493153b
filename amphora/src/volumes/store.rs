//! The store, as its listener for nodes needs it: who is admitted to what, and the sessions.

use std::sync::Arc;

use node_codec::session::{Leased, Queued};
use node_codec::{decode_reply, encode_reply};
use node_server::{Done, Named, Opened, Opening, Settled, StoredSession};
use node_session::slot::{Outcome, Outcomes as _};
use node_session::{Boot, CallId, Digest, SessionId, Terms};
use node_wire::credential::{Claim, Secret};
use node_wire::refusal::{Reason, Refusal};
use objstore::clock::Timestamp;
use objstore::name::BucketName;
use objstore::volume::{OpenRemote, QueuedCall, RemoteAbout, RemoteSession, SlotCall, VolumeLease};
use objstore::{Error, Posix, Store, certificate};
use objstore_files::{Answer, Context, FileService, Op, Reply};

use crate::failure::with_causes;
use crate::mounts::Access;

/// The sessions of a store.
pub(super) struct Sessions {
    store: Store,
    terms: Terms,
}

impl Sessions {
    pub(super) fn new(store: Store, terms: Terms) -> Self {
        Self { store, terms }
    }

    /// How the store opens what a node asks for, by what the node has proved.
    fn authorize(&self, opening: &Opening) -> objstore::Result<OpenRemote> {
        let Opening { session, incarnation, node, claim, bucket, prefix, read_only, .. } = opening;
        let ticket = claim.ticket().map(|ticket| text(ticket)).transpose()?;
        if ticket.is_none() && claim.access_key().is_none() {
            return Err(certificate_alone());
        }
        let bucket: BucketName = match &ticket {
            // A ticket names its bucket; a node that names one, too, has to name the same.
            Some(ticket) if bucket.is_empty() => self.store.published_bucket(node, ticket)?,
            _ => bucket.parse()?,
        };
        // A key beside a ticket narrows it.
        let access = claim.access_key().map(|id| Access::proven(&self.store, id, &bucket)).transpose()?;
        let access = access.unwrap_or_default();
        Ok(OpenRemote {
            id: *session,
            incarnation: *incarnation,
            node: node.clone(),
            bucket,
            prefix: prefix.clone(),
            read_only: *read_only || access.read_only,
            ticket,
            account: access.account,
        })
    }
}

fn text(ticket: &[u8]) -> objstore::Result<String> {
    let why = || Error::Denied { why: "the ticket is not one of this store".to_owned() };
    String::from_utf8(ticket.to_vec()).map_err(|_| why())
}

/// Whether the node's certificate has its name, where nodes need certificates: a stolen ticket is worth nothing without the
/// key of its node.
fn names_node(certificate: &[u8], node: &str) -> objstore::Result<()> {
    let names = certificate::names(certificate);
    if names.iter().any(|name| name.eq_ignore_ascii_case(node)) {
        return Ok(());
    }
    let named = names.iter().map(|name| format!("\"{}\"", name.escape_debug())).collect::<Vec<_>>().join(", ");
    let why = format!(
        "the certificate of the node names {}, not \"{node}\": give it a certificate with the node's name (--node-id) as a \
         DNS name or common name",
        if named.is_empty() { "nobody" } else { &named }
    );
    Err(Error::Denied { why })
}

fn certificate_alone() -> Error {
    let why = "a certificate opens no volume: show the ticket of its publication, or an access key".to_owned();
    Error::Denied { why }
}

impl node_server::Store for Sessions {
    fn boot(&self) -> Boot {
        self.store.boot()
    }

    fn secret(&self, access_key: &str) -> Option<Secret> {
        match self.store.identify(access_key) {
            Ok(identity) => identity.map(|identity| Secret::new(identity.secret.reveal())),
            Err(error) => {
                tracing::error!(error = with_causes(&error), "the access key of a node cannot be looked up");
                None
            }
        }
    }

    fn admit(&self, claim: &Claim, node: &str, certificate: Option<&[u8]>) -> Result<(), Refusal> {
        if claim.ticket().is_some() {
            certificate.map_or(Ok(()), |certificate| names_node(certificate, node)).map_err(|error| refusal(&error))?;
        }
        let admitted = match claim.ticket() {
            Some(ticket) => text(ticket).and_then(|ticket| self.store.published_bucket(node, &ticket)).map(drop),
            None if matches!(claim, Claim::Certificate(_)) => Err(certificate_alone()),
            // The proof of the key is checked; the bucket decides at the opening of the session.
            None => Ok(()),
        };
        admitted.map_err(|error| refusal(&error))
    }

    fn open(&self, opening: &Opening) -> Result<Opened, Refusal> {
        if opening.resumes && self.store.remote_session(opening.session).is_none() {
            return Err(Refusal::new(Reason::Session, "the session has ended: mount the volume again"));
        }
        let opened = self.authorize(opening).and_then(|open| self.store.open_remote(&open));
        let remote = opened.map_err(|error| refusal(&error))?;
        let session = Arc::new(Session { id: opening.session, remote });
        Ok(Opened { session, terms: self.terms })
    }

    fn end(&self, session: SessionId) -> objstore::Result<()> {
        self.store.end_remote(session)
    }

    fn named(&self, session: SessionId) -> Named {
        let shown = self.store.remote_session(session).map(|session| session.shown());
        shown.map(|RemoteAbout { node, bucket, .. }| Named { node, bucket: bucket.to_string() }).unwrap_or_default()
    }

    fn recorded(&self) -> Vec<SessionId> {
        self.store.remote_sessions().into_iter().map(|session| session.id).collect()
    }
}

/// The refusal that a node receives for an error of the store.
fn refusal(error: &Error) -> Refusal {
    let reason = match error {
        Error::Denied { .. } => Reason::Credential,
        Error::Posix(Posix::Stale) => Reason::Session,
        Error::TooMany { .. } | Error::Busy { .. } => Reason::Busy,
        Error::NotFound { .. } | Error::Invalid { .. } | Error::Posix(_) => Reason::Request,
        _ => {
            tracing::error!(error = with_causes(error), "the session of a node cannot be opened");
            Reason::Other
        }
    };
    Refusal::new(reason, with_causes(error))
}

/// An open session.
struct Session {
    id: SessionId,
    remote: RemoteSession,
}

impl StoredSession for Session {
    fn files(&self) -> &dyn FileService {
        &self.remote
    }

    fn change(&self, slot: (CallId, Digest), context: &Context, op: Op<'_>, data: &[u8]) -> objstore::Result<Done> {
        let (call, digest) = slot;
        let slot = SlotCall { call, digest, encode, decode };
        let answer = self.remote.execute(context, Some(slot), op, data)?;
        Ok(Done { answer, position: None })
    }

    fn leases(&self) -> bool {
        true
    }

    fn lease(&self) -> objstore::Result<Option<Leased>> {
        let lease = self.remote.lease_volume()?;
        Ok(lease.map(|VolumeLease { grant, inos, now, free_bytes, made }| {
            let (first_ino, inos) = (inos.start, inos.end - inos.start);
            Leased { grant, first_ino, inos, now: now.0, free_bytes, made }
        }))
    }

    fn give_back(&self, grant: u64) {
        self.remote.give_lease_back(grant);
    }

    fn make_queued(&self, queued: &Queued, context: &Context, op: Op<'_>, data: &[u8]) -> objstore::Result<()> {
        let Queued { number, ino, at, .. } = *queued;
        let queued = QueuedCall { number, ino, at: Timestamp(at), encode, decode };
        self.remote.make_queued(context, queued, op, data).map(drop)
    }

    fn pass_queued(&self, number: u64) -> objstore::Result<()> {
        self.remote.pass_queued(number)
    }

    fn settled(&self) -> Settled {
        Box::pin(self.remote.barrier().passed())
    }

    fn is_over(&self) -> bool {
        self.remote.is_over()
    }

    fn last(&self, slot: u32) -> Option<Outcome> {
        self.remote.last(self.id, slot)
    }
}

/// The bytes of a recorded reply: those that the call was answered with.
fn encode(reply: &Reply) -> Vec<u8> {
    encode_reply(&Ok(Answer { reply: reply.clone(), recorded: true })).0
}

/// The reply of these bytes; `None` if they are none.
fn decode(bytes: &[u8]) -> Option<Reply> {
    decode_reply(bytes, Default::default()).ok()?.ok().map(|answer| answer.reply)
}
