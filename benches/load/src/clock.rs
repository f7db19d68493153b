//! The time of day, as signatures carry it.

use time::OffsetDateTime;
use time::macros::format_description;

/// Now, as `20260131T235959Z`.
pub fn now() -> String {
    let stamp = format_description!("[year][month][day]T[hour][minute][second]Z");
    OffsetDateTime::now_utc().format(stamp).expect("a moment has all that a stamp shows")
}
