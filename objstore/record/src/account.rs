//! Records of accounts, keys, grants, roles and publications.

use prost::Message;

use super::creator::Creator;

/// An account.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Account {
    /// Never used twice.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Whether the account may create buckets through S3.
    #[prost(bool, tag = "2")]
    pub may_create_buckets: bool,
    /// Whether the account is root.
    #[prost(bool, tag = "3")]
    pub root: bool,
    /// When it was created, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "4")]
    pub created: i64,
    /// Who created it: a [`Creator`].
    #[prost(enumeration = "Creator", tag = "5")]
    pub creator: i32,
}

/// An access key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Key {
    /// The id of the account that the key belongs to.
    #[prost(uint64, tag = "1")]
    pub account: u64,
    /// The encrypted secret.
    #[prost(bytes = "vec", tag = "2")]
    pub sealed: Vec<u8>,
    /// The number of secrets that the key has had; authenticated together with the encrypted secret.
    #[prost(uint32, tag = "3")]
    pub version: u32,
    /// When it was created, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "4")]
    pub created: i64,
}

/// The record of an account's grant on a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Grant {
    /// What the grant allows: a [`GrantMode`].
    #[prost(enumeration = "GrantMode", tag = "1")]
    pub mode: i32,
}

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum GrantMode {
    /// Not set: the grant allows nothing.
    None = 0,
    /// Get and list.
    Read = 1,
    /// Put and delete.
    Write = 2,
    /// Get and list, put and delete.
    ReadWrite = 3,
    /// Everything on the objects, and on the bucket itself.
    Owner = 4,
}

/// A role: who may act as its account for a while, without a key of the account.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Role {
    /// Never used twice, so a deleted role does not come back under its name.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// When it was created, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "2")]
    pub created: i64,
    /// Who created it: a [`Creator`].
    #[prost(enumeration = "Creator", tag = "3")]
    pub creator: i32,
    /// The identities of OpenID Connect that may take it.
    #[prost(message, repeated, tag = "4")]
    pub identities: Vec<TrustedIdentity>,
    /// The ids of the accounts whose keys may take it.
    #[prost(uint64, repeated, tag = "5")]
    pub accounts: Vec<u64>,
}

/// Identities of OpenID Connect that a role trusts.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TrustedIdentity {
    /// The issuer, exactly as tokens name it.
    #[prost(string, tag = "1")]
    pub issuer: String,
    /// The subject; `*` stands for any characters.
    #[prost(string, tag = "2")]
    pub subject: String,
    /// The audience, exactly; empty: any that is configured for the issuer.
    #[prost(string, tag = "3")]
    pub audience: String,
}

/// The record of a volume's publication on a node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Publication {
    /// Whether the node may only read.
    #[prost(bool, tag = "1")]
    pub read_only: bool,
    /// The volume capability that the orchestrator asked for.
    #[prost(string, tag = "2")]
    pub capability: String,
    /// A number that no other publication has or had; zero if an earlier version wrote the record.
    #[prost(uint64, tag = "3")]
    pub epoch: u64,
    /// The SHA-256 of each ticket that opens a session of the node, the newest last.
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub tickets: Vec<Vec<u8>>,
    /// Whether a ticket opens the volume by itself; otherwise it opens the volume together with an access key alone.
    #[prost(bool, tag = "5")]
    pub ticket_suffices: bool,
    /// The node that took the writing over from this one, which may only read since then; empty if none did.
    #[prost(string, tag = "6")]
    pub fenced_by: String,
}
