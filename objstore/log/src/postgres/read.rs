//! Reading entries, bounded by their number and bytes.

use bytes::Bytes;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::session::unavailable;
use super::{Inner, number, stored};
use crate::batch::{Entry, Limit};
use crate::error::{Error, Result};

/// The sizes are known without reading the bodies.
const READ: &str = "SELECT number, epoch, body FROM (
        SELECT number, epoch, body, sum(octet_length(body)) OVER (ORDER BY number) AS bytes
        FROM amphora.log WHERE shard = $1 AND number >= $2 AND number < $2 + $3
    ) AS entry WHERE bytes <= $4 OR number = $2 ORDER BY number";

impl Inner {
    pub(super) async fn read_from(&self, from: u64, limit: Limit) -> Result<Vec<Entry>> {
        let lent = self.lend().await?;
        let read = self.read(&lent.session.client, from, limit).await;
        lent.give_back(read)
    }

    async fn read(&self, client: &Client, from: u64, limit: Limit) -> Result<Vec<Entry>> {
        let (shard, first) = (self.shard(), stored(from));
        let [entries, bytes] = [limit.entries, limit.bytes].map(|limit| stored(limit as u64).min(1 << 40));
        let parameters: [(&(dyn ToSql + Sync), Type); 4] =
            [(&shard, Type::INT8), (&first, Type::INT8), (&entries, Type::INT8), (&bytes, Type::INT8)];
        let rows = client.query_typed(READ, &parameters).await.map_err(unavailable)?;
        // Asked afterwards: a trim may have removed entries meanwhile.
        let begin = self.first(client).await?;
        if from < begin {
            return Err(Error::Trimmed { first: begin });
        }
        let entries = rows.iter().map(entry).zip(from..);
        Ok(entries.take_while(|(entry, expected)| entry.number == *expected).map(|(entry, _)| entry).collect())
    }

    /// The number of the first entry that has not been trimmed.
    pub(super) async fn first(&self, client: &Client) -> Result<u64> {
        let question = "SELECT first FROM amphora.owner WHERE shard = $1";
        let rows = client.query_typed(question, &[(&self.shard(), Type::INT8)]).await.map_err(unavailable)?;
        Ok(rows.first().map_or(1, |row| number(row.get(0))))
    }
}

fn entry(row: &Row) -> Entry {
    let body: Vec<u8> = row.get(2);
    Entry { number: number(row.get(0)), epoch: number(row.get(1)), body: Bytes::from(body) }
}
