//! Bucket policies applied to mounts: which access a policy leaves to the account behind a mount.
//!
//! - Access through a mount counts as reading or writing any key, from any address, with any header: a denying
//!   statement applies if it could apply to one such call. Known are only the account, and that no network lies between
//!   mount and store, so a policy that denies unencrypted access closes no mount.
//! - A policy that cannot be parsed leaves no access, as through S3.

use objstore::name::BucketName;
use objstore::store::{Account, MountPolicies, MountRights};
use s3_policy::{Facts, Key, Known, Policy};

use super::principal;

/// The actions of reading through a mount, as policies name them.
const READS: [&str; 4] = ["s3:GetObject", "s3:GetObjectAttributes", "s3:GetObjectTagging", "s3:ListBucket"];
/// The actions of writing through a mount.
const WRITES: [&str; 4] = ["s3:PutObject", "s3:DeleteObject", "s3:PutObjectTagging", "s3:DeleteObjectTagging"];

/// The bucket policy rules that the store applies to mounts.
#[derive(Clone, Copy, Debug)]
pub struct MountRules;

impl MountPolicies for MountRules {
    fn leaves(&self, policy: &str, bucket: &BucketName, account: &Account, namesake: bool) -> MountRights {
        let Ok(policy) = Policy::stored(policy, bucket.as_str()) else { return MountRights::NONE };
        let stranger = namesake.then(|| principal::stranger(account));
        let callers: Vec<&Account> = std::iter::once(account).chain(&stranger).collect();
        let spared = |actions: &[&str]| {
            !callers
                .iter()
                .any(|caller| actions.iter().any(|action| policy.may_deny(&caller.name, action, &Owner(caller))))
        };
        MountRights { reads: spared(&READS), writes: spared(&WRITES) }
    }
}

/// The account behind a mount.
struct Owner<'a>(&'a Account);

impl Known for Owner<'_> {
    fn knows(&self, key: &Key) -> bool {
        principal::decides(key.name()) || key.name() == SECURE
    }

    fn facts(&self) -> &dyn Facts {
        self
    }
}

/// Whether the connection to the store is encrypted: a mount has none that others could intercept.
const SECURE: &str = "aws:securetransport";

impl Facts for Owner<'_> {
    fn values(&self, key: &Key) -> Vec<String> {
        let value =
            if key.name() == SECURE { Some("true".into()) } else { principal::value(key.name(), Some(self.0), None) };
        value.into_iter().collect()
    }

    fn once(&self, _: usize, decide: &dyn Fn() -> bool) -> bool {
        decide()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::principal::account;

    fn leaves(statements: &str, name: &str, namesake: bool) -> (bool, bool) {
        let policy = format!(r#"{{"Version": "2012-10-17", "Statement": [{statements}]}}"#);
        let MountRights { reads, writes } =
            MountRules.leaves(&policy, &"abc".parse().unwrap(), &account(name), namesake);
        (reads, writes)
    }

    fn deny(principal: &str, action: &str, resource: &str, condition: &str) -> String {
        format!(
            r#"{{"Effect": "Deny", {principal}, "Action": {action}, "Resource": "arn:aws:s3:::{resource}",
            "Condition": {{{condition}}}}}"#
        )
    }

    const BOB: &str = r#""Principal": {"AWS": "bob"}"#;
    const ALL: &str = r#""Principal": "*""#;
    const ALL_BUT_BOB: &str = r#""NotPrincipal": {"AWS": "bob"}"#;

    #[test]
    fn a_denial_counts_if_it_could_be_about_a_call_of_the_mount() {
        let table = [
            (deny(BOB, r#""s3:GetObject""#, "abc/secret/*", ""), "bob", (false, true)),
            (deny(BOB, r#""s3:GetObject""#, "abc/secret/*", ""), "alice", (true, true)),
            (deny(BOB, r#""s3:DeleteObject""#, "abc/kept/*", ""), "bob", (true, false)),
            (deny(ALL, r#""s3:*""#, "abc/*", ""), "bob", (false, false)),
            (deny(ALL, r#""s3:*""#, "abc", ""), "bob", (false, true)),
            (deny(ALL_BUT_BOB, r#""s3:Put*""#, "abc/*", ""), "bob", (true, true)),
            (deny(ALL_BUT_BOB, r#""s3:Put*""#, "abc/*", ""), "alice", (true, false)),
            (deny(ALL, r#"["s3:*BucketPolicy", "s3:GetObjectVersion"]"#, "abc*", ""), "bob", (true, true)),
            (deny(ALL, r#""s3:*""#, "abc/*", r#""Bool": {"aws:SecureTransport": "false"}"#), "bob", (true, true)),
            (
                deny(ALL, r#""s3:*""#, "abc/*", r#""NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}"#),
                "bob",
                (false, false),
            ),
            (deny(ALL, r#""s3:*""#, "abc/*", r#""StringNotEquals": {"aws:username": "bob"}"#), "bob", (true, true)),
            (deny(ALL, r#""s3:*""#, "abc/*", r#""StringNotEquals": {"aws:username": "bob"}"#), "eve", (false, false)),
            (
                deny(ALL, r#""s3:*""#, "abc/*", r#""StringLike": {"aws:userid": "${aws:UserAgent}"}"#),
                "bob",
                (false, false),
            ),
            (deny(ALL, r#""s3:PutObject""#, "abc/*", r#""Null": {"s3:if-none-match": "true"}"#), "bob", (true, false)),
            (deny(ALL, r#""s3:*""#, "abc/*", r#""StringEquals": {"aws:SourceVpc": "v"}"#), "bob", (false, false)),
            (deny(ALL, r#""s3:*""#, "abc/*", "").replace("Deny", "Allow"), "bob", (true, true)),
            ("no policy".into(), "bob", (false, false)),
        ];
        for (statements, account, expected) in table {
            assert_eq!(leaves(&statements, account, false), expected, "{account}: {statements}");
        }
    }

    #[test]
    fn a_namesake_is_denied_what_either_account_is() {
        assert_eq!(leaves(&deny(BOB, r#""s3:*""#, "abc/*", ""), "bob", true), (false, false));
        assert_eq!(leaves(&deny(ALL_BUT_BOB, r#""s3:*""#, "abc/*", ""), "bob", true), (false, false));
    }
}
