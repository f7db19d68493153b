//! Forms as a function that takes any bytes: the body of a fuzz target (`fuzz/`).

use bytes::Bytes;
use objstore::clock::Timestamp;

use super::form::Form;
use super::policy::Policy;

/// A form whose boundary is `b`, in pieces of as many bytes as the first says; and the bytes as a policy. What a policy
/// lets in is checked against the fields that came.
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
