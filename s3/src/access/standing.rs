//! How a caller stands to a bucket: all that the store knows of it, read in one trip.

use objstore::Store;
use objstore::name::BucketName;
use objstore::store::{Account, Mode};

use crate::policy::{Policies, Rule};
use crate::public_access::{self, Block};

/// How a caller stands to a bucket.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// What a grant allows.
    pub(super) mode: Option<Mode>,
    /// Whether the bucket is of the caller's account, or the caller is root.
    pub(super) owns: bool,
    /// What else holds in the bucket.
    pub(super) rule: Rule,
    /// Whether what the policy allows is for the owner's account only.
    pub(super) restricted: bool,
    /// Whether the policy names the caller's name and meant another account, deleted since.
    pub(super) namesake: bool,
    /// The account that owns the bucket, where the policy asks for it.
    pub(super) owner: Option<String>,
    /// Of a snapshot, the bucket it was taken of: what its policy denies there is denied here; it allows nothing here.
    pub(super) taken_of: Option<BucketName>,
}

impl Standing {
    /// Whether the bucket has a policy that lets anybody in.
    pub(crate) fn is_public(&self) -> bool {
        self.taken_of.is_none() && matches!(self.rule, Rule::Policy(_, true))
    }
}

/// What standings are read with.
pub(crate) struct Reader {
    policies: Policies,
    block: Block,
}

impl Reader {
    /// A reader; `block` holds where a bucket was never told otherwise.
    pub(crate) fn new(block: Block) -> Self {
        Self { policies: Policies::default(), block }
    }

    /// The block of a bucket that was never told one.
    pub(crate) fn default_block(&self) -> Block {
        self.block
    }

    /// Reads how `account`, or somebody anonymous, stands to a bucket.
    pub(crate) fn read(
        &self,
        store: &Store,
        account: Option<&Account>,
        bucket: &BucketName,
    ) -> objstore::Result<Standing> {
        let mode = match account {
            Some(account) => store.access(account, bucket)?,
            None => None,
        };
        let found = store.settings(bucket)?;
        let owns = account.is_some_and(|account| account.root || account.id == found.owner);
        let (place, found, taken_of) = match found.taken_of {
            Some(source) => (source.0.clone(), source.1, Some(source.0)),
            None => (bucket.clone(), found, None),
        };
        let rule = self.policies.rule(&place, &found);
        let namesake = account.is_some_and(|account| {
            found.settings.policy_accounts.get(&account.name).is_some_and(|meant| *meant != account.id)
        });
        let (restricted, owner) = match &rule {
            Rule::Policy(policy, public) => {
                let block = public_access::in_force(&found.settings, self.block);
                let asked = policy.mentions(|key| key.name().ends_with(":resourceaccount"));
                let owner = if asked { Some(store.bucket(bucket)?.owner) } else { None };
                (*public && block.restrict_buckets, owner)
            }
            Rule::Grants | Rule::Unreadable => (false, None),
        };
        Ok(Standing { mode, owns, rule, restricted, namesake, owner, taken_of })
    }
}
