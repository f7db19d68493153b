//! Fields of FUSE messages: numbers in native byte order, and names that end in NUL.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The error for a message that is shorter than its fields or has an impossible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A cursor that reads the fields of a message in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*field)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Skips padding and unused fields.
    pub fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        self.bytes(len).map(drop)
    }

    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (field, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(field)
    }

    /// Reads a name up to its NUL.
    pub fn name(&mut self) -> Result<&'a OsStr, Malformed> {
        let len = self.0.iter().position(|&byte| byte == 0).ok_or(Malformed)?;
        let name = self.bytes(len)?;
        self.skip(1)?;
        Ok(OsStr::from_bytes(name))
    }

    /// The rest of the message.
    #[cfg(test)]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_where_the_message_does() {
        let bytes = [1u8, 0, 2, 0, 0, 0, b'a', b'b', 0, 9];
        let mut fields = Fields::new(&bytes);
        assert_eq!(fields.u16(), Ok(u16::from_ne_bytes([1, 0])));
        assert_eq!(fields.u32(), Ok(u32::from_ne_bytes([2, 0, 0, 0])));
        assert_eq!(fields.name(), Ok(OsStr::new("ab")));
        assert_eq!(fields.name(), Err(Malformed), "a name without its NUL");
        assert_eq!(fields.u64(), Err(Malformed));
        assert_eq!(fields.rest(), [9]);
    }
}
