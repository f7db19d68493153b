//! `amphora status` where no server runs: the nodes of this machine.
//!
//! - A node answers the requests about mounts alone. Those that `amphora mount --server` started are found by their folders;
//!   together they are one report.

use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, listed};
use super::status::Unserved;
use super::volume::MountPoint;
use crate::failure::Failure;
use crate::node::own::OwnNode;

/// The printed status of a machine's nodes.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeReport {
    version: String,
    node: String,
    state_dirs: Vec<String>,
    uptime_ms: u64,
    mounts: Vec<MountPoint>,
    unserved_mounts: Vec<Unserved>,
}

impl NodeReport {
    fn add(&mut self, status: admin::NodeStatusResponse) {
        let admin::NodeStatusResponse { version, node, state_dir, uptime_ms, mounts, unserved_mounts } = status;
        (self.version, self.node) = (version, node);
        self.state_dirs.push(state_dir);
        self.uptime_ms = self.uptime_ms.max(uptime_ms);
        self.mounts.extend(mounts.into_iter().map(MountPoint::from));
        self.unserved_mounts.extend(unserved_mounts.into_iter().map(Unserved::from));
    }
}

impl Row for NodeReport {
    const HEADERS: &'static [&'static str] = &["VERSION", "NODE", "STATE DIR", "UPTIME", "MOUNTS", "UNSERVED MOUNTS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.version.clone(),
            self.node.clone(),
            self.state_dirs.join(", "),
            format!("{} s", self.uptime_ms / 1000),
            listed(self.mounts.iter().map(MountPoint::text), self.mounts.len() as u64),
            listed(self.unserved_mounts.iter().map(Unserved::text), self.unserved_mounts.len() as u64),
        ]
    }
}

/// Prints the status of the node at the other end.
pub(super) async fn of_node(client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
    let mut report = NodeReport::default();
    report.add(answer(client.mounts.get_node_status(admin::NodeStatusRequest {}).await)?);
    printer.one(&report)
}

/// Prints the status of the nodes of single mounts, if there are any; `false` if there are none.
pub(super) async fn of_own_nodes(printer: &mut Printer) -> Result<bool, Failure> {
    let mut report = NodeReport::default();
    for node in OwnNode::running() {
        // One that ends in this moment has no mount any more.
        let Ok(mut client) = Client::connect(&node.socket).await else { continue };
        if let Ok(status) = client.mounts.get_node_status(admin::NodeStatusRequest {}).await {
            report.add(status.into_inner());
        }
    }
    let found = !report.state_dirs.is_empty();
    if found {
        printer.one(&report)?;
    }
    Ok(found)
}
