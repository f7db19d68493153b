//! The connection of a mount to a store on another machine, as operators are shown it.

use std::time::Duration;

use objstore_base::latency::Latency;

use super::service::SessionStanding;

/// The session of a mount, and its connections. All counts begin with the process that serves the mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStats {
    /// The id of the session, as the store knows it.
    pub session: u128,
    /// How the session stands.
    pub standing: SessionStanding,
    /// How long the lease lasts from now on, if nothing renews it.
    pub lease_left: Duration,
    /// The open connections: three, unless some are being opened.
    pub connections: u32,
    /// How often a connection was opened again.
    pub reconnects: u64,
    /// Calls that the store has not answered yet.
    pub under_way: u64,
    /// The times that the store took to answer calls, with the way there and back.
    pub round_trips: Latency,
    /// Bytes received from the store.
    pub received_bytes: u64,
    /// Bytes sent to the store.
    pub sent_bytes: u64,
    /// Why the session is lost, or why a connection is missing, if that is known.
    pub why: Option<String>,
}
