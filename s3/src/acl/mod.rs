//! Access control lists of buckets and objects (S3 User Guide, "Access control list (ACL) overview").
//!
//! - They are in force where Object Ownership enables them (`ownership`); `authorization::Lists` decides what they allow.
//! - Where they are disabled, reading one shows the bucket's owner with full control, and setting any other is refused.
//! - A public list is refused where the public access block forbids public ACLs, before a body is read.

mod canned;
mod document;
mod grant;
mod headers;
mod ownership;

use http::HeaderMap;
use objstore::store::{AccessGrant, AccessList};
use objstore::{Error, Store};
use s3s::dto::AccessControlPolicy;
use s3s::{S3ErrorCode, S3Result};

use crate::blocking::blocking;
use crate::error::{Detail as _, plain, refuse};
use crate::public_access::Block;
use grant::Named;

pub(crate) use document::Shown;
pub(crate) use headers::{ListHeaders, check, check_first, disabled};
pub(crate) use ownership::Setting;

/// The kind of resource that a list belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A bucket.
    Bucket,
    /// An object.
    Object,
}

/// A list that a request asks for, with the ids of its accounts.
pub(crate) struct NewList(Kind);

enum Kind {
    Canned(canned::Canned),
    Grants(Vec<AccessGrant>),
}

impl NewList {
    /// The list for a bucket or object of `owner`, in a bucket of `bucket_owner`.
    pub(crate) fn list(self, owner: u64, bucket_owner: u64) -> AccessList {
        match self.0 {
            Kind::Canned(canned) => canned.list((owner != bucket_owner).then_some(bucket_owner)),
            Kind::Grants(grants) => {
                AccessList { grants: grants.into_iter().map(|one| grant::of(one, owner)).collect() }
            }
        }
    }
}

/// A list as PutBucketAcl or PutObjectAcl gives it: by headers, or as a document.
pub(crate) struct ListInput(Source);

enum Source {
    Headers(ListHeaders),
    Document(AccessControlPolicy),
}

impl ListInput {
    /// Reads the headers of a request, and its document.
    pub(crate) fn of(headers: &HeaderMap, document: Option<AccessControlPolicy>, of: Of) -> S3Result<Self> {
        match (ListHeaders::of(headers, of)?, document) {
            (asked, None) if asked.is_nothing() => {
                let hint = "Give an ACL by x-amz-acl, by x-amz-grant headers or as XML.";
                Err(refuse(S3ErrorCode::MissingSecurityHeader, hint).with("MissingHeaderName", "x-amz-acl"))
            }
            (asked, None) => Ok(Self(Source::Headers(asked))),
            (asked, Some(document)) if asked.is_nothing() => Ok(Self(Source::Document(document))),
            (_, Some(_)) => Err(refuse(S3ErrorCode::UnexpectedContent, "Give an ACL by headers or as XML, not both.")),
        }
    }

    /// Where ACLs are disabled: refuses all lists except full control for the owner. Headers were checked before
    /// (`check`).
    pub(crate) fn check_disabled(&self, owner: &str) -> S3Result<()> {
        match &self.0 {
            Source::Document(document) if !document::is_full_control(document, owner) => Err(disabled()),
            Source::Headers(_) | Source::Document(_) => Ok(()),
        }
    }

    /// The id of the owner that a document names, and the list.
    pub(crate) async fn look_up(self, store: &Store) -> S3Result<(Option<u64>, NewList)> {
        let document = match self.0 {
            Source::Headers(asked) => {
                let wanted = asked.look_up(store).await?;
                return Ok((None, wanted.unwrap_or(NewList(Kind::Grants(Vec::new())))));
            }
            Source::Document(document) => document,
        };
        let (owner, named) = document::read(document)?;
        let find = move |store: &Store| {
            let owner = owner.map(|owner| grant::account(store, &owner)).transpose()?;
            Ok((owner, NewList(Kind::Grants(look_up(store, named)?))))
        };
        blocking(store, find).await
    }
}

fn look_up(store: &Store, named: Vec<Named>) -> S3Result<Vec<AccessGrant>> {
    named.into_iter().map(|named| named.look_up(store)).collect()
}

/// Refuses a document that names another owner than that of the bucket or object.
pub(crate) fn refuse_other_owner(named: Option<u64>, owner: u64) -> objstore::Result<()> {
    if named.is_none_or(|named| named == owner) {
        return Ok(());
    }
    Err(Error::Denied { why: "the document names another owner; an ACL does not change the owner".into() })
}

/// Why a public ACL is refused.
pub(crate) const BLOCKED: &str = "the ACL is public, and the bucket's public access block forbids public ACLs";

/// Refuses a public ACL where this public access block forbids it.
pub(crate) fn refuse_public(block: Block, acl: &AccessList) -> S3Result<()> {
    if block.block_acls && acl.is_public() {
        return Err(plain(S3ErrorCode::AccessDenied).hint(BLOCKED));
    }
    Ok(())
}
