//! The record of a mount that a server leaves with the fd holder for the servers after it.
//!
//! - The kernel sends INIT once, so the record keeps the request and its reply.
//! - Fields that a later version appends are skipped; a record of another format is not read at all.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

const FORMAT: u8 = 1;

/// What the next server has to know about a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The INIT request as the kernel sent it.
    pub init: Vec<u8>,
    /// The reply to INIT as it was sent, or was about to be.
    pub answer: Vec<u8>,
    /// The mount's device number in `/proc/self/mountinfo`, to recognize it again; empty if it was not found.
    pub device: String,
    /// The mount point.
    pub path: PathBuf,
    /// The depositor's description of the mount.
    pub description: Vec<u8>,
    /// The PID namespace in which the kernel numbers the mount's callers: that of the process that mounted it. Empty in a
    /// record of an earlier version.
    pub pid_namespace: String,
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let path = self.path.as_os_str().as_bytes();
        let fields = [&self.init, &self.answer, self.device.as_bytes(), path, &self.description];
        let appended = Some(self.pid_namespace.as_bytes()).filter(|namespace| !namespace.is_empty());
        let mut bytes = vec![FORMAT];
        for field in fields.into_iter().chain(appended) {
            bytes.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(field);
        }
        bytes
    }

    /// Decodes a record; `None` if it is malformed or has another format.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&FORMAT, rest) = bytes.split_first()? else { return None };
        let mut fields = Fields(rest);
        Some(Self {
            init: fields.next()?.to_vec(),
            answer: fields.next()?.to_vec(),
            device: std::str::from_utf8(fields.next()?).ok()?.to_owned(),
            path: std::ffi::OsString::from_vec(fields.next()?.to_vec()).into(),
            description: fields.next()?.to_vec(),
            pid_namespace: match fields.0 {
                [] => String::new(),
                _ => std::str::from_utf8(fields.next()?).ok()?.to_owned(),
            },
        })
    }
}

/// A cursor over fields with a length before each.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let (field, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        self.0 = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            init: vec![1, 2, 3],
            answer: Vec::new(),
            device: "0:44".into(),
            path: "/mnt/a b".into(),
            description: b"{}".to_vec(),
            pid_namespace: "pid:[4026531836]".into(),
        }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let bytes = record().encode();
        assert_eq!(Record::decode(&bytes), Some(record()));
        let later = [bytes.as_slice(), &[2, 0, 0, 0, 7, 7]].concat();
        assert_eq!(Record::decode(&later), Some(record()), "what a later version appends is skipped");
    }

    #[test]
    fn cut_and_changed_records_are_refused_or_read_as_what_they_say() {
        let bytes = record().encode();
        let earlier = Record { pid_namespace: String::new(), ..record() };
        let end = earlier.encode().len();
        for len in 0..bytes.len() {
            let expected = Some(&earlier).filter(|_| len == end);
            assert_eq!(Record::decode(&bytes[..len]).as_ref(), expected, "{len}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut mutated = bytes.clone();
                mutated[at] ^= 1 << bit;
                if let Some(read) = Record::decode(&mutated) {
                    let written = read.encode();
                    assert_eq!(written, mutated[..written.len()], "{at}");
                }
            }
        }
    }
}
