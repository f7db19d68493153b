//! The header of a frame: its layout, written and read here alone.
//!
//! ```text
//! offset  size  field
//!      0     4  magic: "AMPv"
//!      4     1  layout of this header: 1
//!      5     1  kind
//!      6     1  role of the connection
//!      7     1  flags
//!      8     8  number of the request, chosen by the node; 0 where there is none
//!     16     4  length of the head in bytes
//!     20     4  length of the payload in bytes
//!     24     4  largest payload of the answer in bytes; 0 outside a request
//!     28     4  zero
//! ```
//! Integers are little-endian. Every byte is a field or is checked, so different bytes never decode to equal headers.

/// The length of a header in bytes.
pub const HEADER_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"AMPv";
const LAYOUT: u8 = 1;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The node's first frame.
    Hello = 1,
    /// The store's answer to it: the chosen version and a nonce.
    Challenge = 2,
    /// The node's proof of its credential.
    Proof = 3,
    /// The store admits the connection.
    Welcome = 4,
    /// The store ends the connection, and says why. The last frame.
    Refusal = 5,
    /// A call of the node.
    Request = 6,
    /// The answer to the request of the same number.
    Reply = 7,
    /// A message of either side that has no answer.
    Notice = 8,
    /// The node no longer waits for the request of this number.
    Cancel = 9,
    /// Asks for a [`Kind::Pong`]: keeps a quiet connection alive.
    Ping = 10,
    /// The answer to a ping.
    Pong = 11,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Hello,
        Self::Challenge,
        Self::Proof,
        Self::Welcome,
        Self::Refusal,
        Self::Request,
        Self::Reply,
        Self::Notice,
        Self::Cancel,
        Self::Ping,
        Self::Pong,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What a connection is for. A node keeps one of each, so that a large transfer delays neither calls nor changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// Renewals of the lease, changes and their acknowledgements, recalls.
    Control = 1,
    /// Calls with little payload.
    Calls = 2,
    /// Calls with much payload.
    Bulk = 3,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Control, Self::Calls, Self::Bulk];

    /// The bounds of a frame on an admitted connection of this role.
    pub fn bounds(self) -> Bounds {
        let payload_bytes = match self {
            Self::Control => 0,
            Self::Calls => SMALL_PAYLOAD_BYTES,
            Self::Bulk => PAYLOAD_BYTES,
        };
        Bounds { head_bytes: HEAD_BYTES, payload_bytes }
    }

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| *role as u8 == byte)
    }
}

/// The longest head on an admitted connection.
pub const HEAD_BYTES: u32 = 256 << 10;
/// The longest head of a reply. The memory for it is taken before the call is read, so a longer reply is payload, which
/// the call has announced.
pub const REPLY_HEAD_BYTES: u32 = 16 << 10;
/// The longest payload on a connection for small calls.
pub const SMALL_PAYLOAD_BYTES: u32 = 128 << 10;
/// The longest payload on a connection for large transfers: four of the kernel's largest requests.
pub const PAYLOAD_BYTES: u32 = 4 << 20;

/// How long the parts of a frame may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest head in bytes.
    pub head_bytes: u32,
    /// The longest payload in bytes, also of the answer to a request.
    pub payload_bytes: u32,
}

impl Bounds {
    /// The bounds before the peer is admitted: a hello with its ticket, and no payload.
    pub const HANDSHAKE: Self = Self { head_bytes: 16 << 10, payload_bytes: 0 };
}

/// Bits in the flags of a header; any other bit is refused.
pub mod flag {
    /// The reply's head is a [`Refusal`](crate::refusal::Refusal): the call was not served.
    pub const REFUSED: u8 = 1;
}

/// A header whose fields are known to be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// The role of its connection.
    pub role: Role,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The number of the request.
    pub number: u64,
    /// The length of the head.
    pub head_bytes: u32,
    /// The length of the payload.
    pub payload_bytes: u32,
    /// The largest payload that the answer may have.
    pub reply_bytes: u32,
}

impl Header {
    /// The bytes of this header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[LAYOUT, self.kind as u8, self.role as u8, self.flags]);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.head_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.reply_bytes.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`Invalid`], before any length is used: the connection cannot go on.
    pub fn decode(bytes: &[u8; HEADER_BYTES], bounds: Bounds) -> Result<Self, Invalid> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..4] != MAGIC {
            return Err(Invalid::Magic);
        }
        if bytes[4] != LAYOUT {
            return Err(Invalid::Layout(bytes[4]));
        }
        let header = Self {
            kind: Kind::of(bytes[5]).ok_or(Invalid::Kind(bytes[5]))?,
            role: Role::of(bytes[6]).ok_or(Invalid::Role(bytes[6]))?,
            flags: bytes[7],
            number: u64::from(word(8)) | u64::from(word(12)) << 32,
            head_bytes: word(16),
            payload_bytes: word(20),
            reply_bytes: word(24),
        };
        if header.flags & !flag::REFUSED != 0 || word(28) != 0 {
            return Err(Invalid::Reserved);
        }
        header.check(bounds)?;
        Ok(header)
    }

    /// Compares the lengths with the bounds of a connection.
    ///
    /// # Errors
    /// [`Invalid::Long`].
    pub fn check(&self, bounds: Bounds) -> Result<(), Invalid> {
        let lengths = [
            ("head", self.head_bytes, bounds.head_bytes),
            ("payload", self.payload_bytes, bounds.payload_bytes),
            ("answer", self.reply_bytes, bounds.payload_bytes),
        ];
        match lengths.into_iter().find(|(_, length, most)| length > most) {
            Some((part, length_bytes, most_bytes)) => Err(Invalid::Long { part, length_bytes, most_bytes }),
            None => Ok(()),
        }
    }
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The first bytes are not those of a frame.
    #[error("the bytes are not a frame of Amphora: the peer speaks another protocol")]
    Magic,
    /// The header has an unknown layout.
    #[error("the frame header has layout {0}, only 1 is known: upgrade the older side")]
    Layout(u8),
    /// The kind is unknown.
    #[error("the frame has the unknown kind {0}")]
    Kind(u8),
    /// The role is unknown.
    #[error("the frame has the unknown connection role {0}")]
    Role(u8),
    /// A bit or byte without a meaning is set.
    #[error("the frame header sets a reserved bit")]
    Reserved,
    /// A length exceeds its bound.
    #[error("the {part} of a frame has {length_bytes} bytes, at most {most_bytes} are accepted here")]
    Long {
        /// Which part.
        part: &'static str,
        /// Its length.
        length_bytes: u32,
        /// Its bound.
        most_bytes: u32,
    },
    /// The frame has no place at this point of a connection.
    #[error("a frame has a kind, role, number or flag that is not allowed at this point of the connection")]
    Order,
    /// The bytes end inside a frame.
    #[error("the connection ended inside a frame")]
    Short,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: Kind, role: Role) -> Header {
        let lengths = role.bounds();
        Header {
            kind,
            role,
            flags: flag::REFUSED,
            number: 0x0102_0304_0506_0708,
            head_bytes: 70_000,
            payload_bytes: lengths.payload_bytes,
            reply_bytes: lengths.payload_bytes,
        }
    }

    #[test]
    fn every_header_reads_as_it_was_written() {
        for kind in Kind::ALL {
            for role in Role::ALL {
                let header = header(kind, role);
                assert_eq!(Header::decode(&header.encode(), role.bounds()), Ok(header));
            }
        }
    }

    #[test]
    fn a_changed_byte_is_refused_or_means_something_else() {
        let bytes = header(Kind::Request, Role::Bulk).encode();
        let bounds = Bounds { head_bytes: u32::MAX, payload_bytes: u32::MAX };
        for at in 0..HEADER_BYTES {
            for byte in (0..=u8::MAX).filter(|byte| *byte != bytes[at]) {
                let mut changed = bytes;
                changed[at] = byte;
                if let Ok(read) = Header::decode(&changed, bounds) {
                    assert_eq!(read.encode(), changed, "byte {at} as {byte}");
                }
            }
        }
    }

    #[test]
    fn a_length_beyond_its_bound_is_refused_by_the_header_alone() {
        let valid = header(Kind::Request, Role::Calls);
        let bounds = Role::Calls.bounds();
        for long in [
            Header { head_bytes: bounds.head_bytes + 1, ..valid },
            Header { payload_bytes: bounds.payload_bytes + 1, ..valid },
            Header { reply_bytes: u32::MAX, ..valid },
        ] {
            assert!(matches!(Header::decode(&long.encode(), bounds), Err(Invalid::Long { .. })), "{long:?}");
        }
        assert!(Header::decode(&valid.encode(), Bounds::HANDSHAKE).is_err(), "before the peer is admitted");
    }
}
