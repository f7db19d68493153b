//! INIT: the handshake in which kernel and server agree on protocol version and features, once in the life of a mount.
//!
//! - The reply is fixed before it is sent, so that [`Hello::agreement`] can be stored first, for a server that takes
//!   the mount over after a crash.
//! - A session that is taken over keeps the old agreement: nothing is sent, and the features are those of the stored
//!   reply. If the old server died before it sent the reply, the kernel sends INIT again and receives the stored bytes
//!   (see `session`).

use std::io;
use std::os::fd::OwnedFd;

use super::abi::{
    Feature, Features, IN_HEADER_BYTES, MAJOR, MINOR, MINOR_MIN, OUT_HEADER_BYTES, WRITE_HEADER_BYTES, opcode,
};
use super::device::Device;
use super::fields::{Fields, Malformed};
use super::reply::Frame;

/// The size of the reply's body in bytes.
const ANSWER_BYTES: usize = 64;
/// The smallest read buffer that the kernel accepts (FUSE_MIN_READ_BUFFER).
const READ_BYTES_MIN: usize = 8192;
/// The stacking depth that passthrough files may have: on a plain file system, not on another stacked one.
const STACK_DEPTH_MAX: u32 = 1;

/// Limits that the server asks for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most data in one request, in bytes.
    pub request_bytes: u32,
    /// The most requests that the kernel may have in flight in the background, such as readahead.
    pub background: u16,
}

/// The kernel's INIT request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    unique: u64,
    minor: u32,
    readahead_bytes: u32,
    features: Features,
}

impl Offer {
    /// Reads the INIT request. It has the second flag word from minor version 36 on.
    fn decode(request: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(request);
        fields.skip(4)?;
        if fields.u32()? != opcode::INIT {
            return Err(Malformed);
        }
        let unique = fields.u64()?;
        fields.skip(IN_HEADER_BYTES - 16)?;
        let (major, minor) = (fields.u32()?, fields.u32()?);
        if major != MAJOR {
            return Err(Malformed);
        }
        let (readahead_bytes, low) = (fields.u32()?, fields.u32()?);
        let high = fields.u32().unwrap_or(0);
        Ok(Self { unique, minor, readahead_bytes, features: Features::from_words(low, high) })
    }
}

/// The server's reply to INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    minor: u32,
    readahead_bytes: u32,
    features: Features,
    background: u16,
    request_bytes: u32,
}

impl Answer {
    fn settle(offer: Offer, wishes: Features, limits: Limits) -> Self {
        Self {
            minor: offer.minor.min(MINOR),
            readahead_bytes: offer.readahead_bytes.min(limits.request_bytes),
            features: offer.features.and(wishes),
            background: limits.background,
            request_bytes: limits.request_bytes,
        }
    }

    fn encode(&self) -> [u8; ANSWER_BYTES] {
        let (low, high) = self.features.words();
        let pages = self.request_bytes.div_ceil(page_bytes());
        let depth = if self.features.has(Feature::Passthrough) { STACK_DEPTH_MAX } else { 0 };
        let mut frame = Frame::new();
        frame.u32(MAJOR).u32(self.minor).u32(self.readahead_bytes).u32(low);
        // At three quarters of the background requests the kernel holds further ones back.
        frame.u16(self.background).u16(self.background / 4 * 3).u32(self.request_bytes);
        // A time granularity of one nanosecond, and no alignment of mappings.
        frame.u32(1).u16(u16::try_from(pages).unwrap_or(u16::MAX)).u16(0);
        frame.u32(high).u32(depth).zeros(24);
        let mut body = [0; ANSWER_BYTES];
        body.copy_from_slice(frame.body());
        body
    }

    fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        if body.len() != ANSWER_BYTES || fields.u32()? != MAJOR {
            return Err(Malformed);
        }
        let (minor, readahead_bytes, low) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let background = fields.u16()?;
        fields.skip(2)?;
        let request_bytes = fields.u32()?;
        fields.skip(8)?;
        let features = Features::from_words(low, fields.u32()?);
        Ok(Self { minor, readahead_bytes, features, background, request_bytes })
    }
}

/// The INIT request of a mount and its reply, as bytes: all that a server needs to take the mount over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The kernel's request.
    pub init: Vec<u8>,
    /// The body of the reply.
    pub answer: Vec<u8>,
}

/// A mount whose INIT is not answered yet.
#[derive(Debug)]
pub struct Hello {
    device: Device,
    offer: Offer,
    init: Vec<u8>,
    answer: Answer,
}

impl Hello {
    /// Reads the INIT of a new mount and fixes the reply, which enables those of `wishes` that the kernel offers.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if the kernel speaks an older protocol than Linux 5.4; else the system's error.
    pub fn read(device: OwnedFd, wishes: Features, limits: Limits) -> io::Result<Self> {
        let device = Device::new(device);
        let mut buffer = vec![0; READ_BYTES_MIN];
        let gone = || io::Error::new(io::ErrorKind::UnexpectedEof, "the mount was removed before its first request");
        let len = device.receive(&mut buffer)?.ok_or_else(gone)?;
        buffer.truncate(len);
        let offer = Offer::decode(&buffer).map_err(|_| unsupported("begins with something else than INIT 7"))?;
        if offer.minor < MINOR_MIN {
            return Err(unsupported("speaks FUSE older than 7.31; Linux 5.4 or newer is needed"));
        }
        let answer = Answer::settle(offer, wishes, limits);
        Ok(Self { device, offer, init: buffer, answer })
    }

    /// The mount's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether the kernel granted a requested feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.answer.features.has(feature)
    }

    /// The agreement to store for a later takeover.
    pub fn agreement(&self) -> Agreement {
        Agreement { init: self.init.clone(), answer: self.answer.encode().to_vec() }
    }

    /// Sends the reply; the mount works from then on.
    pub(crate) fn answer(self) -> io::Result<Agreed> {
        let body = self.answer.encode();
        send(&self.device, self.offer.unique, &body)?;
        Ok(Agreed::new(self.device, &self.answer, body))
    }
}

fn unsupported(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("the kernel {why}"))
}

fn page_bytes() -> u32 {
    u32::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// Sends the reply to an INIT request.
pub(super) fn send(device: &Device, unique: u64, body: &[u8; ANSWER_BYTES]) -> io::Result<()> {
    let mut frame = Frame::new();
    frame.bytes(body);
    device.send(frame.seal(unique)).map_err(io::Error::from)
}

/// A mount after its INIT, and what was agreed.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(super) device: Device,
    pub(super) features: Features,
    /// The most data in one request, in bytes.
    pub(super) request_bytes: usize,
    /// The reply, for an INIT that is sent again.
    pub(super) answer: [u8; ANSWER_BYTES],
}

impl Agreed {
    fn new(device: Device, answer: &Answer, body: [u8; ANSWER_BYTES]) -> Self {
        Self { device, features: answer.features, request_bytes: answer.request_bytes as usize, answer: body }
    }

    /// Takes over a mount that another server began.
    pub fn resume(device: OwnedFd, agreement: &Agreement) -> io::Result<Self> {
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "the stored INIT reply of the mount is not valid");
        Offer::decode(&agreement.init).map_err(invalid)?;
        let answer = Answer::decode(&agreement.answer).map_err(invalid)?;
        let body = agreement.answer.as_slice().try_into().map_err(|_| invalid(Malformed))?;
        Ok(Self::new(Device::new(device), &answer, body))
    }
}

const _: () = assert!(OUT_HEADER_BYTES + ANSWER_BYTES <= WRITE_HEADER_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { request_bytes: 1 << 20, background: 64 };

    /// An INIT request as a kernel sends it.
    fn init(minor: u32, features: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let args = [MAJOR, minor, 131_072, features as u32, (features >> 32) as u32];
        bytes.extend_from_slice(&104u32.to_ne_bytes());
        bytes.extend_from_slice(&opcode::INIT.to_ne_bytes());
        bytes.extend_from_slice(&2u64.to_ne_bytes());
        bytes.resize(IN_HEADER_BYTES, 0);
        args.iter().for_each(|arg| bytes.extend_from_slice(&arg.to_ne_bytes()));
        bytes.resize(104, 0);
        bytes
    }

    fn all() -> u64 {
        u64::MAX >> 20
    }

    #[test]
    fn only_what_both_want_is_agreed() {
        let wishes = Features::new(&[Feature::InitExt, Feature::Passthrough, Feature::DontMask]);
        let offer = Offer::decode(&init(44, all())).unwrap();
        let answer = Answer::settle(offer, wishes, LIMITS);
        assert_eq!((offer.unique, answer.minor, answer.readahead_bytes), (2, 44, 131_072));
        assert!(answer.features.has(Feature::Passthrough) && answer.features.has(Feature::DontMask));
        assert!(!answer.features.has(Feature::PosixAcl));
        let old = Answer::settle(Offer::decode(&init(31, Feature::DontMask.bit())).unwrap(), wishes, LIMITS);
        assert_eq!(old.features, Features::new(&[Feature::DontMask]));
        assert_eq!(Answer::settle(Offer { minor: 99, ..offer }, wishes, LIMITS).minor, MINOR);
    }

    #[test]
    fn flags_from_bit_32_on_count_only_with_init_ext() {
        let bits = Feature::Passthrough.bit() | Feature::DontMask.bit();
        let offer = Offer::decode(&init(44, bits)).unwrap();
        assert!(!offer.features.has(Feature::Passthrough) && offer.features.has(Feature::DontMask));
    }

    #[test]
    fn answers_survive_their_bytes() {
        let wishes = Features::new(&[Feature::InitExt, Feature::Passthrough, Feature::HasResend, Feature::AsyncRead]);
        let answer = Answer::settle(Offer::decode(&init(44, all())).unwrap(), wishes, LIMITS);
        let body = answer.encode();
        assert_eq!(Answer::decode(&body), Ok(answer));
        assert_eq!(body[36..40], STACK_DEPTH_MAX.to_ne_bytes(), "the stack depth comes with passthrough");
        assert_eq!(body[28..30], 256u16.to_ne_bytes(), "1 MiB is 256 pages");
        assert_eq!(Answer::decode(&body[..60]), Err(Malformed));
    }

    #[test]
    fn mutated_hellos_are_refused_or_read_but_never_panic() {
        let good = init(44, all());
        for len in 0..good.len() {
            let _ = Offer::decode(&good[..len]);
            let mut bad = good.clone();
            bad[len] ^= 0xff;
            let _ = Offer::decode(&bad);
            let _ = Answer::decode(&bad);
        }
        assert_eq!(Offer::decode(&good[..50]), Err(Malformed));
    }
}
