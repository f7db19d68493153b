//! What the node answers without a trip: names, absent names and attributes that it was told and that nobody has changed;
//! that a file has no capabilities, no ACL, and no flag that forbids to open it for writing.
//!
//! - The kernel asks for names again after seconds, or less while others use the bucket, because it drops a name under a
//!   lock (decision 0098). This cache has no such lock: the changes of others drop it before the mount acknowledges them. So
//!   it is as exact as the kernel's caches, and is served only while the lease is fresh and the changes are followed.
//! - A directory that this session made, or listed in one page, is known as a *whole*: a name that is not there is absent.
//! - A call of this session that changes something drops what it concerns when it is sent and when it is answered. A reply is
//!   kept only if nothing concerned it in between.
//! - A look-up that is answered here takes no reference at the store. It is counted, and the kernel's FORGET returns it here
//!   first. The store has a reference of the session for each inode that is answered here, since the reply that brought its
//!   attributes took one. When the kernel returns it, the node keeps it with the attributes (`nodes`): a kernel that drops
//!   its caches finds names and attributes here.
//! - Names, inodes and counts are bounded; beyond the bounds a part is dropped, or the store is asked.
//!
//! It is memory: a process that takes the mount over begins with nothing. A FORGET of the kernel may then name more
//! references than the store counted, which the store expects of mounts that were taken over. So such a process keeps no
//! reference that the kernel returns, and nothing of its inode.

mod deferred;
mod effects;
mod made;
mod nodes;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use objstore_base::error::{Error, Posix, Result};
use objstore_files::{
    Answer, Attr, AttributeOp, Change, DirEntry, Kind, Make, NAME_BYTES_MAX, NameOp, Names, Op, OpenOp, Reply,
    RequestId, Traits,
};
use parking_lot::Mutex;

use crate::forgets::Forgets;
use effects::Effects;
use state::{Name, State};

/// The extended attribute that the kernel asks for before it writes to a file.
const CAPABILITIES: &str = "security.capability";

/// The cache of a session.
#[derive(Default)]
pub(crate) struct Cache {
    state: Mutex<State>,
    /// Takes the references that the store gets back.
    forgets: Arc<Forgets>,
}

/// What the store tells with an answer.
#[derive(Debug, Default)]
pub(crate) struct Besides {
    /// The attributes of what the call changed.
    pub(crate) attrs: Vec<Attr>,
    /// What the inodes of the reply do not have.
    pub(crate) traits: Vec<Traits>,
}

/// A call on its way.
pub(crate) struct Begun {
    /// The number of the last invalidation when it was sent.
    stamp: u64,
    effects: Option<Effects>,
}

impl Cache {
    /// A cache that returns references through `forgets`. If the process takes a mount over (`resumes`), the kernel returns
    /// references with its own that an earlier process answered and the store never counted: none is kept then.
    pub(crate) fn new(forgets: Arc<Forgets>, resumes: bool) -> Self {
        Self { state: Mutex::new(State::new(!resumes)), forgets }
    }

    /// The changes of others are followed from now on: what is asked from now on may be kept.
    pub(crate) fn follow(&self) {
        let mut state = self.state.lock();
        state.clear();
        state.follows = true;
    }

    /// The changes are not followed any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.follows = false;
        state.clear();
    }

    /// The answer, if it is known here. The caller has checked that the lease is fresh.
    pub(crate) fn answer(&self, op: &Op<'_>) -> Option<Result<Answer>> {
        let mut state = self.state.lock();
        let reply = match op {
            Op::Names(NameOp::Lookup { parent, name }) if is_name(name) => match state.name(*parent, name) {
                Name::Leads(ino) => Ok(Reply::Attr(*state.look_up([Some(ino)].into_iter())?.first()?)),
                Name::Absent => Err(Posix::NotFound.into()),
                Name::Unknown => return None,
            },
            Op::Names(NameOp::LookupAll { parent, entries, .. }) => {
                // A name that has changed since it was listed is asked for.
                let leads = |entry: &DirEntry| state.name(*parent, &entry.name) == Name::Leads(entry.ino);
                let inos: Vec<_> = entries.iter().map(|entry| leads(entry).then_some(entry.ino)).collect();
                Ok(Reply::Attrs(state.look_up(inos.into_iter())?.into_iter().map(Ok).collect()))
            }
            Op::Names(NameOp::ReadDir { ino, after: None, limit }) => {
                let listing = state.listing(*ino).filter(|listing| listing.len() <= *limit as usize)?;
                Ok(Reply::Names(Names { entries: listing.to_vec(), next: None }))
            }
            Op::Names(NameOp::Parent { ino }) => Ok(Reply::Number(state.parent(*ino)?)),
            Op::Attributes(AttributeOp::Attr { ino }) => Ok(Reply::Attr(state.attr(*ino)?)),
            Op::Attributes(AttributeOp::Xattr { ino, name }) if name == CAPABILITIES && state.is_incapable(*ino) => {
                Err(Posix::NoData.into())
            }
            Op::Attributes(AttributeOp::Acl { ino, which }) if state.has_no_acl(*ino, *which) => Ok(Reply::Acl(None)),
            Op::Opens(OpenOp::CheckOpen { ino, .. }) if state.is_unprotected(*ino) => Ok(Reply::Done(())),
            _ => return None,
        };
        Some(reply.map(|reply| Answer { reply, recorded: false }))
    }

    /// The kernel returns references; how many of them the store has counted.
    pub(crate) fn forget(&self, ino: u64, count: u64) -> u64 {
        self.state.lock().forget(ino, count)
    }

    /// A call is about to be sent.
    pub(crate) fn begin(&self, op: &Op<'_>) -> Begun {
        let state = &mut *self.state.lock();
        let mut effects = effects::of(op);
        if let Some(effects) = &mut effects {
            effects.begin(state);
        }
        self.give_back(state);
        Begun { stamp: state.stamp(), effects }
    }

    /// The call of a request has an answer.
    pub(crate) fn finish(
        &self,
        begun: Begun,
        op: &Op<'_>,
        (answer, besides): (&Result<Answer>, &Besides),
        request: Option<RequestId>,
    ) {
        let state = &mut *self.state.lock();
        finish(state, begun, op, (answer, besides), request);
        self.give_back(state);
    }

    /// Look-ups that the node made for itself have an answer: it owns their references.
    pub(crate) fn fetched(&self, begun: Begun, op: &Op<'_>, (answer, besides): (&Result<Answer>, &Besides)) {
        let state = &mut *self.state.lock();
        finish(state, begun, op, (answer, besides), None);
        if let Ok(Answer { reply: Reply::Attrs(all), .. }) = answer {
            all.iter().flatten().for_each(|attr| state.own(attr.ino));
        }
        self.give_back(state);
    }

    /// The changes of others, before the kernel drops what they concern.
    pub(crate) fn changed(&self, changes: &[Change]) {
        let state = &mut *self.state.lock();
        for change in changes {
            match change {
                Change::Entry { parent, name } => {
                    if let Name::Leads(ino) = state.name(*parent, name) {
                        state.drop_attr(ino);
                    }
                    state.drop_name(*parent, name);
                    state.drop_attr(*parent);
                }
                Change::Content { ino } => {
                    state.drop_node(*ino);
                    state.drop_directory(*ino);
                }
                Change::Attributes { ino } => state.drop_node(*ino),
                Change::All => state.clear_all(),
                Change::Probe { .. }
                | Change::Sharing { .. }
                | Change::LockGranted { .. }
                // What the node has answered is handed in before (`changes`).
                | Change::Recall { .. } => {}
            }
        }
        self.give_back(state);
    }

    /// Hands on the references that the store gets back.
    fn give_back(&self, state: &mut State) {
        state.returned().into_iter().for_each(|(ino, count)| self.forgets.add_owned(ino, count));
    }
}

/// A call of a request has an answer, with what the store tells besides.
fn finish(
    state: &mut State,
    begun: Begun,
    op: &Op<'_>,
    (answer, besides): (&Result<Answer>, &Besides),
    request: Option<RequestId>,
) {
    let Begun { stamp, effects } = begun;
    let reply = answer.as_ref().map(|answer| &answer.reply);
    let is_kept = match request {
        // The outcome may be one that a process before this one had recorded, and others changed since.
        Some(request) => !request.resent,
        // An inode about which only the mount itself asks may have no reference at the store.
        None => !matches!(op, Op::Attributes(_) | Op::Opens(_)),
    };
    match effects {
        Some(effects) => {
            // The kernel holds a file that it writes, and a directory while it changes its names.
            let attrs = if is_kept && request.is_some() { &*besides.attrs } else { &[] };
            let clean = effects.finish(state, stamp, attrs);
            if let (Ok(reply), true) = (reply, clean && is_kept) {
                keep_changed(state, stamp, op, reply);
            }
        }
        None if is_kept => keep_told(state, stamp, op, reply),
        None => {}
    }
    if let (Ok(reply), true) = (reply, is_kept) {
        keep_traits(state, stamp, reply, &besides.traits);
        keep_traits_above(state, stamp, op, &besides.traits);
    }
    match answer {
        // The kernel looks again after ESTALE, and has to see what the store has.
        Err(Error::Posix(Posix::Stale)) => state.clear(),
        Ok(_) | Err(Error::Posix(_)) => {}
        // Such as a grant that was taken away.
        Err(_) => state.clear(),
    }
}

/// Whether a name can be in a directory: the store refuses others.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= NAME_BYTES_MAX && !name.contains(['/', '\0'])
}

/// Keeps the state after a change of this session, which no other change concerned meanwhile. A name that was removed or
/// moved is not kept as absent: a key that it hid may appear.
fn keep_changed(state: &mut State, stamp: u64, op: &Op<'_>, reply: &Reply) {
    match (op, reply) {
        (Op::Names(NameOp::Make { parent, name, what, .. }), Reply::Attr(made)) => {
            found(state, stamp, (*parent, name), made);
            if matches!(what, Make::Directory) && state.is_listing_since(stamp, made.ino) {
                state.set_whole(made.ino, &[]);
            }
        }
        (Op::Names(NameOp::Create { parent, name, .. }), Reply::Attr(made)) => {
            found(state, stamp, (*parent, name), made);
        }
        (Op::Names(NameOp::Link { parent, name, .. }), Reply::Attr(linked)) => {
            state.set_attr(*linked);
            state.set_name(*parent, name, Name::Leads(linked.ino));
        }
        (Op::Attributes(AttributeOp::SetAttr { ino, .. }), Reply::Attr(attr)) if attr.ino == *ino => {
            state.set_attr(*attr);
        }
        _ => {}
    }
}

/// Keeps what the store told, unless it may be older than a change.
fn keep_told(state: &mut State, stamp: u64, op: &Op<'_>, reply: std::result::Result<&Reply, &Error>) {
    let absent = |error: &Error| matches!(error, Error::Posix(Posix::NotFound));
    match (op, reply) {
        (Op::Names(NameOp::Lookup { parent, name }), Ok(Reply::Attr(attr))) => {
            told(state, stamp, (*parent, name), attr);
        }
        (Op::Names(NameOp::Lookup { parent, name }), Err(error))
            if absent(error) && is_name(name) && state.is_name_since(stamp, *parent, name) =>
        {
            state.set_name(*parent, name, Name::Absent);
        }
        (Op::Names(NameOp::LookupAll { parent, entries, .. }), Ok(Reply::Attrs(all))) => {
            for (entry, looked) in entries.iter().zip(all) {
                if let Ok(attr) = looked {
                    told(state, stamp, (*parent, &entry.name), attr);
                }
            }
        }
        (Op::Names(NameOp::ReadDir { ino, after: None, .. }), Ok(Reply::Names(Names { entries, next: None })))
            if state.is_listing_since(stamp, *ino) =>
        {
            state.set_whole(*ino, entries);
        }
        (Op::Names(NameOp::Pin { .. }) | Op::Attributes(AttributeOp::Attr { .. }), Ok(Reply::Attr(attr)))
            if state.is_attr_since(stamp, attr.ino) =>
        {
            state.set_attr(*attr);
        }
        (Op::Attributes(AttributeOp::Xattr { ino, name }), Err(Error::Posix(Posix::NoData)))
            if name == CAPABILITIES && state.is_attr_since(stamp, *ino) =>
        {
            state.set_incapable(*ino);
        }
        (Op::Attributes(AttributeOp::Acl { ino, which }), Ok(Reply::Acl(None))) if state.is_attr_since(stamp, *ino) => {
            state.set_no_acl(*ino, *which);
        }
        // A file that is opened for appending may be one that can only be appended to.
        (Op::Opens(OpenOp::CheckOpen { ino, appends: false }), Ok(_)) if state.is_attr_since(stamp, *ino) => {
            state.set_unprotected(*ino);
        }
        _ => {}
    }
}

/// Keeps what the inodes of a reply do not have, if their attributes are kept.
fn keep_traits(state: &mut State, stamp: u64, reply: &Reply, traits: &[Traits]) {
    let mut keep = |attr: &Attr, traits: Traits| {
        if state.is_attr_since(stamp, attr.ino) && state.attr(attr.ino).is_some() {
            state.set_traits(attr.ino, traits);
        }
    };
    match reply {
        Reply::Attr(attr) => traits.first().into_iter().for_each(|traits| keep(attr, *traits)),
        Reply::Attrs(all) => {
            for (looked, traits) in all.iter().zip(traits) {
                looked.iter().for_each(|attr| keep(attr, *traits));
            }
        }
        _ => {}
    }
}

/// Keeps what the directory of a new name does not have, which the store tells behind what the new inode does not have.
fn keep_traits_above(state: &mut State, stamp: u64, op: &Op<'_>, traits: &[Traits]) {
    let (Op::Names(NameOp::Create { parent, .. } | NameOp::Make { parent, .. }), Some(told)) = (op, traits.get(1))
    else {
        return;
    };
    if state.is_attr_since(stamp, *parent) && state.attr(*parent).is_some() {
        state.set_traits(*parent, *told);
    }
}

/// A name that was looked up.
fn told(state: &mut State, stamp: u64, (parent, name): (u64, &str), attr: &Attr) {
    if state.is_attr_since(stamp, attr.ino) {
        state.set_attr(*attr);
    }
    if state.is_name_since(stamp, parent, name) {
        state.set_name(parent, name, Name::Leads(attr.ino));
        if attr.kind == Kind::Directory {
            state.set_place(attr.ino, parent, name);
        }
    }
}

/// A new inode of this session, with its name.
fn found(state: &mut State, stamp: u64, (parent, name): (u64, &str), made: &Attr) {
    if state.is_attr_since(stamp, made.ino) {
        state.set_attr(*made);
        state.set_incapable(made.ino);
        state.set_unprotected(made.ino);
    }
    state.set_name(parent, name, Name::Leads(made.ino));
    if made.kind == Kind::Directory {
        state.set_place(made.ino, parent, name);
    }
}
