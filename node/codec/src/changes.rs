//! Changes by other clients as bytes. A long batch is sent in several messages, each within its bounds.

use objstore_base::error::Result;
use objstore_files::Change;
use prost::Message;

use crate::bounds::{CHANGES_PAGE_MAX, REPLY_BYTES_MAX, list, name, refused};
use crate::message;

const ENTRY: u32 = 1;
const CONTENT: u32 = 2;
const ATTRIBUTES: u32 = 3;
const PROBE: u32 = 4;
const SHARED: u32 = 5;
const ALONE: u32 = 6;
const ALL: u32 = 7;
const LOCK_GRANTED: u32 = 20;
const RECALL: u32 = 21;

/// A part of a batch as bytes: at most [`CHANGES_PAGE_MAX`] changes, or its receiver refuses it.
pub fn encode_changes(changes: &[Change]) -> Vec<u8> {
    let changes = changes.iter().map(|change| match change {
        Change::Entry { parent, name } => message::Change { kind: ENTRY, ino: *parent, name: name.clone() },
        Change::Content { ino } => message::Change { kind: CONTENT, ino: *ino, name: String::new() },
        Change::Attributes { ino } => message::Change { kind: ATTRIBUTES, ino: *ino, name: String::new() },
        Change::Probe { ino } => message::Change { kind: PROBE, ino: *ino, name: String::new() },
        Change::LockGranted { ticket } => message::Change { kind: LOCK_GRANTED, ino: *ticket, name: String::new() },
        Change::Recall { grant } => message::Change { kind: RECALL, ino: *grant, name: String::new() },
        Change::All => message::Change { kind: ALL, ino: 0, name: String::new() },
        Change::Sharing { shared } => {
            message::Change { kind: if *shared { SHARED } else { ALONE }, ino: 0, name: String::new() }
        }
    });
    message::Changes { changes: changes.collect() }.encode_to_vec()
}

/// The changes that bytes describe.
///
/// # Errors
/// [`Error::Invalid`](objstore_base::error::Error::Invalid) if they describe none, or too many.
pub fn decode_changes(bytes: &[u8]) -> Result<Vec<Change>> {
    if bytes.len() > REPLY_BYTES_MAX {
        return Err(refused("changes", &bytes.len(), format!("they have at most {REPLY_BYTES_MAX} bytes")));
    }
    let changes = message::Changes::decode(bytes).map_err(|error| refused("changes", "", error.to_string()))?;
    list("changes", changes.changes, CHANGES_PAGE_MAX)?.into_iter().map(change).collect()
}

fn change(message::Change { kind, ino, name: named }: message::Change) -> Result<Change> {
    Ok(match kind {
        ENTRY => Change::Entry { parent: ino, name: name(named)? },
        CONTENT => Change::Content { ino },
        ATTRIBUTES => Change::Attributes { ino },
        PROBE => Change::Probe { ino },
        SHARED => Change::Sharing { shared: true },
        ALONE => Change::Sharing { shared: false },
        ALL => Change::All,
        LOCK_GRANTED => Change::LockGranted { ticket: ino },
        RECALL => Change::Recall { grant: ino },
        other => {
            return Err(refused("kind of a change", &other, "this version does not know it; upgrade the older side"));
        }
    })
}
