//! Filling a hidden branch during a restore: first blobs, then the records that refer to them.
//!
//! - The transaction that creates a blob's record also adds an extent of a reserved inode that refers to it. So the
//!   blob is found by its old id, and an interrupted restore is collected with the branch.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::folder::Folder;
use super::format::{BlobEntry, Entry};
use super::records::{Accounts, mapped};
use crate::blob::BlobId;
use crate::branch::Ancestry;
use crate::content::{PACKED_MAX, StageWriter, Staged, add_in_place, pack_all, release, retain, take_staged};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::meta::{Durability, Read, Txn};
use crate::record::bucket::Usage;
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode};
use crate::record::key::{self, tag};
use crate::tree::counts_bytes;
use crate::volume::ROOT_INO;

/// The inode whose extents refer to the blobs by their old ids.
const MAP_INO: u64 = u64::MAX;
/// Number of those extents removed in one transaction.
const STEP: usize = 512;

/// The content stored for an old id.
enum Made {
    Staged(Staged),
    Home(BlobId),
    Damaged(String),
}

/// A branch being filled.
pub(super) struct Fill<'a> {
    pub core: &'a Core,
    pub store: &'a crate::store::Store,
    pub folder: &'a Folder,
    pub ancestry: Ancestry,
    accounts: Arc<Accounts>,
    /// The chunk read last, since many small blobs share one.
    chunk: (Vec<u8>, Bytes),
}

impl<'a> Fill<'a> {
    pub(super) fn new(
        store: &'a crate::store::Store,
        folder: &'a Folder,
        ancestry: Ancestry,
        accounts: Accounts,
    ) -> Self {
        Self { core: &store.core, store, folder, ancestry, accounts: Arc::new(accounts), chunk: Default::default() }
    }

    /// Creates blobs, all in one transaction.
    pub(super) fn blobs(&mut self, entries: Vec<BlobEntry>) -> Result<()> {
        let (mut made, mut small, mut small_ids) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            if let Some(why) = entry.damaged {
                made.push((entry.id, Made::Damaged(why)));
            } else if !entry.summed {
                made.push((entry.id, Made::Home(self.in_place(&entry)?)));
            } else if entry.length <= PACKED_MAX as u64 {
                let mut bytes = Vec::new();
                self.each_piece(&entry, |_, piece| {
                    bytes.extend_from_slice(&piece);
                    Ok(())
                })?;
                small.push(bytes.into());
                small_ids.push(entry.id);
            } else {
                let mut writer: StageWriter = self.store.stage_writer();
                self.each_piece(&entry, |_, piece| writer.write(&piece))?;
                made.push((entry.id, Made::Staged(writer.finish()?)));
            }
        }
        made.extend(small_ids.into_iter().zip(pack_all(self.core, small)?.into_iter().map(Made::Staged)));
        let (ancestry, blobs, now) = (self.ancestry.clone(), self.core.blobs.clone(), self.core.clock.now());
        let done = self.core.meta.write(Durability::Buffered, move |txn| {
            for (old, made) in made {
                let new = match made {
                    Made::Staged(staged) => staged_id(take_staged(txn, staged)?.as_ref())?,
                    Made::Home(id) => {
                        add_in_place(txn, &blobs, id)?;
                        id.0
                    }
                    Made::Damaged(why) => {
                        let id = blobs.next_id().0;
                        crate::check::put_stub(txn, id, 1, &why, (now, Vec::new()));
                        id
                    }
                };
                let name = Extent { blob: new, blob_offset: 0, length: 1 };
                ancestry.put(txn, &key::extent(ancestry.clone_group, MAP_INO, old), name.encode_to_vec());
            }
            Ok(())
        });
        done.wait()
    }

    /// Creates the in-place blob of a file that a mount wrote, with its holes.
    fn in_place(&mut self, entry: &BlobEntry) -> Result<BlobId> {
        let (id, file) = self.core.blobs.new_in_place()?;
        self.each_piece(entry, |at, piece| file.write_at(&piece, at))?;
        file.set_len(entry.length)?;
        self.core.blobs.mark_dirty(id);
        self.core.blobs.sync_file(id)?;
        Ok(id)
    }

    /// Passes on the bytes of a blob; zeros only if it has checksums.
    fn each_piece(&mut self, entry: &BlobEntry, mut f: impl FnMut(u64, Bytes) -> Result<()>) -> Result<()> {
        let mut at = 0;
        for piece in &entry.pieces {
            if !piece.hash.is_empty() {
                if self.chunk.0 != piece.hash {
                    self.chunk = (piece.hash.clone(), self.folder.content(&piece.hash)?.into());
                }
                let from = usize::try_from(piece.offset).unwrap_or(usize::MAX);
                let to = from.saturating_add(usize::try_from(piece.length).unwrap_or(usize::MAX));
                if to > self.chunk.1.len() {
                    let what = format!("blob {:016x} of a backup", entry.id);
                    return Err(Error::corrupt(what, format!("{} bytes", piece.length), "a shorter chunk"));
                }
                f(at, self.chunk.1.slice(from..to))?;
            }
            at += piece.length;
        }
        Ok(())
    }

    /// Creates records, all in one transaction, and returns their usage.
    pub(super) fn records(&self, entries: Vec<Entry>) -> Result<Usage> {
        let (ancestry, accounts) = (self.ancestry.clone(), self.accounts.clone());
        let done = self.core.meta.write(Durability::Buffered, move |txn| {
            let mut used = Usage::default();
            for Entry { kind, key, value } in entries {
                let kind = u8::try_from(kind).unwrap_or_default();
                count(kind, &key, &value, &mut used)?;
                let base = [&key::by_id(kind, ancestry.clone_group)[..], &key].concat();
                let value = mapped(kind, value, &mut |old| refer(txn, &ancestry, old), &accounts)?;
                ancestry.put(txn, &base, value);
            }
            Ok(used)
        });
        done.wait()
    }

    /// Removes the references by old ids; blobs that are needed have others now.
    pub(super) fn forget_names(&self) -> Result<()> {
        let (from, ancestry) = (key::extents(self.ancestry.clone_group, MAP_INO), self.ancestry.clone());
        loop {
            let (from, ancestry) = (from.clone(), ancestry.clone());
            let done = self.core.meta.write(Durability::Buffered, move |txn| {
                let names = ancestry.scan(&*txn, &from, &key::after_prefix(&from), STEP)?;
                for name in &names {
                    release(txn, decode::<Extent>("an extent", &name.value)?.blob)?;
                    txn.delete(key::branched(&name.base, name.branch));
                }
                Ok(names.len())
            });
            if done.wait()? < STEP {
                return Ok(());
            }
        }
    }
}

fn staged_id(content: Option<&Content>) -> Result<u64> {
    match content {
        Some(Content::Blob(content)) => Ok(content.id),
        _ => Err(Error::Engine { why: "content that was staged as a blob is none".into() }),
    }
}

/// The new id of a blob, with one more reference.
fn refer(txn: &mut dyn Txn, ancestry: &Ancestry, old: u64) -> Result<u64> {
    let name = ancestry.get(&*txn as &dyn Read, &key::extent(ancestry.clone_group, MAP_INO, old))?;
    let missing = || Error::corrupt(format!("blob {old:016x} of a backup"), "an entry", "none");
    let (_, value) = name.ok_or_else(missing)?;
    let blob = decode::<Extent>("an extent", &value)?.blob;
    retain(txn, blob)?;
    Ok(blob)
}

fn count(kind: u8, key: &[u8], value: &[u8], used: &mut Usage) -> Result<()> {
    if kind != tag::INODE {
        return Ok(());
    }
    let inode: Inode = decode("an inode", value)?;
    used.inodes += u64::from(key::u64_at(key, 0) != Some(ROOT_INO));
    if counts_bytes(inode.kind()) {
        used.bytes += inode.charged();
    }
    Ok(())
}
