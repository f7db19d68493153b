//! The owner and the followers, as the tables say.
//!
//! - An announcement waits for no disk: after a crash of PostgreSQL it is made again within a second or two.
//! - Rows of servers that are gone are removed after a day.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::session::{failed, unavailable};
use super::{Inner, number, stored};
use crate::error::{Error, Result};
use crate::standing::{Follower, Standing};

/// `set_config` holds for this transaction alone. The numbers behind a gap count as entries: it is a hint.
const ANNOUNCE: &str = "WITH fast AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
    old AS (DELETE FROM amphora.standby WHERE shard = $1 AND seen < clock_timestamp() - interval '1 day')
    INSERT INTO amphora.standby (shard, server, position, behind, seen)
    SELECT $1, $2, $3, greatest(0, coalesce((SELECT max(number) FROM amphora.log WHERE shard = $1), 0) - $3),
        clock_timestamp() FROM fast
    ON CONFLICT (shard, server) DO UPDATE
        SET position = excluded.position, behind = excluded.behind, seen = excluded.seen";

const STANDING: &str = "SELECT owner.epoch, owner.server, standby.server, standby.position, standby.behind,
        greatest(0, extract(epoch FROM clock_timestamp() - standby.seen) * 1000)::bigint,
        greatest(0, extract(epoch FROM
            owner.renewed + owner.lease_ms * interval '1 millisecond' - clock_timestamp()) * 1000)::bigint
    FROM amphora.owner AS owner LEFT JOIN amphora.standby AS standby
        ON standby.shard = owner.shard AND standby.server <> owner.server
        AND standby.seen >= clock_timestamp() - $2 * interval '1 millisecond'
    WHERE owner.shard = $1 ORDER BY standby.behind, standby.server LIMIT 64";

impl Inner {
    pub(super) async fn announce(&self, server: &str, at: u64) -> Result<()> {
        let lent = self.lend().await?;
        let (shard, at) = (self.shard(), stored(at));
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&shard, Type::INT8), (&server, Type::TEXT), (&at, Type::INT8)];
        let announced = lent.session.client.query_typed(ANNOUNCE, &parameters).await;
        lent.give_back(announced.map(drop).map_err(|error| failed("an announcement", &error)))
    }

    pub(super) async fn standing(&self, within: Duration) -> Result<Standing> {
        let lent = self.lend().await?;
        let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&self.shard(), Type::INT8), (&within, Type::INT8)];
        let rows = lent.session.client.query_typed(STANDING, &parameters).await.map_err(unavailable);
        lent.give_back(rows.and_then(|rows| standing(&rows)))
    }
}

fn standing(rows: &[Row]) -> Result<Standing> {
    let missing = || Error::Unusable { why: "the log's row has been removed from the table amphora.owner".into() };
    let owner = rows.first().ok_or_else(missing)?;
    let follower = |row: &Row| {
        let server: Option<String> = row.get(2);
        let [at, behind, seen]: [Option<i64>; 3] = [row.get(3), row.get(4), row.get(5)];
        let value = |column: Option<i64>| number(column.unwrap_or(0));
        let seen = Duration::from_millis(value(seen));
        server.map(|server| Follower { server, at: value(at), behind: value(behind), seen })
    };
    let followers = rows.iter().filter_map(follower).collect();
    let lease = Duration::from_millis(number(owner.get::<_, Option<i64>>(6).unwrap_or(0)));
    Ok(Standing { epoch: number(owner.get(0)), server: owner.get(1), lease, followers })
}
