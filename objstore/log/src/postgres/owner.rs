//! The owner's row: taking the log over, renewing and releasing it, and where the log begins and ends.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Row, Transaction};

use super::session::{failed, unavailable};
use super::settings::Settings;
use super::{Inner, number, stored};
use crate::batch::{MAX_BATCH_ENTRIES, MAX_UNDER_WAY};
use crate::error::{Error, Result};
use crate::owner::{Claim, Epoch, LogId, Tail, Tenure};

const CREATE: &str = "INSERT INTO amphora.owner (shard, id, epoch, server, renewed, lease_ms, first, partition_entries)
    VALUES ($1, decode(replace(gen_random_uuid()::text, '-', ''), 'hex'), 0, '', NULL, 0, 1, $2)
    ON CONFLICT DO NOTHING";

/// `clock_timestamp` and not `now`: the transaction may have waited for the row.
const FENCE: &str = "UPDATE amphora.owner
    SET epoch = epoch + 1, server = $2, renewed = clock_timestamp(), lease_ms = $3
    WHERE shard = $1 AND (renewed IS NULL OR server = $2
        OR renewed + lease_ms * interval '1 millisecond' <= clock_timestamp())
    RETURNING epoch";

const HOLDER: &str = "SELECT server, ceil(extract(epoch FROM
        renewed + lease_ms * interval '1 millisecond' - clock_timestamp()) * 1000)::bigint
    FROM amphora.owner WHERE shard = $1";

/// Makes the log of the shard if there is none.
pub(super) async fn create(client: &Client, settings: &Settings) -> Result<()> {
    let (shard, entries) = (i64::from(settings.shard), stored(settings.partition_entries.max(1)));
    let made = client.query_typed(CREATE, &[(&shard, Type::INT8), (&entries, Type::INT8)]).await;
    made.map(drop).map_err(|error| failed("creating the log", &error))
}

impl Inner {
    pub(super) async fn fence(self: &Arc<Self>, claim: &Claim) -> Result<Tenure> {
        // It reads the list of partitions after the owner's row is changed, when no append can use a newer one.
        let mut lent = self.lend_new().await?;
        let taken = self.take_over(&mut lent.session.client, claim).await;
        let (tenure, entries) = lent.give_back(taken)?;
        self.partitions.begin(entries, tenure.tail.next);
        self.partitions_for(tenure.tail.next).await?;
        Ok(tenure)
    }

    async fn take_over(&self, client: &mut Client, claim: &Claim) -> Result<(Tenure, u64)> {
        let transaction = client.transaction().await.map_err(unavailable)?;
        let taken = self.take(&transaction, claim).await?;
        transaction.commit().await.map_err(|error| failed("a takeover", &error))?;
        Ok(taken)
    }

    async fn take(&self, transaction: &Transaction<'_>, claim: &Claim) -> Result<(Tenure, u64)> {
        let (shard, lease) = (self.shard(), i64::try_from(claim.lease.as_millis()).unwrap_or(i64::MAX));
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&shard, Type::INT8), (&claim.server, Type::TEXT), (&lease, Type::INT8)];
        let taken = transaction.query_typed(FENCE, &parameters).await.map_err(|error| failed("a takeover", &error))?;
        let Some(row) = taken.first() else {
            let holder = transaction.query_typed(HOLDER, &[(&shard, Type::INT8)]).await.map_err(unavailable)?;
            let holder = holder.first().ok_or_else(missing)?;
            let remaining = Duration::from_millis(number(holder.get::<_, Option<i64>>(1).unwrap_or(0)));
            return Err(Error::Held { server: holder.get(0), remaining });
        };
        let epoch = number(row.get(0));
        let (tail, entries) = tail(transaction, shard).await?;
        // Appends of earlier epochs have ended or will insert nothing, so this is all that lies behind a gap.
        let removed = "DELETE FROM amphora.log WHERE shard = $1 AND number >= $2";
        let next = stored(tail.next);
        let removed = transaction.query_typed(removed, &[(&shard, Type::INT8), (&next, Type::INT8)]).await;
        removed.map_err(|error| failed("a takeover", &error))?;
        Ok((Tenure { epoch, tail }, entries))
    }

    pub(super) async fn renew(&self, epoch: Epoch) -> Result<()> {
        let set = "UPDATE amphora.owner SET renewed = clock_timestamp() WHERE shard = $1 AND epoch = $2 RETURNING 1";
        self.change(set, epoch).await
    }

    pub(super) async fn release(&self, epoch: Epoch) -> Result<()> {
        self.change("UPDATE amphora.owner SET renewed = NULL WHERE shard = $1 AND epoch = $2 RETURNING 1", epoch).await
    }

    async fn change(&self, statement: &str, epoch: Epoch) -> Result<()> {
        let lent = self.lend_from(&self.lease).await?;
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&self.shard(), Type::INT8), (&stored(epoch), Type::INT8)];
        let changed = lent.session.client.query_typed(statement, &parameters).await;
        lent.give_back(match changed {
            Ok(rows) if rows.is_empty() => Err(Error::Fenced { epoch }),
            Ok(_) => Ok(()),
            Err(error) => Err(failed("a change of the lease", &error)),
        })
    }

    pub(super) async fn tail(&self) -> Result<Tail> {
        let lent = self.lend().await?;
        let found = tail(&lent.session.client, self.shard()).await;
        lent.give_back(found).map(|(tail, _)| tail)
    }
}

fn missing() -> Error {
    Error::Unusable { why: "the log's row has been removed from the table amphora.owner: restore it".into() }
}

/// Where the log begins and ends, and how many entries a partition has. One statement, so one moment: no partition is
/// trimmed and no entry added between its parts.
pub(super) async fn tail(client: &impl GenericClient, shard: i64) -> Result<(Tail, u64)> {
    let window = stored((MAX_UNDER_WAY * MAX_BATCH_ENTRIES) as u64);
    let question = "WITH owner AS (SELECT id, first, partition_entries FROM amphora.owner WHERE shard = $1),
        last AS (SELECT max(number) AS number FROM amphora.log WHERE shard = $1)
        SELECT id, first, partition_entries, ARRAY(
            SELECT number FROM amphora.log WHERE shard = $1
                AND number > (SELECT number FROM last) - $2 AND number >= owner.first ORDER BY number)
        FROM owner";
    let rows = client.query_typed(question, &[(&shard, Type::INT8), (&window, Type::INT8)]).await;
    let rows = rows.map_err(unavailable)?;
    tail_of(rows.first().ok_or_else(missing)?)
}

fn tail_of(row: &Row) -> Result<(Tail, u64)> {
    let id: Vec<u8> = row.get(0);
    let id = id.try_into().map_err(|_| Error::Unusable { why: "the log's id in amphora.owner is damaged".into() })?;
    let (first, entries) = (number(row.get(1)), number(row.get(2)));
    let numbers: Vec<i64> = row.get(3);
    let numbers = numbers.into_iter().map(number);
    Ok((Tail { id: LogId(id), first, next: next(first, numbers) }, entries))
}

/// The number after the last before the first gap, by the `numbers` of the last window. Where they do not begin with
/// the log's first, the window is full of numbers, and no gap lies before it.
fn next(first: u64, mut numbers: impl Iterator<Item = u64>) -> u64 {
    let Some(begin) = numbers.next() else { return first };
    let window = (MAX_UNDER_WAY * MAX_BATCH_ENTRIES) as u64;
    let numbers: Vec<_> = numbers.collect();
    let last = numbers.last().copied().unwrap_or(begin);
    let expected = first.max((last + 1).saturating_sub(window));
    if begin > expected {
        return expected;
    }
    let follow = numbers.into_iter().zip(begin + 1..).take_while(|(number, expected)| number == expected);
    begin + 1 + follow.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gap_ends_the_log() {
        let window = (MAX_UNDER_WAY * MAX_BATCH_ENTRIES) as u64;
        let long = |end: u64| (end - window..end).collect::<Vec<_>>();
        let mut behind = long(10_000);
        behind.remove(0);
        let cases: [(u64, Vec<u64>, u64); 9] = [
            (1, vec![], 1),
            (5, vec![], 5),
            (1, vec![1, 2, 3], 4),
            (1, vec![2, 3], 1),
            (1, vec![1, 3, 4], 2),
            (7, vec![7, 8, 10], 9),
            (1, long(10_000), 10_000),
            (1, behind, 10_000 - window),
            (9_990, (9_990..10_000).collect(), 10_000),
        ];
        for (first, numbers, expected) in cases {
            assert_eq!(next(first, numbers.clone().into_iter()), expected, "{first}, {numbers:?}");
        }
    }
}
