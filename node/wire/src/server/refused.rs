//! Counts of the connections that a listener did not admit, by reason: as many counts as there are reasons.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::handshake::Failed;
use crate::refusal::Reason;

/// The reasons that a server refuses with.
const REASONS: [Reason; 8] = [
    Reason::Other,
    Reason::Version,
    Reason::Credential,
    Reason::Session,
    Reason::Busy,
    Reason::Stopping,
    Reason::Protocol,
    Reason::Request,
];

/// The counts while they are made.
#[derive(Debug, Default)]
pub struct Refusals {
    by_reason: [AtomicU64; REASONS.len()],
    broken: AtomicU64,
}

/// How many connections were not admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    by_reason: [u64; REASONS.len()],
    /// Those that ended before their handshake did: scans, peers without the certificate that is asked for, and peers that
    /// made place for newer ones.
    pub broken: u64,
}

impl Refusals {
    pub(super) fn count(&self, failed: &Failed) {
        match failed {
            Failed::Refused(refusal) => self.refused(refusal.reason),
            Failed::Unreadable(_) => self.refused(Reason::Protocol),
            Failed::Broken(_) | Failed::Impostor => self.broken(),
        }
    }

    /// Something was refused for this reason.
    pub fn refused(&self, reason: Reason) {
        if let Some(at) = place(reason) {
            self.by_reason[at].fetch_add(1, Relaxed);
        }
    }

    pub(super) fn broken(&self) {
        self.broken.fetch_add(1, Relaxed);
    }

    /// The counts.
    pub fn read(&self) -> Refused {
        let by_reason = std::array::from_fn(|at| self.by_reason[at].load(Relaxed));
        Refused { by_reason, broken: self.broken.load(Relaxed) }
    }
}

impl Refused {
    /// The count of each reason.
    pub fn by_reason(&self) -> impl Iterator<Item = (Reason, u64)> + use<> {
        REASONS.into_iter().zip(self.by_reason)
    }
}

fn place(reason: Reason) -> Option<usize> {
    REASONS.iter().position(|known| *known == reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Broken;
    use crate::refusal::Refusal;

    #[test]
    fn each_end_of_a_handshake_is_counted_once() {
        let refusals = Refusals::default();
        refusals.count(&Refusal::new(Reason::Credential, "wrong").into());
        refusals.count(&Broken::Closed.into());
        refusals.refused(Reason::Unproven);
        let read = refusals.read();
        let counted: Vec<_> = read.by_reason().filter(|(_, count)| *count > 0).collect();
        assert_eq!((counted, read.broken), (vec![(Reason::Credential, 1)], 1));
    }
}
