//! The entry point of a fuzz target (`fuzz/`): frames and the messages of the handshake, from arbitrary bytes.

use bytes::Bytes;

use crate::frame::Frame;
use crate::header::{Bounds, Role};
use crate::hello::{self, Hello};
use crate::refusal::Refusal;

/// Reads the bytes as frames, with the bounds before admission and of each role, and every head as each message.
pub fn peer(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let all = [Bounds::HANDSHAKE].into_iter().chain(Role::ALL.map(Role::bounds));
    for bounds in all {
        let mut rest = bytes.clone();
        while let Ok((frame, next)) = Frame::decode(&rest, bounds) {
            let taken = rest.len() - next.len();
            assert_eq!(frame.encode(), rest[..taken], "a frame is written as it was read");
            assert!(frame.head.len() <= bounds.head_bytes as usize, "a head beyond its bound");
            assert!(frame.payload.len() <= bounds.payload_bytes as usize, "a payload beyond its bound");
            message(&frame.head);
            rest = next;
        }
    }
    message(&bytes);
}

fn message(head: &Bytes) {
    if let Ok(hello) = Hello::decode(head.clone()) {
        assert_eq!(Hello::decode(hello.encode()), Ok(hello), "a hello that was read can be read again");
    }
    let _ = (hello::challenge(head), hello::proof(head), hello::welcome(head));
    let refusal = Refusal::decode(head);
    assert!(!refusal.to_string().chars().any(char::is_control), "a peer's text in a log");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_breaks_no_promise() {
        corpora::run("peer", peer);
    }
}
