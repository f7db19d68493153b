//! Bucket access of a caller: all facts that authorization needs about caller and bucket, read in one go.

use objstore::Store;
use objstore::name::{BucketName, is_account_name};
use objstore::store::{Account, Mode};
use s3_policy::{Policy, Verdict};

use super::list::Lists;
use super::policy_cache::{Policies, Rule};
use super::session::Session;
use crate::public_access::{self, Block};

/// How a policy identifies a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// By the account's name, or as anonymous.
    Named,
    /// As a different account with the same name: the one that the policy names was deleted since the policy was set.
    /// Allowances for that account do not apply to the caller, and exceptions from a denial for it do not either.
    Namesake,
    /// Not at all: the account's name, created by an earlier version, would be ambiguous in a policy. So the policy
    /// allows it nothing.
    Unclear,
}

impl Identity {
    /// The verdict for the caller, from the verdict by the account's name and the one for an unnamed account.
    pub(super) fn verdict(self, by_name: Verdict, as_stranger: impl FnOnce() -> Verdict) -> Verdict {
        match (self, by_name) {
            (Self::Namesake, by_name) => by_name.and(as_stranger()),
            (Self::Unclear, Verdict::Allowed) => Verdict::Silent,
            (Self::Named | Self::Unclear, by_name) => by_name,
        }
    }
}

/// A caller's access to a bucket.
#[derive(Clone, Debug)]
pub(crate) struct BucketAccess {
    /// The mode of the caller's grant.
    pub(super) mode: Option<Mode>,
    /// Whether the caller's account owns the bucket, or the caller is root.
    pub(super) owns: bool,
    /// The bucket's policy, if any.
    pub(super) rule: Rule,
    /// Whether the policy's allowances apply to the owner's account only.
    pub(super) restricted: bool,
    /// How the policy identifies the caller.
    pub(super) identity: Identity,
    /// The account that owns the bucket, if the policy refers to it.
    pub(super) owner: Option<String>,
    /// The access control lists, where Object Ownership enables them.
    pub(super) lists: Option<Lists>,
    /// For a snapshot, the bucket that it was taken from: denials of that bucket's policy apply here, allowances do
    /// not.
    pub(super) taken_of: Option<BucketName>,
}

impl BucketAccess {
    /// Whether the bucket has a policy that allows the public.
    pub(crate) fn is_public(&self) -> bool {
        self.taken_of.is_none() && matches!(self.rule, Rule::Policy(_, true))
    }
}

/// Reads callers' access to buckets.
pub(crate) struct Reader {
    policies: Policies,
    block: Block,
}

impl Reader {
    /// A reader; `block` is the default public access block, for buckets in which none was ever set.
    pub(crate) fn new(block: Block) -> Self {
        Self { policies: Policies::default(), block }
    }

    /// The default public access block.
    pub(crate) fn default_block(&self) -> Block {
        self.block
    }

    /// Reads the access of `account`, or of an anonymous caller, to a bucket. `session` is the one in which the account
    /// acts.
    pub(crate) fn read(
        &self,
        store: &Store,
        (account, session): (Option<&Account>, Option<&Session>),
        bucket: &BucketName,
    ) -> objstore::Result<BucketAccess> {
        let mode = match account {
            Some(account) => store.access(account, bucket)?,
            None => None,
        };
        let found = store.settings(bucket)?;
        let owns = account.is_some_and(|account| account.root || account.id == found.owner);
        let lists = if found.taken_of.is_none() { Lists::of(&found, self.block) } else { None };
        let (place, found, taken_of) = match found.taken_of {
            Some(source) => (source.0.clone(), source.1, Some(source.0)),
            None => (bucket.clone(), found, None),
        };
        let rule = self.policies.rule(&place, &found);
        let identity = match account {
            Some(account) if !is_account_name(&account.name) => Identity::Unclear,
            Some(account) if store.is_namesake(&found.settings, account)? => Identity::Namesake,
            _ => Identity::Named,
        };
        let asks_owner = |policy: &Policy| policy.mentions(|key| key.name().ends_with(":resourceaccount"));
        let narrowed = session.and_then(|session| session.policy.as_ref()).is_some_and(asks_owner);
        let (restricted, asked) = match &rule {
            Rule::Policy(policy, public) => {
                let block = public_access::in_force(&found.settings, self.block);
                (*public && block.restrict_buckets, asks_owner(policy))
            }
            Rule::Grants | Rule::Unreadable => (false, false),
        };
        let owner = if asked || narrowed { Some(store.bucket(bucket)?.owner) } else { None };
        Ok(BucketAccess { mode, owns, rule, restricted, identity, owner, lists, taken_of })
    }
}

#[cfg(test)]
mod tests {
    use objstore::store::{CreateBucket, Options, Versioning};

    use super::*;
    use crate::authorization::principal::account;
    use crate::public_access::all;

    #[test]
    fn a_name_that_reads_like_something_else_gets_nothing_from_a_policy_and_is_spared_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = objstore::open(Options::new(dir.path())).unwrap();
        let bucket: BucketName = "some".parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let request = CreateBucket {
            name: bucket.clone(),
            owner: "root".into(),
            quota_bytes: None,
            versioning: Versioning::Disabled,
            source: None,
            attributes: Default::default(),
            root: Default::default(),
        };
        runtime.block_on(store.create_bucket(request)).unwrap();
        let reader = Reader::new(all(true));
        let identity = |name: &str| reader.read(&store, (Some(&account(name)), None), &bucket).unwrap().identity;
        for name in ["*", "..", "anonymous", "${aws:username}", "<b>", "deleted-7"] {
            assert_eq!(identity(name), Identity::Unclear, "{name}");
        }
        assert_eq!(identity("alice"), Identity::Named);
        assert_eq!(reader.read(&store, (None, None), &bucket).unwrap().identity, Identity::Named);
    }

    #[test]
    fn who_is_not_meant_is_denied_what_either_is_and_allowed_what_both_are() {
        use Verdict::{Allowed, Denied, Silent};
        let table = [
            (Identity::Named, Allowed, Silent, Allowed),
            (Identity::Named, Denied, Allowed, Denied),
            (Identity::Namesake, Allowed, Silent, Silent),
            (Identity::Namesake, Allowed, Allowed, Allowed),
            (Identity::Namesake, Silent, Denied, Denied),
            (Identity::Namesake, Denied, Allowed, Denied),
            (Identity::Unclear, Allowed, Allowed, Silent),
            (Identity::Unclear, Denied, Allowed, Denied),
        ];
        for (identity, by_name, as_stranger, expected) in table {
            assert_eq!(identity.verdict(by_name, || as_stranger), expected, "{identity:?} {by_name:?} {as_stranger:?}");
        }
    }
}
