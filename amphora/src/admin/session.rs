//! Session operations of the admin service: mounts on other machines, as the store has recorded them and as the volume
//! listener serves them.
//!
//! - The records decide which sessions there are. What the listener knows besides is empty where there is none.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use node_server::{EndedSession, SessionShown, State, Why};
use node_session::{Moment, SessionId};
use node_wire::header::Role;
use objstore::clock::{Clock as _, SystemClock};
use objstore::volume::RemoteAbout;
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::{Service, finished, refused};
use crate::volumes::Volumes;

/// The state of a session that no listener serves.
const UNLISTENED: &str = "unlistened";

/// Reads moments of the listener's clock as dates.
#[derive(Clone, Copy)]
struct Dates {
    now: Moment,
    now_unix_ms: i64,
}

impl Dates {
    fn of(volumes: &Volumes) -> Self {
        Self { now: volumes.now(), now_unix_ms: SystemClock.now().millis() }
    }

    fn date(self, moment: Moment) -> i64 {
        self.now_unix_ms.saturating_sub(i64::try_from(self.now.since(moment).as_millis()).unwrap_or(i64::MAX))
    }
}

pub(super) async fn list(service: &Service) -> Result<api::ListSessionsResponse, Status> {
    let volumes = service.volumes.as_ref().map(|(volumes, _)| volumes.clone());
    let recorded = service.blocking(|store| Ok(store.remote_sessions())).await?;
    let dates = volumes.as_ref().map(Dates::of);
    let mut served = by_id(volumes.as_ref());
    let shown = |about: RemoteAbout| {
        let served = served.remove(&about.id);
        session(about, served.zip(dates))
    };
    let mut sessions: Vec<_> = recorded.into_iter().map(shown).collect();
    sessions.sort_by(|one, other| (&one.bucket, &one.node, &one.id).cmp(&(&other.bucket, &other.node, &other.id)));
    let ended = volumes.map(|volumes| volumes.ended()).unwrap_or_default();
    let ended = ended.into_iter().zip(std::iter::repeat(dates)).filter_map(|(ended, dates)| Some((ended, dates?)));
    Ok(api::ListSessionsResponse { sessions, ended: ended.map(|(ended, dates)| over(ended, dates)).collect() })
}

/// Ends a session; what it has written and synced stays.
pub(super) async fn end(service: &Service, id: &str) -> Result<api::EndSessionResponse, Status> {
    let session = parse(id)?;
    let known = service.blocking(move |store| Ok(store.remote_session(session).is_some())).await?;
    if !known {
        let why = format!("session \"{id}\" does not exist: `amphora session list` has all of them");
        return Err(Status::not_found(why));
    }
    match &service.volumes {
        Some((volumes, _)) => {
            let failed = |error: std::io::Error| Status::internal(format!("the session is not ended: {error}"));
            volumes.end_session(session).await.map_err(failed)?;
        }
        None => {
            let store = service.store.clone();
            let ended = tokio::task::spawn_blocking(move || store.end_remote(session)).await;
            finished(ended)?.map_err(|error| refused(&error))?;
        }
    }
    Ok(api::EndSessionResponse {})
}

/// The sessions in numbers.
pub(super) fn summary(service: &Service) -> api::SessionsStatus {
    let recorded = service.store.remote_sessions();
    let nodes: BTreeSet<_> = recorded.iter().map(|session| &session.node).collect();
    let mut summary = api::SessionsStatus {
        sessions: recorded.len() as u64,
        nodes: nodes.len() as u64,
        ..api::SessionsStatus::default()
    };
    let Some((volumes, address)) = &service.volumes else { return summary };
    summary.volume_address.clone_from(address);
    let served = volumes.sessions();
    let count = |state| served.iter().filter(|session| session.state == state).count() as u64;
    (summary.unreached, summary.behind, summary.awaited) =
        (count(State::Unreached), count(State::Behind), count(State::Awaited));
    summary.behind_ms = served.iter().map(|session| millis(session.behind)).max().unwrap_or(0);
    let stats = volumes.stats();
    let ended = Why::ALL.into_iter().zip(stats.ended);
    summary.fenced = ended.filter(|(why, _)| *why != Why::Closed).map(|(_, count)| count).sum();
    summary.refused_openings = stats.openings_refused.by_reason().map(|(_, count)| count).sum();
    let refused = stats.connections_refused;
    summary.refused_connections = refused.by_reason().map(|(_, count)| count).sum::<u64>() + refused.broken;
    summary
}

fn by_id(volumes: Option<&Volumes>) -> HashMap<SessionId, SessionShown> {
    let served = volumes.map(Volumes::sessions).unwrap_or_default();
    served.into_iter().map(|session| (session.id, session)).collect()
}

/// A session in the protocol's form.
fn session(about: RemoteAbout, served: Option<(SessionShown, Dates)>) -> api::Session {
    let recorded = api::Session {
        id: id_text(about.id.0),
        bucket: about.bucket.to_string(),
        node: about.node,
        read_only: about.about.read_only,
        by_ticket: about.by_ticket,
        account: about.account.unwrap_or_default(),
        state: UNLISTENED.to_owned(),
        open_for_writing: about.open_for_writing,
        inodes: about.inodes,
        ..api::Session::default()
    };
    let Some((served, dates)) = served else { return recorded };
    let connection = |one: &node_server::ConnectionShown| api::SessionConnection {
        role: role(one.role).to_owned(),
        address: one.from.to_string(),
        since_unix_ms: dates.date(one.since),
    };
    api::Session {
        state: served.state.name().to_owned(),
        served_since_unix_ms: served.since.map(|since| dates.date(since)),
        connections: served.connections.iter().map(connection).collect(),
        reconnects: served.reconnects,
        lease_left_ms: Some(millis(served.lease_left)),
        lease_age_ms: Some(millis(served.lease_age)),
        behind_ms: millis(served.behind),
        undelivered: served.undelivered,
        calls: served.answered,
        calls_under_way: served.under_way,
        answers_waiting: served.waiting,
        received_bytes: served.received_bytes,
        sent_bytes: served.sent_bytes,
        ..recorded
    }
}

fn over(ended: EndedSession, dates: Dates) -> api::EndedSession {
    api::EndedSession {
        id: id_text(ended.id.0),
        bucket: ended.named.bucket,
        node: ended.named.node,
        why: ended.why.name().to_owned(),
        ended_unix_ms: dates.date(ended.at),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Control => "control",
        Role::Calls => "calls",
        Role::Bulk => "bulk",
    }
}

/// The id of a session as commands and logs show it.
pub(super) fn id_text(id: u128) -> String {
    format!("{id:032x}")
}

fn parse(text: &str) -> Result<SessionId, Status> {
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().filter(|_| is_id);
    let wrong = || Status::invalid_argument(format!("the session \"{text}\" is not valid: an id has 32 hex digits"));
    id.map(SessionId).ok_or_else(wrong)
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_as_it_is_shown_and_nothing_else_is_one() {
        for id in [0, 7, u128::MAX] {
            assert_eq!(parse(&id_text(id)).expect("an id"), SessionId(id));
        }
        for wrong in ["", "7", "+0000000000000000000000000000007", &"g".repeat(32), &"0".repeat(33)] {
            assert_eq!(parse(wrong).expect_err("no id").code(), tonic::Code::InvalidArgument, "{wrong}");
        }
    }
}
