//! The authority of a request's caller over a bucket: the decision whether an action is allowed.
//!
//! - A denying statement of the policy overrides everything, the owner's grants included. Exception: the owner's
//!   account and root can always read, replace and delete the policy itself, so that no one can lock a bucket
//!   permanently (S3 User Guide, Bucket policies).
//! - Otherwise a grant or an allowing statement allows the action, or an access control list where those are enabled.
//!   Anonymous callers have no grants.
//! - Denials of a bucket's policy apply to its snapshots too; allowances apply to the bucket only.
//! - Policies are evaluated off the async workers, because their author determines how long that takes.
//! - Where public access is restricted, allowances of a public policy apply to the owner's account only.
//! - The policy of a session has to allow what anything else allows; it never allows by itself.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Uri};
use objstore::name::BucketName;
use objstore::store::{Account, ObjectAccess, ObjectInfo};
use objstore::{Error, Store};
use s3_policy::{Policy, Question, Scope, Verdict};
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::ask::Ask;
use super::bucket_access::{BucketAccess, Identity};
use super::list::Lists;
use super::policy_cache::Rule;
use super::policy_context::{CallerFacts, PolicyContext, Sender, VALUE_BYTES_MAX};
use super::principal::stranger;
use super::session::Session;
use super::traits::{Tags, Traits};
use crate::blocking::blocking;
use crate::error::{from_store, refuse};
use crate::names;

/// Actions that the owner of a bucket can always perform.
const NEVER_LOCKED: [&str; 3] = ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];

/// The authority of a request's caller over a bucket.
pub(crate) struct Authority {
    account: Option<Account>,
    bucket: BucketName,
    bucket_access: BucketAccess,
    /// The policy context; present only where there is a policy.
    context: Option<PolicyContext>,
    /// The session of a role in which the account acts.
    session: Option<Arc<Session>>,
    /// The context of the session's policy; present only where that has one.
    session_context: Option<PolicyContext>,
    /// Actions that were allowed based on the object's traits.
    by_traits: Mutex<Vec<Ask>>,
    /// Owner and list of the object for which its list allowed an action.
    listed: Mutex<Option<ObjectAccess>>,
}

/// The decision on an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allowed,
    /// An access control list allows it.
    Listed,
    /// A statement of the policy denies it.
    Denied,
    /// Neither a grant nor a statement allows it.
    Missing,
    /// The policy of the session does not allow it.
    Narrowed,
}

impl Decision {
    fn allows(self) -> bool {
        matches!(self, Self::Allowed | Self::Listed)
    }
}

impl Authority {
    /// The authority of `account`, or of an anonymous caller, over a bucket to which it has this access. `session` is the
    /// one in which the account acts.
    pub(crate) fn new(
        (account, session): (Option<Account>, Option<Arc<Session>>),
        bucket: BucketName,
        bucket_access: BucketAccess,
        (headers, uri): (&HeaderMap, &Uri),
        (sender, region): (Sender, &Arc<str>),
    ) -> Self {
        let context = match &bucket_access.rule {
            Rule::Policy(policy, _) => {
                Some(PolicyContext::new((headers, uri), sender, Arc::clone(region), policy.size()))
            }
            Rule::Grants | Rule::Unreadable => None,
        };
        let narrowed = session.as_ref().and_then(|session| session.policy.as_ref()).map(Policy::size);
        let session_context =
            narrowed.map(|statements| PolicyContext::new((headers, uri), sender, Arc::clone(region), statements));
        let (by_traits, listed) = Default::default();
        Self { account, bucket, bucket_access, context, session, session_context, by_traits, listed }
    }

    /// The account; `None` for an anonymous caller.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// The bucket that the authority concerns.
    pub(crate) fn bucket(&self) -> &BucketName {
        &self.bucket
    }

    /// Whether grants alone decide.
    pub(crate) fn by_grants(&self) -> bool {
        matches!(self.bucket_access.rule, Rule::Grants)
            && self.bucket_access.lists.is_none()
            && self.session_context.is_none()
    }

    /// Whether no policy has to be evaluated.
    fn is_without_policy(&self) -> bool {
        self.context.is_none() && self.session_context.is_none()
    }

    /// The access control lists of the bucket, where they are enabled.
    pub(crate) fn lists(&self) -> Option<&Lists> {
        self.bucket_access.lists.as_ref()
    }

    /// Owner and list of the object as they were when the list allowed what was asked; none if no list decided.
    pub(crate) fn listed(&self) -> Option<ObjectAccess> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the caller may perform an action.
    pub(crate) async fn allows(self: &Arc<Self>, store: &Store, ask: Ask) -> S3Result<bool> {
        if self.is_without_policy() && (self.lists().is_none() || self.is_granted(&ask)) {
            return Ok(self.decide(&ask, &Traits::default()).allows());
        }
        let authority = Arc::clone(self);
        let decide = move |store: &Store| Ok(authority.decide(&ask, &authority.traits(store, &ask)?).allows());
        blocking(store, decide).await
    }

    /// Refuses an action that the caller may not perform.
    pub(crate) async fn require(self: &Arc<Self>, store: &Store, ask: Ask) -> S3Result<()> {
        self.require_all(store, vec![ask]).await
    }

    /// Refuses unless the caller may perform all of these actions.
    pub(crate) async fn require_all(self: &Arc<Self>, store: &Store, asks: Vec<Ask>) -> S3Result<()> {
        self.require_on(store, asks, None).await
    }

    /// Refuses unless the caller may perform all of these actions on an object with these traits.
    pub(crate) async fn require_on(
        self: &Arc<Self>,
        store: &Store,
        asks: Vec<Ask>,
        traits: Option<Traits>,
    ) -> S3Result<()> {
        let allowed = |ask| self.decide(ask, &Traits::default()) == Decision::Allowed;
        if self.is_without_policy() && asks.iter().all(allowed) {
            return Ok(());
        }
        let authority = Arc::clone(self);
        let require = move |store: &Store| {
            for ask in asks {
                match &traits {
                    Some(traits) => authority.require_now(store, &ask, traits)?,
                    None => authority.require_now(store, &ask, &authority.traits(store, &ask)?)?,
                }
                if authority.asks_object(&ask) {
                    authority.by_traits.lock().unwrap_or_else(PoisonError::into_inner).push(ask);
                }
            }
            Ok(())
        };
        blocking(store, require).await
    }

    /// Refuses if none of these actions could be allowed for any content of the body, which was not read yet.
    pub(crate) async fn require_possible(
        self: &Arc<Self>,
        store: &Store,
        asks: Vec<Ask>,
        scope: Scope,
    ) -> S3Result<()> {
        let authority = Arc::clone(self);
        let require = move |store: &Store| match asks.first() {
            Some(first) if !asks.iter().any(|ask| authority.could_allow(ask, scope)) => {
                Err(authority.missing(store, first))
            }
            _ => Ok(()),
        };
        blocking(store, require).await
    }

    /// Whether a grant allows this, or a statement could.
    fn could_allow(&self, ask: &Ask, scope: Scope) -> bool {
        if !self.session_could_allow(ask, scope) {
            return false;
        }
        let listed = self.lists().is_some_and(|lists| lists.could_allow(self.account.as_ref(), ask));
        if self.is_granted(ask) || listed && !matches!(self.bucket_access.rule, Rule::Unreadable) {
            return true;
        }
        let (Rule::Policy(policy, _), Some(context)) = (&self.bucket_access.rule, &self.context) else { return false };
        let tags = Tags::new();
        let could = |account: Option<&Account>| {
            let asked = (self.place(), ask, &tags);
            let could = self.question(context, asked, account, |question| policy.could_allow(question, scope));
            if could { Verdict::Allowed } else { Verdict::Silent }
        };
        self.lets_in() && self.verdict(could) == Verdict::Allowed
    }

    /// Refuses an action that was allowed based on tags, an owner or a list which the opened object does not have: it was
    /// replaced in between.
    pub(crate) fn confirm(&self, store: &Store, object: &ObjectInfo) -> S3Result<()> {
        let asks = self.by_traits.lock().unwrap_or_else(PoisonError::into_inner);
        if asks.is_empty() {
            return Ok(());
        }
        let traits = Traits::of(object);
        asks.iter().try_for_each(|ask| self.require_now(store, ask, &traits))
    }

    fn require_now(&self, store: &Store, ask: &Ask, traits: &Traits) -> S3Result<()> {
        match self.decide(ask, traits) {
            Decision::Allowed => Ok(()),
            Decision::Listed => {
                *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(traits.access.clone());
                Ok(())
            }
            Decision::Denied => Err(self.denied(ask)),
            Decision::Missing => Err(self.missing(store, ask)),
            Decision::Narrowed => Err(self.narrowed(ask)),
        }
    }

    /// The error for an action that nothing allows.
    fn missing(&self, store: &Store, ask: &Ask) -> S3Error {
        let frozen = self.bucket_access.mode.is_some();
        refusal(store, self.account.as_ref(), ask.right.verb(), &self.bucket, frozen)
    }

    /// The error for an action that the policy of the session does not allow.
    fn narrowed(&self, ask: &Ask) -> S3Error {
        let words = match &ask.key {
            None => format!("The policy of the session does not allow {}.", ask.action),
            Some(key) => format!("The policy of the session does not allow {} on \"{key}\".", ask.action),
        };
        refuse(S3ErrorCode::AccessDenied, words)
    }

    fn decide(&self, ask: &Ask, traits: &Traits) -> Decision {
        match self.decide_for_account(ask, traits) {
            decision if decision.allows() && !self.session_allows(ask, &traits.tags) => Decision::Narrowed,
            decision => decision,
        }
    }

    /// Whether the policy of the session, if it has one, allows an action.
    fn session_allows(&self, ask: &Ask, tags: &Tags) -> bool {
        self.of_session(ask, tags, |policy, question| policy.judge(question) == Verdict::Allowed).unwrap_or(true)
    }

    /// Whether the policy of the session, if it has one, could allow an action for some content of the body.
    fn session_could_allow(&self, ask: &Ask, scope: Scope) -> bool {
        self.of_session(ask, &Tags::new(), |policy, question| policy.could_allow(question, scope)).unwrap_or(true)
    }

    /// Passes `ask` to the policy of the session; `None` if there is none.
    fn of_session(&self, ask: &Ask, tags: &Tags, put: impl FnOnce(&Policy, &Question<'_>) -> bool) -> Option<bool> {
        let policy = self.session.as_ref()?.policy.as_ref()?;
        let context = self.session_context.as_ref()?;
        let asked = (&self.bucket, ask, tags);
        let allowed = self.question(context, asked, self.account.as_ref(), |question| put(policy, question));
        Some(allowed && !context.withheld())
    }

    fn decide_for_account(&self, ask: &Ask, traits: &Traits) -> Decision {
        let unlocked = self.bucket_access.owns && NEVER_LOCKED.contains(&ask.action);
        let listed = || self.lists().is_some_and(|lists| lists.allow(self.account.as_ref(), ask, &traits.access));
        match self.says(ask, &traits.tags) {
            Verdict::Denied if !unlocked => Decision::Denied,
            Verdict::Allowed if self.lets_in() => Decision::Allowed,
            _ if self.is_granted(ask) => Decision::Allowed,
            _ if listed() => Decision::Listed,
            _ => Decision::Missing,
        }
    }

    /// Whether a grant allows an action.
    fn is_granted(&self, ask: &Ask) -> bool {
        ask.right.allowed_by(self.bucket_access.mode)
    }

    /// Whether the policy's allowances apply to the caller.
    fn lets_in(&self) -> bool {
        let bucket_access = &self.bucket_access;
        bucket_access.taken_of.is_none() && (!bucket_access.restricted || bucket_access.owns)
    }

    /// The bucket name that the policy uses.
    fn place(&self) -> &BucketName {
        self.bucket_access.taken_of.as_ref().unwrap_or(&self.bucket)
    }

    /// The policy's verdict.
    fn says(&self, ask: &Ask, tags: &Tags) -> Verdict {
        let (policy, context) = match (&self.bucket_access.rule, &self.context) {
            (Rule::Policy(policy, _), Some(context)) => (policy, context),
            (Rule::Grants, _) => return Verdict::Silent,
            (Rule::Unreadable | Rule::Policy(..), _) => return Verdict::Denied,
        };
        let asked = (self.place(), ask, tags);
        let verdict = self.verdict(|account| self.question(context, asked, account, |question| policy.judge(question)));
        if context.withheld() { Verdict::Denied } else { verdict }
    }

    /// The policy's verdict for the caller, from its verdict for an account.
    fn verdict(&self, judge: impl Fn(Option<&Account>) -> Verdict) -> Verdict {
        let account = self.account.as_ref();
        self.bucket_access.identity.verdict(judge(account), || judge(account.map(stranger).as_ref()))
    }

    /// Passes an action on a bucket to a policy, as a question of `account`.
    fn question<T>(
        &self,
        context: &PolicyContext,
        (bucket, ask, tags): (&BucketName, &Ask, &Tags),
        account: Option<&Account>,
        put: impl FnOnce(&Question<'_>) -> T,
    ) -> T {
        let resource = match &ask.key {
            Some(key) => format!("{bucket}/{key}"),
            None => bucket.to_string(),
        };
        let owner = self.bucket_access.owner.as_deref();
        let cached = self.bucket_access.identity != Identity::Namesake;
        let session = self.session.as_deref();
        let facts = CallerFacts { context, account, session, owner, ask, tags, cached };
        let account = account.map(|account| account.name.as_str());
        put(&Question { account, action: ask.action, resource: &resource, facts: &facts })
    }

    /// The object's traits, if the decision depends on them.
    fn traits(&self, store: &Store, ask: &Ask) -> S3Result<Traits> {
        let Some(key) = ask.key.as_deref().filter(|_| self.asks_object(ask)) else { return Ok(Traits::default()) };
        match store.head_object(&self.bucket, &names::key(key)?, ask.version.as_deref()) {
            Ok(found) => Ok(Traits::of(&found)),
            Err(Error::NotFound { .. } | Error::DeleteMarker { .. } | Error::Invalid { .. }) => Ok(Traits::default()),
            Err(error) => Err(from_store(error)),
        }
    }

    /// Whether the decision may depend on the object: on its tags, or on its list where no grant decides.
    pub(crate) fn asks_object(&self, ask: &Ask) -> bool {
        self.asks_tags() || self.lists().is_some() && !self.is_granted(ask)
    }

    /// Whether a policy refers to the tags of objects.
    fn asks_tags(&self) -> bool {
        let mentions = |policy: &Policy| policy.mentions(|key| key.name() == "s3:existingobjecttag/");
        let of_bucket = match &self.bucket_access.rule {
            Rule::Policy(policy, _) => mentions(policy),
            Rule::Grants | Rule::Unreadable => false,
        };
        of_bucket || self.session.as_ref().and_then(|session| session.policy.as_ref()).is_some_and(mentions)
    }

    fn denied(&self, ask: &Ask) -> S3Error {
        let policy = format!("The policy of the bucket \"{}\"", self.place());
        let words = match (&self.bucket_access.rule, &ask.key) {
            (Rule::Unreadable, _) => format!("{policy} cannot be read; its owner has to put it again."),
            _ if self.context.as_ref().is_some_and(PolicyContext::withheld) => {
                format!("{policy} asks for a value of this request that has more than {VALUE_BYTES_MAX} bytes.")
            }
            (_, None) => format!("{policy} denies {}.", ask.action),
            (_, Some(key)) => format!("{policy} denies {} on \"{key}\".", ask.action),
        };
        refuse(S3ErrorCode::AccessDenied, words)
    }
}

/// The error for a refused action: the bucket is absent, it is a snapshot, or nothing allows the action.
fn refusal(store: &Store, account: Option<&Account>, verb: &str, bucket: &BucketName, granted: bool) -> S3Error {
    let words = match (store.bucket(bucket), account) {
        (Err(error), _) => return from_store(error),
        (Ok(found), _) if found.snapshot && granted => format!("\"{bucket}\" is a snapshot: it cannot be changed."),
        (Ok(_), Some(account)) => {
            format!("The account \"{}\" may not {verb} the bucket \"{bucket}\".", account.name)
        }
        (Ok(_), None) => {
            format!("Sign the request: anonymous callers may not {verb} the bucket \"{bucket}\" in this way.")
        }
    };
    refuse(S3ErrorCode::AccessDenied, words)
}
