//! The Container Storage Interface: buckets of the store as volumes of Kubernetes.
//!
//! - A volume is a bucket, and its id is the bucket's name; a snapshot is a snapshot of the store. A volume handle may
//!   name any bucket, created by this driver or not.
//! - The two halves may be on different machines: the controller beside the store, and a node that opens volumes by the
//!   tickets of their publications ([`Node::remote`]).
//! - Volumes created by this driver belong to the account [`OWNER`] and carry the driver's name. Only these are mounted
//!   without a secret. Only these, unless restored from a backup under another name, are deleted and expanded.
//! - The code of an error says whether something may exist: ABORTED and UNAVAILABLE if it may, any other code if
//!   nothing was created. A failed call undoes its steps.
//! - One call at a time works on a volume, and on a target; a second one is answered ABORTED at once, never queued.
//! - A call runs to its end even if its caller disconnects, so that no mount is left half made.
//! - Only working features are advertised.
//!
//! A crash leaves a record of each stage and each target, written before its mount: [`node::Node::recover`] rebuilds
//! the mounts.

mod access;
pub mod bind;
mod capability;
mod capacity;
mod context;
mod controller;
pub mod credentials;
mod disk;
mod filling;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod health;
mod identity;
mod locks;
pub mod loop_device;
mod mount_flags;
pub mod mounter;
pub mod node;
mod path;
mod rpc;
pub mod sealed;
pub mod secret;
mod size_limit;
mod status;
mod topology;
mod volume_id;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use ::rpc::driver_name::{self, is_driver_name};
use objstore::store::Bucket;
use objstore::{Error, Result, Store};
use proto::csi::v1::controller_server::ControllerServer;
use proto::csi::v1::group_controller_server::GroupControllerServer;
use proto::csi::v1::identity_server::IdentityServer;
use proto::csi::v1::node_server::NodeServer;
use proto::csi::v1::snapshot_metadata_server::SnapshotMetadataServer;
use tonic::service::Routes;

pub use mounter::{MountOptions, MountState, Mounter};
pub use node::{Node, Sessions, Standing};
pub use topology::Topology;

/// The account that owns volumes created by this driver.
pub const OWNER: &str = "csi";

/// The file system type in the kernel's list of mounts (`fuse` with the subtype `amphora`).
pub const FS_TYPE: &str = "fuse.amphora";

/// The bucket attribute with the name of the driver that created the bucket.
const PROVISIONER: &str = "provisioner";

/// The nodes that the controller publishes volumes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// The node of this process alone, which needs no ticket.
    #[default]
    Own,
    /// Nodes on any machine: each gets a ticket with the publication. Nodes are not registered, so that every valid id is
    /// the id of a node.
    Any,
}

/// The driver's identity, and the location of the node's records.
#[derive(Clone, Debug)]
pub struct Config {
    /// The driver's name in StorageClass and PersistentVolume, such as `csi.amphora.dev`.
    pub driver_name: String,
    /// The version of this program.
    pub vendor_version: String,
    /// The name of this machine; in Kubernetes, of the node.
    pub node_id: String,
    /// The nodes that volumes are published to.
    pub nodes: Nodes,
    /// The authority (PEM) by which nodes know the store's listener, if nodes have no file of it.
    pub authority: Option<String>,
    /// The most volumes on this node; 0 means no limit of the driver's own.
    pub max_volumes: u32,
    /// Of a controller: where volumes can be used, everywhere without segments. Of a node: where it is.
    pub topology: Topology,
    /// The folder of the node's stage and target records; created if absent.
    pub state_dir: PathBuf,
}

impl Config {
    /// Refuses names that CSI does not allow (CSI v1.12, GetPluginInfo and NodeGetInfo).
    pub fn check(&self) -> Result<()> {
        if !is_driver_name(&self.driver_name) {
            return Err(Error::invalid("CSI driver name", &self.driver_name, driver_name::RULE));
        }
        if !is_node_id(&self.node_id) {
            let why = "use 1 to 128 visible ASCII characters without \"/\"";
            return Err(Error::invalid("node id", &self.node_id, why));
        }
        Ok(())
    }
}

/// Whether a node can have this id.
fn is_node_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
}

/// The Identity, Controller, GroupController and SnapshotMetadata services, for a separate endpoint.
pub fn controller_routes(store: Store, config: &Config) -> Routes {
    let controller = controller::Service::new(store, Arc::new(config.clone()));
    let group = GroupControllerServer::new(controller.clone());
    let metadata = SnapshotMetadataServer::new(controller.clone());
    identity_routes(config).add_service(ControllerServer::new(controller)).add_service(group).add_service(metadata)
}

/// The Identity and Node services, for a separate endpoint.
pub fn node_routes(node: Node) -> Routes {
    identity_routes(node.config()).add_service(NodeServer::new(node::Service::new(node)))
}

/// The routes of a controller with the Node service, for one endpoint.
pub fn with_node(controller: Routes, node: Node) -> Routes {
    controller.add_service(NodeServer::new(node::Service::new(node)))
}

fn identity_routes(config: &Config) -> Routes {
    Routes::new(IdentityServer::new(identity::Service::new(config)))
}

/// The bucket attribute with the requested name of a volume.
const NAME: &str = "csi.name";

/// Whether the driver `driver_name` created `bucket`, and it is not a copy restored from a backup under another name.
/// Only such buckets are deleted and expanded.
fn is_made_here(bucket: &Bucket, driver_name: &str) -> bool {
    let asked_for = bucket.attributes.get(NAME).and_then(|name| volume_id::for_volume(name).ok());
    is_provisioned(bucket, driver_name) && asked_for.is_none_or(|name| name == bucket.name)
}

/// Whether the driver `driver_name` created `bucket` as a volume.
fn is_provisioned(bucket: &Bucket, driver_name: &str) -> bool {
    let by = bucket.attributes.get(PROVISIONER).map(String::as_str);
    bucket.owner == OWNER && by == Some(driver_name) && !bucket.snapshot
}
