//! The command line's client of the admin service, over a Unix socket.

use std::path::Path;

use proto::amphora::admin::v1::admin_client::AdminClient;
use proto::amphora::admin::v1::mounts_client::MountsClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

use crate::config::SocketPath;
use crate::failure::{Failure, with_causes};
use crate::mounts::resolve;
use crate::node::own::OwnNode;

/// The largest answer in bytes: a list of everything that the store has room for.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A connection to a server or a node. Dereferences to the generated client of a server.
pub(super) struct Client {
    admin: AdminClient<Channel>,
    /// For requests about mounts, which a node answers, too.
    pub(super) mounts: MountsClient<Channel>,
}

impl Client {
    /// Connects to the server at a socket.
    pub(super) async fn connect(socket: &SocketPath) -> Result<Self, Failure> {
        // Tried directly first, because a gRPC channel hides the system's error about a socket.
        if let Err(error) = tokio::net::UnixStream::connect(socket.path()).await {
            return Err(Failure::failed(no_server(socket, &error)));
        }
        let endpoint = Endpoint::from_shared(socket.to_string());
        let channel = match endpoint {
            Ok(endpoint) => endpoint.connect().await,
            Err(error) => Err(error),
        };
        let channel = channel.map_err(|error| Failure::failed(format!("{socket}: {}", with_causes(&error))))?;
        let admin = AdminClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        let mounts = MountsClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Self { admin, mounts })
    }
}

impl Client {
    /// Connects to the node that has the mount at a directory, or else to the server at a socket.
    pub(super) async fn of_mount(dir: &Path, socket: &SocketPath) -> Result<Self, Failure> {
        match own_node(dir) {
            Some(node) => Self::connect(&node.socket).await,
            None => Self::connect(socket).await,
        }
    }
}

/// The running node that `amphora mount --server` started for the mount at a directory.
pub(super) fn own_node(dir: &Path) -> Option<OwnNode> {
    OwnNode::found(&resolve(dir).ok()?)
}

/// Whether no server listens on this socket.
pub(super) fn is_absent(socket: &SocketPath) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    let connected = std::os::unix::net::UnixStream::connect(socket.path());
    connected.is_err_and(|error| matches!(error.kind(), NotFound | ConnectionRefused))
}

fn no_server(socket: &SocketPath, error: &std::io::Error) -> String {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    let advice = match error.kind() {
        NotFound | ConnectionRefused => {
            "start one with `amphora serve`, or name its socket with --admin-endpoint or AMPHORA_ADMIN_ENDPOINT"
        }
        PermissionDenied => "only root and the server's own user may use it",
        _ => "name the socket of a server with --admin-endpoint or AMPHORA_ADMIN_ENDPOINT",
    };
    format!("no server answers at {socket} ({error}): {advice}")
}

impl std::ops::Deref for Client {
    type Target = AdminClient<Channel>;

    fn deref(&self) -> &Self::Target {
        &self.admin
    }
}

impl std::ops::DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.admin
    }
}

/// The message of an answer, or the server's refusal.
pub(super) fn answer<T>(result: Result<Response<T>, Status>) -> Result<T, Failure> {
    result.map(Response::into_inner).map_err(|status| refusal(&status))
}

/// The next message of a stream, or the error that ended it.
pub(super) async fn next<T>(stream: &mut Streaming<T>) -> Result<Option<T>, Failure> {
    stream.message().await.map_err(|status| refusal(&status))
}

fn refusal(status: &Status) -> Failure {
    let text = status.message().replace('\n', " ");
    Failure::failed(if text.is_empty() { format!("the server answered {}", status.code()) } else { text })
}

/// The absolute path, because the server has another working directory.
pub(super) fn absolute(dir: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(dir);
    let path = path.map_err(|error| Failure::failed(format!("the directory {}: {error}", dir.display())))?;
    path.into_os_string().into_string().map_err(|_| Failure::usage("the directory's path is not UTF-8: rename it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_absent_server_is_named_with_what_to_do() {
        let socket: SocketPath = "unix:///nowhere/admin.sock".parse().expect("a path");
        let text = Client::connect(&socket).await.err().expect("refused").to_string();
        assert!(text.contains("unix:///nowhere/admin.sock") && text.contains("--admin-endpoint"), "{text}");
    }

    #[test]
    fn a_refusal_is_one_line() {
        let text =
            answer::<()>(Err(Status::not_found("bucket \"b\"\ndoes not exist"))).expect_err("refused").to_string();
        assert_eq!(text, "bucket \"b\" does not exist");
    }
}
