//! A session as the service of files that a mount uses (`objstore-files`).
//!
//! - Each operation is one line: it calls the method of [`Volume`] that does it. Nothing is decided here.
//! - A call that changes the store acts for its request, so that what must not be done again is recorded: the outcome of a
//!   call of class `Once`, and the version that any change of content begins. See `replay`.
//! - It is answered when all other mounts of the bucket have applied the change (`feed`).

use objstore_files::{
    About, Answer, AttributeOp, Backing, Changes, ContentOp, Context, FileService, FileSession, LocalFiles, LockOp,
    NameOp, Op, OpenOp, Released, Reply, RequestId, Traits, Unfit,
};

use super::replay::{Call, Recorded};
use super::session::Volume;
use crate::error::{Error, Result};
use crate::feed::{Change, Feed};
use crate::session_id::SessionId;

impl FileService for Volume {
    fn about(&self) -> About {
        About {
            number: self.number(),
            id: self.session(),
            inherited: self.inherited(),
            life: self.life(),
            root: self.root(),
            bucket_id: self.bucket_id(),
            read_only: self.read_only(),
        }
    }

    fn call(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        self.check_session(context)?;
        let waits = op.waits_for_others();
        let answer = self.execute_for(context, op, data)?;
        if waits {
            self.0.core.feeds.behind_of(self.0.bucket, self.0.mount).wait();
        }
        Ok(answer)
    }

    fn answered(&self, request: RequestId) {
        Recorded::of(self, request).answered();
    }

    fn changes(&self) -> Box<dyn Changes> {
        let feed = self.feed();
        self.0.core.feeds.tell_sharing(self.0.bucket, self.0.mount);
        Box::new(feed)
    }

    fn close_changes(&self) {
        self.close_feed();
    }

    fn end(&self) {
        Self::end(self);
    }

    fn keeps_locks(&self) -> bool {
        true
    }

    fn traits(&self, inos: &[u64]) -> Vec<Traits> {
        self.traits_of(inos)
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        Some(self)
    }
}

impl From<Volume> for FileSession {
    fn from(volume: Volume) -> Self {
        Self::new(volume)
    }
}

impl Volume {
    /// The number that calls name the session by: a persistent session's stays the same, another's is the mount's.
    fn number(&self) -> u64 {
        self.session().map_or(self.0.mount, SessionId::get)
    }

    /// Refuses a call of another session.
    pub(super) fn check_session(&self, context: &Context) -> Result<()> {
        if context.session == self.number() {
            return Ok(());
        }
        let why = format!("this service serves session {}", self.number());
        Err(Error::invalid("session", context.session.to_string(), why))
    }

    fn execute_for(&self, context: &Context, op: Op<'_>, data: &[u8]) -> Result<Answer> {
        let Some(request) = context.request.filter(|_| op.class().changes_store()) else {
            return Ok(Answer { reply: self.execute(op, data)?, recorded: false });
        };
        let call = Call::new(request);
        let done = self.for_call(&call).execute(op, data);
        let recorded = call.recorded();
        match done {
            Ok(reply) => Ok(Answer { reply, recorded: recorded.is_some() }),
            // The version was begun and the change failed: an error says nothing of a record, and is not sent again.
            Err(error) => {
                recorded.into_iter().for_each(Recorded::answered);
                Err(error)
            }
        }
    }

    pub(super) fn execute(&self, op: Op<'_>, data: &[u8]) -> Result<Reply> {
        match op {
            Op::Names(op) => self.execute_on_names(op),
            Op::Attributes(op) => self.execute_on_attributes(op),
            Op::Content(op) => self.execute_on_content(op, data),
            Op::Opens(op) => self.execute_on_opens(op),
            Op::Locks(op) => self.execute_on_locks(op),
        }
    }

    fn execute_on_names(&self, op: NameOp<'_>) -> Result<Reply> {
        Ok(match op {
            NameOp::Lookup { parent, name } => self.lookup(parent, &name)?.into(),
            NameOp::LookupAll { parent, entries, listed: true } => self.lookup_listed(parent, &entries).into(),
            NameOp::LookupAll { parent, entries, listed: false } => {
                let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
                self.lookup_all(parent, &names).into()
            }
            NameOp::Pin { ino } => self.pin(ino)?.into(),
            NameOp::Forget { ino, count } => {
                self.forget(ino, count);
                Reply::Done(())
            }
            NameOp::Parent { ino } => self.parent(ino)?.into(),
            NameOp::Path { ino } => self.path(ino)?.into(),
            NameOp::ReadDir { ino, after, limit } => {
                self.read_dir_from(ino, after.as_deref(), limit.max(1) as usize)?.into()
            }
            NameOp::ReadLink { ino } => self.read_link(ino)?.into(),
            NameOp::Make { parent, name, what, owner } => self.make(parent, &name, what, owner)?.into(),
            NameOp::Create { parent, name, owner } => self.create(parent, &name, owner)?.into(),
            NameOp::CreateNameless { parent, owner, linkable } => self.create_nameless(parent, owner, linkable)?.into(),
            NameOp::Link { ino, parent, name } => self.link(ino, parent, &name)?.into(),
            NameOp::Unlink { parent, name } => self.unlink(parent, &name)?.into(),
            NameOp::RemoveDir { parent, name } => self.remove_dir(parent, &name)?.into(),
            NameOp::Rename { rename } => self.rename(rename)?.into(),
        })
    }

    fn execute_on_attributes(&self, op: AttributeOp<'_>) -> Result<Reply> {
        Ok(match op {
            AttributeOp::Attr { ino } => self.attr(ino)?.into(),
            AttributeOp::SetAttr { ino, set } => self.set_attr(ino, set)?.into(),
            AttributeOp::LosePrivileges { ino, kill } => self.lose_privileges(ino, kill)?.into(),
            AttributeOp::Flags { ino } => self.flags(ino)?.into(),
            AttributeOp::SetFlags { ino, flags } => self.set_flags(ino, flags)?.into(),
            AttributeOp::Xattr { ino, name } => self.xattr(ino, &name)?.into(),
            AttributeOp::Xattrs { ino } => self.xattrs(ino)?.into(),
            AttributeOp::SetXattr { ino, name, value, mode } => self.set_xattr(ino, &name, &value, mode)?.into(),
            AttributeOp::RemoveXattr { ino, name } => self.remove_xattr(ino, &name)?.into(),
            AttributeOp::Acl { ino, which } => self.acl(ino, which)?.into(),
            AttributeOp::SetAcl { ino, which, acl, how } => self.set_acl(ino, which, acl, how)?.into(),
            AttributeOp::RemoveAcl { ino, which } => self.remove_acl(ino, which)?.into(),
            AttributeOp::Space {} => self.space()?.into(),
        })
    }

    fn execute_on_content(&self, op: ContentOp, data: &[u8]) -> Result<Reply> {
        Ok(match op {
            ContentOp::Read { ino, offset, len } => self.read(ino, offset, len as usize)?.into(),
            ContentOp::Write { ino, offset, kill_privileges } => self.write(ino, offset, data, kill_privileges)?.into(),
            ContentOp::WriteBack { ino, offset, kill_privileges } => {
                self.write_back(ino, offset, data, kill_privileges)?.into()
            }
            ContentOp::Append { ino } => self.append(ino, data)?.into(),
            ContentOp::Recall { ino } => self.recall(ino)?.into(),
            ContentOp::Seek { ino, offset, data } => self.seek(ino, offset, data)?.into(),
            ContentOp::Allocate { ino, how, offset, len } => self.allocate(ino, how, offset, len)?.into(),
            ContentOp::CopyRange { from, to, len } => self.copy_range(from, to, len)?.into(),
            ContentOp::Sync { ino, data_only: true } => self.sync_without_time(ino)?.into(),
            ContentOp::Sync { ino, data_only: false } => self.sync(ino)?.into(),
            ContentOp::SyncVolume {} => self.sync_volume()?.into(),
        })
    }

    fn execute_on_opens(&self, op: OpenOp<'_>) -> Result<Reply> {
        Ok(match op {
            OpenOp::CheckOpen { ino, appends } => self.check_open(ino, appends)?.into(),
            OpenOp::OpenWriter { ino } => self.open_writer(ino)?.into(),
            OpenOp::CloseWriter { ino, inherited: true } => self.close_inherited_writer(ino)?.into(),
            OpenOp::CloseWriter { ino, inherited: false } => self.close_writer(ino)?.into(),
            OpenOp::Closing { ino, handle } => {
                self.closing(ino, handle);
                Reply::Done(())
            }
            OpenOp::Closed { ino, handle } => {
                self.closed(ino, handle);
                Reply::Done(())
            }
            OpenOp::KeepsVersions {} => self.keeps_versions()?.into(),
            OpenOp::OpenBefore { inos } => {
                self.open_before(inos.iter().copied());
                Reply::Done(())
            }
            OpenOp::ProbeResult { ino, held } => {
                self.probe_result(ino, held);
                Reply::Done(())
            }
        })
    }
}

impl Volume {
    fn execute_on_locks(&self, op: LockOp) -> Result<Reply> {
        Ok(match op {
            LockOp::Test { ino, owner, lock } => self.test_lock(ino, owner, lock)?.into(),
            LockOp::Set { ino, by, lock, ticket } => self.lock(ino, by, lock, ticket)?.into(),
            LockOp::Unset { ino, owner, kind, range } => self.unlock(ino, owner, kind, range).into(),
            LockOp::Release { ino, closed } => self.release_locks(ino, closed).into(),
            LockOp::Cancel { ticket } => self.cancel_lock(ticket).into(),
            LockOp::Files { after } => self.locked_inodes(after).into(),
        })
    }
}

impl LocalFiles for Volume {
    fn back(&self, ino: u64, least: u64) -> Result<Result<Box<dyn Backing>, Unfit>> {
        let backing = Self::back(self, ino, least)?;
        Ok(backing.map(|backing| Box::new(backing) as Box<dyn Backing>))
    }

    fn back_again(&self, ino: u64) -> Result<()> {
        Self::back_again(self, ino)
    }

    fn release_backing(&self, ino: u64) -> Released {
        Self::release_backing(self, ino)
    }

    fn is_passthrough(&self, ino: u64) -> bool {
        Self::is_passthrough(self, ino)
    }

    fn expose(&self, ino: u64) -> Result<()> {
        Self::expose(self, ino)
    }
}

impl Backing for super::Backing {
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Self::descriptor(self)
    }
}

impl Changes for Feed {
    fn next(&mut self) -> Option<Vec<Change>> {
        Self::next(self)
    }

    fn acknowledge(&mut self) {
        Self::acknowledge(self);
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }
}
