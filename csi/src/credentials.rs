//! What a node opens a volume with at a store on another machine: the ticket of its publication, and the access key of a
//! Secret, which narrows the ticket.
//!
//! - Both are secrets: `Debug` shows neither. They are written only into stage records, whose files have mode 0600.

use objstore::store::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::secret::AccessKey;

/// The longest ticket in bytes, as on the wire between a node and its store.
const TICKET_BYTES_MAX: usize = 8 << 10;

/// The ticket of a publication, as the store issued it; opaque here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket(Secret);

/// What a session is opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The ticket.
    pub ticket: Ticket,
    /// The key of a Secret: the session may do no more than its account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<AccessKey>,
    /// The authority (PEM) that vouches for the store, from the controller beside the store; `None` where it shows a
    /// certificate of another authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

impl Ticket {
    /// A ticket from its text; `None` if no ticket looks like that.
    pub fn parse(text: &str) -> Option<Self> {
        let is_ticket =
            (1..=TICKET_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_ticket.then(|| Self(Secret::new(text)))
    }

    /// The ticket's text; never to be logged or put in an error.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.reveal())
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a ticket has to be visible ASCII characters"))
    }
}

/// The secret of an access key in a stage record.
pub(crate) mod secret_text {
    use super::{Deserialize, Deserializer, Secret, Serializer};

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.reveal())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_that_a_ticket_can_be_is_one() {
        assert_eq!(Ticket::parse("amt1-00ff").unwrap().reveal(), "amt1-00ff");
        for text in ["", "two words", "a\nline", "é", &"x".repeat(TICKET_BYTES_MAX + 1)] {
            assert_eq!(Ticket::parse(text), None, "{text:.20}");
        }
    }

    #[test]
    fn credentials_are_recorded_whole_and_printed_without_their_secrets() {
        let key = AccessKey { id: "AKID".into(), secret: Secret::new("hunter2") };
        for key in [None, Some(key)] {
            let credentials = Credentials { ticket: Ticket::parse("hunter3").unwrap(), key, authority: None };
            let text = serde_json::to_string(&credentials).unwrap();
            assert_eq!(serde_json::from_str::<Credentials>(&text).unwrap(), credentials);
            assert!(!format!("{credentials:?}").contains("hunter"), "{credentials:?}");
        }
    }
}
