//! Partitions: made ahead of the appends, dropped behind the trim.
//!
//! - A partition `amphora.log_SHARD_INDEX` has the numbers from INDEX times the log's partition size. It is made as a
//!   table of its own and then attached, which keeps no append waiting.
//! - A connection that reads the list of partitions for the first time, while another attaches one, can keep the list
//!   without it until the next one is attached (seen with PostgreSQL 15). Such a connection refuses appends to the
//!   partition, and does not find its entries. So an append that finds no partition is repeated with a new connection, a
//!   takeover always has a new one, and one that reads is replaced after [`READ_FOR`](super::READ_FOR).
//!
//! A crash leaves a partition that was made or not, and dropped or not; the next owner makes, and the next trim drops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::schema::LOCK;
use super::session::{failed, unavailable};
use super::{Inner, stored};
use crate::error::{Error, Result};
use crate::owner::Epoch;

/// Which numbers have partitions.
#[derive(Default)]
pub(super) struct Partitions {
    /// The numbers in one partition; 0 before the first takeover.
    entries: AtomicU64,
    /// All numbers below this, from the log's end on, have one.
    below: AtomicU64,
    making: AtomicBool,
}

impl Partitions {
    /// Begins with a log whose next entry is `next`.
    pub fn begin(&self, entries: u64, next: u64) {
        self.entries.store(entries.max(1), Ordering::Release);
        self.below.store(next, Ordering::Release);
    }
}

impl Inner {
    /// Ensures that there are partitions up to the entry `last`; makes the next one in the background when half of the
    /// present one is used.
    pub(super) async fn partitions_for(self: &Arc<Self>, last: u64) -> Result<()> {
        let entries = self.partitions.entries.load(Ordering::Acquire);
        // An append without a takeover is refused by its epoch, with partitions or without.
        let below = self.partitions.below.load(Ordering::Acquire);
        if entries == 0 || last + entries / 2 < below {
            return Ok(());
        }
        if last >= below {
            return self.make_partitions(last).await;
        }
        if !self.partitions.making.swap(true, Ordering::AcqRel) {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = inner.make_partitions(below).await {
                    tracing::warn!(%error, "cannot make the next partition of the log yet");
                }
                inner.partitions.making.store(false, Ordering::Release);
            });
        }
        Ok(())
    }

    pub(super) async fn make_partitions(&self, last: u64) -> Result<()> {
        let mut lent = self.lend().await?;
        let entries = self.partitions.entries.load(Ordering::Acquire);
        let mut outcome = Ok(());
        while outcome.is_ok() && self.partitions.below.load(Ordering::Acquire) <= last {
            let index = self.partitions.below.load(Ordering::Acquire) / entries;
            outcome = make(&mut lent.session.client, (self.settings.shard, index), entries).await;
            if outcome.is_ok() {
                self.partitions.below.fetch_max((index + 1) * entries, Ordering::AcqRel);
            }
        }
        lent.give_back(outcome)
    }

    pub(super) async fn trim(&self, epoch: Epoch, below: u64) -> Result<()> {
        let lent = self.lend().await?;
        let trimmed = self.trim_by(&lent.session.client, epoch, below).await;
        lent.give_back(trimmed)
    }

    async fn trim_by(&self, client: &Client, epoch: Epoch, below: u64) -> Result<()> {
        let (shard, mine, stored) = (self.shard(), stored(epoch), stored(below));
        let (tail, entries) = super::owner::tail(client, shard).await?;
        if below >= tail.next {
            self.owned(client, epoch).await?;
            let why = format!("the log cannot be trimmed to {below}: it has no such entry");
            return Err(Error::Invalid { why });
        }
        let statement =
            "UPDATE amphora.owner SET first = greatest(first, $3) WHERE shard = $1 AND epoch = $2 RETURNING first";
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&shard, Type::INT8), (&mine, Type::INT8), (&stored, Type::INT8)];
        let trimmed = client.query_typed(statement, &parameters).await;
        let trimmed = trimmed.map_err(|error| failed("a trim", &error))?;
        let Some(row) = trimmed.first() else { return Err(Error::Fenced { epoch }) };
        drop_below(client, self.settings.shard, super::number(row.get(0)) / entries.max(1)).await
    }

    async fn owned(&self, client: &Client, epoch: Epoch) -> Result<()> {
        let question = "SELECT FROM amphora.owner WHERE shard = $1 AND epoch = $2";
        let owned = client.query_typed(question, &[(&self.shard(), Type::INT8), (&stored(epoch), Type::INT8)]).await;
        if owned.map_err(unavailable)?.is_empty() { Err(Error::Fenced { epoch }) } else { Ok(()) }
    }
}

/// Makes one partition, unless there is one.
async fn make(client: &mut Client, (shard, index): (u32, u64), entries: u64) -> Result<()> {
    let making = |error: tokio_postgres::Error| failed("making a partition", &error);
    let name = format!("log_{shard}_{index}");
    let transaction = client.transaction().await.map_err(unavailable)?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    transaction.query_typed(lock, &[(&LOCK, Type::INT8)]).await.map_err(unavailable)?;
    let there = format!("SELECT to_regclass('amphora.{name}') IS NULL");
    if transaction.query_one(&there, &[]).await.map_err(unavailable)?.get(0) {
        let (from, to) = (index * entries, (index + 1) * entries);
        let statements = format!(
            "CREATE TABLE amphora.{name} (LIKE amphora.log INCLUDING ALL);
             ALTER TABLE amphora.log ATTACH PARTITION amphora.{name} FOR VALUES FROM ({shard}, {from}) TO ({shard}, {to})"
        );
        transaction.batch_execute(&statements).await.map_err(making)?;
    }
    transaction.commit().await.map_err(making)
}

/// Drops the partitions before `index`. Readers and appends wait meanwhile, so it gives up where it would have to wait
/// itself: the next trim drops them.
async fn drop_below(client: &Client, shard: u32, index: u64) -> Result<()> {
    let question = "SELECT relname::text FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'amphora.log'::regclass AND relname LIKE 'log\\_%'";
    for row in client.query(question, &[]).await.map_err(unavailable)? {
        let name: String = row.get(0);
        let found = name.strip_prefix(&format!("log_{shard}_")).and_then(|index| index.parse::<u64>().ok());
        if found.is_none_or(|found| found >= index) {
            continue;
        }
        let dropping = format!("BEGIN; SET LOCAL lock_timeout = '2s'; DROP TABLE amphora.{name}; COMMIT");
        if let Err(error) = client.batch_execute(&dropping).await {
            tracing::warn!(name, error = super::session::described(&error), "a partition is dropped later");
            return client.batch_execute("ROLLBACK").await.map_err(unavailable);
        }
    }
    Ok(())
}
