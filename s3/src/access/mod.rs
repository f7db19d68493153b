//! The access check of a request: whether its caller may perform the operation that `s3s` chose. Default deny.
//!
//! - `table` lists every supported operation with what it requires; an unlisted operation is refused.
//! - The check runs after the signature was verified and before the body is read. Requirements that depend on the body
//!   (the source of a copy, tags and locks of an object) are checked right after, before the operation runs;
//!   DeleteObjects checks its keys one by one. A caller who would be refused for every possible body is refused
//!   before the body is read.
//! - The operation that `s3s` chose has to take the kind of body that the guards derived from the same head. So the
//!   checked operation and the executed one never differ.
//! - A request without credentials is anonymous: only a bucket's policy can allow it, or an access control list where
//!   the bucket enables those (`authorization`).

mod source;
mod table;

pub(crate) use table::names as operations;

use std::sync::Arc;

use http::{HeaderMap, Uri};
use objstore::Store;
use objstore::name::BucketName;
use objstore::store::Account;
use s3_policy::Scope;
use s3s::access::{S3Access, S3AccessContext};
use s3s::dto::{
    CopyObjectInput, PutObjectLegalHoldInput, PutObjectRetentionInput, PutObjectTaggingInput, TaggingDirective,
    Timestamp, TimestampFormat, UploadPartCopyInput,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};

use crate::authorization::{Ask, Authority, BodyFacts, Right, parameters};
use crate::error::{Detail as _, OrRefuse as _, not_offered, refuse};
use crate::request::{NOT_OFFERED, Request};
use crate::service::Call;
use crate::{acl, names, tagging, unsupported_headers};
use table::Need;

const EXPECTED_OWNER: &str = "x-amz-expected-bucket-owner";

/// Operations on which a policy can decide only after their body was read.
const DECIDED_BY_BODY: [&str; 3] = ["PutObjectTagging", "PutObjectRetention", "PutObjectLegalHold"];

/// The actions of deleting a key, and a version of a key.
const DELETING: [&str; 2] = ["s3:DeleteObject", "s3:DeleteObjectVersion"];

/// The access check.
pub(crate) struct Access(pub(crate) Call);

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        self.0.request.noted(self.check_operation(context).await)
    }

    async fn copy_object(&self, request: &mut S3Request<CopyObjectInput>) -> S3Result<()> {
        self.0.request.noted(self.check_copy(request).await)
    }

    async fn upload_part_copy(&self, request: &mut S3Request<UploadPartCopyInput>) -> S3Result<()> {
        let input = &request.input;
        self.0.request.noted(self.allow_source(&input.copy_source, None, (&request.headers, &request.uri)).await)
    }

    async fn put_object_tagging(&self, request: &mut S3Request<PutObjectTaggingInput>) -> S3Result<()> {
        let input = &request.input;
        // The operation itself refuses invalid tags.
        let tags = tagging::from_set(input.tagging.tag_set.clone(), tagging::Of::Object).unwrap_or_default();
        let body = BodyFacts { tags: Some(tags), ..BodyFacts::default() };
        self.0.request.noted(self.allow_body("PutObjectTagging", &input.key, input.version_id.as_deref(), body).await)
    }

    async fn put_object_retention(&self, request: &mut S3Request<PutObjectRetentionInput>) -> S3Result<()> {
        let input = &request.input;
        let retention = input.retention.as_ref();
        let body = BodyFacts {
            lock_mode: retention.and_then(|retention| Some(retention.mode.as_ref()?.as_str().to_owned())),
            retain_until: retention.and_then(|retention| written(retention.retain_until_date.as_ref()?)),
            ..BodyFacts::default()
        };
        self.0.request.noted(self.allow_body("PutObjectRetention", &input.key, input.version_id.as_deref(), body).await)
    }

    async fn put_object_legal_hold(&self, request: &mut S3Request<PutObjectLegalHoldInput>) -> S3Result<()> {
        let input = &request.input;
        let status = input.legal_hold.as_ref().and_then(|hold| Some(hold.status.as_ref()?.as_str().to_owned()));
        let body = BodyFacts { legal_hold: status, ..BodyFacts::default() };
        self.0.request.noted(self.allow_body("PutObjectLegalHold", &input.key, input.version_id.as_deref(), body).await)
    }
}

impl Access {
    /// Decides whether `s3s` may continue with the operation that it chose.
    async fn check_operation(&self, context: &S3AccessContext<'_>) -> S3Result<()> {
        let request = &self.0.request;
        let account = verified(request, context.credentials().map(|credentials| credentials.access_key.as_str()))?;
        let operation = context.s3_op().name();
        let Some((name, need)) = table::find(operation) else {
            request.set_operation(NOT_OFFERED);
            return Err(not_offered(operation));
        };
        request.set_operation(name);
        self.decide(account, (name, need), context).await?;
        if let Ok(authority) = request.authority() {
            // Only for who is allowed: what a mount on another machine has answered is in the store from here on.
            self.0.store.share_bucket(authority.bucket()).await.or_refuse()?;
        }
        unsupported_headers::check(name, context.headers())?;
        check_acl(request, name, context.headers())?;
        let named = parameters(context.uri()).iter().any(|(parameter, _)| parameter == "versionId");
        if named { unsupported_headers::check_version(name) } else { Ok(()) }
    }

    /// Decides whether the source of a copy may be read.
    async fn check_copy(&self, request: &S3Request<CopyObjectInput>) -> S3Result<()> {
        let input = &request.input;
        let replaced = input.tagging_directive.as_ref().is_some_and(|how| how.as_str() == TaggingDirective::REPLACE);
        let tagged = (!replaced).then_some(input.key.as_str());
        self.allow_source(&input.copy_source, tagged, (&request.headers, &request.uri)).await
    }

    /// Decides whether the caller meets the operation's requirements in the table.
    async fn decide(
        &self,
        account: Option<Account>,
        (name, need): (&str, Need),
        context: &S3AccessContext<'_>,
    ) -> S3Result<()> {
        if !table::takes(name, self.0.request.body) {
            let words = format!("The URL names no operation that takes this body: {name} does not.");
            return Err(refuse(S3ErrorCode::InvalidRequest, words));
        }
        match need {
            Need::Key => self.allow_alone(signed(account.as_ref())?, &["s3:ListAllMyBuckets"], "*", context),
            Need::Create => {
                let account = signed(account.as_ref())?;
                may_create(account)?;
                let actions = table::of_creation(|name| context.headers().contains_key(name));
                let bucket = context.s3_path().get_bucket_name().unwrap_or_default();
                self.allow_alone(account, &actions, bucket, context)
            }
            _ => self.admit(account, (name, need), context).await,
        }
    }

    /// Checks actions that concern no existing bucket: only the policy of a session can deny them.
    fn allow_alone(
        &self,
        account: &Account,
        actions: &[&'static str],
        resource: &str,
        context: &S3AccessContext<'_>,
    ) -> S3Result<()> {
        let request = &self.0.request;
        let Some(session) = request.caller().and_then(|caller| caller.session.as_ref()) else { return Ok(()) };
        let head = (context.headers(), context.uri());
        if session.allows(actions, resource, account, head, (request.sender(), &self.0.region)) {
            return Ok(());
        }
        let words = format!("The policy of the session does not allow {} on \"{resource}\".", actions.join(" and "));
        Err(refuse(S3ErrorCode::AccessDenied, words))
    }

    /// Checks a request on the bucket of the path.
    async fn admit(
        &self,
        account: Option<Account>,
        (name, need): (&str, Need),
        context: &S3AccessContext<'_>,
    ) -> S3Result<()> {
        let (headers, uri) = (context.headers(), context.uri());
        let Some(bucket) = context.s3_path().get_bucket_name() else {
            return Err(refuse(S3ErrorCode::InvalidRequest, "The request names no bucket."));
        };
        let authority = authority_over(&self.0, account, names::bucket(bucket)?, (headers, uri)).await?;
        self.0.request.set_authority(Arc::clone(&authority));
        let key = context.s3_path().get_object_key().unwrap_or_default();
        match need {
            Need::Keys(action, right) if authority.by_grants() => {
                authority.require(&self.0.store, Ask::bucket(action, right)).await?;
            }
            // A policy decides key by key.
            Need::Keys(_, right) => {
                let asks = DELETING.map(|action| Ask::bucket(action, right));
                authority.require_possible(&self.0.store, asks.into(), Scope::SomeKey).await?;
            }
            Need::Bucket(action, right) => authority.require(&self.0.store, Ask::bucket(action, right)).await?,
            Need::Object(plain, versioned, right) if DECIDED_BY_BODY.contains(&name) && !authority.by_grants() => {
                let version = version(uri);
                let action = if version.is_some() { versioned } else { plain };
                let ask = Ask::object(action, right, key, version.as_deref());
                authority.require_possible(&self.0.store, vec![ask], Scope::Resource).await?;
            }
            Need::Object(plain, versioned, right) => {
                let version = version(uri);
                let action = if version.is_some() { versioned } else { plain };
                let ask = Ask::object(action, right, key, version.as_deref());
                match allow_whole(&self.0, &authority, name, &ask, headers).await {
                    Err(refused) if right == Right::Read => {
                        return Err(self.absent_or(&authority, &ask, refused).await?);
                    }
                    allowed => allowed?,
                }
            }
            Need::Key | Need::Create => {}
        }
        expect_owner(&self.0, authority.bucket().clone(), headers, EXPECTED_OWNER).await
    }

    /// For an absent object: a caller who may not read it but may list its key receives "absent", which a listing shows
    /// anyway.
    async fn absent_or(&self, authority: &Arc<Authority>, ask: &Ask, refused: S3Error) -> S3Result<S3Error> {
        let Some(key) = ask.key.as_deref().filter(|_| !authority.by_grants()) else { return Ok(refused) };
        if !may_list(&self.0, authority, key).await? {
            return Ok(refused);
        }
        let (bucket, key, version) = (authority.bucket().clone(), names::key(key)?, ask.version.clone());
        let read = move |store: &Store| store.head_object(&bucket, &key, version.as_deref()).or_refuse();
        Ok(match self.0.blocking(read).await {
            Err(error) if *error.code() == S3ErrorCode::NoSuchKey => error,
            _ => refused,
        })
    }

    /// Checks an operation with the values that a policy needs from its body.
    async fn allow_body(&self, name: &str, key: &str, version: Option<&str>, body: BodyFacts) -> S3Result<()> {
        let authority = self.0.request.authority()?;
        let Some((_, Need::Object(plain, versioned, right))) = table::find(name) else { return Err(not_offered(name)) };
        if authority.by_grants() {
            return Ok(());
        }
        let action = if version.is_some() { versioned } else { plain };
        authority.require(&self.0.store, Ask { body, ..Ask::object(action, right, key, version) }).await
    }
}

/// The authority of `account`, or of an anonymous caller, over a bucket. Facts that were read together with the access
/// key are reused.
async fn authority_over(
    call: &Call,
    account: Option<Account>,
    bucket: BucketName,
    head: (&HeaderMap, &Uri),
) -> S3Result<Arc<Authority>> {
    let request = &call.request;
    let session = request.caller().filter(|_| account.is_some()).and_then(|caller| caller.session.clone());
    let known = request.caller().filter(|_| account.is_some() && request.bucket.as_ref() == Some(&bucket));
    let bucket_access = match known.and_then(|caller| caller.bucket_access.clone()) {
        Some(bucket_access) => bucket_access.or_refuse()?,
        None => {
            let (reader, account, bucket) = (Arc::clone(&call.bucket_access), account.clone(), bucket.clone());
            let session = session.clone();
            let read =
                move |store: &Store| reader.read(store, (account.as_ref(), session.as_deref()), &bucket).or_refuse();
            call.blocking(read).await?
        }
    };
    let from = (request.sender(), &call.region);
    Ok(Arc::new(Authority::new((account, session), bucket, bucket_access, head, from)))
}

/// Refuses headers of an access control list that the bucket does not allow, before the body is read.
fn check_acl(request: &Request, operation: &str, headers: &HeaderMap) -> S3Result<()> {
    if operation == "CreateBucket" {
        return acl::check_first(headers).map(drop);
    }
    let enabled = request.authority().is_ok_and(|authority| authority.lists().is_some());
    acl::check(headers, enabled)
}

/// `x-amz-expected-bucket-owner`: the owner is an account name here. An empty or non-text value matches no owner.
async fn expect_owner(call: &Call, bucket: BucketName, headers: &HeaderMap, name: &str) -> S3Result<()> {
    let mut given = headers.get_all(name).iter();
    let Some(owner) = given.next().map(|value| value.to_str().unwrap_or_default().to_owned()) else { return Ok(()) };
    if given.next().is_some() {
        return Err(refuse(S3ErrorCode::InvalidArgument, format!("The header {name} is given twice.")));
    }
    let found = call.blocking(move |store| store.bucket(&bucket).or_refuse()).await?;
    if found.owner == owner {
        return Ok(());
    }
    let words = format!("The bucket \"{}\" is not owned by \"{owner}\".", found.name);
    Err(refuse(S3ErrorCode::AccessDenied, words).with("ExpectedBucketOwner", owner))
}

/// Checks that a form may put `key` with these headers. `account` is the account whose key signed it; `None` is
/// anonymous.
pub(crate) async fn allow_form(
    call: &Call,
    account: Option<Account>,
    bucket: BucketName,
    key: &str,
    head: (&HeaderMap, &Uri),
) -> S3Result<()> {
    let authority = authority_over(call, account, bucket, head).await?;
    call.request.set_authority(Arc::clone(&authority));
    let ask = Ask::object("s3:PutObject", Right::Write, key, None);
    allow_whole(call, &authority, "PutObject", &ask, head.0).await?;
    check_acl(&call.request, "PostObject", head.0)?;
    expect_owner(call, authority.bucket().clone(), head.0, EXPECTED_OWNER).await
}

/// Checks an operation and the further actions that it implies. A grant that allows the operation allows those too.
async fn allow_whole(
    call: &Call,
    authority: &Arc<Authority>,
    operation: &str,
    ask: &Ask,
    headers: &HeaderMap,
) -> S3Result<()> {
    let mut asks = vec![ask.clone()];
    if !authority.by_grants() {
        let besides = table::besides(operation, ask.version.is_some(), |name| headers.contains_key(name));
        let besides = besides.filter(|action| *action != table::PUT_ACL || authority.lists().is_some());
        asks.extend(besides.map(|action| Ask { action, with_object: true, ..ask.clone() }));
    }
    authority.require_all(&call.store, asks).await
}

/// Whether the caller of the current request may delete a key of its bucket, or this version of it.
pub(crate) async fn may_delete(call: &Call, key: &str, version: Option<&str>) -> S3Result<bool> {
    let [plain, versioned] = DELETING;
    let action = if version.is_some() { versioned } else { plain };
    let authority = call.request.authority()?;
    authority.allows(&call.store, Ask::object(action, Right::Write, key, version)).await
}

/// Whether the caller of the current request may delete or shorten a governance retention.
pub(crate) async fn may_bypass_governance(call: &Call, key: &str, version: Option<&str>) -> S3Result<bool> {
    let authority = call.request.authority()?;
    authority.allows(&call.store, Ask::object("s3:BypassGovernanceRetention", Right::Own, key, version)).await
}

/// Only callers that may list the bucket learn that an object is absent; others are refused (S3 API, GetObject).
pub(crate) async fn hide_absent(call: &Call, error: S3Error) -> S3Error {
    if *error.code() != S3ErrorCode::NoSuchKey {
        return error;
    }
    let Ok((authority, key)) = call.request.source() else { return error };
    match may_list(call, &authority, key).await {
        Ok(true) => error,
        Ok(false) => refuse(S3ErrorCode::AccessDenied, "The object is absent, or may not be read."),
        Err(failed) => failed,
    }
}

/// Refuses if the caller of a request may not write a key of another bucket.
pub(crate) async fn require_write(
    call: &Call,
    bucket: BucketName,
    key: &str,
    head: (&HeaderMap, &Uri),
) -> S3Result<()> {
    let account = call.request.account()?.clone();
    let authority = authority_over(call, Some(account), bucket, head).await?;
    authority.require(&call.store, Ask::object("s3:PutObject", Right::Write, key, None)).await
}

async fn may_list(call: &Call, authority: &Arc<Authority>, key: &str) -> S3Result<bool> {
    let body = BodyFacts { prefix: Some(key.to_owned()), ..BodyFacts::default() };
    authority.allows(&call.store, Ask { body, ..Ask::bucket("s3:ListBucket", Right::Read) }).await
}

/// The caller's account, if the signature of exactly this key was verified, by `s3s` or (Version 2) before it; `None`
/// is anonymous.
fn verified(request: &Request, access_key: Option<&str>) -> S3Result<Option<Account>> {
    let Some(access_key) = access_key.or_else(|| request.url_signer()) else { return Ok(None) };
    let caller = request.caller().filter(|caller| caller.access_key == access_key);
    let caller = caller.ok_or_else(|| refuse(S3ErrorCode::AccessDenied, "The signature is of another key."))?;
    Ok(Some(caller.account.clone()))
}

fn signed(account: Option<&Account>) -> S3Result<&Account> {
    account.ok_or_else(|| refuse(S3ErrorCode::AccessDenied, "Sign the request: anonymous access is not allowed."))
}

fn may_create(account: &Account) -> S3Result<()> {
    if account.root || account.may_create_buckets {
        return Ok(());
    }
    Err(refuse(S3ErrorCode::AccessDenied, format!("The account \"{}\" may not create buckets.", account.name)))
}

/// The version that the URL names. The parameter's name may be percent-encoded, so every URL that has one is parsed.
fn version(uri: &Uri) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    if !query.contains("versionId") && !query.contains('%') {
        return None;
    }
    parameters(uri).into_iter().find(|(name, value)| name == "versionId" && !value.is_empty()).map(|(_, id)| id)
}

/// A time in RFC 3339 format.
fn written(time: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(TimestampFormat::DateTime, &mut text).ok()?;
    String::from_utf8(text).ok()
}
