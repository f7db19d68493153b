//! What the servers of one store share: PostgreSQL, and the bucket of content of another S3 store.

use tempfile::TempDir;
use tests::server::Options;

use crate::support::elsewhere::{Elsewhere, elsewhere};
use crate::support::postgres::Postgres;

/// The shared parts of a store.
pub struct Shared {
    pub postgres: Postgres,
    elsewhere: Elsewhere,
    _data: TempDir,
}

impl Shared {
    /// Starts a PostgreSQL.
    ///
    /// # Errors
    /// If it is not installed; the text is the reason of a skip.
    pub fn new() -> Result<Self, String> {
        let (postgres, data) = Postgres::of_metadata()?;
        Ok(Self { postgres, elsewhere: elsewhere("takeover"), _data: data })
    }

    /// The options of a server of this store.
    pub fn options(&self) -> Options {
        self.options_with(&self.postgres.url()).args(["--single-postgres"])
    }

    /// The options of a server with another URL of the metadata.
    pub fn options_with(&self, url: &str) -> Options {
        self.elsewhere.options.clone().env("AMPHORA_METADATA_URL", url)
    }
}
