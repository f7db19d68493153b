//! The cache of parsed bucket policies.
//!
//! - Entries are keyed by bucket and the revision of the bucket's settings, so a changed policy is never mistaken for
//!   the one before.
//! - A stored policy that cannot be parsed denies everything, because what it was meant to forbid is unknown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use objstore::name::BucketName;
use objstore::store::BucketSettings;
use s3_policy::Policy;

/// The most bytes of cached policies, measured as text; parsed they take several times that.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Bytes counted for each entry besides its text.
const KEPT_BYTES_EACH: usize = 512;

/// The rule that decides on access to a bucket.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Grants alone.
    Grants,
    /// Grants and this policy; the flag says whether the policy is public.
    Policy(Arc<Policy>, bool),
    /// A policy that cannot be parsed.
    Unreadable,
}

/// Parsed policies by bucket.
#[derive(Default)]
pub(crate) struct Policies(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_bucket: HashMap<u64, Ready>,
    bytes: usize,
}

struct Ready {
    /// The revision of the settings that it was parsed from.
    revision: u64,
    rule: Rule,
    bytes: usize,
}

impl Policies {
    /// The rule for the bucket with these settings.
    pub(crate) fn rule(&self, name: &BucketName, bucket: &BucketSettings) -> Rule {
        let Some(text) = &bucket.settings.policy else { return Rule::Grants };
        if let Some(found) = self.lock().by_bucket.get(&bucket.bucket)
            && found.revision == bucket.revision
        {
            return found.rule.clone();
        }
        let rule = read(name, text);
        let ready = Ready { revision: bucket.revision, rule: rule.clone(), bytes: text.len() + KEPT_BYTES_EACH };
        self.lock().keep(bucket.bucket, ready);
        rule
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn keep(&mut self, bucket: u64, ready: Ready) {
        if self.bytes + ready.bytes > KEPT_BYTES_MAX {
            *self = Self::default();
        }
        self.bytes += ready.bytes;
        self.bytes -= self.by_bucket.insert(bucket, ready).map_or(0, |before| before.bytes);
    }
}

fn read(name: &BucketName, text: &str) -> Rule {
    match Policy::stored(text, name.as_str()) {
        Ok(policy) => {
            if !policy.without_values().is_empty() {
                let keys = policy.without_values().join(", ");
                tracing::warn!(
                    bucket = name.as_str(),
                    keys,
                    "the bucket's policy has condition keys that never have a value here: what it allows with them is not \
                     allowed, what it denies with them is denied for every value; put a policy without them"
                );
            }
            let public = policy.is_public();
            Rule::Policy(Arc::new(policy), public)
        }
        Err(why) => {
            tracing::error!(bucket = name.as_str(), why = why.0, "cannot read the bucket's policy");
            Rule::Unreadable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_kept_up_to_so_many_bytes() {
        let mut kept = Kept::default();
        let ready = |bytes| Ready { revision: 1, rule: Rule::Unreadable, bytes };
        for bucket in 0..10_000 {
            kept.keep(bucket, ready(20 * 1024));
            kept.keep(bucket, ready(10 * 1024));
            assert_eq!(kept.bytes, kept.by_bucket.values().map(|ready| ready.bytes).sum::<usize>());
            assert!(kept.bytes <= KEPT_BYTES_MAX && kept.by_bucket.contains_key(&bucket), "{bucket}");
        }
    }
}
