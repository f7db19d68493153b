//! What the servers of one store share: PostgreSQL, the folder of content, and the master key.

use tempfile::TempDir;
use tests::server::Options;

use crate::support::postgres::Postgres;

/// The shared parts of a store.
pub struct Shared {
    pub postgres: Postgres,
    folder: TempDir,
    _data: TempDir,
}

impl Shared {
    /// Starts a PostgreSQL.
    ///
    /// # Errors
    /// If it is not installed; the text is the reason of a skip.
    pub fn new() -> Result<Self, String> {
        let (postgres, data) = Postgres::of_metadata()?;
        let folder = tempfile::tempdir().expect("a folder");
        Ok(Self { postgres, folder, _data: data })
    }

    /// The options of a server of this store.
    pub fn options(&self) -> Options {
        self.options_with(&self.postgres.url()).args(["--single-postgres"])
    }

    /// The options of a server with another URL of the metadata.
    pub fn options_with(&self, url: &str) -> Options {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let (content, key) = (at("content"), at("master.key"));
        let options = Options::default().env("AMPHORA_METADATA_URL", url);
        options.args(["--content-folder", &content, "--master-key-file", &key])
    }
}
