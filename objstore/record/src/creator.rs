//! The creator of an account or a snapshot: a Kubernetes driver removes only what it created itself.

/// Who created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Creator {
    /// Not recorded: an earlier build created it.
    Unrecorded = 0,
    /// The administrator, or the store itself.
    Administrator = 1,
    /// The CSI driver.
    Csi = 2,
    /// The COSI driver.
    Cosi = 3,
}
