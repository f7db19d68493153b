//! The session of a role in which a caller acts.
//!
//! - It has the rights of its account. Its policy, if it has one, narrows them: an action needs an allowing statement
//!   there, beside what else allows it (IAM User Guide, Session policies).

use std::sync::Arc;

use http::{HeaderMap, Uri};
use objstore::clock::Timestamp;
use objstore::store::{Account, RoleSession, Secret};
use s3_policy::{Policy, Question, Verdict};
use subtle::ConstantTimeEq as _;

use super::ask::Ask;
use super::policy_context::{CallerFacts, PolicyContext, Sender};
use super::right::Right;
use super::traits::Tags;

/// A session of a role, as its token says it.
pub(crate) struct Session {
    /// The role, as AWS writes it.
    pub(crate) role_arn: String,
    /// The session, as AWS writes it.
    pub(crate) arn: String,
    /// `aws:userid`
    pub(crate) user_id: String,
    /// The policy that narrows the rights of the account.
    pub(crate) policy: Option<Policy>,
    expires: Timestamp,
    /// The token that proves the session beside its signature.
    token: Secret,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("arn", &self.arn).finish_non_exhaustive()
    }
}

impl Session {
    /// A session that was found by its token; `None` if its policy cannot be read any more.
    pub(crate) fn of(found: &RoleSession, token: Secret) -> Option<Self> {
        let policy = found.policy.as_deref().map(Policy::session).transpose().ok()?;
        let (role_arn, arn, user_id) = (found.role_arn(), found.arn(), found.user_id());
        Some(Self { role_arn, arn, user_id, policy, expires: found.expires, token })
    }

    /// Whether this is its token.
    pub(crate) fn is_proven_by(&self, token: &Secret) -> bool {
        self.token.reveal().as_bytes().ct_eq(token.reveal().as_bytes()).into()
    }

    /// Whether it has expired.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.expires
    }

    /// Whether its policy allows actions that are not about an existing bucket: listing all, and creating one. `resource`
    /// is the name of the bucket, or `*`.
    pub(crate) fn allows(
        &self,
        actions: &[&'static str],
        resource: &str,
        account: &Account,
        head: (&HeaderMap, &Uri),
        (sender, region): (Sender, &Arc<str>),
    ) -> bool {
        let Some(policy) = &self.policy else { return true };
        let context = PolicyContext::new(head, sender, Arc::clone(region), policy.size());
        let tags = Tags::new();
        actions.iter().all(|action| {
            let ask = Ask::bucket(action, Right::Any);
            let facts = CallerFacts {
                context: &context,
                account: Some(account),
                session: Some(self),
                owner: None,
                ask: &ask,
                tags: &tags,
                cached: true,
            };
            let question = Question { account: Some(&account.name), action, resource, facts: &facts };
            policy.judge(&question) == Verdict::Allowed && !context.withheld()
        })
    }
}
