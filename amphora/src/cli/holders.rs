//! Where fd holders may listen, for commands that run without a server.

use std::path::Path;

use crate::config::{Env, SocketPath};
use crate::failure::Failure;

/// The socket of the systemd unit's fd holder.
const HOLDER: &str = "/run/amphora-holder/holder.sock";

/// The sockets at which a holder may listen: the one that a flag or the environment names, or else the one `beside` the
/// admin socket and that of the systemd unit.
pub(super) fn sockets(
    named: Option<&SocketPath>,
    beside: Option<SocketPath>,
    env: Env<'_>,
) -> Result<Vec<SocketPath>, Failure> {
    if let Some(named) = named {
        return Ok(vec![named.clone()]);
    }
    if let Some(named) = env("AMPHORA_HOLDER_ENDPOINT").filter(|named| !named.is_empty()) {
        let named = named.to_string_lossy();
        let parsed = named.parse().map_err(|why| format!("AMPHORA_HOLDER_ENDPOINT \"{named}\": {why}"));
        return parsed.map(|socket| vec![socket]).map_err(Failure::usage);
    }
    let packaged = SocketPath::new(Path::new(HOLDER)).map_err(Failure::usage)?;
    Ok(beside.into_iter().chain([packaged]).collect())
}
