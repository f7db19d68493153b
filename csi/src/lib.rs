//! The Container Storage Interface: buckets as volumes of Kubernetes, on the store.
//!
//! - A volume is a bucket and its id is the bucket's name; a snapshot is a snapshot of the store. A volume handle may
//!   name any bucket, made here or not.
//! - Volumes made here belong to the account [`OWNER`] and carry the driver's name; only those are mounted without a
//!   secret; those that are no copies from a backup are deleted and grown here.
//! - An error's code says whether something may exist: ABORTED and UNAVAILABLE if it may, any other code if nothing
//!   was made. What fails is taken back.
//! - Only one call at a time works on a volume, and on a target; another is answered ABORTED at once, never queued.
//! - A call runs to its end though its caller leaves, so that no mount is left half made.
//! - Only what works is advertised.
//!
//! A crash leaves a record of each stage and each target, written before the mount it describes:
//! [`node::Node::recover`] rebuilds them.

pub mod bind;
mod capability;
mod capacity;
mod controller;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod identity;
mod locks;
mod mount_flags;
pub mod mounter;
pub mod node;
mod path;
mod rpc;
pub mod sealed;
pub mod secret;
mod status;
mod volume_id;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use objstore::store::Bucket;
use objstore::{Error, Result, Store};
use proto::csi::v1::controller_server::ControllerServer;
use proto::csi::v1::identity_server::IdentityServer;
use proto::csi::v1::node_server::NodeServer;
use tonic::service::Routes;

pub use mounter::{MountOptions, MountState, Mounter};
pub use node::Node;

/// The account that owns the volumes made here.
pub const OWNER: &str = "csi";

/// The type under which the kernel lists a mount of a bucket (`fuse` with the subtype `amphora`).
pub const FS_TYPE: &str = "fuse.amphora";

/// The attribute of a bucket that names the driver it was made by.
const PROVISIONER: &str = "provisioner";

/// What the driver says of itself and where the node keeps its records.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in StorageClass and PersistentVolume, such as `csi.amphora.dev`.
    pub driver_name: String,
    /// The version of this program.
    pub vendor_version: String,
    /// The name of this machine; in Kubernetes, of the node.
    pub node_id: String,
    /// The most volumes on this node; 0 leaves it to the caller.
    pub max_volumes: u32,
    /// The folder of the node's stage and target records; made if absent.
    pub state_dir: PathBuf,
}

impl Config {
    /// Refuses names that CSI does not allow (CSI v1.12, GetPluginInfo and NodeGetInfo).
    pub fn check(&self) -> Result<()> {
        let name = self.driver_name.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let ends = [name.first(), name.last()].iter().all(|end| end.is_some_and(u8::is_ascii_alphabetic));
        if !(1..=63).contains(&name.len()) || !name.iter().all(inner) || !ends {
            let why = "use a domain name of at most 63 letters, digits, dots and hyphens, with a letter at both ends";
            return Err(Error::invalid("CSI driver name", &self.driver_name, why));
        }
        let node = self.node_id.as_bytes();
        if !(1..=128).contains(&node.len()) || !node.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'/') {
            let why = "use 1 to 128 visible ASCII characters without \"/\"";
            return Err(Error::invalid("node id", &self.node_id, why));
        }
        Ok(())
    }
}

/// Identity and Controller, for an endpoint of their own.
pub fn controller_routes(store: Store, config: &Config) -> Routes {
    identity_routes(config).add_service(controller_server(store, config))
}

/// Identity and Node, for an endpoint of their own.
pub fn node_routes(node: Node) -> Routes {
    identity_routes(node.config()).add_service(NodeServer::new(node::Service::new(node)))
}

/// Identity, Controller and Node on one endpoint.
pub fn routes(store: Store, node: Node) -> Routes {
    let controller = controller_server(store, node.config());
    node_routes(node).add_service(controller)
}

fn identity_routes(config: &Config) -> Routes {
    Routes::new(IdentityServer::new(identity::Service::new(config)))
}

fn controller_server(store: Store, config: &Config) -> ControllerServer<controller::Service> {
    ControllerServer::new(controller::Service::new(store, Arc::new(config.clone())))
}

/// The attribute of a bucket that holds the name a volume was asked for by.
const NAME: &str = "csi.name";

/// Whether `bucket` is a volume that the driver `driver_name` made, and not a copy that somebody restored from a backup
/// under another name: only this is deleted and grown.
fn is_made_here(bucket: &Bucket, driver_name: &str) -> bool {
    let asked_for = bucket.attributes.get(NAME).and_then(|name| volume_id::for_volume(name).ok());
    is_provisioned(bucket, driver_name) && asked_for.is_none_or(|name| name == bucket.name)
}

/// Whether `bucket` is a volume that the driver `driver_name` made.
fn is_provisioned(bucket: &Bucket, driver_name: &str) -> bool {
    let by = bucket.attributes.get(PROVISIONER).map(String::as_str);
    bucket.owner == OWNER && by == Some(driver_name) && !bucket.snapshot
}
