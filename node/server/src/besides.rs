//! What an answer tells besides the outcome of its call, because the node asks for it next: whether the bucket keeps versions,
//! the attributes of directories and files that the call changed, and what the inodes of the reply do not have.
//!
//! It is read after the change and is no part of its outcome: it is neither recorded nor told again.

use node_codec::session::{NEVER_VERSIONED, VERSIONED};
use objstore_files::{Attr, AttributeOp, ContentOp, Context, NameOp, Op, OpenOp, Reply, Traits};

use crate::store::StoredSession;

/// What the node asks for after a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    versions: bool,
    attrs: Vec<u64>,
    traits: bool,
}

/// What an answer tells besides the outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct Besides {
    /// See [`Answered::versions`](node_codec::session::Answered::versions).
    pub(crate) versions: u32,
    /// See [`Answered::with_attrs`](node_codec::session::Answered::with_attrs).
    pub(crate) attrs: Vec<Attr>,
    /// See [`Answered::with_traits`](node_codec::session::Answered::with_traits).
    pub(crate) traits: Vec<Traits>,
}

impl Wanted {
    /// What is asked for after this operation.
    pub(crate) fn by(op: &Op<'_>) -> Self {
        let attrs = |inos: &[u64]| Self { attrs: inos.to_vec(), ..Self::default() };
        match op {
            Op::Names(NameOp::Lookup { .. } | NameOp::LookupAll { .. } | NameOp::Pin { .. }) => {
                Self { traits: true, ..Self::default() }
            }
            Op::Names(NameOp::Create { parent, .. }) => Self { versions: true, traits: true, ..attrs(&[*parent]) },
            Op::Names(NameOp::Make { parent, .. }) => Self { traits: true, ..attrs(&[*parent]) },
            Op::Names(NameOp::CreateNameless { .. }) | Op::Opens(OpenOp::OpenWriter { .. }) => {
                Self { versions: true, ..Self::default() }
            }
            Op::Names(
                NameOp::Link { parent, .. } | NameOp::Unlink { parent, .. } | NameOp::RemoveDir { parent, .. },
            ) => attrs(&[*parent]),
            Op::Names(NameOp::Rename { rename }) if rename.from_parent == rename.to_parent => {
                attrs(&[rename.to_parent])
            }
            Op::Names(NameOp::Rename { rename }) => attrs(&[rename.from_parent, rename.to_parent]),
            Op::Content(ContentOp::Write { ino, .. } | ContentOp::Append { ino }) => attrs(&[*ino]),
            _ => Self::default(),
        }
    }

    /// What a session sees of it now. What cannot be read is left out: the node asks, and gets the error.
    pub(crate) fn of(&self, stored: &dyn StoredSession, context: &Context, reply: &Reply) -> Besides {
        let context = Context { request: None, ..*context };
        let read = |op: Op<'_>| stored.files().call(&context, op, &[]).ok().map(|answer| answer.reply);
        let versions = match self.versions.then(|| read(OpenOp::KeepsVersions {}.into())).flatten() {
            Some(Reply::Bool(true)) => VERSIONED,
            Some(Reply::Bool(false)) => NEVER_VERSIONED,
            _ => 0,
        };
        let attr = |ino: &u64| match read(AttributeOp::Attr { ino: *ino }.into()) {
            Some(Reply::Attr(attr)) => Some(attr),
            _ => None,
        };
        // What a directory that got a name does not have comes behind what the new inode does not have.
        let asked = || inos(reply).into_iter().chain(self.attrs.first().copied()).collect::<Vec<_>>();
        let traits = if self.traits { stored.files().traits(&asked()) } else { Vec::new() };
        Besides { versions, attrs: self.attrs.iter().filter_map(attr).collect(), traits }
    }
}

/// The inodes of a reply. One that could not be looked up has no number, and no traits.
fn inos(reply: &Reply) -> Vec<u64> {
    match reply {
        Reply::Attr(attr) => vec![attr.ino],
        Reply::Attrs(all) => all.iter().map(|looked| looked.as_ref().map_or(0, |attr| attr.ino)).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use objstore_files::{Rename, RenameMode};

    use super::*;

    #[test]
    fn both_directories_of_a_rename_are_told_and_one_directory_once() {
        let rename = |from_parent, to_parent| {
            let (from_name, to_name) = ("a".to_owned(), "b".to_owned());
            let rename = Rename { from_parent, from_name, to_parent, to_name, mode: RenameMode::Replace };
            Wanted::by(&NameOp::Rename { rename }.into()).attrs
        };
        assert_eq!((rename(1, 2), rename(3, 3)), (vec![1, 2], vec![3]));
        assert_eq!(Wanted::by(&OpenOp::KeepsVersions {}.into()), Wanted::default());
    }
}
