//! Tests of roles and their sessions: who may take one, until when, and what ends it.

use std::sync::Arc;
use std::time::Duration;

use super::test_store::{Later, TestStore};
use crate::clock::Clock as _;
use crate::error::{Error, Noun};
use crate::store::*;

fn web() -> TrustedIdentity {
    TrustedIdentity { issuer: "https://i".into(), subject: "system:serviceaccount:shop:web".into(), audience: None }
}

fn role(account: &str, name: &str) -> NewRole {
    NewRole {
        account: account.into(),
        name: name.into(),
        creator: Creator::Administrator,
        identities: vec![web()],
        accounts: Vec::new(),
    }
}

fn session(seconds: u32) -> NewRoleSession {
    NewRoleSession { name: "session-1".into(), seconds, policy: Some("{}".into()) }
}

fn opens(store: &Store, credentials: &RoleCredentials) -> Result<RoleSession, SessionFault> {
    store.role_session(&credentials.access_key_id, credentials.token.reveal()).unwrap()
}

#[test]
fn a_role_trusts_whom_it_was_made_for_and_goes_with_its_account() {
    let test = TestStore::in_memory();
    for account in ["shop", "bob"] {
        test.run(test.store.create_account(account, false)).unwrap();
    }
    let (made, outcome) = test.run(test.store.create_role(role("shop", "web"))).unwrap();
    assert_eq!((outcome, made.arn().as_str()), (Outcome::Made, "arn:aws:iam::shop:role/web"));
    assert_eq!(test.run(test.store.create_role(role("shop", "web"))).unwrap(), (made.clone(), Outcome::Found));
    assert_eq!(test.store.role("shop", "web").unwrap().as_ref(), Some(&made));
    assert_eq!((test.store.role("bob", "web").unwrap(), test.store.role("absent", "web").unwrap()), (None, None));
    let other = NewRole { identities: vec![TrustedIdentity { subject: "*".into(), ..web() }], ..role("shop", "web") };
    assert!(matches!(test.run(test.store.create_role(other)), Err(Error::Exists { noun: Noun::Role, .. })));
    let by_account = NewRole { identities: Vec::new(), accounts: vec!["bob".into()], ..role("shop", "reader") };
    test.run(test.store.create_role(by_account.clone())).unwrap();
    for bad in [
        NewRole { identities: Vec::new(), ..role("shop", "nobody") },
        NewRole { name: "a/b".into(), ..role("shop", "") },
        NewRole { name: "x".repeat(65), ..role("shop", "") },
        NewRole { identities: vec![TrustedIdentity { issuer: String::new(), ..web() }], ..role("shop", "x") },
        NewRole { identities: vec![TrustedIdentity { subject: "a\nb".into(), ..web() }], ..role("shop", "x") },
        NewRole { identities: vec![web(); 101], ..role("shop", "x") },
        role(ROOT_ACCOUNT, "web"),
        role("absent", "web"),
        NewRole { accounts: vec!["absent".into()], ..by_account },
    ] {
        assert!(test.run(test.store.create_role(bad.clone())).is_err(), "{bad:?}");
    }
    assert_eq!(test.store.roles(Some("shop")).unwrap().len(), 2);
    // An account of the same name is another account.
    test.run(test.store.delete_account("bob")).unwrap();
    test.run(test.store.create_account("bob", false)).unwrap();
    assert_ne!(test.store.role("shop", "reader").unwrap().unwrap().accounts, ["bob"]);
    test.run(test.store.delete_account("shop")).unwrap();
    assert!(test.store.roles(None).unwrap().is_empty());
}

#[test]
fn roles_of_an_account_are_limited() {
    let test = TestStore::in_memory();
    test.run(test.store.create_account("shop", false)).unwrap();
    for number in 0..100 {
        test.run(test.store.create_role(role("shop", &format!("r{number}")))).unwrap();
    }
    let refused = test.run(test.store.create_role(role("shop", "more")));
    assert!(matches!(refused, Err(Error::TooMany { limit: 100, .. })));
}

#[test]
fn a_session_has_its_own_key_and_token_and_ends_in_time() {
    let clock = Arc::new(Later::default());
    let test = TestStore::with_clock(clock.clone());
    test.run(test.store.create_account("shop", false)).unwrap();
    let (role, _) = test.run(test.store.create_role(role("shop", "web"))).unwrap();
    let [one, other] = [900, 900].map(|seconds| test.store.begin_role_session(&role, session(seconds)).unwrap());
    let found = opens(&test.store, &one).unwrap();
    assert_eq!((found.account.name.as_str(), found.secret.reveal()), ("shop", one.secret.reveal()));
    assert_eq!(found.arn(), "arn:aws:sts::shop:assumed-role/web/session-1");
    assert_eq!((found.user_id(), found.policy.as_deref()), (format!("{}:session-1", role.unique_id()), Some("{}")));
    assert!(one.access_key_id.starts_with(SESSION_KEY_PREFIX) && one.access_key_id != other.access_key_id);
    assert!(!format!("{one:?} {found:?}").contains(one.secret.reveal()));
    assert!(test.store.identify(&one.access_key_id).unwrap().is_none(), "it is no key of the store");
    let swapped = RoleCredentials { token: other.token.clone(), ..one.clone() };
    assert_eq!(opens(&test.store, &swapped).unwrap_err(), SessionFault::Invalid);
    let token = one.token.reveal();
    for at in 0..token.len() {
        let with = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
        let changed = Secret::new(format!("{}{with}{}", &token[..at], &token[at + 1..]));
        let changed = RoleCredentials { token: changed, ..one.clone() };
        assert!(opens(&test.store, &changed).is_err(), "{at}");
    }
    for bad in ["", "A", "AQ", "=", "é", &"A".repeat(100_000), &format!("{token}A"), &token[1..]] {
        let bad = RoleCredentials { token: Secret::new(bad), ..one.clone() };
        assert_eq!(opens(&test.store, &bad).unwrap_err(), SessionFault::Invalid);
    }
    let left = one.expires.parts().0 - clock.now().parts().0;
    assert!((890..=900).contains(&left), "{left}");
    clock.advance(Duration::from_secs(u64::try_from(left).unwrap() - 30));
    assert!(opens(&test.store, &one).is_ok());
    clock.advance(Duration::from_secs(31));
    assert_eq!(opens(&test.store, &one).unwrap_err(), SessionFault::Expired);
}

#[test]
fn a_session_ends_with_its_role_its_account_and_the_master_key() {
    let test = TestStore::in_memory();
    test.run(test.store.create_account("shop", false)).unwrap();
    let begin = |role: &Role| test.store.begin_role_session(role, session(900)).unwrap();
    let (first, _) = test.run(test.store.create_role(role("shop", "web"))).unwrap();
    let credentials = begin(&first);
    let epoch = test.store.access_epoch();
    test.run(test.store.delete_role("shop", "web")).unwrap();
    assert_ne!(test.store.access_epoch(), epoch, "cached callers are dropped");
    assert_eq!(opens(&test.store, &credentials).unwrap_err(), SessionFault::Invalid);
    let again = test.run(test.store.delete_role("shop", "web"));
    assert!(matches!(again, Err(Error::NotFound { noun: Noun::Role, .. })));
    let (second, _) = test.run(test.store.create_role(role("shop", "web"))).unwrap();
    assert_eq!(opens(&test.store, &credentials).unwrap_err(), SessionFault::Invalid, "a role of the same name");
    let credentials = begin(&second);
    assert!(opens(&test.store, &credentials).is_ok());
    test.run(test.store.rotate_master_key()).unwrap();
    assert_eq!(opens(&test.store, &credentials).unwrap_err(), SessionFault::Invalid);
    let credentials = begin(&second);
    test.run(test.store.delete_account("shop")).unwrap();
    test.run(test.store.create_account("shop", false)).unwrap();
    test.run(test.store.create_role(role("shop", "web"))).unwrap();
    assert_eq!(opens(&test.store, &credentials).unwrap_err(), SessionFault::Invalid, "an account of the same name");
}

#[test]
fn a_role_of_no_account_is_a_problem_that_repair_removes() {
    let test = TestStore::in_memory();
    test.run(test.store.create_account("shop", false)).unwrap();
    test.run(test.store.create_role(role("shop", "web"))).unwrap();
    assert_eq!(crate::check::records_of(&test.store.core).unwrap().problems, Vec::<String>::new());
    let lost = crate::record::key::role(4711, "web");
    let write = test.store.core.meta.write(crate::meta::Durability::Synced, move |txn| {
        txn.put(lost, Vec::new());
        Ok(())
    });
    write.wait().unwrap();
    let problems = crate::check::records_of(&test.store.core).unwrap().problems;
    assert!(problems.iter().any(|problem| problem.contains("account 4711")), "{problems:?}");
}
