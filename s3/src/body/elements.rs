//! Limits on the size and element count of a document, checked while it is received: `s3s` turns each element into a
//! record of hundreds of bytes before an operation sees the count, and reports a document that is too long as an
//! internal error.

use super::{DOCUMENT_BYTES_MAX, Fault};

/// The most elements of a document: S3's largest is a CompleteMultipartUpload of 10,000 parts with all their fields.
pub(super) const ELEMENTS_MAX: u32 = 100_000;

/// A counter of elements.
#[derive(Default)]
pub(crate) struct Elements {
    begun: u32,
    bytes: usize,
    /// Whether the last byte was a `<`.
    opened: bool,
}

impl Elements {
    /// Counts the elements in the next bytes of the document.
    pub(crate) fn saw(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > DOCUMENT_BYTES_MAX {
            return Err(Fault::Long);
        }
        for byte in data {
            self.begun += u32::from(self.opened && *byte != b'/');
            self.opened = *byte == b'<';
            if self.begun > ELEMENTS_MAX {
                return Err(Fault::Crowded);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(document: &[u8], size: usize) -> Result<(), Fault> {
        let mut elements = Elements::default();
        document.chunks(size).try_for_each(|piece| elements.saw(piece))
    }

    #[test]
    fn a_document_has_a_longest() {
        for size in [4096, 1 << 20] {
            assert_eq!(seen(&vec![b' '; DOCUMENT_BYTES_MAX], size), Ok(()), "{size}");
            assert_eq!(seen(&vec![b' '; DOCUMENT_BYTES_MAX + 1], size), Err(Fault::Long), "{size}");
        }
    }

    #[test]
    fn elements_are_counted_and_their_ends_are_not() {
        let most = ELEMENTS_MAX as usize;
        for size in [1, 7, 1 << 20] {
            assert_eq!(seen("<a></a>".repeat(most).as_bytes(), size), Ok(()), "{size}");
            assert_eq!(seen("<a/>".repeat(most + 1).as_bytes(), size), Err(Fault::Crowded), "{size}");
        }
    }
}
