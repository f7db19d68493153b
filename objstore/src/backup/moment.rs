//! The ids of backups: when they were made, as `20261121T223523.123Z`.
//!
//! - They rise, since backups are in the order of their ids: where the clock was set back, the next one is a millisecond
//!   after the last. What the clock said is in the manifest.

use crate::clock::Timestamp;

const MILLI: i64 = 1_000_000;

/// When a backup is made after the one with the id `last`.
pub(super) fn after(last: Option<&str>, now: Timestamp) -> Timestamp {
    let next = last.and_then(time_of).map(|last| Timestamp(last.0.saturating_add(MILLI)));
    next.map_or(now, |next| next.max(now))
}

/// The id of what is made then.
pub(super) fn id_of(at: Timestamp) -> String {
    let (secs, nanos) = at.parts();
    let (days, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{:03}Z", nanos / 1_000_000)
}

/// The moment of an id, to the millisecond; none of another text.
fn time_of(id: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| id.get(from..to)?.parse::<i64>().ok();
    let days = days(number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let secs = days * 86_400 + number(9, 11)? * 3600 + number(11, 13)? * 60 + number(13, 15)?;
    let at = Timestamp::from_parts(secs, u32::try_from(number(16, 19)? * MILLI).ok()?);
    (id_of(at) == id).then_some(at)
}

/// The date of a day since 1970, in the Gregorian calendar: counted in eras of 400 years that begin in March.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day of a date, the other way.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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
        for day in (-700_000..2_900_000).step_by(13) {
            let (year, month, date) = civil(day);
            assert_eq!(days(year, month, date), day);
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
