//! The wire end to end: a listener with TLS on loopback, a service that echoes, nodes and impostors.

mod calls;
mod handshakes;
mod hostile;
mod support;
