//! The values that operations return.

use bytes::Bytes;
use objstore_base::acl::Acl;
use objstore_base::error::Result;

use crate::attributes::{Attr, Flags, Space};
use crate::locks::{HeldLock, Locked};
use crate::names::Names;

/// Declares the replies: one variant for each type of value, and the conversions of both ways. A macro, because a
/// conversion that is written by hand could name another variant than its reverse.
macro_rules! replies {
    ($( $(#[$doc:meta])* $name:ident($type:ty), )*) => {
        /// The value that an operation returns.
        #[derive(Clone, Debug)]
        pub enum Reply {
            $( $(#[$doc])* $name($type), )*
        }

        $(
            impl From<$type> for Reply {
                fn from(value: $type) -> Self {
                    Self::$name(value)
                }
            }

            impl TryFrom<Reply> for $type {
                type Error = Reply;

                fn try_from(reply: Reply) -> std::result::Result<Self, Reply> {
                    match reply {
                        Reply::$name(value) => Ok(value),
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

replies! {
    /// Nothing but success.
    Done(()),
    /// Attributes.
    Attr(Attr),
    /// The result for each of several names, in their order.
    Attrs(Vec<Result<Attr>>),
    /// A number: an inode, an offset or a length.
    Number(u64),
    /// An offset, if there is one.
    Offset(Option<u64>),
    /// Yes or no.
    Bool(bool),
    /// Names of a directory.
    Names(Names),
    /// A text.
    Text(String),
    /// A text, if there is one.
    MaybeText(Option<String>),
    /// Names of extended attributes.
    Texts(Vec<String>),
    /// Bytes of a file, or the value of an extended attribute. A transport carries them behind the head, unchanged.
    Data(Bytes),
    /// Flags of an inode.
    Flags(Flags),
    /// An ACL, if there is one.
    Acl(Option<Acl>),
    /// Space.
    Space(Space),
    /// A lock that is in the way, if there is one.
    HeldLock(Option<HeldLock>),
    /// The outcome of a request for a lock.
    Locked(Locked),
    /// Numbers of inodes.
    Inodes(Vec<u64>),
}

/// The reply to a call that succeeded.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The value.
    pub reply: Reply,
    /// Whether the service recorded the outcome for the call's request: then [`crate::FileService::answered`] has to
    /// follow.
    pub recorded: bool,
}
