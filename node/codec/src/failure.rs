//! Errors as bytes: the kind of an error and the values in its message, so that both sides print equal messages.

use std::io;

use objstore_base::clock::Timestamp;
use objstore_base::error::{Error, Noun, Posix, Result};
use prost::Message;

use crate::bounds::{REPLY_BYTES_MAX, TEXT_BYTES_MAX, refused};
use crate::message::Failure;
use crate::word::fixed;

/// All kinds of resources, in the order of their numbers from 1.
const NOUNS: [Noun; 13] = [
    Noun::Bucket,
    Noun::Key,
    Noun::Version,
    Noun::Upload,
    Noun::Part,
    Noun::Snapshot,
    Noun::Account,
    Noun::AccessKey,
    Noun::Grant,
    Noun::Publication,
    Noun::Xattr,
    Noun::GroupSnapshot,
    Noun::Role,
];

/// All POSIX errors, in the order of their numbers from 1.
const POSIX: [Posix; 18] = [
    Posix::NotFound,
    Posix::Exists,
    Posix::NotDirectory,
    Posix::IsDirectory,
    Posix::NotEmpty,
    Posix::Invalid,
    Posix::NameTooLong,
    Posix::NotUtf8,
    Posix::TooManyLinks,
    Posix::TooLarge,
    Posix::Stale,
    Posix::ReadOnly,
    Posix::NotPermitted,
    Posix::CrossDevice,
    Posix::NoData,
    Posix::NoSpace,
    Posix::NotSupported,
    Posix::InUse,
];

/// The numbers of errors. A number is never reused.
mod kind {
    pub const NOT_FOUND: u32 = 1;
    pub const EXISTS: u32 = 2;
    pub const NOT_EMPTY: u32 = 3;
    pub const IN_USE: u32 = 4;
    pub const INVALID: u32 = 5;
    pub const DELETE_MARKER: u32 = 6;
    pub const PRECONDITION: u32 = 7;
    pub const QUOTA_EXCEEDED: u32 = 8;
    pub const DENIED: u32 = 9;
    pub const POSIX: u32 = 10;
    pub const TOO_MANY: u32 = 11;
    pub const TOO_DEEP: u32 = 12;
    pub const BUSY: u32 = 13;
    pub const CORRUPT: u32 = 14;
    pub const POISONED: u32 = 15;
    pub const UNUSABLE: u32 = 16;
    pub const IO: u32 = 17;
    pub const ENGINE: u32 = 18;
    pub const INDETERMINATE: u32 = 19;
}

/// An error as bytes.
pub fn encode_failure(error: &Error) -> Vec<u8> {
    failure(error).encode_to_vec()
}

/// The error that bytes describe.
///
/// # Errors
/// [`Error::Invalid`] if they describe none.
pub fn decode_failure(bytes: &[u8]) -> Result<Error> {
    if bytes.len() > REPLY_BYTES_MAX {
        return Err(refused("error", &bytes.len(), format!("it has at most {REPLY_BYTES_MAX} bytes")));
    }
    error(Failure::decode(bytes).map_err(|error| refused("error", "", error.to_string()))?)
}

fn texts<const N: usize>(kind: u32, texts: [&str; N]) -> Failure {
    Failure { kind, texts: texts.map(shortened).to_vec(), ..Failure::default() }
}

/// A text within its bound.
fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

fn place<T: PartialEq>(all: &[T], value: &T) -> u32 {
    let at = all.iter().position(|other| other == value);
    at.and_then(|at| u32::try_from(at + 1).ok()).unwrap_or_default()
}

fn about(noun: Noun, failure: Failure) -> Failure {
    Failure { detail: place(&NOUNS, &noun), ..failure }
}

/// The message of an error.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        Error::NotFound { noun, name, marker } => {
            let marker = marker.as_deref().map(shortened);
            Failure { marker, ..about(*noun, texts(kind::NOT_FOUND, [name])) }
        }
        Error::Exists { noun, name, why } => about(*noun, texts(kind::EXISTS, [name, why])),
        Error::NotEmpty { name, what } => texts(kind::NOT_EMPTY, [name, what]),
        Error::InUse { noun, name, user } => about(*noun, texts(kind::IN_USE, [name, user])),
        Error::Invalid { what, value, why } => texts(kind::INVALID, [what, value, why]),
        Error::DeleteMarker { key, version, modified } => {
            Failure { times: vec![modified.0], ..texts(kind::DELETE_MARKER, [key, version]) }
        }
        Error::Precondition { condition, key } => texts(kind::PRECONDITION, [condition, key]),
        Error::QuotaExceeded { bucket, limit_bytes, used_bytes, asked_bytes } => {
            Failure { numbers: vec![*limit_bytes, *used_bytes, *asked_bytes], ..texts(kind::QUOTA_EXCEEDED, [bucket]) }
        }
        Error::Denied { why } => texts(kind::DENIED, [why]),
        Error::Posix(posix) => Failure { kind: kind::POSIX, detail: place(&POSIX, posix), ..Failure::default() },
        Error::TooMany { what, limit } => Failure { numbers: vec![*limit], ..texts(kind::TOO_MANY, [what]) },
        Error::TooDeep { limit } => Failure { numbers: vec![*limit], ..texts(kind::TOO_DEEP, []) },
        Error::Busy { what } => texts(kind::BUSY, [what]),
        Error::Corrupt { what, expected, found } => texts(kind::CORRUPT, [what, expected, found]),
        Error::Poisoned { why } => texts(kind::POISONED, [why]),
        Error::Unusable { why } => texts(kind::UNUSABLE, [why]),
        Error::Io { what, source } => {
            Failure { system: source.raw_os_error(), ..texts(kind::IO, [what, &source.to_string()]) }
        }
        Error::Engine { why } => texts(kind::ENGINE, [why]),
        Error::Indeterminate { why } => texts(kind::INDETERMINATE, [why]),
    }
}

/// The fields of a failure, taken one after the other.
struct Fields {
    texts: std::vec::IntoIter<String>,
    numbers: std::vec::IntoIter<u64>,
}

impl Fields {
    fn text(&mut self) -> Result<String> {
        let text = self.texts.next().ok_or_else(|| refused("error", "", "its kind has more texts"))?;
        crate::bounds::text(text)
    }

    fn word(&mut self) -> Result<&'static str> {
        self.text().map(|text| fixed(&text))
    }

    fn number(&mut self) -> Result<u64> {
        self.numbers.next().ok_or_else(|| refused("error", "", "its kind has more numbers"))
    }
}

fn at<T: Copy>(what: &'static str, all: &[T], number: u32) -> Result<T> {
    let found = (number as usize).checked_sub(1).and_then(|at| all.get(at));
    found.copied().ok_or_else(|| refused(what, &number, format!("its number is from 1 to {}", all.len())))
}

/// The error of a message.
pub(crate) fn error(failure: Failure) -> Result<Error> {
    let Failure { kind: number, detail, texts, times, numbers, marker, system } = failure;
    let mut fields = Fields { texts: texts.into_iter(), numbers: numbers.into_iter() };
    let noun = || at("kind of a resource", &NOUNS, detail);
    Ok(match number {
        kind::NOT_FOUND => {
            let marker = marker.map(crate::bounds::text).transpose()?;
            Error::NotFound { noun: noun()?, name: fields.text()?, marker }
        }
        kind::EXISTS => Error::Exists { noun: noun()?, name: fields.text()?, why: fields.text()? },
        kind::NOT_EMPTY => Error::NotEmpty { name: fields.text()?, what: fields.text()? },
        kind::IN_USE => Error::InUse { noun: noun()?, name: fields.text()?, user: fields.text()? },
        kind::INVALID => Error::Invalid { what: fields.word()?, value: fields.text()?, why: fields.text()? },
        kind::DELETE_MARKER => {
            let modified = Timestamp(times.first().copied().unwrap_or_default());
            Error::DeleteMarker { key: fields.text()?, version: fields.text()?, modified }
        }
        kind::PRECONDITION => Error::Precondition { condition: fields.word()?, key: fields.text()? },
        kind::QUOTA_EXCEEDED => Error::QuotaExceeded {
            bucket: fields.text()?,
            limit_bytes: fields.number()?,
            used_bytes: fields.number()?,
            asked_bytes: fields.number()?,
        },
        kind::DENIED => Error::Denied { why: fields.text()? },
        kind::POSIX => Error::Posix(at("POSIX error", &POSIX, detail)?),
        kind::TOO_MANY => Error::TooMany { what: fields.word()?, limit: fields.number()? },
        kind::TOO_DEEP => Error::TooDeep { limit: fields.number()? },
        kind::BUSY => Error::Busy { what: fields.text()? },
        kind::CORRUPT => Error::Corrupt { what: fields.text()?, expected: fields.text()?, found: fields.text()? },
        kind::POISONED => Error::Poisoned { why: fields.text()? },
        kind::UNUSABLE => Error::Unusable { why: fields.text()? },
        kind::IO => {
            let (what, cause) = (fields.text()?, fields.text()?);
            Error::io(what, system.map_or_else(|| io::Error::other(cause), io::Error::from_raw_os_error))
        }
        kind::ENGINE => Error::Engine { why: fields.text()? },
        kind::INDETERMINATE => Error::Indeterminate { why: fields.text()? },
        other => {
            return Err(refused("kind of an error", &other, "this version does not know it; upgrade the older side"));
        }
    })
}
