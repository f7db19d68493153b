//! gRPC clients over the Unix sockets of a server.

use std::fmt::Debug;
use std::path::Path;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

/// A connection to a socket.
pub async fn channel(socket: &Path) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).expect("a path");
    endpoint.connect().await.unwrap_or_else(|error| panic!("{}: {error:?}", socket.display()))
}

/// Asserts that a call is refused with this code, and that the message contains each of `words`.
#[track_caller]
pub fn refused<T: Debug>(what: &str, answer: Result<Response<T>, Status>, code: Code, words: &[&str]) {
    match answer {
        Ok(answer) => panic!("{what}: it was not refused: {answer:?}"),
        Err(status) => {
            assert_eq!(status.code(), code, "{what}: {status}");
            for word in words {
                assert!(status.message().contains(word), "{what}: no {word:?} in {:?}", status.message());
            }
        }
    }
}
