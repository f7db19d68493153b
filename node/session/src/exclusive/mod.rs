//! The exclusive lease of a volume: its node answers the programs' changes at once and sends them to the store later.
//!
//! - The store grants the lease while the session is the only user of the volume. It records the grant durably before
//!   it sends the grant, so that after a restart it knows which session may have changes that the store lacks.
//! - Any other use of the volume waits: the store recalls the lease, and the node sends all unsent changes and returns
//!   the lease. Then the store serves the other use. The end of the session returns the lease too.
//! - Grants are numbered. A recall names the number, and a node that receives it before the grant itself refuses that
//!   grant when it arrives.

mod node;
mod store;

pub use node::{Delegation, Recall};
pub use store::{Admission, Exclusive};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;

    const ONE: SessionId = SessionId(1);
    const TWO: SessionId = SessionId(2);

    #[test]
    fn another_user_waits_until_everything_is_sent_and_returned() {
        let (mut store, mut node) = (Exclusive::default(), Delegation::default());
        let grant = store.grant(ONE, true).expect("it is alone");
        assert_eq!(store.grant(ONE, true), Some(grant), "a repeated request");
        assert!(node.granted(grant) && node.may_answer());
        assert_eq!(store.admit(Some(ONE)), Admission::Now);
        assert_eq!(store.admit(Some(TWO)), Admission::Recall { session: ONE, grant });
        assert_eq!(store.admit(None), Admission::Wait);
        assert_eq!(store.recalled(), Some((ONE, grant)));
        assert_eq!(node.recall(grant), Recall::Flush);
        assert!(!node.may_answer());
        assert_eq!(node.recall(grant), Recall::Flush, "a repeated recall while it flushes");
        node.flushed();
        assert_eq!(node.recall(grant), Recall::Return, "the return was lost");
        assert!(store.returned(ONE, grant));
        assert_eq!(store.admit(Some(TWO)), Admission::Now);
        assert!(!store.returned(ONE, grant), "a repeated return");
    }

    #[test]
    fn a_grant_that_arrives_after_its_recall_is_not_used() {
        let (mut store, mut node) = (Exclusive::default(), Delegation::default());
        let first = store.grant(ONE, true).expect("it is alone");
        assert_eq!(store.admit(None), Admission::Recall { session: ONE, grant: first });
        assert_eq!(node.recall(first), Recall::Return);
        assert!(!node.granted(first) && !node.may_answer());
        assert!(store.returned(ONE, first));
        let second = store.grant(ONE, true).expect("alone again");
        assert!(!store.returned(ONE, first), "a late return of the first grant");
        assert!(node.granted(second));
    }

    #[test]
    fn nothing_is_granted_beside_others_or_during_a_recall() {
        let mut store = Exclusive::default();
        assert_eq!(store.grant(ONE, false), None);
        store.grant(ONE, true).expect("it is alone");
        assert_eq!(store.grant(TWO, true), None);
        assert!(matches!(store.admit(Some(TWO)), Admission::Recall { .. }));
        assert_eq!(store.grant(ONE, true), None, "it is being recalled");
        store.ended(TWO);
        assert_eq!(store.admit(Some(TWO)), Admission::Wait);
        store.ended(ONE);
        assert_eq!(store.admit(Some(TWO)), Admission::Now);
    }
}
