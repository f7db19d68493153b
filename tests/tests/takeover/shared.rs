//! What the servers of one store share: PostgreSQL, and the bucket of content of another S3 store.

use tempfile::TempDir;
use tests::server::{Options, Server};

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

    /// The shared parts, with the content in an Amphora that the test may change.
    ///
    /// # Errors
    /// Those of [`Shared::new`], and if the environment names another S3 store.
    pub fn of_our_own() -> Result<Self, String> {
        let shared = Self::new()?;
        match shared.elsewhere.server {
            Some(_) => Ok(shared),
            None => Err("it changes the objects of the other store".to_owned()),
        }
    }

    /// The Amphora that has the content, below `s3://content/takeover`.
    pub fn content(&self) -> &Server {
        self.elsewhere.server.as_ref().expect("made by `of_our_own`")
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
