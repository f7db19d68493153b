//! Backup ids: the time of the backup, as `20261121T223523.123Z`.
//!
//! - Ids always rise, because they define the order of backups: if the clock was set back, the next id is one
//!   millisecond after the last. The manifest has the clock's time.

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::clock::Timestamp;

const MILLI: i64 = 1_000_000;

const ID: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second].[subsecond digits:3]Z");

/// The time of a backup made after the one with the id `last`.
pub(super) fn after(last: Option<&str>, now: Timestamp) -> Timestamp {
    let next = last.and_then(time_of).map(|last| Timestamp(last.0.saturating_add(MILLI)));
    next.map_or(now, |next| next.max(now))
}

/// The backup id for a time.
pub(super) fn id_of(at: Timestamp) -> String {
    let date = OffsetDateTime::from_unix_timestamp_nanos(at.0.into()).expect("64 bits of nanoseconds end in 2262");
    date.format(ID).expect("a date has all that an id shows")
}

/// The time of a backup id, to the millisecond; `None` if it is malformed.
fn time_of(id: &str) -> Option<Timestamp> {
    let date = PrimitiveDateTime::parse(id, ID).ok()?.assume_utc();
    let at = Timestamp(date.unix_timestamp_nanos().try_into().ok()?);
    (id_of(at) == id).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dates() {
        for (secs, id) in [
            (0, "19700101T000000.000Z"),
            (951_782_400, "20000229T000000.000Z"),
            (1_795_300_523, "20261121T223523.000Z"),
            (4_107_542_399, "21000228T235959.000Z"),
        ] {
            assert_eq!(id_of(Timestamp::from_parts(secs, 0)), id);
            assert_eq!(time_of(id), Some(Timestamp::from_parts(secs, 0)));
        }
        assert_eq!(id_of(Timestamp(1_500_000)), "19700101T000000.001Z");
        for end in [i64::MIN, i64::MAX] {
            let id = id_of(Timestamp(end));
            assert!(time_of(&id).is_none_or(|at| at.0.abs_diff(end) < 1_000_000), "{id}");
        }
    }

    #[test]
    fn ids_rise() {
        let at = |secs| Timestamp::from_parts(secs, 987_654_321);
        assert_eq!(after(None, at(5)), at(5));
        let last = id_of(at(5));
        assert_eq!(after(Some(&last), at(6)), at(6));
        for now in [at(5), at(4), at(-1_000_000)] {
            assert_eq!(id_of(after(Some(&last), now)), "19700101T000005.988Z");
        }
        for text in
            ["", "id", "20261321T223523.123Z", "20261121T223523.123", "+0261121T223523.123Z", "é0261121T223523.123Z"]
        {
            assert_eq!(after(Some(text), at(5)), at(5), "{text}");
        }
    }
}
