//! The authority of the volume listener, for a store whose data folder is a cache: each server that owns the store shows
//! certificates of the same authority, so nodes go on after a takeover.
//!
//! - The record is written once and never replaced by another authority, since nodes trust the first one.
//! - The key is sealed under the master key, as the secrets of access keys are, and a rotation seals it again.
//!
//! A crash before the record is durable leaves none; no node has seen a certificate of that authority then.

use std::sync::Arc;

use prost::Message;

use super::types::Secret;
use super::{Access, Store};
use crate::clock::Random;
use crate::core::Core;
use crate::error::Result;
use crate::grant::{Bound, Sealer};
use crate::meta::{Durability, Read, Txn};
use crate::record::authority::VolumeAuthority as Record;
use crate::record::{decode, key};

/// What the seal is bound to. No account has this number, and no access key id has a space.
const BOUND: Bound<'static> = Bound { account: 0, key_id: "volume authority", version: 1 };

/// An authority: its certificate, which nodes trust, and its private key.
#[derive(Clone, Debug)]
pub struct VolumeAuthority {
    /// The certificate in PEM.
    pub certificate: String,
    /// The private key in PEM.
    pub key: Secret,
}

impl Store {
    /// The authority that the metadata keeps, if there is one.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`]: the record is damaged, or was sealed under another master key.
    pub fn volume_authority(&self) -> Result<Option<VolumeAuthority>> {
        let snapshot = self.core.meta.snapshot();
        let Some(record) = record(&*snapshot)? else { return Ok(None) };
        let key = open(self.access.master.sealer(), &record)?;
        Ok(Some(VolumeAuthority { certificate: record.certificate, key }))
    }

    /// Keeps an authority, durable when this returns. One that is kept already is not replaced: it is returned.
    ///
    /// # Errors
    /// Those of [`Store::volume_authority`].
    pub fn keep_volume_authority(&self, made: VolumeAuthority) -> Result<VolumeAuthority> {
        let (core, access) = (Arc::clone(&self.core), Arc::clone(&self.access));
        let kept = self.core.meta.write(Durability::Synced, move |txn| keep(txn, (&core, &access), &made));
        kept.wait()
    }
}

fn keep(txn: &mut dyn Txn, (core, access): (&Core, &Access), made: &VolumeAuthority) -> Result<VolumeAuthority> {
    let sealer = access.master.sealer();
    if let Some(record) = record(&*txn)? {
        let key = open(sealer, &record)?;
        return Ok(VolumeAuthority { certificate: record.certificate, key });
    }
    put(txn, (&*core.random, sealer), made.certificate.clone(), &made.key)?;
    Ok(made.clone())
}

/// Seals the key again under the newest master key; returns whether there is one.
pub(super) fn reseal(txn: &mut dyn Txn, random: &dyn Random, sealer: &Sealer) -> Result<bool> {
    let Some(record) = record(&*txn)? else { return Ok(false) };
    let key = open(sealer, &record)?;
    put(txn, (random, sealer), record.certificate, &key).map(|()| true)
}

/// Whether there is an authority; an error if its key cannot be opened.
pub(crate) fn check(read: &dyn Read, sealer: &Sealer) -> Result<bool> {
    let Some(record) = record(read)? else { return Ok(false) };
    open(sealer, &record).map(|_| true)
}

fn record(read: &dyn Read) -> Result<Option<Record>> {
    read.get(&key::volume_authority())?.map(|value| decode("the authority of the volume listener", &value)).transpose()
}

fn open(sealer: &Sealer, record: &Record) -> Result<Secret> {
    sealer.open_secret(&record.sealed_key, BOUND)
}

fn put(txn: &mut dyn Txn, (random, sealer): (&dyn Random, &Sealer), certificate: String, key: &Secret) -> Result<()> {
    let sealed_key = sealer.seal(random, key, BOUND)?;
    txn.put(key::volume_authority(), Record { certificate, sealed_key }.encode_to_vec());
    Ok(())
}
