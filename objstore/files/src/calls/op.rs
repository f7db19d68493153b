//! An operation of a mount, and its class: whether a repeated call may be executed again.

use super::{AttributeOp, ContentOp, LockOp, NameOp, OpenOp};

/// What a call changes, which determines the effect of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// It changes nothing. A repetition is harmless at any time.
    Read,
    /// It changes counts that the service keeps in memory for the session: references and open files. A repetition
    /// counts twice, so a transport that repeats a call has to return the first answer; that may be kept in memory,
    /// since the counts end with the process too.
    Count,
    /// It changes the store to a state that the call alone determines. A repetition is harmless unless another change of
    /// the same file came in between: a transport repeats it before it sends later calls for the file. In a bucket that keeps
    /// versions, the version that it begins is recorded under the number of the request, as with [`Class::Once`]: a
    /// repetition continues that version.
    Set,
    /// It changes the store in a way that a repetition would do again or refuse. Its outcome is recorded in the
    /// transaction that makes the change, under the number of the request, until
    /// [`FileService::answered`](crate::FileService::answered): a request that is resent gets the recorded outcome. It may
    /// also count, as [`Class::Count`] does.
    Once,
}

impl Class {
    /// Whether a call of this class changes the store: a session that is read-only is refused.
    pub fn changes_store(self) -> bool {
        matches!(self, Self::Set | Self::Once)
    }

    /// Whether a call of this class may be executed twice, one right after the other.
    pub fn may_repeat(self) -> bool {
        matches!(self, Self::Read | Self::Set)
    }
}

/// An operation, with everything it needs except the bytes to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Of names and inode references.
    Names(NameOp<'a>),
    /// Of attributes.
    Attributes(AttributeOp<'a>),
    /// Of file content.
    Content(ContentOp),
    /// Of open files.
    Opens(OpenOp<'a>),
    /// Of file locks.
    Locks(LockOp),
}

impl Op<'_> {
    /// The class, which determines the effect of a repetition.
    pub fn class(&self) -> Class {
        match self {
            Self::Names(op) => op.class(),
            Self::Attributes(op) => op.class(),
            Self::Content(op) => op.class(),
            Self::Opens(op) => op.class(),
            Self::Locks(op) => op.class(),
        }
    }

    /// Whether the answer to a call that succeeded waits until all other mounts have applied the change, or have ended.
    ///
    /// The answer to the writing of dirty mapped pages does not: the kernel holds these pages until then, and two mounts
    /// that change one file would wait for each other. A program that needs others to see them calls msync(2) or
    /// fsync(2), whose answer waits.
    pub fn waits_for_others(&self) -> bool {
        self.class().changes_store() && !matches!(self, Self::Content(ContentOp::WriteBack { .. }))
    }

    /// The name of the operation: that of its method of [`crate::Files`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Names(op) => op.name(),
            Self::Attributes(op) => op.name(),
            Self::Content(op) => op.name(),
            Self::Opens(op) => op.name(),
            Self::Locks(op) => op.name(),
        }
    }

    /// All operations, each with its class.
    pub fn all() -> impl Iterator<Item = (&'static str, Class)> {
        let families = [NameOp::TABLE, AttributeOp::TABLE, ContentOp::TABLE, OpenOp::TABLE, LockOp::TABLE];
        families.into_iter().flatten().copied()
    }
}

impl<'a> From<NameOp<'a>> for Op<'a> {
    fn from(op: NameOp<'a>) -> Self {
        Self::Names(op)
    }
}

impl<'a> From<AttributeOp<'a>> for Op<'a> {
    fn from(op: AttributeOp<'a>) -> Self {
        Self::Attributes(op)
    }
}

impl From<ContentOp> for Op<'_> {
    fn from(op: ContentOp) -> Self {
        Self::Content(op)
    }
}

impl<'a> From<OpenOp<'a>> for Op<'a> {
    fn from(op: OpenOp<'a>) -> Self {
        Self::Opens(op)
    }
}

impl From<LockOp> for Op<'_> {
    fn from(op: LockOp) -> Self {
        Self::Locks(op)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The rows of a table whose last column is a class.
    fn documented(page: &str) -> BTreeMap<String, String> {
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let classes = rows.filter_map(|row| row.trim_matches(['|', ' ']).split_once(" | "));
        let named = |(names, class): (&str, &str)| -> Vec<_> {
            names.split(", ").map(|name| (name.trim_matches('`').to_owned(), class.to_owned())).collect()
        };
        classes.flat_map(named).collect()
    }

    #[test]
    fn the_decision_lists_every_operation_with_its_class() {
        let page = include_str!("../../../../docs/internals/decisions/0088-one-service-of-files.md");
        let all: BTreeMap<_, _> = Op::all().map(|(name, class)| (name.to_owned(), format!("{class:?}"))).collect();
        assert_eq!(documented(page), all);
    }

    #[test]
    fn a_class_says_what_may_be_repeated() {
        let all = [Class::Read, Class::Count, Class::Set, Class::Once];
        assert_eq!(all.map(Class::may_repeat), [true, false, true, false]);
        assert_eq!(all.map(Class::changes_store), [false, false, true, true]);
    }
}
