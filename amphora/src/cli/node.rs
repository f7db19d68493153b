//! `amphora node`, which runs a node, and `amphora node list`, which asks a store for the nodes that it knows.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row};
use super::session::{self, SessionRow, seconds_text};
use crate::failure::Failure;
use crate::node::NodeFlags;

/// A node to run, or what to look at.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Node {
    #[command(subcommand)]
    pub(super) look: Option<Look>,
    #[command(flatten)]
    pub(super) flags: NodeFlags,
}

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum Look {
    /// List the nodes that have volumes published to them or sessions with the store
    #[command(visible_alias = "ls")]
    List,
}

/// The printed form of a node.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeRow {
    name: String,
    addresses: BTreeSet<String>,
    /// Volumes that are published to it.
    volumes: BTreeSet<String>,
    sessions: u64,
    served_sessions: u64,
    reconnects: u64,
    behind_ms: u64,
}

impl Row for NodeRow {
    const HEADERS: &'static [&'static str] =
        &["NAME", "ADDRESS", "VOLUMES", "SESSIONS", "SERVED", "RECONNECTS", "BEHIND"];

    fn cells(&self) -> Vec<String> {
        let words = |words: &BTreeSet<String>| words.iter().cloned().collect::<Vec<_>>().join(", ");
        vec![
            self.name.clone(),
            words(&self.addresses),
            words(&self.volumes),
            self.sessions.to_string(),
            self.served_sessions.to_string(),
            self.reconnects.to_string(),
            seconds_text(self.behind_ms),
        ]
    }
}

impl NodeRow {
    fn add(&mut self, session: &SessionRow) {
        self.addresses.extend(session.addresses());
        self.sessions += 1;
        self.served_sessions += u64::from(session.state == "served");
        self.reconnects += session.reconnects;
        self.behind_ms = self.behind_ms.max(session.behind_ms);
    }
}

impl Look {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        let Self::List = self;
        let mut nodes: BTreeMap<String, NodeRow> = BTreeMap::new();
        for volume in answer(client.list_volumes(admin::ListVolumesRequest {}).await)?.volumes {
            for publication in volume.publications {
                nodes.entry(publication.node).or_default().volumes.insert(volume.id.clone());
            }
        }
        for session in session::all(client).await? {
            nodes.entry(session.node.clone()).or_default().add(&session);
        }
        let rows: Vec<_> = nodes.into_iter().map(|(name, row)| NodeRow { name, ..row }).collect();
        printer.list(&rows)
    }
}
