//! Messages between servers and the fd holder, and their byte layout.
//!
//! - The first byte is the protocol version, the second the verb; numbers are little-endian.
//! - `Hello` and its answer look the same in every version and agree on the version to use. A holder outlives servers,
//!   so a newer server speaks the holder's version, down to [`VERSION_OLDEST`].
//! - Bytes after the end of a message are an error.

use super::packet::BYTES_MAX;

/// The newest protocol version of this program. Servers from version 2 on claim the mounts that they serve, so that the
/// holder can tell which mounts have no server.
pub(super) const VERSION: u8 = 2;
/// The oldest protocol version of this program.
pub(super) const VERSION_OLDEST: u8 = 1;
/// The largest record of a deposit in bytes.
pub(super) const RECORD_BYTES_MAX: usize = BYTES_MAX - 1024;
/// The longest name and version of a program in bytes.
const PROGRAM_BYTES_MAX: usize = 128;

/// A server's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Asks for the holder's version.
    Hello,
    /// Deposits the descriptors sent along, replacing the deposit with this id.
    Deposit { id: u64, record: Vec<u8> },
    /// Asks for the deposit with the lowest id from this one on.
    Next { from: u64 },
    /// Closes the deposit with this id.
    Withdraw { id: u64 },
}

/// The holder's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The holder's protocol version, and its program's name and version.
    Hello { version: u8, program: String },
    /// The request was carried out.
    Done,
    /// A deposit; its descriptors are sent along.
    Held { id: u64, record: Vec<u8> },
    /// There is no further deposit.
    End,
    /// The request was refused and nothing was changed.
    Refused(Refusal),
}

/// Why the holder refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request could not be decoded.
    Malformed,
    /// The request has a version that the holder does not speak.
    Version,
    /// There is no room for another deposit.
    Full,
    /// There is no deposit with this id.
    Unknown,
    /// A refusal that a later version introduced.
    Other(u8),
}

mod verb {
    pub const HELLO: u8 = 0;
    pub const DEPOSIT: u8 = 1;
    pub const NEXT: u8 = 2;
    pub const WITHDRAW: u8 = 3;
    pub const DONE: u8 = 0x81;
    pub const HELD: u8 = 0x82;
    pub const END: u8 = 0x83;
    pub const REFUSED: u8 = 0x84;
    pub const WELCOME: u8 = 0x80;
}

impl Request {
    /// Decodes a request and its version, or returns the refusal to answer with.
    pub fn decode(bytes: &[u8]) -> Result<(u8, Self), Refusal> {
        let [version, verb, rest @ ..] = bytes else { return Err(Refusal::Malformed) };
        let request = match (*verb, rest) {
            (verb::HELLO, []) => Self::Hello,
            (verb::DEPOSIT, rest) => number(rest)
                .filter(|(_, record)| record.len() <= RECORD_BYTES_MAX)
                .map(|(id, record)| Self::Deposit { id, record: record.to_vec() })
                .ok_or(Refusal::Malformed)?,
            (verb::NEXT, rest) => Self::Next { from: only(rest)? },
            (verb::WITHDRAW, rest) => Self::Withdraw { id: only(rest)? },
            _ => return Err(Refusal::Malformed),
        };
        Ok((*version, request))
    }

    pub fn encode(&self, version: u8) -> Vec<u8> {
        match self {
            Self::Hello => vec![version, verb::HELLO],
            Self::Deposit { id, record } => [&[version, verb::DEPOSIT], &id.to_le_bytes()[..], record].concat(),
            Self::Next { from } => [&[version, verb::NEXT], &from.to_le_bytes()[..]].concat(),
            Self::Withdraw { id } => [&[version, verb::WITHDRAW], &id.to_le_bytes()[..]].concat(),
        }
    }
}

impl Answer {
    /// Decodes an answer; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [version, verb, rest @ ..] = bytes else { return None };
        Some(match (*verb, rest) {
            (verb::WELCOME, program) if program.len() <= PROGRAM_BYTES_MAX => {
                Self::Hello { version: *version, program: std::str::from_utf8(program).ok()?.to_owned() }
            }
            (verb::DONE, []) => Self::Done,
            (verb::HELD, rest) => {
                let (id, record) = number(rest)?;
                Self::Held { id, record: record.to_vec() }
            }
            (verb::END, []) => Self::End,
            (verb::REFUSED, [code]) => Self::Refused(Refusal::from_code(*code)),
            _ => return None,
        })
    }

    pub fn encode(&self, version: u8) -> Vec<u8> {
        match self {
            Self::Hello { version, program } => [&[*version, verb::WELCOME], program.as_bytes()].concat(),
            Self::Done => vec![version, verb::DONE],
            Self::Held { id, record } => [&[version, verb::HELD], &id.to_le_bytes()[..], record].concat(),
            Self::End => vec![version, verb::END],
            Self::Refused(refusal) => vec![version, verb::REFUSED, refusal.code()],
        }
    }
}

impl Refusal {
    fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Malformed,
            2 => Self::Version,
            3 => Self::Full,
            4 => Self::Unknown,
            other => Self::Other(other),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Malformed => 1,
            Self::Version => 2,
            Self::Full => 3,
            Self::Unknown => 4,
            Self::Other(code) => code,
        }
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    bytes.split_first_chunk().map(|(number, rest)| (u64::from_le_bytes(*number), rest))
}

fn only(bytes: &[u8]) -> Result<u64, Refusal> {
    number(bytes).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number).ok_or(Refusal::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> [Request; 6] {
        [
            Request::Hello,
            Request::Deposit { id: 1 << 63 | 5, record: b"about it".to_vec() },
            Request::Deposit { id: 0, record: Vec::new() },
            Request::Next { from: 0 },
            Request::Next { from: u64::MAX },
            Request::Withdraw { id: 77 },
        ]
    }

    fn answers() -> [Answer; 6] {
        [
            Answer::Hello { version: 9, program: "amphora 1.2.3".into() },
            Answer::Done,
            Answer::Held { id: 77, record: b"about it".to_vec() },
            Answer::End,
            Answer::Refused(Refusal::Full),
            Answer::Refused(Refusal::Other(200)),
        ]
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        for request in requests() {
            assert_eq!(Request::decode(&request.encode(3)), Ok((3, request)));
        }
        for answer in answers() {
            assert_eq!(Answer::decode(&answer.encode(9)), Some(answer));
        }
    }

    #[test]
    fn hello_looks_the_same_in_every_version() {
        assert_eq!(Request::Hello.encode(1), [1, 0]);
        assert_eq!(Answer::Hello { version: 4, program: "p".into() }.encode(1), [4, 0x80, b'p']);
    }

    #[test]
    fn changed_bytes_say_something_else_or_are_refused() {
        for bytes in requests().map(|request| request.encode(VERSION)) {
            for mutated in mutations(&bytes) {
                if let Ok((version, request)) = Request::decode(&mutated) {
                    assert_eq!(request.encode(version), mutated);
                }
            }
        }
        for bytes in answers().map(|answer| answer.encode(VERSION)) {
            for mutated in mutations(&bytes) {
                if let Some(answer) = Answer::decode(&mutated) {
                    assert_eq!(answer.encode(mutated[0]), mutated);
                }
            }
        }
        assert_eq!(Request::decode(&[1, verb::DEPOSIT, 0]), Err(Refusal::Malformed));
        assert_eq!(Request::decode(&[]), Err(Refusal::Malformed));
        let long = Request::Deposit { id: 1, record: vec![0; RECORD_BYTES_MAX + 1] };
        assert_eq!(Request::decode(&long.encode(VERSION)), Err(Refusal::Malformed));
    }

    /// All variants of `bytes` with one bit flipped, all prefixes, and `bytes` with one byte appended.
    fn mutations(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut all: Vec<_> = (0..bytes.len()).map(|len| bytes[..len].to_vec()).collect();
        all.push([bytes, &[0]].concat());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut mutated = bytes.to_vec();
                mutated[at] ^= 1 << bit;
                all.push(mutated);
            }
        }
        all
    }
}
