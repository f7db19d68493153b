//! The context of a call: the session, the request of the kernel, and the program behind it.

use std::num::NonZeroU64;

/// The id of a persistent session, which stays the same across restarts of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    /// The session id for a number; `None` for zero.
    pub fn new(id: u64) -> Option<Self> {
        NonZeroU64::new(id).map(Self)
    }

    /// The id as a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The request's number, unique in the session.
    pub unique: u64,
    /// Whether the kernel sends it again.
    pub resent: bool,
}

/// The program for which the kernel asks. The kernel has checked its permissions before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user, or `u32::MAX` if the request does not carry one (FUSE_INVALID_UIDGID).
    pub uid: u32,
    /// The group, or `u32::MAX`.
    pub gid: u32,
    /// The process id, or 0 if the process lies outside the mount's PID namespace.
    pub pid: u32,
}

/// The context of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The session ([`crate::About::number`]); a service refuses calls for any but its own.
    pub session: u64,
    /// The program behind the call; `None` if the mount itself asks.
    pub caller: Option<Caller>,
    /// The kernel's request that the call is part of. At most one call that records an outcome belongs to a request, so the
    /// request's number identifies it.
    pub request: Option<RequestId>,
}
