//! `amphora session`: mounts on other machines, as their store sees them.

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, listed, size_text, some, time_text};
use crate::failure::Failure;

/// What to look at, or to end.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the sessions of mounts on other machines
    #[command(visible_alias = "ls")]
    List {
        /// Only those of this bucket or volume
        #[arg(long, value_name = "BUCKET")]
        bucket: Option<String>,
        /// Only those of this node
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// The last ones that ended since the server started, and why
        #[arg(long)]
        ended: bool,
    },
    /// Show one session
    Show {
        /// The session's id
        id: String,
    },
    /// End a session and fence its node, which gets ESTALE; to keep the node away, unpublish the volume or delete its key
    End {
        /// The session's id
        id: String,
    },
}

/// The printed form of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionRow {
    id: String,
    pub(super) bucket: String,
    pub(super) node: String,
    pub(super) state: String,
    read_only: bool,
    by_ticket: bool,
    account: Option<String>,
    served_since: Option<String>,
    pub(super) connections: Vec<ConnectionRow>,
    pub(super) reconnects: u64,
    lease_left_ms: Option<u64>,
    lease_age_ms: Option<u64>,
    pub(super) behind_ms: u64,
    undelivered: u64,
    calls: u64,
    calls_under_way: u64,
    answers_waiting: u64,
    received_bytes: u64,
    sent_bytes: u64,
    open_for_writing: u64,
    inodes: u64,
}

/// A connection of a node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConnectionRow {
    role: String,
    pub(super) address: String,
    since: String,
}

/// The printed form of a session that ended.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndedRow {
    id: String,
    bucket: String,
    node: String,
    why: String,
    ended_at: String,
}

/// All fields of a session, for `show`.
#[derive(Serialize)]
#[serde(transparent)]
struct Whole(SessionRow);

impl From<admin::Session> for SessionRow {
    fn from(session: admin::Session) -> Self {
        let connection = |one: admin::SessionConnection| ConnectionRow {
            role: one.role,
            address: one.address,
            since: time_text(one.since_unix_ms),
        };
        Self {
            id: session.id,
            bucket: session.bucket,
            node: session.node,
            state: session.state,
            read_only: session.read_only,
            by_ticket: session.by_ticket,
            account: some(session.account),
            served_since: session.served_since_unix_ms.map(time_text),
            connections: session.connections.into_iter().map(connection).collect(),
            reconnects: session.reconnects,
            lease_left_ms: session.lease_left_ms,
            lease_age_ms: session.lease_age_ms,
            behind_ms: session.behind_ms,
            undelivered: session.undelivered,
            calls: session.calls,
            calls_under_way: session.calls_under_way,
            answers_waiting: session.answers_waiting,
            received_bytes: session.received_bytes,
            sent_bytes: session.sent_bytes,
            open_for_writing: session.open_for_writing,
            inodes: session.inodes,
        }
    }
}

impl SessionRow {
    /// What opened it.
    fn by(&self) -> String {
        let ticket = self.by_ticket.then(|| "ticket".to_owned());
        let account = self.account.as_ref().map(|account| format!("key of {account}"));
        ticket.into_iter().chain(account).collect::<Vec<_>>().join(" and ")
    }

    fn mode(&self) -> String {
        if self.read_only { "ro".to_owned() } else { "rw".to_owned() }
    }

    /// The address of its node, without ports.
    pub(super) fn addresses(&self) -> Vec<String> {
        let host = |one: &ConnectionRow| one.address.rsplit_once(':').map(|(host, _)| host.to_owned());
        let mut hosts: Vec<_> = self.connections.iter().filter_map(host).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

impl From<admin::EndedSession> for EndedRow {
    fn from(ended: admin::EndedSession) -> Self {
        let admin::EndedSession { id, bucket, node, why, ended_unix_ms } = ended;
        Self { id, bucket, node, why, ended_at: time_text(ended_unix_ms) }
    }
}

/// Milliseconds for people.
pub(super) fn seconds_text(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn lease_text(left_ms: Option<u64>) -> String {
    left_ms.map_or_else(String::new, |left| format!("{} left", seconds_text(left)))
}

impl Row for SessionRow {
    const HEADERS: &'static [&'static str] =
        &["ID", "BUCKET", "NODE", "ADDRESS", "MODE", "BY", "STATE", "LEASE", "BEHIND", "SINCE"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.clone(),
            self.bucket.clone(),
            self.node.clone(),
            self.addresses().join(", "),
            self.mode(),
            self.by(),
            self.state.clone(),
            lease_text(self.lease_left_ms),
            seconds_text(self.behind_ms),
            self.served_since.clone().unwrap_or_default(),
        ]
    }
}

impl Row for Whole {
    const HEADERS: &'static [&'static str] = &[
        "ID",
        "BUCKET",
        "NODE",
        "MODE",
        "BY",
        "STATE",
        "SERVED SINCE",
        "CONNECTIONS",
        "RECONNECTS",
        "LEASE",
        "LEASE RENEWED",
        "BEHIND",
        "UNDELIVERED CHANGES",
        "CALLS",
        "ANSWERS WAITING",
        "RECEIVED",
        "SENT",
        "OPEN FOR WRITING",
        "INODES",
    ];

    fn cells(&self) -> Vec<String> {
        let session = &self.0;
        let connections =
            session.connections.iter().map(|one| format!("{} from {} since {}", one.role, one.address, one.since));
        vec![
            session.id.clone(),
            session.bucket.clone(),
            session.node.clone(),
            session.mode(),
            session.by(),
            session.state.clone(),
            session.served_since.clone().unwrap_or_default(),
            listed(connections, session.connections.len() as u64),
            session.reconnects.to_string(),
            lease_text(session.lease_left_ms),
            session.lease_age_ms.map_or_else(String::new, |age| format!("{} ago", seconds_text(age))),
            seconds_text(session.behind_ms),
            session.undelivered.to_string(),
            format!("{} answered, {} under way", session.calls, session.calls_under_way),
            session.answers_waiting.to_string(),
            size_text(session.received_bytes),
            size_text(session.sent_bytes),
            session.open_for_writing.to_string(),
            session.inodes.to_string(),
        ]
    }
}

impl Row for EndedRow {
    const HEADERS: &'static [&'static str] = &["ID", "BUCKET", "NODE", "WHY", "ENDED"];

    fn cells(&self) -> Vec<String> {
        let Self { id, bucket, node, why, ended_at } = self;
        [id, bucket, node, why, ended_at].map(String::clone).into()
    }
}

/// All sessions.
pub(super) async fn all(client: &mut Client) -> Result<Vec<SessionRow>, Failure> {
    let all = answer(client.list_sessions(admin::ListSessionsRequest {}).await)?;
    Ok(all.sessions.into_iter().map(SessionRow::from).collect())
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::List { bucket, node, ended } => {
                let is_asked = |of: &str, by: &str| {
                    bucket.as_ref().is_none_or(|bucket| bucket == of) && node.as_ref().is_none_or(|node| node == by)
                };
                if ended {
                    let all = answer(client.list_sessions(admin::ListSessionsRequest {}).await)?;
                    let rows = all.ended.into_iter().filter(|row| is_asked(&row.bucket, &row.node)).map(EndedRow::from);
                    return printer.list(&rows.collect::<Vec<_>>());
                }
                let rows = all(client).await?.into_iter().filter(|row| is_asked(&row.bucket, &row.node));
                printer.list(&rows.collect::<Vec<_>>())
            }
            Self::Show { id } => match all(client).await?.into_iter().find(|session| session.id == id) {
                Some(session) => printer.one(&Whole(session)),
                None => Err(Failure::failed(format!(
                    "session \"{id}\" does not exist: `amphora session list` has all of them, and with --ended those that ended"
                ))),
            },
            Self::End { id } => {
                answer(client.end_session(admin::EndSessionRequest { id: id.clone() }).await)?;
                printer.done(&format!("session {id} is ended"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_port_and_is_told_once() {
        let connection = |address: &str| admin::SessionConnection { address: address.into(), ..Default::default() };
        let connections = vec![connection("10.0.0.1:5"), connection("[fd00::1]:7"), connection("10.0.0.1:6")];
        let row = SessionRow::from(admin::Session {
            connections,
            by_ticket: true,
            account: "a".into(),
            ..Default::default()
        });
        assert_eq!(row.addresses(), ["10.0.0.1", "[fd00::1]"]);
        assert_eq!(row.by(), "ticket and key of a");
        assert_eq!((row.cells().len(), Whole(row).cells().len()), (SessionRow::HEADERS.len(), Whole::HEADERS.len()));
    }
}
