//! The description of a session as bytes: its numbers, its root directory, and whether it refuses changes.

use objstore_base::error::Result;
use objstore_files::{About, SessionId};
use prost::Message;

use crate::bounds::refused;
use crate::message;

/// The largest description in bytes.
const BYTES_MAX: usize = 1024;

/// A session as bytes.
pub fn encode_about(about: &About) -> Vec<u8> {
    let About { number, id, inherited, life, root, bucket_id, read_only } = *about;
    let id = id.map_or(0, SessionId::get);
    message::About { number, id, inherited, life, root, bucket_id, read_only }.encode_to_vec()
}

/// The session that bytes describe.
///
/// # Errors
/// [`Error::Invalid`](objstore_base::error::Error::Invalid) if they describe none.
pub fn decode_about(bytes: &[u8]) -> Result<About> {
    if bytes.len() > BYTES_MAX {
        return Err(refused("session", &bytes.len(), format!("it has at most {BYTES_MAX} bytes")));
    }
    let about = message::About::decode(bytes).map_err(|error| refused("session", "", error.to_string()))?;
    let message::About { number, id, inherited, life, root, bucket_id, read_only } = about;
    Ok(About { number, id: SessionId::new(id), inherited, life, root, bucket_id, read_only })
}
