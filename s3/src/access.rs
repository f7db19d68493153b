//! Who may do what: default deny.
//!
//! - Every operation that is offered stands in one table with what it needs; what does not stand there is refused.
//! - The check runs after the signature was verified and before anything of the body is read. The source of a copy,
//!   which only the operation's input names, is checked right after, before the operation runs.

use std::sync::Arc;

use objstore::name::BucketName;
use objstore::store::{Account, Mode};
use objstore::{Error, Store};
use s3s::access::{S3Access, S3AccessContext};
use s3s::dto::{CopyObjectInput, CopySource, UploadPartCopyInput};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};

use crate::error::{OrRefuse as _, from_store, not_offered, refuse};
use crate::names;
use crate::offer;
use crate::request::{self, Caller, Request};
use crate::service::Service;

/// What an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Any key.
    Key,
    /// An account that may create buckets.
    Create,
    /// This right to the bucket.
    Bucket(Right),
}

/// A right to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// Any grant will do.
    Any,
    Read,
    Write,
    Own,
}

impl Right {
    fn allowed_by(self, mode: Option<Mode>) -> bool {
        match (self, mode) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Read, Some(mode)) => mode.reads(),
            (Self::Write, Some(mode)) => mode.writes(),
            (Self::Own, Some(mode)) => mode == Mode::Owner,
        }
    }
}

/// Every operation that is offered.
const OPERATIONS: [(&str, Need); 23] = [
    ("ListBuckets", Need::Key),
    ("CreateBucket", Need::Create),
    ("HeadBucket", Need::Bucket(Right::Any)),
    ("GetBucketLocation", Need::Bucket(Right::Any)),
    ("DeleteBucket", Need::Bucket(Right::Own)),
    ("GetBucketVersioning", Need::Bucket(Right::Any)),
    ("PutBucketVersioning", Need::Bucket(Right::Own)),
    ("ListObjects", Need::Bucket(Right::Read)),
    ("ListObjectsV2", Need::Bucket(Right::Read)),
    ("ListObjectVersions", Need::Bucket(Right::Read)),
    ("GetObject", Need::Bucket(Right::Read)),
    ("HeadObject", Need::Bucket(Right::Read)),
    ("PutObject", Need::Bucket(Right::Write)),
    ("CopyObject", Need::Bucket(Right::Write)),
    ("DeleteObject", Need::Bucket(Right::Write)),
    ("DeleteObjects", Need::Bucket(Right::Write)),
    ("CreateMultipartUpload", Need::Bucket(Right::Write)),
    ("UploadPart", Need::Bucket(Right::Write)),
    ("UploadPartCopy", Need::Bucket(Right::Write)),
    ("CompleteMultipartUpload", Need::Bucket(Right::Write)),
    ("AbortMultipartUpload", Need::Bucket(Right::Write)),
    // A writer has to find its own uploads to go on with them or drop them.
    ("ListParts", Need::Bucket(Right::Any)),
    ("ListMultipartUploads", Need::Bucket(Right::Any)),
];

/// What figures and the access line call an operation that is not in the table.
const NOT_OFFERED: &str = "NotOffered";

/// The access check.
pub(crate) struct Access(pub(crate) Service);

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let request = request::current()?;
        let caller = verified(&request, context.credentials().map(|credentials| credentials.access_key.as_str()))?;
        let operation = context.s3_op().name();
        let Some((name, need)) = OPERATIONS.iter().find(|(name, _)| *name == operation) else {
            request.set_operation(NOT_OFFERED);
            return Err(not_offered(operation));
        };
        request.set_operation(name);
        offer::check(context.headers())?;
        let owner = header(context.headers(), "x-amz-expected-bucket-owner");
        match (need, context.s3_path().get_bucket_name()) {
            (Need::Key, _) => Ok(()),
            (Need::Create, _) if caller.account.root || caller.account.may_create_buckets => Ok(()),
            (Need::Create, _) => Err(refuse(
                S3ErrorCode::AccessDenied,
                format!("The account \"{}\" may not create buckets.", caller.account.name),
            )),
            (Need::Bucket(right), Some(name)) => self.allow(&request, &caller, *right, name, owner).await,
            (Need::Bucket(_), None) => Err(refuse(S3ErrorCode::InvalidRequest, "The request names no bucket.")),
        }
    }

    async fn copy_object(&self, request: &mut S3Request<CopyObjectInput>) -> S3Result<()> {
        self.allow_source(&request.input.copy_source, request.input.expected_source_bucket_owner.clone()).await
    }

    async fn upload_part_copy(&self, request: &mut S3Request<UploadPartCopyInput>) -> S3Result<()> {
        self.allow_source(&request.input.copy_source, request.input.expected_source_bucket_owner.clone()).await
    }
}

impl Access {
    /// Allows `right` to the bucket of the path.
    async fn allow(
        &self,
        request: &Arc<Request>,
        caller: &Caller,
        right: Right,
        name: &str,
        owner: Option<String>,
    ) -> S3Result<()> {
        let bucket = names::bucket(name)?;
        let looked_up = request.bucket.as_ref() == Some(&bucket) && owner.is_none();
        if looked_up && caller.mode.as_ref().is_ok_and(|mode| right.allowed_by(*mode)) {
            return Ok(());
        }
        self.ask(caller.account.clone(), right, bucket, owner).await
    }

    /// Allows reading the source of a copy.
    async fn allow_source(&self, given: &CopySource, owner: Option<String>) -> S3Result<()> {
        let request = request::current()?;
        let account = request.account()?.clone();
        self.ask(account, Right::Read, names::source(given)?.bucket, owner).await
    }

    /// Asks the store, and finds the words for a refusal.
    async fn ask(&self, account: Account, right: Right, bucket: BucketName, owner: Option<String>) -> S3Result<()> {
        self.0
            .blocking(move |store| {
                let mode = store.access(&account, &bucket).or_else(absent_is_none).or_refuse()?;
                if !right.allowed_by(mode) {
                    return Err(refusal(store, &account, right, &bucket, mode));
                }
                match owner {
                    Some(owner) => expect_owner(store, &bucket, &owner),
                    None => Ok(()),
                }
            })
            .await
    }
}

/// The caller, if `s3s` verified the signature of just that key.
fn verified(request: &Request, access_key: Option<&str>) -> S3Result<Caller> {
    let caller = request.caller().filter(|caller| Some(caller.access_key.as_str()) == access_key);
    caller
        .cloned()
        .ok_or_else(|| refuse(S3ErrorCode::AccessDenied, "Sign the request: anonymous access is not allowed."))
}

fn absent_is_none(error: Error) -> objstore::Result<Option<Mode>> {
    if matches!(error, Error::NotFound { .. }) { Ok(None) } else { Err(error) }
}

/// Why not: the bucket is absent, it is a snapshot, or there is no such grant.
fn refusal(store: &Store, account: &Account, right: Right, bucket: &BucketName, mode: Option<Mode>) -> S3Error {
    let words = match store.bucket(bucket) {
        Err(error) => return from_store(error),
        Ok(found) if found.snapshot && mode.is_some() => format!("\"{bucket}\" is a snapshot: it cannot be changed."),
        Ok(_) => {
            let right = match right {
                Right::Any => "use",
                Right::Read => "read",
                Right::Write => "write to",
                Right::Own => "change or delete",
            };
            format!("The account \"{}\" may not {right} the bucket \"{bucket}\".", account.name)
        }
    };
    refuse(S3ErrorCode::AccessDenied, words)
}

/// `x-amz-expected-bucket-owner`: the owner is an account's name here.
fn expect_owner(store: &Store, bucket: &BucketName, owner: &str) -> S3Result<()> {
    if store.bucket(bucket).or_refuse()?.owner == owner {
        return Ok(());
    }
    Err(refuse(S3ErrorCode::AccessDenied, format!("The bucket \"{bucket}\" is not owned by \"{owner}\".")))
}

fn header(headers: &http::HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_follow_modes() {
        let table = [
            (None, [false, false, false, false]),
            (Some(Mode::Read), [true, true, false, false]),
            (Some(Mode::Write), [true, false, true, false]),
            (Some(Mode::ReadWrite), [true, true, true, false]),
            (Some(Mode::Owner), [true, true, true, true]),
        ];
        for (mode, allowed) in table {
            let found = [Right::Any, Right::Read, Right::Write, Right::Own].map(|right| right.allowed_by(mode));
            assert_eq!(found, allowed, "{mode:?}");
        }
    }

    #[test]
    fn each_operation_stands_once_in_the_table() {
        let names: std::collections::BTreeSet<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), OPERATIONS.len());
    }
}
