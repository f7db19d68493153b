//! Appending: a task for each connection, which carries several appends at a time.
//!
//! - An append is one statement, so it is one transaction: it locks the owner's row, finds its epoch there, and inserts
//!   all rows; or none.
//! - An append whose answer does not come in time, or whose connection ends, is indeterminate. The connection is closed;
//!   the next append makes a new one.
//! - An append for which PostgreSQL finds no partition inserted nothing. It is made once more with a new connection,
//!   because of [outdated lists of partitions](super::partitions).

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::session::{Session, failed, unavailable, within};
use super::{Inner, stored};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::log::Done;

/// `FOR SHARE` in a CTE of its own: PostgreSQL evaluates the condition again on the row that a takeover has changed.
const APPEND: &str = "WITH owner AS MATERIALIZED (
        SELECT shard FROM amphora.owner WHERE shard = $1 AND epoch = $2 FOR SHARE
    )
    INSERT INTO amphora.log (shard, number, epoch, body)
    SELECT owner.shard, $3 + entry.at - 1, $2, entry.body
    FROM owner, unnest($4) WITH ORDINALITY AS entry (body, at)";

type Request = (Batch, Done);

/// A connection that appends.
pub(super) struct Lane(UnboundedSender<Request>);

impl Lane {
    /// Starts its task. It connects with the first append.
    pub fn start(runtime: &Runtime, inner: &Arc<Inner>) -> Self {
        let (sender, receiver) = unbounded_channel();
        runtime.spawn(run(Arc::clone(inner), receiver));
        Self(sender)
    }

    /// Queues an append. The caller bounds how many there are.
    pub fn append(&self, batch: Batch, done: Done) {
        if let Err(refused) = self.0.send((batch, done)) {
            let (_, done) = refused.0;
            done(Err(Error::Unavailable { why: "the client of the log is closed".into() }));
        }
    }
}

async fn run(inner: Arc<Inner>, mut requests: UnboundedReceiver<Request>) {
    let mut session: Option<Arc<Session>> = None;
    let mut under_way = FuturesUnordered::new();
    loop {
        // Answers first: a new append is sent when it is first polled, before the next one is taken.
        let request = tokio::select! {
            biased;
            Some(()) = under_way.next() => continue,
            request = requests.recv() => request,
        };
        let Some((batch, done)) = request else { break };
        match inner.ready(session.take().filter(|session| session.is_open()), &batch).await {
            Ok(open) => {
                session = Some(Arc::clone(&open));
                let inner = Arc::clone(&inner);
                under_way.push(async move { done(inner.append(&open, &batch).await) });
            }
            Err(error) => done(Err(error)),
        }
    }
    while under_way.next().await.is_some() {}
}

impl Inner {
    /// A connection, and the partitions that the batch goes to.
    async fn ready(self: &Arc<Self>, open: Option<Arc<Session>>, batch: &Batch) -> Result<Arc<Session>> {
        self.partitions_for(batch.last()).await?;
        match open {
            Some(session) => Ok(session),
            None => Ok(Arc::new(self.appending().await?)),
        }
    }

    /// A new connection with the statement prepared.
    pub(super) async fn appending(&self) -> Result<Session> {
        let mut session = Session::open(&self.settings, &self.tls).await?;
        let types = [Type::INT8, Type::INT8, Type::INT8, Type::BYTEA_ARRAY];
        session.append = Some(session.client.prepare_typed(APPEND, &types).await.map_err(unavailable)?);
        Ok(session)
    }

    /// Appends, with a new connection if this one does not know the partition.
    pub(super) async fn append(&self, session: &Session, batch: &Batch) -> Result<()> {
        let Some(missing) = self.insert(session, batch).await? else { return Ok(()) };
        tracing::debug!(error = %missing, first = batch.first, "an append is made once more with a new connection");
        // Others may be under way on it.
        session.retire();
        let again = self.insert(&self.appending().await?, batch).await?;
        again.map_or(Ok(()), Err)
    }

    /// Inserts the entries. Returns the error by which PostgreSQL said that a number belongs to no partition.
    pub(super) async fn insert(&self, session: &Session, batch: &Batch) -> Result<Option<Error>> {
        let Some(statement) = &session.append else { return Err(Error::Unavailable { why: "not prepared".into() }) };
        let bodies: Vec<&[u8]> = batch.bodies.iter().map(Bytes::as_ref).collect();
        let (shard, epoch, first) = (self.shard(), stored(batch.epoch), stored(batch.first));
        let parameters: [&(dyn ToSql + Sync); 4] = [&shard, &epoch, &first, &bodies];
        let inserted = within(self.settings.answer_within, session.client.execute(statement, &parameters)).await;
        let indeterminate = |why: &str| Err(Error::Indeterminate { why: why.to_owned() });
        match inserted {
            None => {
                session.close();
                indeterminate("PostgreSQL did not answer an append in time")
            }
            Some(Err(error)) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                Err(Error::Taken { number: batch.first })
            }
            // No partition: it was dropped behind a trim, or never made.
            Some(Err(error)) if error.code() == Some(&SqlState::CHECK_VIOLATION) => {
                let trimmed = self.first(&session.client).await? > batch.first;
                if trimmed { Err(Error::Taken { number: batch.first }) } else { Ok(Some(failed("an append", &error))) }
            }
            Some(Err(error)) => Err(failed("an append", &error)),
            Some(Ok(_)) if session.is_warned() => indeterminate("PostgreSQL warned before it acknowledged an append"),
            Some(Ok(0)) => Err(Error::Fenced { epoch: batch.epoch }),
            Some(Ok(rows)) if rows == batch.bodies.len() as u64 => Ok(None),
            Some(Ok(_)) => indeterminate("PostgreSQL inserted another number of rows than it was given"),
        }
    }
}
