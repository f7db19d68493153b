//! Accounts, keys, grants and publications.

use crate::clock::Timestamp;
use crate::grant::Secret;
use crate::name::BucketName;
use crate::record::creator::Creator;

/// The access that a grant gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Get and list.
    Read,
    /// Put and delete.
    Write,
    /// Both.
    ReadWrite,
    /// Both, and change or delete the bucket itself.
    Owner,
}

impl Mode {
    /// Whether it allows reading.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether it allows writing.
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// The short name on the command line and in class parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "ro",
            Self::Write => "wo",
            Self::ReadWrite => "rw",
            Self::Owner => "owner",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Self> {
        match name {
            "ro" => Ok(Self::Read),
            "wo" => Ok(Self::Write),
            "rw" => Ok(Self::ReadWrite),
            "owner" => Ok(Self::Owner),
            _ => Err(crate::Error::invalid("mode", name, "use ro, rw, wo or owner")),
        }
    }
}

/// An account, to which keys and grants belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its id, never reused.
    pub id: u64,
    /// Whether it may create buckets through S3.
    pub may_create_buckets: bool,
    /// Whether it is the root account, which has all rights.
    pub root: bool,
    /// Time of creation.
    pub created: Timestamp,
    /// The creator.
    pub creator: Creator,
}

/// An access key without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The access key id.
    pub id: String,
    /// The account, by name.
    pub account: String,
    /// Time of creation.
    pub created: Timestamp,
}

/// A new access key, the only time that its secret is returned.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The access key id.
    pub id: String,
    /// The account, by name.
    pub account: String,
    /// The secret access key.
    pub secret: Secret,
}

/// The owner of an access key, as found for a request.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The account.
    pub account: Account,
    /// The key's secret, to verify signatures.
    pub secret: Secret,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The bucket.
    pub bucket: BucketName,
    /// The account, by name.
    pub account: String,
    /// The access that it gives.
    pub mode: Mode,
}

/// A publication: a volume is attached to a node (CSI v1.12, ControllerPublishVolume).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The bucket.
    pub bucket: BucketName,
    /// The node.
    pub node: String,
    /// Whether the node may only read.
    pub read_only: bool,
    /// The requested access mode and capability, compared on a repeated request.
    pub capability: String,
    /// Whether the node's ticket opens the volume by itself. Otherwise the node has to prove an access key as well, whose
    /// account has a grant.
    pub ticket_suffices: bool,
    /// The node that took the writing over from this one: [`Store::fence_writers`](crate::Store::fence_writers). A request
    /// to publish has none.
    pub fenced_by: Option<String>,
}
