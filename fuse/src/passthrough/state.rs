//! The state of an open node in one 64-bit word: the mode of its opens in the kernel, their number, and traces of
//! earlier opens.
//!
//! ```text
//! bits  0..24  number of opens that the kernel has not released
//! bit   24     passthrough, with the backing file of bits 32..63
//! bit   25     exposed: a mapping may have changed the blob directly, so the node's pages may be stale
//! bit   26     mapped, through a handle that is closed
//! bit   27     fresh: created by a program that only writes, or opened for writing in a shared bucket, and open ever since
//! ```
//!
//! The word 0 carries no information, so a slot that holds it counts as free.

use crate::opened::BackingId;

const OPENS: u64 = (1 << 24) - 1;
const PAST: u64 = 1 << 24;
const MAPPED_WRITABLE: u64 = 1 << 25;
const MAPPED: u64 = 1 << 26;
const FRESH: u64 = 1 << 27;
const BACKING_AT: u32 = 32;

/// How opens of a node read and write. The kernel allows one mode at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Through the kernel's pages of the node.
    #[default]
    Cached,
    /// By passthrough from the backing file; writers write through the server.
    Past(BackingId),
}

/// The state of an open node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub mode: Mode,
    pub opens: u32,
    pub mapped_writable: bool,
    pub mapped: bool,
    /// A writer that only writes created the file, or one opened it in a bucket that other mounts use; later opens use
    /// no pages of the node.
    pub fresh: bool,
}

impl State {
    /// Encodes the state as a word.
    pub fn encode(self) -> u64 {
        let mode = match self.mode {
            Mode::Cached => 0,
            Mode::Past(id) => PAST | u64::from(id.number().unsigned_abs()) << BACKING_AT,
        };
        let flag = |set, flag| if set { flag } else { 0 };
        mode | u64::from(self.opens) & OPENS
            | flag(self.mapped_writable, MAPPED_WRITABLE)
            | flag(self.mapped, MAPPED)
            | flag(self.fresh, FRESH)
    }

    /// Decodes a word.
    pub fn decode(word: u64) -> Self {
        let id = || i32::try_from(word >> BACKING_AT).unwrap_or(0);
        let mode = if word & PAST == 0 { Mode::Cached } else { Mode::Past(BackingId::from_number(id())) };
        let opens = u32::try_from(word & OPENS).unwrap_or(0);
        let has = |flag| word & flag != 0;
        Self { mode, opens, mapped_writable: has(MAPPED_WRITABLE), mapped: has(MAPPED), fresh: has(FRESH) }
    }

    /// The state with one more open; `None` at the largest count.
    pub fn opened(self) -> Option<Self> {
        (u64::from(self.opens) < OPENS).then_some(Self { opens: self.opens + 1, ..self })
    }

    /// The state with one open less.
    pub fn released(self) -> Self {
        let opens = self.opens.saturating_sub(1);
        Self { opens, fresh: self.fresh && opens > 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_back() {
        for (opens, id) in [(0, 1), (1, i32::MAX), (OPENS as u32, 7)] {
            for mode in [Mode::Cached, Mode::Past(BackingId::from_number(id))] {
                for flags in 0..8 {
                    let (mapped_writable, mapped, fresh) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
                    let state = State { mode, opens, mapped_writable, mapped, fresh };
                    assert_eq!(State::decode(state.encode()), state);
                }
            }
        }
        assert_eq!(State::default().encode(), 0);
        assert!(State { opens: OPENS as u32, ..State::default() }.opened().is_none());
        let fresh = State { opens: 2, fresh: true, ..State::default() };
        assert_eq!((fresh.released().fresh, fresh.released().released()), (true, State::default()));
    }
}
