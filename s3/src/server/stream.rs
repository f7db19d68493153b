//! The byte stream of one connection, plain or TLS; records when bytes are sent.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{CipherSuite, ProtocolVersion};
use tokio_rustls::server::TlsStream;

use super::activity::Activity;
use crate::outbound::ReplyLedger;

/// A connection after its handshake.
pub(super) enum Socket {
    Plain(TcpStream),
    /// Boxed, because it is some ten times as large.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// The TLS version as policies write it (`s3:TlsVersion`).
    pub(super) fn tls_version(&self) -> Option<&'static str> {
        let Self::Tls(stream) = self else { return None };
        match stream.get_ref().1.protocol_version()? {
            ProtocolVersion::TLSv1_3 => Some("1.3"),
            ProtocolVersion::TLSv1_2 => Some("1.2"),
            _ => None,
        }
    }

    /// The cipher suite of TLS, as OpenSSL calls it, which is how access logs do.
    pub(super) fn cipher_suite(&self) -> Option<&'static str> {
        let Self::Tls(stream) = self else { return None };
        Some(match stream.get_ref().1.negotiated_cipher_suite()?.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
            _ => return None,
        })
    }
}

/// A connection with its activity record.
pub(super) struct Stream {
    pub(super) socket: Socket,
    pub(super) activity: Arc<Activity>,
    pub(super) ledger: Arc<ReplyLedger>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.ledger.close();
    }
}

/// Calls a method on the socket of either kind.
macro_rules! socket {
    ($stream:expr, $inner:ident => $call:expr) => {
        match &mut $stream.socket {
            Socket::Plain(socket) => {
                let $inner = Pin::new(socket);
                $call
            }
            Socket::Tls(socket) => {
                let $inner = Pin::new(socket);
                $call
            }
        }
    };
}

impl Stream {
    fn note(&self, sent: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes @ 1..)) = sent {
            self.activity.sent();
            self.ledger.sent(bytes);
        }
        sent
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        socket!(self, socket => socket.poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = socket!(self, socket => socket.poll_write(context, bytes));
        self.note(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = socket!(self, socket => socket.poll_write_vectored(context, slices));
        self.note(sent)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = socket!(self, socket => socket.poll_flush(context));
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.ledger.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        socket!(self, socket => socket.poll_shutdown(context))
    }
}
