//! The delivery of changes to the caches of other nodes.
//!
//! - Each session receives its changes under numbers without gaps, and acknowledges them cumulatively once its caches and
//!   its kernel no longer have what was changed.
//! - After a reconnection the delivery resumes behind the last acknowledgement. A session with too many undelivered
//!   changes is sent one that drops every cache in place of them all.
//! - An answer from the store says how many changes it includes. It is cached only if the node has not applied a later
//!   change in the meantime, which the answer may not contain.

mod inbox;
mod outbox;

pub use inbox::{Inbox, Received};
pub use outbox::{Delivery, Outbox};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Boot, Moment};

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    #[test]
    fn changes_are_applied_once_in_order_and_resumed_behind_the_last_one() {
        let (mut outbox, mut inbox) = (Outbox::new(10), Inbox::new(Boot(1)));
        for (change, number) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(outbox.publish(change, at(number)), number);
        }
        assert_eq!(inbox.receive(Boot(1), 2, &Delivery::One("b")), Received::Gap);
        assert_eq!(inbox.receive(Boot(1), 1, &Delivery::One("a")), Received::Apply);
        assert_eq!(inbox.receive(Boot(1), 1, &Delivery::One("a")), Received::Repeated);
        assert_eq!(inbox.receive(Boot(0), 2, &Delivery::One("b")), Received::Foreign);
        outbox.acknowledge(inbox.applied());
        assert_eq!(outbox.oldest(), Some(at(2)));
        let rest: Vec<_> = outbox.undelivered().collect();
        assert_eq!(rest, [(2, &Delivery::One("b")), (3, &Delivery::One("c"))]);
        assert!(!outbox.is_acknowledged(2));
        outbox.acknowledge(3);
        outbox.acknowledge(1);
        outbox.acknowledge(99);
        assert!(outbox.is_acknowledged(3) && !outbox.is_acknowledged(4) && outbox.oldest().is_none());
    }

    #[test]
    fn too_many_changes_become_one_that_drops_everything() {
        let (mut outbox, mut inbox) = (Outbox::new(2), Inbox::new(Boot(1)));
        for number in 1..=4 {
            outbox.publish(number, at(number));
        }
        let rest: Vec<_> = outbox.undelivered().map(|(number, change)| (number, change.clone())).collect();
        assert_eq!(rest, [(3, Delivery::All), (4, Delivery::One(4))]);
        assert_eq!(outbox.oldest(), Some(at(1)), "the patience counts from the first change in it");
        assert_eq!(inbox.receive(Boot(1), 4, &Delivery::One(4)), Received::Gap);
        assert_eq!(inbox.receive(Boot(1), 3, &Delivery::<u64>::All), Received::Apply);
        assert_eq!(inbox.receive(Boot(1), 4, &Delivery::One(4)), Received::Apply);
        assert_eq!(inbox.receive(Boot(1), 3, &Delivery::<u64>::All), Received::Repeated);
    }

    #[test]
    fn an_answer_from_before_an_applied_change_is_not_cached() {
        let mut inbox = Inbox::new(Boot(1));
        assert!(inbox.may_cache(Boot(1), 0));
        assert_eq!(inbox.receive(Boot(1), 1, &Delivery::One(())), Received::Apply);
        assert!(!inbox.may_cache(Boot(1), 0), "it was read before the change");
        assert!(inbox.may_cache(Boot(1), 1) && inbox.may_cache(Boot(1), 5));
        inbox.resumed(Boot(2));
        assert!(!inbox.may_cache(Boot(1), 5), "an answer of the store before its restart");
    }
}
