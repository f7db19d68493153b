//! Rotation of the master key in an open store: every secret is sealed again, some in each transaction.
//!
//! - A key that is created meanwhile is sealed under the new master key at once.
//!
//! A crash leaves secrets under both master keys, which both exist; the next opening seals the rest again.

use std::sync::Arc;

use prost::Message;

use super::key::{held, reveal};
use super::{Access, Store, volume_authority};
use crate::clock::Random;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::grant::Bound;
use crate::meta::{Durability, Txn};
use crate::record::account::Key;
use crate::record::key::{self, tag};

/// Secrets sealed again per transaction, for which other transactions wait.
const CHUNK: usize = 256;

impl Store {
    /// Replaces the master key while the store is in use; returns the number of secrets sealed again. A failed or
    /// interrupted rotation continues where it stopped.
    ///
    /// # Errors
    /// [`crate::Error::Busy`] while another rotation runs.
    pub async fn rotate_master_key(&self) -> Result<u64> {
        self.blocking(|store| rotate(&store.core, &store.access)).await
    }
}

/// Completes a rotation that a crash interrupted.
pub(crate) fn resume(core: &Core, access: &Arc<Access>) -> Result<()> {
    if access.master.is_rotating() {
        let secrets = rotate(core, access).map_err(|error| unended(access, error))?;
        tracing::info!(secrets, "completed an interrupted rotation of the master key");
    }
    Ok(())
}

/// The error for a rotation that cannot be completed: one of the key files, or a record, has changed; the two cannot be
/// told apart.
fn unended(access: &Access, error: Error) -> Error {
    if !matches!(error, Error::Corrupt { .. }) {
        return error;
    }
    let (key, next) = access.master.files();
    let (key, next) = (key.display(), next.display());
    let why = format!(
        "cannot complete the rotation of the master key: {error}; if {key} or {next} was changed, restore both files"
    );
    Error::Unusable { why }
}

fn rotate(core: &Core, access: &Arc<Access>) -> Result<u64> {
    access.master.rotate(&*core.random, || {
        let (mut from, mut count) = (vec![tag::KEY], 0);
        loop {
            let (random, access) = (core.random.clone(), access.clone());
            let resealed = core.meta.write(Durability::Synced, move |txn| reseal(txn, &*random, &access, &from));
            let (sealed, next) = resealed.wait()?;
            count += sealed;
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        let (random, shared) = (core.random.clone(), access.clone());
        let resealed = core
            .meta
            .write(Durability::Synced, move |txn| volume_authority::reseal(txn, &*random, shared.master.sealer()));
        Ok(count + u64::from(resealed.wait()?))
    })
}

/// Seals the secrets of some keys again; returns how many, and where the rest begins.
fn reseal(txn: &mut dyn Txn, random: &dyn Random, access: &Access, from: &[u8]) -> Result<(u64, Option<Vec<u8>>)> {
    let pairs = txn.scan(from, &key::after_prefix(&[tag::KEY]), CHUNK)?;
    for pair in &pairs {
        let held = held(pair)?;
        let secret = reveal(access, &held)?;
        let bound = Bound { account: held.record.account, key_id: &held.id, version: held.record.version };
        let sealed = access.master.sealer().seal(random, &secret, bound)?;
        txn.put(pair.key.to_vec(), Key { sealed, ..held.record }.encode_to_vec());
    }
    let last = pairs.last().filter(|_| pairs.len() == CHUNK);
    Ok((pairs.len() as u64, last.map(|pair| [&pair.key[..], &[0]].concat())))
}
