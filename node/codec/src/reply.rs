//! The head of a reply: its value or the error, and whether an outcome was recorded. The bytes of a read lie beside it.

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use objstore_files::{Answer, DATA_BYTES_MAX, LOCKED_INODES_MAX, Names, Reply};
use prost::Message;

use crate::bounds::{NAMES_PAGE_MAX, REPLY_BYTES_MAX, list, refused, text};
use crate::failure::{error, failure};
use crate::locks::{held, of_held, outcome};
use crate::message::{self, Looked};
use crate::session::LOOKUPS_PER_CALL;
use crate::values::{acl, attr, entry, flag_bits, flags, locked_number};

/// The numbers of types of values. A number is never reused.
mod kind {
    pub const FAILED: u32 = 0;
    pub const DONE: u32 = 1;
    pub const ATTR: u32 = 2;
    pub const ATTRS: u32 = 3;
    pub const NUMBER: u32 = 4;
    pub const OFFSET: u32 = 5;
    pub const BOOL: u32 = 6;
    pub const NAMES: u32 = 7;
    pub const TEXT: u32 = 8;
    pub const MAYBE_TEXT: u32 = 9;
    pub const TEXTS: u32 = 10;
    pub const DATA: u32 = 11;
    pub const FLAGS: u32 = 12;
    pub const ACL: u32 = 13;
    pub const SPACE: u32 = 14;
    pub const HELD_LOCK: u32 = 20;
    pub const LOCKED: u32 = 21;
    pub const INODES: u32 = 22;
}

/// The head of a reply, and the bytes that belong behind it.
pub fn encode_reply(answer: &Result<Answer>) -> (Vec<u8>, Bytes) {
    let (head, data) = match answer {
        Err(error) => {
            let failed = message::Reply { kind: kind::FAILED, failure: Some(failure(error)), ..Default::default() };
            (failed, Bytes::new())
        }
        Ok(Answer { reply, recorded }) => {
            let data = if let Reply::Data(data) = reply { data.clone() } else { Bytes::new() };
            (message::Reply { recorded: *recorded, ..head(reply) }, data)
        }
    };
    (head.encode_to_vec(), data)
}

fn head(reply: &Reply) -> message::Reply {
    let of = |kind| message::Reply { kind, ..Default::default() };
    match reply {
        Reply::Done(()) => of(kind::DONE),
        Reply::Attr(attr) => message::Reply { attrs: vec![looked(&Ok(*attr))], ..of(kind::ATTR) },
        Reply::Attrs(all) => message::Reply { attrs: all.iter().map(looked).collect(), ..of(kind::ATTRS) },
        Reply::Number(number) => message::Reply { number: Some(*number), ..of(kind::NUMBER) },
        Reply::Offset(offset) => message::Reply { number: *offset, ..of(kind::OFFSET) },
        Reply::Bool(yes) => message::Reply { number: Some(u64::from(*yes)), ..of(kind::BOOL) },
        Reply::Names(Names { entries, next }) => {
            let entries = entries.iter().map(Into::into).collect();
            message::Reply { entries, text: next.clone(), ..of(kind::NAMES) }
        }
        Reply::Text(text) => message::Reply { text: Some(text.clone()), ..of(kind::TEXT) },
        Reply::MaybeText(text) => message::Reply { text: text.clone(), ..of(kind::MAYBE_TEXT) },
        Reply::Texts(texts) => message::Reply { texts: texts.clone(), ..of(kind::TEXTS) },
        Reply::Data(_) => of(kind::DATA),
        Reply::Flags(flags) => message::Reply { number: Some(u64::from(flag_bits(*flags))), ..of(kind::FLAGS) },
        Reply::Acl(acl) => message::Reply { acl: acl.as_ref().map(objstore_base::acl::Acl::bytes), ..of(kind::ACL) },
        Reply::Space(space) => message::Reply { space: Some((*space).into()), ..of(kind::SPACE) },
        Reply::HeldLock(held) => message::Reply { lock: held.map(of_held), ..of(kind::HELD_LOCK) },
        Reply::Locked(locked) => message::Reply { number: Some(u64::from(locked_number(*locked))), ..of(kind::LOCKED) },
        Reply::Inodes(inos) => message::Reply { inos: inos.clone(), ..of(kind::INODES) },
    }
}

fn looked(looked: &Result<objstore_files::Attr>) -> Looked {
    match looked {
        Ok(attr) => Looked { attr: Some((*attr).into()), failure: None },
        Err(error) => Looked { attr: None, failure: Some(failure(error)) },
    }
}

/// The answer that a head and the bytes behind it describe: the outer result says whether they describe one.
///
/// # Errors
/// [`Error::Invalid`] if they do not, or are beyond a bound. The outcome of the call is then not known.
pub fn decode_reply(head: &[u8], data: Bytes) -> Result<Result<Answer>> {
    if head.len() > REPLY_BYTES_MAX {
        return Err(refused("head of a reply", &head.len(), format!("it has at most {REPLY_BYTES_MAX} bytes")));
    }
    let mut head = message::Reply::decode(head).map_err(|error| refused("head of a reply", "", error.to_string()))?;
    if head.kind == kind::FAILED {
        let failed = head.failure.take().ok_or_else(|| missing("failure"))?;
        return error(failed).map(Err);
    }
    let recorded = head.recorded;
    Ok(Ok(Answer { reply: value(head, data)?, recorded }))
}

fn missing(what: &'static str) -> Error {
    refused("reply", what, "its kind has this field")
}

fn value(head: message::Reply, data: Bytes) -> Result<Reply> {
    let number = || head.number.ok_or_else(|| missing("number"));
    Ok(match head.kind {
        kind::DONE => Reply::Done(()),
        kind::ATTR => {
            Reply::Attr(head.attrs.first().and_then(|found| found.attr).ok_or_else(|| missing("attr")).and_then(attr)?)
        }
        kind::ATTRS => {
            let all = list("attributes", head.attrs, LOOKUPS_PER_CALL)?;
            Reply::Attrs(all.into_iter().map(found).collect::<Result<_>>()?)
        }
        kind::NUMBER => Reply::Number(number()?),
        kind::OFFSET => Reply::Offset(head.number),
        kind::BOOL => Reply::Bool(number()? != 0),
        kind::NAMES => {
            let entries = list("names", head.entries, NAMES_PAGE_MAX as usize)?;
            let entries = entries.into_iter().map(entry).collect::<Result<_>>()?;
            Reply::Names(Names { entries, next: head.text.map(text).transpose()? })
        }
        kind::TEXT => Reply::Text(text(head.text.ok_or_else(|| missing("text"))?)?),
        kind::MAYBE_TEXT => Reply::MaybeText(head.text.map(text).transpose()?),
        kind::TEXTS => Reply::Texts(head.texts),
        kind::DATA if data.len() > DATA_BYTES_MAX => {
            return Err(refused("bytes of a reply", &data.len(), format!("there are at most {DATA_BYTES_MAX}")));
        }
        kind::DATA => Reply::Data(data),
        kind::FLAGS => Reply::Flags(flags(number()?)?),
        kind::ACL => Reply::Acl(head.acl.as_deref().map(acl).transpose()?),
        kind::SPACE => Reply::Space(head.space.ok_or_else(|| missing("space"))?.into()),
        kind::HELD_LOCK => Reply::HeldLock(head.lock.as_ref().map(held).transpose()?),
        kind::LOCKED => Reply::Locked(outcome(number()?)?),
        kind::INODES => Reply::Inodes(list("inodes", head.inos, LOCKED_INODES_MAX)?),
        other => {
            return Err(refused("kind of a reply", &other, "this version does not know it; upgrade the older side"));
        }
    })
}

fn found(looked: Looked) -> Result<Result<objstore_files::Attr>> {
    match looked {
        Looked { attr: Some(found), .. } => attr(found).map(Ok),
        Looked { failure: Some(failed), .. } => error(failed).map(Err),
        Looked { .. } => Err(missing("attr")),
    }
}
