//! Opening and resuming sessions of mounts on other machines, and serving them again when the store opens.

use std::sync::Arc;

use node_session::{Incarnation, SessionId};
use parking_lot::Mutex;
use prost::Message;

use super::super::session::{Place, Session, Volume, VolumeOptions, place};
use super::exclusive::Queue;
use super::session::{Remote, RemoteAbout, RemoteSession};
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::feed::FeedOwner;
use crate::meta::{Durability, Txn};
use crate::name::{self, BucketName};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::{Remote as RemoteRecord, Session as Record};
use crate::session_id::SessionId as OwnId;
use crate::state::{Appends, Leaseholder, Served, refused};
use crate::store::{Published, Recorded, Store, published, refuse_ended, remote_sessions};

/// The most sessions of other machines that a store has at a time: as many as its listener has connections.
const SESSIONS_MAX: usize = 4096;

/// The most of these that were opened by one account without a ticket: nobody takes all places of others.
const ACCOUNT_SESSIONS_MAX: usize = 256;

/// The most of these that were opened by one publication: a node needs one, and one more for each Secret it checks.
const PUBLICATION_SESSIONS_MAX: usize = 64;

/// How a node opens a session, or resumes it.
#[derive(Clone, Debug)]
pub struct OpenRemote {
    /// The id that the node chose. Opening an id twice opens one session.
    pub id: SessionId,
    /// The number of the node's process; at least that of the last one.
    pub incarnation: Incarnation,
    /// The name of the node, as its credential allows it.
    pub node: String,
    /// The bucket or snapshot. With a ticket it is that of the publication.
    pub bucket: BucketName,
    /// The directory that becomes the root; empty for the whole bucket. A later opening of the id does not change it.
    pub prefix: String,
    /// Refuse all changes, also if more is allowed.
    pub read_only: bool,
    /// The ticket of the publication, if one is shown.
    pub ticket: Option<String>,
    /// The account whose access key the node has proved, if it did. The session can do no more than its grant allows.
    pub account: Option<String>,
}

impl Store {
    /// Opens a session of a mount on another machine, or resumes it: the same node, by the same publication or account.
    /// When it returns, the session is on disk.
    ///
    /// # Errors
    /// [`Error::Denied`] without a valid ticket and without an account with a grant. ESTALE for an id that ended.
    /// [`Error::Invalid`] for an id of another node or credential, or for an earlier process of the node.
    pub fn open_remote(&self, open: &OpenRemote) -> Result<RemoteSession> {
        name::plain("node id", &open.node)?;
        let authority = self.judge(open)?;
        if self.remote_session(open.id).is_none()
            && let Some(bucket) = self.core.bucket_known(&open.bucket)?
        {
            // Before the opening holds up others, among them the end of a session that does not answer.
            self.take_lease_back(bucket.id);
        }
        let _beginning = self.remote.begin();
        let session = match self.remote_session(open.id) {
            Some(session) => session,
            None => self.begin_remote(open, &authority)?,
        };
        session.resume(open, &authority)?;
        Ok(session)
    }

    /// What the ticket opens; without one, an account has to open the session.
    fn judge(&self, open: &OpenRemote) -> Result<Published> {
        let Some(ticket) = &open.ticket else {
            if open.account.is_none() {
                let why = "a mount on another machine needs a ticket of its publication, or an access key".into();
                return Err(Error::Denied { why });
            }
            return Ok(Published { bucket: open.bucket.clone(), read_only: false, epoch: 0, ticket_suffices: false });
        };
        let authority = published(&*self.core.meta.snapshot(), &open.node, ticket)?;
        if authority.bucket != open.bucket {
            let why = format!("the ticket of node \"{}\" is not of bucket \"{}\"", open.node, open.bucket);
            return Err(Error::Denied { why });
        }
        if !authority.ticket_suffices && open.account.is_none() {
            let bucket = &open.bucket;
            let why = format!(
                "bucket \"{bucket}\" was not made as a volume: a mount needs an access key of the bucket as well"
            );
            return Err(Error::Denied { why });
        }
        Ok(authority)
    }

    fn begin_remote(&self, open: &OpenRemote, authority: &Published) -> Result<RemoteSession> {
        if self.remote.len() >= SESSIONS_MAX {
            return Err(Error::TooMany { what: "sessions of other machines", limit: SESSIONS_MAX as u64 });
        }
        self.check_share(open, authority)?;
        let core = &self.core;
        let place = place(core, &*core.meta.snapshot(), &open.bucket, &open.prefix)?;
        let read_only = open.read_only || authority.read_only;
        let options = VolumeOptions { read_only, account: open.account.clone(), ..VolumeOptions::default() };
        let Place { bucket, clone_group, frozen, root } = place;
        let mut session = Session::new(self, open.bucket.clone(), place, options);
        session.check(!session.read_only)?;
        if core.leases.is_leased(bucket) {
            return Err(Error::Busy {
                what: format!("bucket \"{}\", which another session has just leased", open.bucket),
            });
        }
        let account = session.access_check.account_id();
        let remote = RemoteRecord {
            id: open.id.0.to_be_bytes().to_vec(),
            node: open.node.clone(),
            read_only: session.read_only,
            epoch: authority.epoch,
            account: open.account.clone(),
            incarnation: open.incarnation.0,
            ..RemoteRecord::default()
        };
        let name = open.bucket.to_string();
        let record = Record { bucket, name, clone_group, frozen, root, account, remote: Some(remote) };
        let own = self.new_session();
        self.record_remote(open, own, record)?;
        let appends = Arc::new(Appends::new(core.disk.clone(), &core.dir, own));
        let mount = session.mount;
        core.persistent.begin(own, bucket, mount, appends.clone());
        session.serve(Served { id: own, mount, appends, account, remote: true });
        core.feeds.open(bucket, mount, FeedOwner::Leased);
        let incarnation = open.incarnation;
        let (node, account) = (open.node.clone(), open.account.clone());
        let opener = (node, authority.epoch, account);
        Ok(self.serve_remote((open.id, incarnation), opener, self.enter(session), Queue::default()))
    }

    /// Refuses a session beyond the share of one account, or of one publication.
    fn check_share(&self, open: &OpenRemote, authority: &Published) -> Result<()> {
        let (what, limit) = match authority.epoch {
            0 => ("sessions of other machines for one account", ACCOUNT_SESSIONS_MAX),
            _ => ("sessions of one publication", PUBLICATION_SESSIONS_MAX),
        };
        let mine = |session: &RemoteAbout| {
            session.epoch == authority.epoch && (session.by_ticket || session.account == open.account)
        };
        match self.remote_sessions().iter().filter(|session| mine(session)).count() < limit {
            true => Ok(()),
            false => Err(Error::TooMany { what, limit: limit as u64 }),
        }
    }

    /// Records a session, unless its publication or its id has ended meanwhile.
    fn record_remote(&self, open: &OpenRemote, own: OwnId, record: Record) -> Result<()> {
        let (id, node, ticket) = (open.id, open.node.clone(), open.ticket.clone());
        let written = self.core.meta.write(Durability::Synced, move |txn| {
            refuse_ended(&*txn, id)?;
            if let Some(ticket) = ticket {
                published(&*txn, &node, &ticket)?;
            }
            let key = key::by_id(tag::SESSION, own.get());
            if txn.get(&key)?.is_some() {
                return Err(refused(own, "there is one with this id already"));
            }
            txn.put(key, record.encode_to_vec());
            Ok(())
        });
        written.wait()
    }

    fn serve_remote(
        &self,
        (id, incarnation): (SessionId, Incarnation),
        (node, epoch, account): (String, u64, Option<String>),
        volume: Volume,
        queue: Queue,
    ) -> RemoteSession {
        let incarnation = Mutex::new(incarnation);
        let remote = Arc::new(Remote {
            id,
            node,
            epoch,
            account,
            incarnation,
            volume,
            calls: Default::default(),
            appends: Mutex::default(),
            queue: Mutex::new(queue),
        });
        self.remote.add(id, remote.clone());
        RemoteSession(remote)
    }
}

impl RemoteSession {
    /// Lets a process of the node use the session.
    fn resume(&self, open: &OpenRemote, authority: &Published) -> Result<()> {
        let Remote { node, epoch, account, incarnation, volume, .. } = &*self.0;
        let same =
            (node, epoch, account, volume.bucket()) == (&open.node, &authority.epoch, &open.account, &open.bucket);
        if !same {
            return Err(self.refused("another node or credential opened it"));
        }
        // Revoked or ended since.
        volume.0.check(false)?;
        let _under_way = self.0.calls.begin().ok_or(Posix::Stale)?;
        let mut incarnation = incarnation.lock();
        match open.incarnation.cmp(&incarnation) {
            std::cmp::Ordering::Less => return Err(self.refused("a later process of its node uses it")),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => self.record_incarnation(open.incarnation)?,
        }
        *incarnation = open.incarnation;
        Ok(())
    }

    fn refused(&self, why: &str) -> Error {
        Error::invalid("session", format!("{:032x}", self.0.id.0), why)
    }

    /// Records the number of the node's process, so that after a restart no earlier one takes the session back.
    fn record_incarnation(&self, incarnation: Incarnation) -> Result<()> {
        let Session { core, id, .. } = &*self.0.volume.0;
        let key = id.map(|own| key::by_id(tag::SESSION, own.get())).ok_or(Posix::Stale)?;
        let written = core.meta.write(Durability::Synced, move |txn| raise_incarnation(txn, key, incarnation));
        written.wait()
    }
}

fn raise_incarnation(txn: &mut dyn Txn, key: Vec<u8>, incarnation: Incarnation) -> Result<()> {
    let value = txn.get(&key)?.ok_or(Posix::Stale)?;
    let mut record: Record = decode("a session", &value)?;
    if let Some(remote) = &mut record.remote {
        remote.incarnation = incarnation.0;
    }
    txn.put(key, record.encode_to_vec());
    Ok(())
}

/// Serves all recorded sessions, when a store opens. One that cannot be served is ended: its node receives ESTALE.
pub(crate) fn resume_all(store: &Store) -> Result<()> {
    let core: &Arc<Core> = &store.core;
    for Recorded { id, own, record } in remote_sessions(&*core.meta.snapshot())? {
        let Some(remote) = record.remote else { continue };
        let served = record.name.parse::<BucketName>().and_then(|bucket| {
            let account = remote.account.clone();
            let options = VolumeOptions { read_only: remote.read_only, account, ..VolumeOptions::default() };
            store.open_volume(&bucket, VolumeOptions { session: Some(own), inherited: true, ..options })
        });
        match served {
            Ok(volume) => {
                volume.settle_writes()?;
                let incarnation = Incarnation(remote.incarnation);
                if remote.lease != 0 {
                    // Its node may have answered what the store lacks.
                    let holder = Leaseholder { session: id, own, mount: volume.0.mount };
                    core.leases.recorded(volume.0.bucket, holder, remote.lease);
                }
                let queue = Queue::recorded(remote.first_ino..remote.first_ino.saturating_add(remote.inos));
                let opener = (remote.node, remote.epoch, remote.account);
                store.serve_remote((id, incarnation), opener, volume, queue);
            }
            Err(error) => {
                tracing::error!(%error, node = remote.node, "a mount on another machine cannot be served any more; it is ended");
                store.end_remote(id)?;
            }
        }
    }
    Ok(())
}
