//! The entry point of a fuzz target (`fuzz/`): forms parsed from arbitrary bytes.

use bytes::Bytes;
use objstore::clock::Timestamp;

use super::form::Form;
use super::policy::Policy;

/// Parses a form with the boundary `b`, in pieces of the size that the first byte gives, and the bytes as a policy.
/// Then checks the policy against the form's fields.
pub(crate) fn read(bytes: &[u8]) {
    let Some((size, body)) = bytes.split_first() else { return };
    let pieces: Vec<_> =
        body.chunks(usize::from(*size).max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return };
    let form = runtime.block_on(Form::read("multipart/form-data; boundary=b", futures::stream::iter(pieces)));
    let Ok(form) = form else { return drop(Policy::parse(&String::from_utf8_lossy(body))) };
    if let Some(policy) = form.fields.get("policy").and_then(|field| Policy::parse(field).ok()) {
        let _ = policy.check(&form.fields, "abc", Timestamp(0));
    }
}
