//! Faults that are planted into the protocol, one for each rule: the schedules have to catch every one.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    None,
    /// The store records no outcomes.
    NoOutcomes,
    /// The node resends under a new number.
    NewNumber,
    /// The store answers a change before others acknowledged it.
    NoBarrier,
    /// The store answers a resent change before others acknowledged it.
    NoBarrierForReplies,
    /// The store ends sessions before their lease is over.
    Impatient,
    /// The node counts its lease from the answer, not from the renewal.
    CountsFromAnswer,
    /// The node serves from its caches without a fresh lease.
    ServesStale,
    /// The node caches answers from before an applied change.
    CachesAnything,
    /// The node skips a gap in the changes.
    SkipsGaps,
    /// The store does not check the session in its transactions.
    NoFence,
    /// The store takes new changes and locks at once after a restart.
    NoGrace,
    /// The node does not send again what the store lost.
    NoReplay,
    /// The node takes an answered change for a synced one.
    AnsweredIsSynced,
    /// Lost changes of several nodes are done in any order.
    UnorderedReplays,
    /// The node returns the exclusive lease before it has sent everything.
    ReturnsEarly,
    /// The store does not recall the exclusive lease.
    NoRecall,
    /// The store forgets the exclusive lease when it restarts.
    GrantNotRecorded,
    /// The node does not reclaim its locks.
    NoReclaim,
}

impl Planted {
    pub(super) const ALL: [Self; 18] = [
        Self::NoOutcomes,
        Self::NewNumber,
        Self::NoBarrier,
        Self::NoBarrierForReplies,
        Self::Impatient,
        Self::CountsFromAnswer,
        Self::ServesStale,
        Self::CachesAnything,
        Self::SkipsGaps,
        Self::NoFence,
        Self::NoGrace,
        Self::NoReplay,
        Self::AnsweredIsSynced,
        Self::UnorderedReplays,
        Self::ReturnsEarly,
        Self::NoRecall,
        Self::GrantNotRecorded,
        Self::NoReclaim,
    ];
}
