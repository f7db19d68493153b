//! Keys of delivered log objects (S3 User Guide, "Enabling Amazon S3 server access logging", log object key format).
//!
//! - `SimplePrefix`: `PREFIX` `YYYY-MM-DD-hh-mm-ss-UNIQUE`.
//! - `PartitionedPrefix`: `PREFIX` `ACCOUNT/REGION/BUCKET/YYYY/MM/DD/` `YYYY-MM-DD-hh-mm-ss-UNIQUE`. With the date
//!   source `EventTime`, the hour, minute and second are zero.

use objstore::store::LogKeyFormat;
use time::{OffsetDateTime, Time};

use super::route::Route;

/// The key of an object with lines of one day, delivered `now`.
pub(super) fn of(route: &Route, region: &str, day: time::Date, now: OffsetDateTime, unique: &str) -> String {
    let Route { prefix, owner, source, format, .. } = route;
    let at = match format {
        LogKeyFormat::EventTime => OffsetDateTime::new_utc(day, Time::MIDNIGHT),
        LogKeyFormat::DeliveryTime | LogKeyFormat::Simple | LogKeyFormat::Unset => now,
    };
    let (year, month, date) = (at.year(), u8::from(at.month()), at.day());
    let partition = match format {
        LogKeyFormat::EventTime | LogKeyFormat::DeliveryTime => {
            format!("{owner}/{region}/{source}/{year:04}/{month:02}/{date:02}/")
        }
        LogKeyFormat::Simple | LogKeyFormat::Unset => String::new(),
    };
    let (hour, minute, second) = at.to_hms();
    format!("{prefix}{partition}{year:04}-{month:02}-{date:02}-{hour:02}-{minute:02}-{second:02}-{unique}")
}

#[cfg(test)]
mod tests {
    use time::macros::{date, datetime};

    use super::*;

    #[test]
    fn keys_are_those_of_aws() {
        let key = |format| {
            let route = Route {
                source: "photos".parse().unwrap(),
                owner: "alice".into(),
                owner_id: 7,
                target: "logs".parse().unwrap(),
                prefix: "a/".into(),
                format,
            };
            of(&route, "eu-west-1", date!(2026 - 03 - 09), datetime!(2026-03-10 01:02:03 UTC), "00FF")
        };
        let simple = "a/2026-03-10-01-02-03-00FF";
        assert_eq!((key(LogKeyFormat::Unset).as_str(), key(LogKeyFormat::Simple).as_str()), (simple, simple));
        let delivered = "a/alice/eu-west-1/photos/2026/03/10/2026-03-10-01-02-03-00FF";
        assert_eq!(key(LogKeyFormat::DeliveryTime), delivered);
        assert_eq!(key(LogKeyFormat::EventTime), "a/alice/eu-west-1/photos/2026/03/09/2026-03-09-00-00-00-00FF");
    }
}
