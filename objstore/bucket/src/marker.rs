//! The marker: the object `amphora-store`, which says whose store the location holds.
//!
//! - Only its owner writes below a location. A location with content and no marker, or with the marker of another store,
//!   is refused.
//! - Claiming writes the marker with a condition that has to fail if it is there. So it also shows that the bucket can be
//!   written, and that the server knows conditions, without which two stores could overwrite each other.
//!
//! A crash while claiming leaves a location with a marker alone, which the same store claims again.

use bytes::Bytes;

use crate::Bucket;
use crate::error::{Error, Result};

const KEY: &str = "amphora-store";
const FORMAT: &str = "1";
const BYTES_MAX: usize = 4096;

/// Whether the store has used this location before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has not: the location may be empty.
    New,
    /// It has: a location without a marker is another one, or was emptied.
    Known,
}

impl Bucket {
    /// Makes sure that the location belongs to the store `id`.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it belongs to another store, has content without a marker, or if the server ignores
    /// conditions; [`Error::Refused`] if it cannot be read or written.
    pub fn claim(&self, id: &str, claim: Claim) -> Result<()> {
        let place = self.location();
        match self.get(KEY, BYTES_MAX) {
            Ok(marker) => self.check(&marker.bytes, id)?,
            Err(Error::Missing { .. }) => self.refuse_foreign(claim)?,
            Err(error) => return Err(error),
        }
        let mine = Bytes::from(format!("amphora store\nformat {FORMAT}\nid {id}\n"));
        if self.write(mine.clone())? {
            // It was not there a moment ago. Written again, the condition has to fail now.
            let again = self.write(mine)?;
            if again {
                let why = format!(
                    "the S3 store at {place} ignores the condition If-None-Match of PutObject, so it cannot protect objects from being overwritten: use a version or a product that supports conditional writes"
                );
                return Err(Error::Foreign { why });
            }
        }
        // Two stores may have claimed an empty location at the same time: one marker is there.
        self.check(&self.get(KEY, BYTES_MAX)?.bytes, id)
    }

    /// Makes sure that the location belongs to the store `id`, without writing.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it belongs to another store, or has no marker.
    pub fn verify(&self, id: &str) -> Result<()> {
        match self.get(KEY, BYTES_MAX) {
            Ok(marker) => self.check(&marker.bytes, id),
            Err(Error::Missing { .. }) => self.refuse_foreign(Claim::Known),
            Err(error) => Err(error),
        }
    }

    /// Whether the marker was written by this call.
    fn write(&self, marker: Bytes) -> Result<bool> {
        match self.put(KEY, marker) {
            Ok(_) => Ok(true),
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn check(&self, marker: &[u8], id: &str) -> Result<()> {
        let place = self.location();
        let text = std::str::from_utf8(marker).unwrap_or_default();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let why = match (field("format"), field("id")) {
            (Some(FORMAT), Some(found)) if found == id => return Ok(()),
            (Some(FORMAT), Some(found)) => format!(
                "{place} belongs to another store ({found}; this one is {id}): give each store a prefix of its own"
            ),
            (Some(format), _) => format!(
                "{place} has content of format {format}, and this build reads format {FORMAT}: use a newer build"
            ),
            _ => format!("the object {KEY} of {place} is not the marker of a store: use an empty prefix"),
        };
        Err(Error::Foreign { why })
    }

    fn refuse_foreign(&self, claim: Claim) -> Result<()> {
        let place = self.location();
        if claim == Claim::Known {
            let why = format!(
                "{place} is not the place of this store's content: the object {KEY} is missing. Correct the URL, or restore the bucket"
            );
            return Err(Error::Foreign { why });
        }
        let some = self.wait(|inner| async move { inner.list("", None, Some(1)).await })?;
        match some.first() {
            None => Ok(()),
            Some(object) => {
                let why = format!(
                    "{place} has content that belongs to no store, such as {:?}: use an empty bucket or a prefix of its own",
                    object.key
                );
                Err(Error::Foreign { why })
            }
        }
    }
}
