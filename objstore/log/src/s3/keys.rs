//! The keys of the log's objects.
//!
//! | key | object |
//! | --- | --- |
//! | `owner` | the owner's record |
//! | `log/EPOCH/NUMBER` | the batch of an epoch that begins with the entry NUMBER, or the seal of the epoch there |
//! | `standby/SERVER` | the announcement of a server that follows the log |
//! | `probe/RANDOM` | what shows that the store honours conditions; removed at once |

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::owner::Epoch;

/// The owner's record.
pub(super) const OWNER: &str = "owner";
/// The announcements.
pub(super) const STANDBYS: &str = "standby/";

const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The batches of an epoch; keys below it rise with their numbers.
pub(super) fn epoch(epoch: Epoch) -> String {
    format!("log/{epoch:020}/")
}

/// A batch of an epoch, or its seal.
pub(super) fn batch(epoch: Epoch, first: u64) -> String {
    format!("{}{first:020}", self::epoch(epoch))
}

/// The number in the key of a batch.
pub(super) fn number(key: &str) -> Option<u64> {
    key.rsplit('/').next().filter(|number| number.len() == 20)?.parse().ok()
}

/// The announcement of a server.
pub(super) fn standby(server: &str) -> String {
    format!("{STANDBYS}{}", named(server))
}

/// The server of an announcement.
pub(super) fn server(key: &str) -> Option<String> {
    plain(key.strip_prefix(STANDBYS)?)
}

/// A server's name without characters that separate.
pub(super) fn named(server: &str) -> String {
    utf8_percent_encode(server, NAME).to_string()
}

/// The name that was made plain by [`named`].
pub(super) fn plain(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(String::from)
}
