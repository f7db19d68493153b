//! The tables, and their versions.
//!
//! - A program makes the tables, and brings those of older programs up to date, in one transaction under a lock.
//! - It refuses tables of a newer version.
//!
//! A crash leaves the tables of the old version or of the new one.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::session::{failed, unavailable};
use crate::error::{Error, Result};

/// What each version adds to the one before it. Existing entries never change.
const VERSIONS: [&str; 1] = [
    // `body` is stored as it is: PostgreSQL would try to compress it. `fillfactor` leaves room for renewals of the lease
    // beside the row, so that they touch no index.
    "CREATE TABLE amphora.owner (
        shard bigint PRIMARY KEY,
        id bytea NOT NULL,
        epoch bigint NOT NULL,
        server text NOT NULL,
        renewed timestamptz,
        lease_ms bigint NOT NULL,
        first bigint NOT NULL,
        partition_entries bigint NOT NULL
    ) WITH (fillfactor = 10);
    CREATE TABLE amphora.log (
        shard bigint NOT NULL,
        number bigint NOT NULL,
        epoch bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (shard, number)
    ) PARTITION BY RANGE (shard, number);
    ALTER TABLE amphora.log ALTER COLUMN body SET STORAGE EXTERNAL;",
];

/// A table that programs of version 1 neither use nor miss, so it raises no version: they can be started again beside it.
const STANDBY: &str = "CREATE TABLE IF NOT EXISTS amphora.standby (
        shard bigint NOT NULL,
        server text NOT NULL,
        position bigint NOT NULL,
        behind bigint NOT NULL,
        seen timestamptz NOT NULL,
        PRIMARY KEY (shard, server)
    ) WITH (fillfactor = 10)";

/// The key of the lock under which tables and partitions are made.
pub(super) const LOCK: i64 = 0x0061_6d70_686f_7261;

/// Makes the tables, or brings them up to date.
///
/// # Errors
/// [`Error::Unusable`]: they are of a newer version.
pub(super) async fn migrate(client: &mut Client) -> Result<()> {
    if version(client).await? == Some(VERSIONS.len()) && has_standby(client).await? {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(unavailable)?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    transaction.query_typed(lock, &[(&LOCK, Type::INT8)]).await.map_err(unavailable)?;
    let first = "CREATE SCHEMA IF NOT EXISTS amphora;
        CREATE TABLE IF NOT EXISTS amphora.version (version integer NOT NULL);
        INSERT INTO amphora.version SELECT 0 WHERE NOT EXISTS (SELECT FROM amphora.version);";
    transaction.batch_execute(first).await.map_err(|error| failed("creating the schema \"amphora\"", &error))?;
    let now = transaction.query_one("SELECT version FROM amphora.version", &[]).await.map_err(unavailable)?;
    for (number, statements) in VERSIONS.iter().enumerate().skip(known(now.get(0))?) {
        let raised = format!("{statements} UPDATE amphora.version SET version = {}", number + 1);
        transaction.batch_execute(&raised).await.map_err(|error| failed("creating tables", &error))?;
    }
    transaction.batch_execute(STANDBY).await.map_err(|error| failed("creating tables", &error))?;
    transaction.commit().await.map_err(|error| failed("creating tables", &error))
}

/// Refuses a database without tables of this program's versions.
pub(super) async fn examine(client: &Client) -> Result<()> {
    if version(client).await?.is_some_and(|version| version > 0) && has_standby(client).await? {
        return Ok(());
    }
    let why =
        "this database has no store's log that a server of this version has opened: name the database of the store";
    Err(Error::Unusable { why: why.into() })
}

async fn has_standby(client: &Client) -> Result<bool> {
    let there = client.query_one("SELECT to_regclass('amphora.standby') IS NOT NULL", &[]).await;
    there.map(|row| row.get(0)).map_err(unavailable)
}

/// The version of the tables, if there are any.
async fn version(client: &Client) -> Result<Option<usize>> {
    let there =
        client.query_one("SELECT to_regclass('amphora.version') IS NOT NULL", &[]).await.map_err(unavailable)?;
    if !there.get::<_, bool>(0) {
        return Ok(None);
    }
    let found = client.query_opt("SELECT version FROM amphora.version", &[]).await;
    let found = found.map_err(|error| failed("reading the version of the tables", &error))?;
    found.map(|row| known(row.get(0))).transpose()
}

fn known(version: i32) -> Result<usize> {
    usize::try_from(version).ok().filter(|version| *version <= VERSIONS.len()).ok_or_else(|| Error::Unusable {
        why: format!(
            "the tables in PostgreSQL are of version {version}, this program knows versions up to {}: use the program \
             that made them, or a newer one",
            VERSIONS.len()
        ),
    })
}
