//! The ready line that `serve` prints once every endpoint answers: `ready s3=http://… csi=unix://… credentials=PATH`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The words of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    words: BTreeMap<String, String>,
}

impl Ready {
    /// Parses the line; `None` for any other line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        if words.next() != Some("ready") {
            return None;
        }
        let words = words.filter_map(|word| word.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Some(Self { words })
    }

    /// The value of one word.
    #[must_use]
    pub fn get(&self, word: &str) -> Option<&str> {
        self.words.get(word).map(String::as_str)
    }

    /// The value of a required word.
    ///
    /// # Panics
    /// If it is missing.
    #[track_caller]
    #[must_use]
    pub fn word(&self, word: &str) -> &str {
        self.get(word).unwrap_or_else(|| panic!("the ready line has no {word}: {:?}", self.words))
    }

    /// The path of a `unix://` word.
    ///
    /// # Panics
    /// If the word is missing or not a Unix socket.
    #[track_caller]
    #[must_use]
    pub fn socket(&self, word: &str) -> PathBuf {
        let value = self.word(word);
        PathBuf::from(
            value.strip_prefix("unix://").unwrap_or_else(|| panic!("{word}={value} is not a unix:// address")),
        )
    }

    /// The address of an `http://` or `https://` word.
    ///
    /// # Panics
    /// If the word is missing or has no address and port.
    #[track_caller]
    #[must_use]
    pub fn address(&self, word: &str) -> SocketAddr {
        let value = self.word(word);
        let rest = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
        let address = rest.map(|rest| rest.trim_end_matches('/').parse());
        address.and_then(Result::ok).unwrap_or_else(|| panic!("{word}={value} is not http://ADDRESS:PORT"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_has_values_sockets_and_addresses() {
        assert_eq!(Ready::parse("listening s3=x"), None);
        let ready = Ready::parse("ready s3=http://127.0.0.1:4567 csi=unix:///tmp/a/csi.sock credentials=/tmp/a/root")
            .expect("a ready line");
        assert_eq!(ready.address("s3").port(), 4567);
        let tls = Ready::parse("ready s3=https://127.0.0.1:4567/").expect("a ready line");
        assert_eq!(tls.address("s3"), ready.address("s3"));
        assert_eq!(ready.socket("csi"), PathBuf::from("/tmp/a/csi.sock"));
        assert_eq!((ready.get("credentials"), ready.get("cosi")), (Some("/tmp/a/root"), None));
    }
}
