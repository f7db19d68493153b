//! Directory listings as READDIR encodes them: entries one after the other, each padded to eight bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::reply::{Entry, Frame};

/// A directory listing under construction, limited to the size that the kernel asked for.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    room: usize,
}

/// One name of a directory with its type, and the cookie at which the next name begins.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// The node of the name.
    pub node: u64,
    /// The cookie of the name after it.
    pub next: u64,
    /// The file type as in readdir(3): the type bits of the mode, shifted down.
    pub kind: u32,
    /// The name itself.
    pub name: &'a OsStr,
}

impl Listing {
    /// An empty listing for a reply of up to `room` bytes.
    pub fn new(room: usize) -> Self {
        Self { bytes: Vec::with_capacity(room), room }
    }

    /// Appends a name. Returns `true` if there was no room, and the name was not added.
    pub fn add(&mut self, name: Name<'_>) -> bool {
        let mut frame = Frame::new();
        frame.dirent(name.node, name.next, name.kind, name.name);
        self.push(&frame, name.name)
    }

    /// Appends a name with what LOOKUP would answer (READDIRPLUS). An entry without attributes does not count as a
    /// lookup.
    pub fn add_entry(&mut self, name: Name<'_>, entry: &Entry) -> bool {
        let mut frame = Frame::new();
        frame.entry(entry);
        frame.dirent(name.node, name.next, name.kind, name.name);
        self.push(&frame, name.name)
    }

    fn push(&mut self, frame: &Frame, name: &OsStr) -> bool {
        let len = (frame.body().len() + name.len()).next_multiple_of(8);
        if self.bytes.len() + len > self.room {
            return true;
        }
        let end = self.bytes.len() + len;
        self.bytes.extend_from_slice(frame.body());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.resize(end, 0);
        false
    }

    /// The body of the reply.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fields::Fields;

    fn name(name: &str, next: u64) -> Name<'_> {
        Name { node: next + 10, next, kind: 8, name: OsStr::new(name) }
    }

    /// The cookies and names of an encoded listing; `skip` bytes before each are passed over.
    fn names(bytes: &[u8], skip: usize) -> Vec<(u64, String)> {
        let (mut fields, mut names) = (Fields::new(bytes), Vec::new());
        while !fields.rest().is_empty() {
            fields.skip(skip).unwrap();
            let (node, next, len) = (fields.u64().unwrap(), fields.u64().unwrap(), fields.u32().unwrap() as usize);
            assert_eq!((node, fields.u32()), (next + 10, Ok(8)));
            names.push((next, String::from_utf8(fields.bytes(len).unwrap().to_vec()).unwrap()));
            fields.skip((skip + 24 + len).next_multiple_of(8) - (skip + 24 + len)).unwrap();
        }
        names
    }

    #[test]
    fn names_are_added_while_there_is_room() {
        let mut listing = Listing::new(100);
        assert!(!listing.add(name("a", 1)) && !listing.add(name("longer than eight", 2)));
        assert!(listing.add(name("no room", 3)));
        assert_eq!(names(&listing.into_bytes(), 0), [(1, "a".into()), (2, "longer than eight".into())]);
    }

    #[test]
    fn entries_come_before_their_names() {
        let mut listing = Listing::new(400);
        let valid = Duration::from_secs(1);
        let entry = Entry { valid, attributes_valid: valid, attributes: None };
        assert!(!listing.add_entry(name("a", 1), &entry) && !listing.add_entry(name("b", 2), &entry));
        assert!(listing.add_entry(name("c", 3), &entry));
        assert_eq!(names(&listing.into_bytes(), 128), [(1, "a".into()), (2, "b".into())]);
    }
}
