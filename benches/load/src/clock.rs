//! The current time in the format of signatures.

use time::OffsetDateTime;
use time::macros::format_description;

/// The current time, as `20260131T235959Z`.
pub fn now() -> String {
    let stamp = format_description!("[year][month][day]T[hour][minute][second]Z");
    OffsetDateTime::now_utc().format(stamp).expect("every time can be formatted so")
}
