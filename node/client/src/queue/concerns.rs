//! Which changes that were answered here, and that the store lacks, a call could meet: it waits for them.

use objstore_files::{ContentOp, LockOp, NameOp, Op, OpenOp};

/// The changes that a call waits for.
pub(super) enum Concerns {
    /// None.
    Nothing,
    /// Those of these inodes.
    Inodes([u64; 2]),
    /// Those of any inode.
    All,
}

impl Concerns {
    /// Those of the inodes that a call names; of a call that names none, all.
    fn of(inos: [Option<u64>; 2]) -> Self {
        let [one, other] = inos;
        one.or(other).map_or(Self::All, |ino| Self::Inodes([ino, other.unwrap_or(ino)]))
    }
}

/// The changes that a call could meet.
pub(super) fn concerns(op: &Op<'_>) -> Concerns {
    match op {
        Op::Names(op) => of_names(op),
        Op::Attributes(op) => Concerns::of([op.ino(), None]),
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

fn of_content(op: &ContentOp) -> Concerns {
    match op {
        ContentOp::Sync { .. } | ContentOp::SyncVolume {} => Concerns::All,
        op => Concerns::of(op.inos()),
    }
}

fn of_opens(op: &OpenOp<'_>) -> Concerns {
    match op {
        OpenOp::KeepsVersions {} => Concerns::Nothing,
        op => Concerns::of([op.ino(), None]),
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
