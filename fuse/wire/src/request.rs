//! Requests: the header, and the operation that follows it.

use std::fmt;

use super::abi::{Features, IN_HEADER_BYTES, UNIQUE_RESENT, opcode};
use super::fields::{Fields, Malformed};
use super::operation::Operation;

/// The caller and identity of a request, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The request's number, unique in the life of the mount.
    pub unique: u64,
    /// Whether the kernel sent it before, to a server that has ended: its effect may exist already.
    pub resent: bool,
    /// The node that the request is about; for a request about a name, the directory.
    pub node: u64,
    /// The caller's user.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// The caller's process id, or 0 if it lies outside the mount's PID namespace.
    pub pid: u32,
}

impl Context {
    /// The number that the reply has to carry.
    pub(super) fn ticket(&self) -> u64 {
        self.unique | if self.resent { UNIQUE_RESENT } else { 0 }
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who asks, and by which number.
    pub context: Context,
    /// What it asks for.
    pub operation: Operation<'a>,
}

/// A request that cannot be decoded, with its number for an error reply if the header could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub ticket: Option<u64>,
    opcode: Option<u32>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.opcode {
            Some(opcode) => write!(f, "FUSE request with opcode {opcode} is malformed"),
            None => write!(f, "FUSE request is shorter than its header"),
        }
    }
}

impl<'a> Request<'a> {
    /// Decodes a request as it was read from the device.
    pub(super) fn decode(message: &'a [u8], features: Features) -> Result<Self, Unreadable> {
        let header = Header::decode(message).map_err(|Malformed| Unreadable { ticket: None, opcode: None })?;
        let context = header.context;
        let args = header.arguments(message);
        let operation = args.and_then(|args| Operation::decode(header.opcode, args, features));
        operation.map(|operation| Self { context, operation }).map_err(|Malformed| Unreadable {
            ticket: (!is_silent(header.opcode)).then(|| context.ticket()),
            opcode: Some(header.opcode),
        })
    }
}

/// Whether the kernel accepts no reply to this operation.
pub(super) fn is_silent(code: u32) -> bool {
    matches!(code, opcode::FORGET | opcode::BATCH_FORGET | opcode::NOTIFY_REPLY)
}

/// fuse_in_header.
pub(super) struct Header {
    len: u32,
    pub opcode: u32,
    pub context: Context,
    /// The size of the extensions after the arguments, in units of eight bytes.
    extensions: u16,
}

impl Header {
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(message);
        let (len, opcode, ticket, node) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
        let (uid, gid, pid) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let extensions = fields.u16()?;
        fields.skip(2)?;
        let (unique, resent) = (ticket & !UNIQUE_RESENT, ticket & UNIQUE_RESENT != 0);
        Ok(Self { len, opcode, context: Context { unique, resent, node, uid, gid, pid }, extensions })
    }

    /// The arguments without the extensions behind them, which this server never requests.
    fn arguments<'a>(&self, message: &'a [u8]) -> Result<&'a [u8], Malformed> {
        if self.len as usize != message.len() {
            return Err(Malformed);
        }
        let end = message.len().checked_sub(usize::from(self.extensions) * 8).ok_or(Malformed)?;
        message.get(IN_HEADER_BYTES..end).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::abi::{Feature, setattr};
    use crate::operation::{CopyRange, New, SetAttr, Time, When};

    /// A request as the kernel lays it out.
    fn message(opcode: u32, args: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&opcode.to_ne_bytes());
        bytes.extend_from_slice(&(8 | UNIQUE_RESENT).to_ne_bytes());
        bytes.extend_from_slice(&77u64.to_ne_bytes());
        [1000u32, 100, 4321, 0].iter().for_each(|field| bytes.extend_from_slice(&field.to_ne_bytes()));
        args.iter().for_each(|arg| bytes.extend_from_slice(arg));
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn longs(longs: &[u64]) -> Vec<u8> {
        longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
    }

    fn decode(message: &[u8]) -> Request<'_> {
        Request::decode(message, Features::new(&[Feature::SetXattrExt])).unwrap()
    }

    #[test]
    fn headers_tell_who_asks_and_whether_again() {
        let bytes = message(opcode::READLINK, &[]);
        let context = Context { unique: 8, resent: true, node: 77, uid: 1000, gid: 100, pid: 4321 };
        let request = decode(&bytes);
        assert_eq!(request.context, context);
        assert_eq!(request.context.ticket(), 8 | UNIQUE_RESENT, "it is answered by the number it came with");
        assert!(matches!(request.operation, Operation::ReadLink));
    }

    #[test]
    fn who_waits_for_what_is_told_by_the_kind() {
        let kinds = [(opcode::FSYNC, (true, false)), (opcode::RELEASE, (false, true)), (opcode::FLUSH, (false, false))];
        for (kind, (disk, background)) in kinds {
            let bytes = message(kind, &[&longs(&[7, 0, 0])]);
            let operation = decode(&bytes).operation;
            assert_eq!((operation.waits_for_disk(), operation.is_background()), (disk, background), "{kind}");
        }
    }

    #[test]
    fn names_are_taken_apart() {
        let bytes = message(opcode::RENAME2, &[&longs(&[5]), &words(&[2, 0]), b"old\0new\0"]);
        let Operation::Rename { name, to, new_name, flags } = decode(&bytes).operation else { panic!() };
        assert_eq!((name, to, new_name, flags), (OsStr::new("old"), 5, OsStr::new("new"), 2));
        let bytes = message(opcode::CREATE, &[&words(&[0o1, 0o100_666, 0o22, 0]), b"f\0"]);
        let Operation::Create { new, flags } = decode(&bytes).operation else { panic!() };
        assert_eq!((new, flags), (New { name: OsStr::new("f"), mode: 0o100_666, umask: 0o22 }, 1));
        let bytes = message(opcode::SYMLINK, &[b"link\0to/where\0"]);
        let Operation::SymLink { name, target } = decode(&bytes).operation else { panic!() };
        assert_eq!((name, target), (OsStr::new("link"), OsStr::new("to/where")));
    }

    #[test]
    fn attributes_are_set_where_valid() {
        let valid = setattr::SIZE | setattr::ATIME | setattr::MTIME | setattr::MTIME_NOW | setattr::KILL_SUIDGID;
        let before_1970 = u64::MAX - 1;
        let args = [
            words(&[valid, 0]),
            longs(&[3, 1 << 40, 9, before_1970, 5, 6]),
            words(&[250_000_000, 1, 2, 0o600, 0, 7, 8, 0]),
        ]
        .concat();
        let bytes = message(opcode::SETATTR, &[&args]);
        let Operation::SetAttr(set) = decode(&bytes).operation else { panic!() };
        let expected = SetAttr {
            size: Some(1 << 40),
            atime: Some(When::At(Time { seconds: -2, nanos: 250_000_000 })),
            mtime: Some(When::Now),
            kill_privileges: true,
            ..SetAttr::default()
        };
        assert_eq!(set, expected);
    }

    #[test]
    fn data_is_exactly_what_was_sent() {
        let args = [longs(&[3, 4096]), words(&[5, 5]), longs(&[0]), words(&[0o2001, 0])].concat();
        let bytes = message(opcode::WRITE, &[&args, b"bytes"]);
        let Operation::Write(write) = decode(&bytes).operation else { panic!() };
        assert_eq!((write.offset, write.flags, write.data), (4096, 0o2001, b"bytes".as_slice()));
        assert!(write.writeback && write.kill_privileges);
        let bytes = message(opcode::SETXATTR, &[&words(&[3, 1, 1, 0]), b"user.a\0", b"v\0v"]);
        let Operation::SetXattr { name, value, flags, kill_setgid } = decode(&bytes).operation else { panic!() };
        assert_eq!((name, value, flags, kill_setgid), (OsStr::new("user.a"), b"v\0v".as_slice(), 1, true));
        let short = message(opcode::SETXATTR, &[&words(&[1, 0]), b"user.a\0", b"v"]);
        let request = Request::decode(&short, Features::default()).unwrap();
        assert!(matches!(request.operation, Operation::SetXattr { value: b"v", kill_setgid: false, .. }));
    }

    #[test]
    fn many_nodes_are_forgotten_at_once() {
        let bytes = message(opcode::BATCH_FORGET, &[&words(&[2, 0]), &longs(&[5, 1, 6, 2])]);
        let Operation::BatchForget(forgets) = decode(&bytes).operation else { panic!() };
        assert_eq!(forgets.iter().collect::<Vec<_>>(), [(5, 1), (6, 2)]);
        let lying = message(opcode::BATCH_FORGET, &[&words(&[3, 0]), &longs(&[5, 1, 6, 2])]);
        let refused = Request::decode(&lying, Features::default()).unwrap_err();
        assert_eq!(refused.ticket, None, "there is nobody to answer");
    }

    #[test]
    fn ranges_are_copied_between_nodes() {
        let bytes = message(opcode::COPY_FILE_RANGE_64, &[&longs(&[1, 4096, 78, 2, 8192, 1 << 33, 0])]);
        let Operation::CopyRange(copy) = decode(&bytes).operation else { panic!() };
        let expected = CopyRange { from_offset: 4096, to_node: 78, to_offset: 8192, len: 1 << 33, wide: true };
        assert_eq!(copy, expected);
    }

    #[test]
    fn extensions_are_no_arguments() {
        let mut bytes = message(opcode::WRITE, &[&[0; 40], &words(&[16, 32, 1, 100])]);
        bytes[36..38].copy_from_slice(&2u16.to_ne_bytes());
        assert!(matches!(decode(&bytes).operation, Operation::Write(write) if write.data.is_empty()));
        bytes[36..38].copy_from_slice(&u16::MAX.to_ne_bytes());
        assert!(Request::decode(&bytes, Features::default()).is_err());
    }

    #[test]
    fn ioctls_hand_over_and_take_back_bytes() {
        let args = [longs(&[7]), words(&[0, 0x4008_6602]), longs(&[0]), words(&[4, 0])].concat();
        let bytes = message(opcode::IOCTL, &[&args, &words(&[0x10])]);
        let Operation::Ioctl { command, data, room } = decode(&bytes).operation else { panic!() };
        assert_eq!((command, data, room), (0x4008_6602, words(&[0x10]).as_slice(), 0));
        let short = message(opcode::IOCTL, &[&args]);
        assert!(Request::decode(&short, Features::default()).is_err());
    }

    #[test]
    fn unknown_requests_are_known_as_such() {
        assert!(matches!(decode(&message(99, &[])).operation, Operation::Unknown(99)));
        let refusals = [(opcode::POLL, libc::ENOSYS), (opcode::ACCESS, libc::ENOSYS)];
        for (opcode, errno) in refusals {
            assert!(matches!(decode(&message(opcode, &[])).operation, Operation::Refused(refused) if refused == errno));
        }
    }

    #[test]
    fn mutated_requests_never_panic() {
        let mut seed = 0x2545_f491_4f6c_dd1du64;
        let mut rng = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize
        };
        for opcode in (0..60).chain([u32::MAX]) {
            for _ in 0..2_000 {
                let args: Vec<u8> = (0..rng() % 120).map(|_| if rng() % 3 == 0 { 0 } else { rng() as u8 }).collect();
                let mut bytes = message(opcode, &[&args]);
                if rng() % 2 == 0 {
                    let at = rng() % bytes.len();
                    bytes[at] ^= 1 << (rng() % 8);
                }
                if rng() % 8 == 0 {
                    bytes.truncate(rng() % bytes.len());
                }
                let features =
                    if rng() % 2 == 0 { Features::default() } else { Features::new(&[Feature::SetXattrExt]) };
                if let Ok(request) = Request::decode(&bytes, features)
                    && let Operation::BatchForget(forgets) = request.operation
                {
                    assert!(forgets.iter().count() <= bytes.len());
                }
            }
        }
    }
}
