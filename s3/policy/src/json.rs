//! A strict JSON parser.
//!
//! - A repeated member is refused: which of the two counts would depend on the reader.
//! - Numbers and booleans keep their text, which is what conditions compare.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Debug, PartialEq)]
pub(super) enum Json {
    Null,
    /// A string, number or boolean, as text.
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    /// Parses a document.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        while let Some((name, value)) = members.next_entry::<String, Json>()? {
            if object.iter().any(|(before, _)| *before == name) {
                return Err(A::Error::custom(format!("the member \"{name}\" is given twice")));
            }
            object.push((name, value));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_once() {
        assert!(Json::read(r#"{"a": 1, "b": {"a": true}}"#).is_ok());
        assert!(Json::read(r#"{"a": 1, "a": 2}"#).unwrap_err().to_string().contains("the member \"a\" is given twice"));
        assert!(Json::read(r#"{"a": 1} x"#).is_err());
        assert!(Json::read(&"[".repeat(100_000)).is_err());
    }
}
