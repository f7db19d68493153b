//! Access control lists of buckets and objects (S3 User Guide, "Access control list (ACL) overview").
//!
//! - They are in force where Object Ownership enables them (`ownership`); who gets in by one is decided in
//!   `access::Lists`.
//! - Where they are disabled, reading one shows the bucket's owner with full control, which is what holds, and setting
//!   one is refused, but for those that say just this.
//! - A list that lets in the public is refused where the public access block blocks that, before any body is read.

mod canned;
mod document;
mod grant;
mod headers;
pub(crate) mod ownership;

use objstore::Error;
use objstore::Store;
use objstore::store::{AccessList, ObjectAccess, Settings};
use s3s::dto::{
    AccessControlPolicy, GetBucketAclInput, GetBucketAclOutput, GetObjectAclInput, GetObjectAclOutput,
    PutBucketAclInput, PutBucketAclOutput, PutObjectAclInput, PutObjectAclOutput,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::access::Lists;
use crate::error::{Detail as _, OrRefuse as _, plain, refuse};
use crate::service::Service;
use crate::xml::Document;
use crate::{body, names, request};
use document::Shown;
use grant::Named;

pub(crate) use headers::{Asked, check, check_first, disabled};
pub(crate) use ownership::Setting;

/// What a list is set on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A bucket.
    Bucket,
    /// An object.
    Object,
}

/// A list that a request asks for, its accounts looked up.
enum Wanted {
    Canned(canned::Canned),
    Grants(Vec<objstore::store::AccessGrant>),
}

impl Wanted {
    /// The list for what belongs to `owner`, in a bucket of `bucket_owner`.
    fn list(self, owner: u64, bucket_owner: u64) -> AccessList {
        match self {
            Self::Canned(canned) => canned.list((owner != bucket_owner).then_some(bucket_owner)),
            Self::Grants(grants) => {
                AccessList { grants: grants.into_iter().map(|one| grant::of(one, owner)).collect() }
            }
        }
    }
}

/// Who will own an object that a request makes, and whom its list lets in (S3 API, PutObject, CopyObject and
/// CreateMultipartUpload). Nothing is looked up where ACLs are disabled.
pub(crate) async fn of_new(service: &Service, asked: Asked) -> S3Result<ObjectAccess> {
    let authority = request::current()?.authority()?;
    let Some(lists) = authority.lists() else { return Ok(ObjectAccess::default()) };
    // What nobody signed belongs to the owner of the bucket.
    let writer = authority.account().map_or(lists.bucket_owner, |account| account.id);
    let given_up = lists.ownership == Setting::Preferred && asked.gives_to_bucket_owner();
    let owner = if given_up { lists.bucket_owner } else { writer };
    let acl = match asked.look_up(service).await? {
        Some(wanted) => wanted.list(owner, lists.bucket_owner),
        None => AccessList::private(),
    };
    refuse_public(lists, &acl)?;
    Ok(ObjectAccess { owner: if owner == lists.bucket_owner { 0 } else { owner }, acl: acl.kept() })
}

/// The list of a bucket that a request makes (S3 API, CreateBucket). `owner` is the id of its account.
pub(crate) async fn of_new_bucket(
    service: &Service,
    asked: Asked,
    ownership: Setting,
    owner: u64,
) -> S3Result<Option<AccessList>> {
    let acl = match asked.look_up(service).await? {
        Some(wanted) => wanted.list(owner, owner).kept(),
        None => None,
    };
    let Some(acl) = acl else { return Ok(None) };
    if !ownership.enables_acls() {
        let words = "Name another x-amz-object-ownership, or leave the ACL out.";
        return Err(refuse(crate::error::custom("InvalidBucketAclWithObjectOwnership"), words));
    }
    if acl.is_public() && service.standings.default_block().block_acls {
        return Err(refuse(
            crate::error::custom("InvalidBucketAclWithBlockPublicAccessError"),
            "New buckets block public ACLs here: make the bucket, change its public access block, then put the ACL.",
        ));
    }
    Ok(Some(acl))
}

/// Tells the ACL of a bucket (S3 API, GetBucketAcl).
pub(crate) async fn of_bucket(
    service: &Service,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let authority = request::current()?.authority()?;
    let shown = service
        .blocking(move |store| {
            let owner = store.bucket(&bucket).or_refuse()?.owner;
            let list = authority.lists().and_then(Lists::of_bucket);
            Shown::of(store, owner, list)
        })
        .await?;
    Ok(told(&shown, GetBucketAclOutput::default()))
}

/// Tells the ACL of an object, or of one of its versions (S3 API, GetObjectAcl).
pub(crate) async fn of_object(
    service: &Service,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let authority = request::current()?.authority()?;
    let shown = service
        .blocking(move |store| {
            let object = store.head_object(&bucket, &key, input.version_id.as_deref()).or_refuse()?;
            authority.confirm(store, &object)?;
            let Some(lists) = authority.lists() else {
                return Shown::of(store, store.bucket(&bucket).or_refuse()?.owner, None);
            };
            let owner = store.account_name(lists.owner(&object.access)).or_refuse()?;
            Shown::of(store, owner, object.access.acl.as_ref())
        })
        .await?;
    Ok(told(&shown, GetObjectAclOutput::default()))
}

/// An answer with the document of a list, in the order of elements that AWS has.
fn told<T>(shown: &Shown, output: T) -> S3Response<T> {
    let mut response = S3Response::new(output);
    response.extensions.insert(Document(shown.document().into()));
    response
}

/// Sets the ACL of a bucket (S3 API, PutBucketAcl).
pub(crate) async fn set_bucket(
    service: &Service,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    body::prove(&request.headers)?;
    let bucket = names::bucket(&request.input.bucket)?;
    let asked = Given::of(&request.headers, request.input.access_control_policy, Of::Bucket)?;
    let authority = request::current()?.authority()?;
    let Some(lists) = authority.lists() else {
        let owner = service.blocking(move |store| Ok(store.bucket(&bucket).or_refuse()?.owner)).await?;
        asked.check_disabled(&owner)?;
        return Ok(S3Response::new(PutBucketAclOutput::default()));
    };
    let (owner, wanted) = asked.look_up(service).await?;
    let acl = wanted.list(lists.bucket_owner, lists.bucket_owner);
    refuse_other_owner(owner, lists.bucket_owner).or_refuse()?;
    refuse_public(lists, &acl)?;
    let (acl, default) = (acl.kept(), service.standings.default_block());
    let change = move |settings: &mut Settings| {
        if !Lists::accept(settings, default, acl.as_ref()) {
            return Err(Error::Denied { why: "the bucket's settings changed meanwhile, and allow no such ACL".into() });
        }
        settings.acl = acl;
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// Sets the ACL of an object, or of one of its versions (S3 API, PutObjectAcl).
pub(crate) async fn set_object(
    service: &Service,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    body::prove(&request.headers)?;
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let version = input.version_id;
    let asked = Given::of(&request.headers, input.access_control_policy, Of::Object)?;
    let authority = request::current()?.authority()?;
    let Some(lists) = authority.lists() else {
        let find = move |store: &Store| {
            store.head_object(&bucket, &key, version.as_deref()).or_refuse()?;
            Ok(store.bucket(&bucket).or_refuse()?.owner)
        };
        asked.check_disabled(&service.blocking(find).await?)?;
        return Ok(S3Response::new(PutObjectAclOutput::default()));
    };
    let (owner, wanted) = asked.look_up(service).await?;
    let (lists, listed) = (lists.clone(), authority.listed());
    let change = move |access: &mut ObjectAccess| {
        if listed.is_some_and(|listed| listed != *access) {
            return Err(Error::Denied { why: "the object was replaced meanwhile; try again".into() });
        }
        let owned_by = lists.owner(access);
        refuse_other_owner(owner, owned_by)?;
        let acl = wanted.list(owned_by, lists.bucket_owner);
        if lists.block.block_acls && acl.is_public() {
            return Err(Error::Denied { why: BLOCKED.into() });
        }
        access.acl = acl.kept();
        Ok(())
    };
    service.store.change_acl(&bucket, &key, version.as_deref(), change).await.or_refuse()?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

/// A list as PutBucketAcl or PutObjectAcl gives it: by headers, or as a document.
enum Given {
    Headers(Asked),
    Document(AccessControlPolicy),
}

impl Given {
    fn of(headers: &http::HeaderMap, document: Option<AccessControlPolicy>, of: Of) -> S3Result<Self> {
        match (Asked::of(headers, of)?, document) {
            (asked, None) if asked.is_nothing() => {
                let hint = "Give an ACL by x-amz-acl, by x-amz-grant headers or as XML.";
                Err(refuse(S3ErrorCode::MissingSecurityHeader, hint).with("MissingHeaderName", "x-amz-acl"))
            }
            (asked, None) => Ok(Self::Headers(asked)),
            (asked, Some(document)) if asked.is_nothing() => Ok(Self::Document(document)),
            (_, Some(_)) => Err(refuse(S3ErrorCode::UnexpectedContent, "Give an ACL by headers or as XML, not both.")),
        }
    }

    /// Where ACLs are disabled: refuses all but what holds there. Headers were checked before (`check`).
    fn check_disabled(&self, owner: &str) -> S3Result<()> {
        match self {
            Self::Document(document) if !document::is_full_control(document, owner) => Err(disabled()),
            Self::Headers(_) | Self::Document(_) => Ok(()),
        }
    }

    /// The id of the owner that a document names, and the list.
    async fn look_up(self, service: &Service) -> S3Result<(Option<u64>, Wanted)> {
        let document = match self {
            Self::Headers(asked) => {
                let wanted = asked.look_up(service).await?;
                return Ok((None, wanted.unwrap_or(Wanted::Grants(Vec::new()))));
            }
            Self::Document(document) => document,
        };
        let (owner, named) = document::read(document)?;
        let find = move |store: &Store| {
            let owner = owner.map(|owner| grant::account(store, &owner)).transpose()?;
            Ok((owner, Wanted::Grants(look_up(store, named)?)))
        };
        service.blocking(find).await
    }
}

fn look_up(store: &Store, named: Vec<Named>) -> S3Result<Vec<objstore::store::AccessGrant>> {
    named.into_iter().map(|named| named.look_up(store)).collect()
}

/// Nobody gives a bucket or an object to another by its ACL.
fn refuse_other_owner(named: Option<u64>, owner: u64) -> objstore::Result<()> {
    if named.is_none_or(|named| named == owner) {
        return Ok(());
    }
    Err(Error::Denied { why: "the document names another owner; an ACL does not change the owner".into() })
}

const BLOCKED: &str = "the ACL is public, and the bucket's public access block forbids public ACLs";

fn refuse_public(lists: &Lists, acl: &AccessList) -> S3Result<()> {
    if lists.block.block_acls && acl.is_public() { Err(blocked()) } else { Ok(()) }
}

fn blocked() -> S3Error {
    plain(S3ErrorCode::AccessDenied).hint(BLOCKED)
}
