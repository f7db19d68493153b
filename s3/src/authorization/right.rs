//! Rights to a bucket that grants give.

use objstore::store::Mode;

/// A right that a grant can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Given by any grant.
    Any,
    /// Get and list.
    Read,
    /// Put and delete.
    Write,
    /// Change or delete the bucket itself.
    Own,
}

impl Right {
    /// Whether a grant of this mode gives the right.
    pub(crate) fn allowed_by(self, mode: Option<Mode>) -> bool {
        match (self, mode) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Read, Some(mode)) => mode.reads(),
            (Self::Write, Some(mode)) => mode.writes(),
            (Self::Own, Some(mode)) => mode == Mode::Owner,
        }
    }

    /// The verb for refusals of this right.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Any => "use",
            Self::Read => "read",
            Self::Write => "write to",
            Self::Own => "change or delete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_follow_modes() {
        let table = [
            (None, [false, false, false, false]),
            (Some(Mode::Read), [true, true, false, false]),
            (Some(Mode::Write), [true, false, true, false]),
            (Some(Mode::ReadWrite), [true, true, true, false]),
            (Some(Mode::Owner), [true, true, true, true]),
        ];
        for (mode, allowed) in table {
            let found = [Right::Any, Right::Read, Right::Write, Right::Own].map(|right| right.allowed_by(mode));
            assert_eq!(found, allowed, "{mode:?}");
        }
    }
}
