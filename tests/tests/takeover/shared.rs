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

/// A store whose metadata and content are below two prefixes of one bucket of another S3 store.
pub struct InS3 {
    elsewhere: Elsewhere,
    /// The prefix of the log.
    pub metadata: String,
}

impl InS3 {
    /// The places of a store `name`, in an Amphora that the test may stop.
    ///
    /// # Errors
    /// If the environment names another S3 store; the text is the reason of a skip.
    pub fn new(name: &str) -> Result<Self, String> {
        let elsewhere = elsewhere(name);
        match elsewhere.server {
            Some(_) => Ok(Self { elsewhere, metadata: format!("s3://content/{name}-log") }),
            None => Err("it stops the other store".to_owned()),
        }
    }

    /// The Amphora that has the log and the content.
    pub fn server(&mut self) -> &mut Server {
        self.elsewhere.server.as_mut().expect("made by `new`")
    }

    /// The options of a server of this store.
    pub fn options(&self) -> Options {
        self.elsewhere.options.clone().env("AMPHORA_METADATA_URL", &self.metadata)
    }
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
