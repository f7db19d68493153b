//! Bytes that went over connections, in each direction.
//!
//! - Frames of admitted connections are counted, with their headers; handshakes and what TLS adds are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes of a connection, which also count for all connections of a server or a client.
#[derive(Debug, Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    all: Option<Arc<Self>>,
}

/// Bytes in each direction, as seen from this side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
}

impl Traffic {
    /// The bytes of a connection that is one of these.
    pub(crate) fn one_of(all: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { all: Some(Arc::clone(all)), ..Self::default() })
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
        if let Some(all) = &self.all {
            all.received(bytes);
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        if let Some(all) = &self.all {
            all.sent(bytes);
        }
    }

    /// The counts.
    pub fn bytes(&self) -> Bytes {
        Bytes { received: self.received.load(Relaxed), sent: self.sent.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_connection_count_for_all_of_them() {
        let all = Arc::<Traffic>::default();
        let [one, other] = [(); 2].map(|()| Traffic::one_of(&all));
        one.received(5);
        other.received(7);
        other.sent(11);
        assert_eq!(one.bytes(), Bytes { received: 5, sent: 0 });
        assert_eq!(other.bytes(), Bytes { received: 7, sent: 11 });
        assert_eq!(all.bytes(), Bytes { received: 12, sent: 11 });
    }
}
