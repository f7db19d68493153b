//! Limits on the number of buckets, snapshots, accounts and grants: some operations list all of them.
//!
//! - Each bucket, snapshot and account takes a number that is never reused. While fewer numbers were issued than the
//!   limit, nothing has to be counted.

use super::header;
use crate::error::{Error, Result};
use crate::meta::Read;
use crate::record::key::{self, tag};

/// The most buckets and snapshots, which share their names.
pub const BUCKETS_MAX: u64 = 100_000;
/// The most accounts.
pub const ACCOUNTS_MAX: u64 = 100_000;
/// The most grants on one bucket.
pub const GRANTS_MAX: u64 = 10_000;

/// Refuses a bucket or snapshot beyond the limit.
pub(crate) fn check_buckets(read: &dyn Read) -> Result<()> {
    check(read, "buckets and snapshots", &[&[tag::BUCKET], &[tag::SNAPSHOT]], BUCKETS_MAX)
}

/// Refuses `more` snapshots beyond the limit of buckets and snapshots.
pub(super) fn check_snapshots(read: &dyn Read, more: usize) -> Result<()> {
    let room = BUCKETS_MAX.saturating_sub(more as u64) + 1;
    match check(read, "buckets and snapshots", &[&[tag::BUCKET], &[tag::SNAPSHOT]], room) {
        Err(Error::TooMany { what, .. }) => Err(Error::TooMany { what, limit: BUCKETS_MAX }),
        checked => checked,
    }
}

/// Refuses an account beyond the limit.
pub(super) fn check_accounts(read: &dyn Read) -> Result<()> {
    check(read, "accounts", &[&[tag::ACCOUNT]], ACCOUNTS_MAX)
}

/// Refuses a grant beyond a bucket's limit.
pub(super) fn check_grants(read: &dyn Read, bucket: u64) -> Result<()> {
    refuse(read, "grants on the bucket", &[&key::by_id(tag::GRANT, bucket)], GRANTS_MAX)
}

fn check(read: &dyn Read, what: &'static str, prefixes: &[&[u8]], limit: u64) -> Result<()> {
    let given = header::read(read)?.map_or(0, |header| header.next_id);
    if given <= limit { Ok(()) } else { refuse(read, what, prefixes, limit) }
}

fn refuse(read: &dyn Read, what: &'static str, prefixes: &[&[u8]], limit: u64) -> Result<()> {
    let mut count = 0;
    for prefix in prefixes {
        count += super::all(read, prefix)?.len() as u64;
    }
    if count < limit { Ok(()) } else { Err(Error::TooMany { what, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{Durability, Meta};

    #[test]
    fn one_too_many_is_refused_once_so_many_numbers_were_given() {
        let meta = Meta::new(crate::meta::memory::open().unwrap());
        let fill = meta.write(Durability::Buffered, |txn| {
            for grant in 0..3 {
                txn.put(key::grant(7, grant), vec![1]);
            }
            header::open(txn, None)
        });
        fill.wait().unwrap();
        let read = meta.snapshot();
        let prefix: &[&[u8]] = &[&key::by_id(tag::GRANT, 7)];
        assert!(check(&*read, "things", prefix, 1).is_ok(), "one number was given: there cannot be more");
        assert!(refuse(&*read, "things", prefix, 4).is_ok());
        let text = refuse(&*read, "things", prefix, 3).unwrap_err().to_string();
        assert!(text.contains("3 things") && text.contains("remove"), "{text}");
        assert!(check_grants(&*read, 7).is_ok() && check_buckets(&*read).is_ok() && check_accounts(&*read).is_ok());
    }
}
