//! The client's end of a connection, as the server that accepted it knows it.

use std::net::SocketAddr;

/// The client of a request; an extension of its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The client's socket address.
    pub(crate) address: SocketAddr,
    /// Whether the connection is encrypted.
    pub(crate) secure: bool,
    /// The version of TLS, as policies write it.
    pub(crate) tls_version: Option<&'static str>,
    /// The cipher suite of TLS, as OpenSSL calls it.
    pub(crate) cipher_suite: Option<&'static str>,
    /// Whether it is connected to the website listener.
    pub(crate) website: bool,
}
