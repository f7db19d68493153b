//! One connection to PostgreSQL, with the checks that each new one passes: a failover may lead to another server.
//!
//! - A commit is acknowledged once a synchronous standby has it on disk, or else refused at the start.
//! - PostgreSQL acknowledges a commit also when its wait for the standby is cancelled, with a warning before the answer.
//!   After any warning nothing of this connection counts as acknowledged.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket, Statement};

use super::settings::{Copies, Settings};
use super::tls::Tls;
use crate::error::{Error, Result};

/// A checked connection. Dropping it closes it.
pub(super) struct Session {
    pub client: Client,
    /// The statement of [`append`](super::append).
    pub append: Option<Statement>,
    warned: Arc<AtomicBool>,
    retired: AtomicBool,
    since: Instant,
    task: JoinHandle<()>,
}

impl Session {
    /// Connects and checks the server.
    pub async fn open(settings: &Settings, tls: &Tls) -> Result<Self> {
        let opening = async {
            let (client, connection) = settings.config.connect(tls.clone()).await.map_err(unconnected)?;
            let warned = Arc::new(AtomicBool::new(false));
            let task = tokio::spawn(serve(connection, Arc::clone(&warned)));
            let (retired, since) = (AtomicBool::new(false), Instant::now());
            let session = Self { client, append: None, warned, retired, since, task };
            check(&session.client, settings.copies).await?;
            Ok(session)
        };
        within(settings.answer_within, opening).await.unwrap_or_else(|| {
            let limit = settings.answer_within.as_secs();
            Err(Error::Unavailable { why: format!("PostgreSQL did not answer a new connection within {limit} s") })
        })
    }

    /// Whether it can be used for another call.
    pub fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.is_warned() && !self.retired.load(Ordering::Acquire)
    }

    /// For how long it has been open.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Takes no further call. What is under way on it goes on.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Ends it: what is under way on it is lost.
    pub fn close(&self) {
        self.task.abort();
    }

    /// Whether PostgreSQL sent a warning.
    pub fn is_warned(&self) -> bool {
        self.warned.load(Ordering::Acquire)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries the messages of a connection, and notes warnings before the answers that follow them.
async fn serve<S>(mut connection: Connection<Socket, S>, warned: Arc<AtomicBool>)
where
    S: TlsStream + Unpin,
{
    poll_fn(|context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notice(notice))) => {
                    if notice.parsed_severity() == Some(Severity::Warning) {
                        warned.store(true, Ordering::Release);
                        tracing::warn!(warning = notice.message(), "PostgreSQL warned");
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
    })
    .await;
}

/// Refuses a server that could lose what it acknowledged.
async fn check(client: &Client, copies: Copies) -> Result<()> {
    let question = "SELECT current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery(), \
                    current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), \
                    current_setting('server_version_num')::int";
    let row = client.query_one(question, &[]).await.map_err(unavailable)?;
    let [fsync, pages]: [String; 2] = [row.get(0), row.get(1)];
    let (standby, names, commit, version): (bool, String, String, i32) =
        (row.get(2), row.get(3), row.get(4), row.get(5));
    if version < 130_000 {
        return Err(Error::Unusable { why: format!("PostgreSQL {version} is too old: version 13 or later is needed") });
    }
    if standby {
        return Err(Error::Unavailable { why: "this PostgreSQL is a standby, which takes no writes".into() });
    }
    if fsync != "on" || pages != "on" {
        let why = "PostgreSQL has fsync or full_page_writes switched off, and would lose acknowledged writes with its \
                   power: switch both on";
        return Err(Error::Unusable { why: why.into() });
    }
    if copies == Copies::Replicated && names.trim().is_empty() {
        let why = "this PostgreSQL has no synchronous standby (synchronous_standby_names is empty): acknowledged \
                   writes would be lost with its disk, or with a failover to an asynchronous standby. Configure one, \
                   or give --single-postgres where its disk is kept otherwise";
        return Err(Error::Unusable { why: why.into() });
    }
    // A cancelled wait for the standby would acknowledge what only the primary has; so nothing of ours cancels.
    let commit = if commit == "remote_apply" { "remote_apply" } else { "on" };
    let set = format!(
        "SET synchronous_commit = {commit}; SET statement_timeout = 0; SET client_min_messages = warning; \
         SET search_path = pg_catalog; SET default_transaction_isolation = 'read committed'; \
         SET idle_session_timeout = 0; SET idle_in_transaction_session_timeout = 0"
    );
    let set = if version < 140_000 { set.replace("SET idle_session_timeout = 0; ", "") } else { set };
    client.batch_execute(&set).await.map_err(unavailable)
}

/// The outcome of `future`, or `None` after `limit`.
pub(super) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}

/// The error for a statement that only reads, or that did not begin.
#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
pub(super) fn unavailable(error: tokio_postgres::Error) -> Error {
    Error::Unavailable { why: described(&error) }
}

/// The error for a connection that could not be made. A refused login does not pass by itself.
fn unconnected(error: tokio_postgres::Error) -> Error {
    let refused = match error.code() {
        Some(code) => code.code().starts_with("28") || *code == SqlState::INVALID_CATALOG_NAME,
        None => std::error::Error::source(&error).is_some_and(|source| source.to_string() == "password missing"),
    };
    if refused {
        let why = format!(
            "PostgreSQL refuses the connection: {}; correct the user, the database or the password (in the URL, in \
             PGPASSWORD, or in a password file)",
            described(&error)
        );
        return Error::Unusable { why };
    }
    unavailable(error)
}

/// The error for a change: indeterminate, unless PostgreSQL said that it did not make it.
pub(super) fn failed(what: &str, error: &tokio_postgres::Error) -> Error {
    let why = format!("{what}: {}", described(error));
    let Some(refused) = error.as_db_error().filter(|refused| refused.parsed_severity() == Some(Severity::Error)) else {
        return Error::Indeterminate { why };
    };
    if *refused.code() == SqlState::INSUFFICIENT_PRIVILEGE {
        let why = format!("{why}; grant the user the right, or create the schema for it");
        return Error::Unusable { why };
    }
    Error::Unavailable { why }
}

/// PostgreSQL's message. It has no values of ours, and its connection errors have no password.
pub(super) fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(refused) => format!("PostgreSQL: {} ({})", refused.message(), refused.code().code()),
        None => {
            std::error::Error::source(error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        }
    }
}
