//! Which changes that were answered here, and that the store lacks, a call could meet: it waits for them.

use objstore_files::{AttributeOp, ContentOp, LockOp, NameOp, Op, OpenOp};

/// The changes that a call waits for.
pub(super) enum Concerns {
    /// None.
    Nothing,
    /// Those of these inodes.
    Inodes([u64; 2]),
    /// Those of any inode.
    All,
}

/// The changes that a call could meet.
pub(super) fn concerns(op: &Op<'_>) -> Concerns {
    match op {
        Op::Names(op) => of_names(op),
        Op::Attributes(op) => of_attributes(op),
        Op::Content(op) => of_content(op),
        Op::Opens(op) => of_opens(op),
        Op::Locks(op) => of_locks(*op),
    }
}

fn one(ino: u64) -> Concerns {
    Concerns::Inodes([ino, ino])
}

fn of_names(op: &NameOp<'_>) -> Concerns {
    match op {
        // The store has to have the directory, and its names so far.
        NameOp::Make { parent: ino, .. }
        | NameOp::Create { parent: ino, .. }
        | NameOp::CreateNameless { parent: ino, .. } => one(*ino),
        NameOp::Parent { ino } | NameOp::Path { ino } | NameOp::ReadDir { ino, .. } | NameOp::ReadLink { ino } => {
            one(*ino)
        }
        // What was written to a file without a name is made while the session refers to it.
        NameOp::Forget { ino, .. } => one(*ino),
        // They tell or change the attributes of a file that is known by its name.
        NameOp::Lookup { .. }
        | NameOp::LookupAll { .. }
        | NameOp::Pin { .. }
        | NameOp::Link { .. }
        | NameOp::Unlink { .. }
        | NameOp::RemoveDir { .. }
        | NameOp::Rename { .. } => Concerns::All,
    }
}

fn of_attributes(op: &AttributeOp<'_>) -> Concerns {
    match op {
        AttributeOp::Attr { ino }
        | AttributeOp::SetAttr { ino, .. }
        | AttributeOp::LosePrivileges { ino, .. }
        | AttributeOp::Flags { ino }
        | AttributeOp::SetFlags { ino, .. }
        | AttributeOp::Xattr { ino, .. }
        | AttributeOp::Xattrs { ino }
        | AttributeOp::SetXattr { ino, .. }
        | AttributeOp::RemoveXattr { ino, .. }
        | AttributeOp::Acl { ino, .. }
        | AttributeOp::SetAcl { ino, .. }
        | AttributeOp::RemoveAcl { ino, .. } => one(*ino),
        AttributeOp::Space {} => Concerns::All,
    }
}

fn of_content(op: &ContentOp) -> Concerns {
    match op {
        ContentOp::Read { ino, .. }
        | ContentOp::Write { ino, .. }
        | ContentOp::WriteBack { ino, .. }
        | ContentOp::Append { ino }
        | ContentOp::Recall { ino }
        | ContentOp::Seek { ino, .. }
        | ContentOp::Allocate { ino, .. } => one(*ino),
        ContentOp::CopyRange { from, to, .. } => Concerns::Inodes([from.ino, to.ino]),
        ContentOp::Sync { .. } | ContentOp::SyncVolume {} => Concerns::All,
    }
}

fn of_opens(op: &OpenOp<'_>) -> Concerns {
    match op {
        OpenOp::CheckOpen { ino, .. }
        | OpenOp::OpenWriter { ino }
        | OpenOp::CloseWriter { ino, .. }
        | OpenOp::Closing { ino, .. }
        | OpenOp::Closed { ino, .. } => one(*ino),
        OpenOp::KeepsVersions {} => Concerns::Nothing,
        OpenOp::OpenBefore { .. } | OpenOp::ProbeResult { .. } => Concerns::All,
    }
}

fn of_locks(op: LockOp) -> Concerns {
    match op {
        LockOp::Files { .. } | LockOp::Cancel { .. } => Concerns::Nothing,
        LockOp::Test { ino, .. }
        | LockOp::Set { ino, .. }
        | LockOp::Unset { ino, .. }
        | LockOp::Release { ino, .. } => one(ino),
    }
}
