//! The head of a call: its context, its operation and the arguments.

use objstore_base::error::Result;
use objstore_files::{Caller, Context, Op, RequestId};
use prost::Message;

use crate::arguments::{arguments, operation};
use crate::bounds::{CALL_BYTES_MAX, refused};
use crate::message;

/// The head of a call.
pub fn encode_call(context: &Context, op: &Op<'_>) -> Vec<u8> {
    let (operation, arguments) = arguments(op);
    let caller = context.caller.map(|Caller { uid, gid, pid }| message::Caller { uid, gid, pid });
    let request = context.request.map(|RequestId { unique, resent }| message::Request { unique, resent });
    let head = message::Call { operation, session: context.session, caller, request, arguments: Some(arguments) };
    head.encode_to_vec()
}

/// The call that a head describes.
///
/// # Errors
/// [`Error::Invalid`](objstore_base::error::Error::Invalid) if it is none, or is beyond a bound; ENAMETOOLONG for a name
/// that is too long, as the store answers.
pub fn decode_call(head: &[u8]) -> Result<(Context, Op<'static>)> {
    if head.len() > CALL_BYTES_MAX {
        return Err(refused("head of a call", &head.len(), format!("it has at most {CALL_BYTES_MAX} bytes")));
    }
    let call = message::Call::decode(head).map_err(|error| refused("head of a call", "", error.to_string()))?;
    let message::Call { operation: number, session, caller, request, arguments } = call;
    let caller = caller.map(|message::Caller { uid, gid, pid }| Caller { uid, gid, pid });
    let request = request.map(|message::Request { unique, resent }| RequestId { unique, resent });
    let op = operation(number, arguments.unwrap_or_default())?;
    Ok((Context { session, caller, request }, op))
}
