//! Tickets of publications, with which nodes open sessions.

use node_session::SessionId;
use objstore_files::FileService as _;

use super::remote::{call, create, in_slot, opening};
use super::test_store::TestStore;
use crate::error::{Error, Posix};
use crate::record::key::tag;
use crate::store::Mode;
use crate::volume::OpenRemote;

#[test]
fn a_ticket_opens_one_volume_for_one_node_until_it_is_unpublished() {
    let test = TestStore::in_memory();
    let (bucket, other) = (test.bucket("volume"), test.bucket("other"));
    let ticket = test.publish(&bucket, "n1", true);
    assert_eq!(test.publish(&bucket, "n1", true), ticket, "a repeated request has the same answer");
    let foreign = test.publish(&other, "n2", false);
    let denied = |open| matches!(test.store.open_remote(&open), Err(Error::Denied { .. }));
    assert!(denied(opening(&bucket, None)), "no authority at all");
    assert!(denied(opening(&other, Some(ticket.clone()))), "another volume");
    assert!(denied(opening(&other, Some(foreign))), "another node's");
    for at in 0..ticket.len() {
        let mut wrong = ticket.clone().into_bytes();
        wrong[at] ^= 1;
        assert!(denied(opening(&bucket, String::from_utf8(wrong).ok())), "one bit at {at}");
    }
    assert!(denied(opening(&bucket, Some(ticket[..ticket.len() - 2].into()))));
    let session = test.store.open_remote(&opening(&bucket, Some(ticket.clone()))).unwrap();
    assert!(session.about().read_only && session.shown().by_ticket);
    assert!(matches!(call(&session, Some(in_slot(0, 1)), create("a"), b""), Err(Error::Posix(Posix::ReadOnly))));
    test.run(test.store.unpublish(&bucket, Some("n1"))).unwrap();
    let later = OpenRemote { id: SessionId(8), ..opening(&bucket, Some(ticket.clone())) };
    assert!(denied(later.clone()), "it ended with the publication");
    let next = test.publish(&bucket, "n1", true);
    assert!(next != ticket && denied(later.clone()), "it is not valid for a later publication");
    test.store.open_remote(&OpenRemote { ticket: Some(next.clone()), ..later }).unwrap();
    let records = crate::store::all(&*test.store.core.meta.snapshot(), &[tag::PUBLICATION]).unwrap();
    let secret = &hex_simd::decode_to_vec(&next["amt1-".len()..]).unwrap()[16..];
    let has_secret = |value: &[u8]| value.windows(secret.len()).any(|window| window == secret);
    assert!(!records.iter().any(|pair| has_secret(&pair.value)), "its hash alone is stored");
    assert!(!format!("{:?}", test.run(test.store.ticket(&bucket, "n1"))).contains(&next[5..]));
}

#[test]
fn a_ticket_that_needs_a_key_opens_nothing_without_one() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    test.run(test.store.create_account("anna", false)).unwrap();
    let ticket = test.publish_needing(&bucket, ("n1", false), false);
    let alone = opening(&bucket, Some(ticket.clone()));
    let denied = |open| matches!(test.store.open_remote(&open), Err(Error::Denied { .. }));
    assert!(denied(alone.clone()), "the ticket alone");
    let both = OpenRemote { account: Some("anna".into()), ..alone.clone() };
    assert!(denied(both.clone()), "the account has no grant");
    test.run(test.store.add_grant(&bucket, "anna", Mode::ReadWrite)).unwrap();
    let session = test.store.open_remote(&both).unwrap();
    assert!(session.shown().by_ticket && !session.about().read_only);
    // The same publication, which asks for no key any more, and for one again.
    assert_eq!(test.publish_needing(&bucket, ("n1", false), true), ticket);
    let later = OpenRemote { id: SessionId(8), ..alone };
    test.store.open_remote(&later).unwrap();
    assert_eq!(test.publish_needing(&bucket, ("n1", false), false), ticket);
    assert!(denied(later), "its node comes back");
    test.run(test.store.unpublish(&bucket, Some("n1"))).unwrap();
    assert!(denied(both), "the key alone goes on with no publication");
}

#[test]
fn a_ticket_stays_valid_when_the_master_key_is_rotated() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("volume");
    let ticket = test.publish(&bucket, "n1", false);
    test.run(test.store.rotate_master_key()).unwrap();
    let next = test.publish(&bucket, "n1", false);
    assert_ne!(next, ticket);
    test.store.open_remote(&opening(&bucket, Some(ticket))).unwrap();
    test.store.open_remote(&opening(&bucket, Some(next))).unwrap();
}
