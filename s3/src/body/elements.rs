//! How many elements a document has, counted while it comes: `s3s` makes each a record of hundreds of bytes before an
//! operation sees how many there are.

use super::Fault;

/// Elements of one document: 10,000 parts with all they can have is the most that S3 knows (CompleteMultipartUpload).
pub(super) const ELEMENTS_MAX: u32 = 100_000;

/// Counts the beginnings of elements.
#[derive(Default)]
pub(super) struct Elements {
    begun: u32,
    /// Whether the last byte was a `<`.
    opened: bool,
}

impl Elements {
    /// More of the document came.
    pub(super) fn saw(&mut self, data: &[u8]) -> Result<(), Fault> {
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
    fn elements_are_counted_and_their_ends_are_not() {
        let most = ELEMENTS_MAX as usize;
        for size in [1, 7, 1 << 20] {
            assert_eq!(seen("<a></a>".repeat(most).as_bytes(), size), Ok(()), "{size}");
            assert_eq!(seen("<a/>".repeat(most + 1).as_bytes(), size), Err(Fault::Crowded), "{size}");
        }
    }
}
