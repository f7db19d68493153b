//! The mapping from fjall's errors to the store's.

use std::path::Path;

use fjall::{Error as Failure, JournalRecoveryError, LsmError};

use objstore_base::error::Error;

/// The error for a folder that could not be opened.
pub(super) fn on_open(path: &Path, failure: Failure) -> Error {
    let folder = path.display();
    match failure {
        Failure::Locked => Error::Unusable {
            why: format!("the metadata folder \"{folder}\" is in use by another process; stop that one first"),
        },
        Failure::InvalidVersion(found) => Error::Unusable {
            why: match found {
                Some(version) => format!(
                    "the metadata folder \"{folder}\" is of fjall format {version:?}, this program reads V3; open \
                     it with the program that wrote it"
                ),
                None => format!("\"{folder}\" holds no metadata store; choose an empty folder, or the right one"),
            },
        },
        Failure::JournalRecovery(damage) => {
            Error::corrupt(format!("the metadata journal in \"{folder}\""), "whole batches", journal(damage))
        }
        Failure::Io(source) => Error::io(format!("opening the metadata folder \"{folder}\""), source),
        other => on_read(other),
    }
}

/// The error for a failed read.
pub(super) fn on_read(failure: Failure) -> Error {
    match failure {
        Failure::Io(source) | Failure::Storage(LsmError::Io(source)) => Error::io("reading metadata", source),
        Failure::Storage(LsmError::ChecksumMismatch { got, expected }) => {
            Error::corrupt("a metadata table", format!("checksum {expected:?}"), format!("{got:?}"))
        }
        Failure::Storage(damage) => Error::corrupt("a metadata table", "a readable block", format!("{damage:?}")),
        Failure::Decompress(_) | Failure::InvalidTrailer | Failure::InvalidTag(_) | Failure::Unrecoverable => {
            Error::corrupt("the metadata store", "readable files", format!("{failure:?}"))
        }
        other => Error::Engine { why: format!("{other:?}") },
    }
}

/// The error for a failed commit or sync.
pub(super) fn on_write(failure: Failure) -> Error {
    match failure {
        Failure::Io(source) => Error::io("writing the metadata journal", source),
        Failure::Poisoned => Error::Engine {
            why: "turning the journal into tables failed in the background; the log before this has the cause".into(),
        },
        other => Error::Engine { why: format!("{other:?}") },
    }
}

fn journal(damage: JournalRecoveryError) -> &'static str {
    match damage {
        JournalRecoveryError::InsufficientLength => "a batch that ends early",
        JournalRecoveryError::TooManyItems => "a batch that ends late",
        JournalRecoveryError::ChecksumMismatch => "a batch with another checksum",
        JournalRecoveryError::InvalidFileName => "a journal file of another name",
    }
}
