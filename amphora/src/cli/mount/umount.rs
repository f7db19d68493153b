//! `amphora umount`, which also works without a server.

use std::path::PathBuf;

use clap::Args;
use fuse::MountpointState;
use fuse::holder::{Error, Holder};
use proto::amphora::admin::v1 as admin;
use tonic::Code;

use crate::cli::client::{Client, absolute, answer, is_absent, own_node};
use crate::cli::holders;
use crate::config::{Env, SocketPath};
use crate::failure::{Failure, with_causes};
use crate::mounts::{Unmounting, resolve, unmount_without_server};
use crate::node::own::OwnNode;

/// What to unmount.
#[derive(Debug, Args)]
pub struct Umount {
    /// The directory
    dir: PathBuf,
    /// Detach the mount even if programs use it: they keep their open files, and get errors if no server serves it
    #[arg(long, short)]
    lazy: bool,
    /// Socket of the holder to ask while no server runs (also: AMPHORA_HOLDER_ENDPOINT) [default: holder.sock beside
    /// the admin socket, and /run/amphora-holder/holder.sock]
    #[arg(long, value_name = "unix://PATH")]
    holder_endpoint: Option<SocketPath>,
}

impl Umount {
    /// Unmounts through the server at this socket, or without a server if none runs.
    pub(in crate::cli) async fn run(self, socket: &SocketPath, env: Env<'_>) -> Result<(), Failure> {
        if let Some(node) = own_node(&self.dir) {
            let request = admin::UnmountRequest { dir: absolute(&self.dir)?, lazy: self.lazy };
            let unmounted = Client::connect(&node.socket).await?.mounts.unmount(request).await;
            // A node whose mount has just ended does not know another mount at the same directory.
            if !unmounted.as_ref().is_err_and(|status| status.code() == Code::NotFound) {
                answer(unmounted)?;
                node.wait_for_end().await;
                return Ok(());
            }
        }
        let left = resolve(&self.dir).ok().and_then(|dir| OwnNode::of(&dir).ok()).filter(|node| {
            let state = fuse::mountpoint_state(&self.dir);
            node.is_left() && matches!(state, MountpointState::Silent | MountpointState::Stale)
        });
        if left.is_some() || is_absent(socket) {
            self.without_server(socket, left.as_ref(), env)?;
            left.inspect(OwnNode::remove);
            return Ok(());
        }
        let request = admin::UnmountRequest { dir: absolute(&self.dir)?, lazy: self.lazy };
        let mut client = Client::connect(socket).await?;
        answer(client.mounts.unmount(request).await).map(drop)
    }

    /// `left`: what is left of a node that served the mount alone.
    fn without_server(self, socket: &SocketPath, left: Option<&OwnNode>, env: Env<'_>) -> Result<(), Failure> {
        let mut holders = Vec::new();
        let of_node = left.map(|node| node.socket.holder_beside());
        for path in of_node.into_iter().chain(self.holder_sockets(socket, env)?) {
            match Holder::connect(path.path()) {
                Ok(holder) => holders.push(holder),
                Err(Error::Absent { .. }) => {}
                Err(error) => return Err(Failure::failed(format!("{path}: {}", with_causes(&error)))),
            }
        }
        let how = if self.lazy { Unmounting::Lazily } else { Unmounting::IfIdle };
        unmount_without_server(&holders, &self.dir, how)
            .map_err(|error| Failure::failed(format!("no server answers at {socket}, and {}", with_causes(&error))))
    }

    /// The sockets at which a holder may listen.
    fn holder_sockets(&self, admin: &SocketPath, env: Env<'_>) -> Result<Vec<SocketPath>, Failure> {
        holders::sockets(self.holder_endpoint.as_ref(), Some(admin.holder_beside()), env)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_looked_for_where_the_server_has_it() {
        let admin: SocketPath = "unix:///d/run/admin.sock".parse().expect("a path");
        let umount = |named: Option<&str>| Umount {
            dir: "/m".into(),
            lazy: false,
            holder_endpoint: named.map(|named| named.parse().expect("a path")),
        };
        let sockets = |umount: Umount, value: Option<&'static str>| {
            let env = move |_: &str| value.map(std::ffi::OsString::from);
            umount.holder_sockets(&admin, &env).expect("named").iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let beside = ["unix:///d/run/holder.sock", "unix:///run/amphora-holder/holder.sock"];
        assert_eq!(sockets(umount(None), None), beside);
        assert_eq!(sockets(umount(None), Some("unix:///e")), ["unix:///e"]);
        assert_eq!(sockets(umount(Some("unix:///f")), Some("unix:///e")), ["unix:///f"]);
    }
}
