//! The root key: in the store, and in a file that the owner of the data folder can read.

use std::path::PathBuf;

use objstore::Store;

use super::blocking;
use crate::config::Settings;
use crate::credentials::Credentials;
use crate::failure::{Failure, with_causes};

/// The location of the root key.
pub(super) struct Root {
    /// Name of its account.
    pub(super) account: String,
    /// The file with the key.
    pub(super) credentials: PathBuf,
    /// Whether that file was missing before, which means a first start.
    pub(super) is_new: bool,
}

/// Writes the root key of the store to `DATA_DIR/root-credentials`, unless the file contains it already.
pub(super) async fn key(settings: &Settings, store: &Store) -> Result<Root, Failure> {
    let reader = store.clone();
    let key = blocking("reading the root key", move || reader.root_key()).await?;
    let key = key.map_err(|error| {
        let own = || settings.data_dir.join("master.key");
        let (why, file) = (with_causes(&error), settings.master_key.clone().unwrap_or_else(own));
        Failure::failed(format!(
            "reading the root key: {why}; if {} was changed, restore the one of this store",
            file.display()
        ))
    })?;
    let account = key.account;
    let stored = Credentials { access_key_id: key.id, secret: key.secret };
    if settings.root_key.as_ref().is_some_and(|asked| *asked != stored) {
        tracing::warn!(
            key = %stored,
            "AMPHORA_ROOT_ACCESS_KEY_ID and AMPHORA_ROOT_SECRET_ACCESS_KEY are used only at the first start; \
            this store keeps its root key, which is another one"
        );
    }
    let credentials = settings.data_dir.join("root-credentials");
    let is_new = !credentials.exists();
    stored.write(&credentials).map_err(Failure::failed)?;
    Ok(Root { account, credentials, is_new })
}
