//! Ranges of bytes, and the locks of one owner on one file: disjoint, in order, merged where they touch.

/// What a lock allows to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Other readers.
    Shared,
    /// Nothing.
    Exclusive,
}

/// A range of bytes that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    first: u64,
    last: u64,
}

impl Range {
    /// All bytes, also those behind the end of the file.
    pub const ALL: Self = Self { first: 0, last: u64::MAX };

    /// The bytes from `first` to `last`, both included; `None` if that is none.
    pub fn new(first: u64, last: u64) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// The first byte.
    pub fn first(self) -> u64 {
        self.first
    }

    /// The last byte.
    pub fn last(self) -> u64 {
        self.last
    }

    /// Whether the two have a byte in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether the two have a byte in common, or nothing lies between them.
    fn touches(self, other: Self) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }

    /// The parts of this range before and behind another.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = other.first.checked_sub(1).and_then(|last| Self::new(self.first, last.min(self.last)));
        let behind = other.last.checked_add(1).and_then(|first| Self::new(first.max(self.first), self.last));
        [before, behind].into_iter().flatten()
    }

    fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// The locked ranges of one owner on one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(Range, Mode)>);

impl Ranges {
    pub(super) fn iter(&self) -> impl Iterator<Item = (Range, Mode)> {
        self.0.iter().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Locks a range in place of what the owner had there, or unlocks it (`None`).
    pub(super) fn set(&mut self, range: Range, mode: Option<Mode>) {
        let mut next: Vec<(Range, Mode)> = Vec::with_capacity(self.0.len() + 2);
        let mut merged = range;
        for (held, had) in self.0.drain(..) {
            if Some(had) == mode && held.touches(range) {
                merged = merged.with(held);
            } else if held.overlaps(range) {
                next.extend(held.without(range).map(|part| (part, had)));
            } else {
                next.push((held, had));
            }
        }
        if let Some(mode) = mode {
            let at = next.partition_point(|(held, _)| *held < merged);
            next.insert(at, (merged, mode));
        }
        self.0 = next;
    }
}
