//! Publications: which nodes a volume is attached to (CSI v1.12, ControllerPublishVolume).

use prost::Message;

use super::Store;
use super::session_records::end_published;
use super::types::{Outcome, Publication};
use crate::error::{Error, Noun, Result};
use crate::meta::{Read, Txn};
use crate::name::{self, BucketName};
use crate::record::account::Publication as Record;
use crate::record::decode;
use crate::record::key::{self, tag};

/// The nodes to which a bucket is published.
pub(super) fn nodes(read: &dyn Read, bucket: u64) -> Result<Vec<String>> {
    let pairs = super::all(read, &key::by_id(tag::PUBLICATION, bucket))?;
    Ok(pairs.iter().map(|pair| node_of(&pair.key)).collect())
}

/// The node in the key of a publication.
fn node_of(key: &[u8]) -> String {
    String::from_utf8_lossy(&key[9..]).into_owned()
}

/// Removes the publications of a bucket.
pub(super) fn delete_of_bucket(txn: &mut dyn Txn, bucket: u64) -> Result<()> {
    for pair in super::all(&*txn, &key::by_id(tag::PUBLICATION, bucket))? {
        txn.delete(pair.key.to_vec());
    }
    Ok(())
}

impl Store {
    /// Records that a volume is attached to a node. An identical publication is found; a different one for the node is
    /// refused. Whether a ticket suffices is as the last call says.
    pub async fn publish(&self, publication: Publication) -> Result<Outcome> {
        let node = name::plain("node id", &publication.node)?;
        self.change(move |txn, core| {
            let Publication { bucket, read_only, capability, ticket_suffices, .. } = publication;
            let record = core.bucket_record(&*txn, &bucket)?;
            let record = record.ok_or_else(|| Error::not_found(Noun::Bucket, bucket.as_str()))?;
            let key = key::publication(record.id, &node);
            let Some(value) = txn.get(&key)? else {
                let epoch = super::header::next_id(txn)?;
                let tickets = Vec::new();
                let fenced_by = String::new();
                let made = Record { read_only, capability, epoch, tickets, ticket_suffices, fenced_by };
                txn.put(key, made.encode_to_vec());
                return Ok(Outcome::Made);
            };
            let there: Record = decode("a publication", &value)?;
            if (there.read_only, &there.capability) == (read_only, &capability) {
                if there.ticket_suffices != ticket_suffices {
                    txn.put(key, Record { ticket_suffices, ..there }.encode_to_vec());
                }
                return Ok(Outcome::Found);
            }
            let why = format!("volume \"{bucket}\" is attached to it in another way: detach it first");
            Err(Error::Exists { noun: Noun::Publication, name: node, why })
        })
        .await
    }

    /// Takes the writing of a bucket from all nodes but `writer`: their publications become read-only, and the same
    /// transaction ends the sessions that were opened by them. When it returns, nothing of these is done any more.
    ///
    /// A crash leaves all of them fenced or none. The caller publishes the bucket to `writer` afterwards.
    pub async fn fence_writers(&self, bucket: &BucketName, writer: &str) -> Result<()> {
        let (bucket, writer) = (bucket.clone(), writer.to_owned());
        let fenced = self.change(move |txn, core| {
            let record = core.bucket_record(&*txn, &bucket)?;
            let id = record.ok_or_else(|| Error::not_found(Noun::Bucket, bucket.as_str()))?.id;
            for pair in super::all(&*txn, &key::by_id(tag::PUBLICATION, id))? {
                let there: Record = decode("a publication", &pair.value)?;
                let node = node_of(&pair.key);
                if there.read_only || node == writer {
                    continue;
                }
                let fenced = Record { read_only: true, fenced_by: writer.clone(), ..there };
                txn.put(pair.key.to_vec(), fenced.encode_to_vec());
                end_published(txn, id, Some(&node), core.clock.now())?;
            }
            Ok(id)
        });
        let id = fenced.await?;
        // Also if this transaction ended none: an earlier call may have been given up before its fence was complete.
        self.blocking(move |store| store.fence_ended(Some(id))).await
    }

    /// Removes a publication, or all of a bucket; an absent one is no error. The same transaction ends the sessions that
    /// were opened by it. When it returns, nothing of them is done any more: the node is fenced.
    pub async fn unpublish(&self, bucket: &BucketName, node: Option<&str>) -> Result<()> {
        let (bucket, node) = (bucket.clone(), node.map(str::to_owned));
        let published = self.change(move |txn, core| {
            let Some(record) = core.bucket_record(&*txn, &bucket)? else { return Ok(None) };
            match &node {
                Some(node) => txn.delete(key::publication(record.id, node)),
                None => delete_of_bucket(txn, record.id)?,
            }
            end_published(txn, record.id, node.as_deref(), core.clock.now())?;
            Ok(Some(record.id))
        });
        match published.await? {
            // Also if this transaction ended none: an earlier call may have been given up before its fence was complete.
            Some(bucket) => self.blocking(move |store| store.fence_ended(Some(bucket))).await,
            None => Ok(()),
        }
    }

    /// The publications of a bucket, or all.
    pub fn publications(&self, bucket: Option<&BucketName>) -> Result<Vec<Publication>> {
        let snapshot = self.core.meta.snapshot();
        let prefix = match bucket {
            Some(name) => match self.core.bucket_record(&*snapshot, name)? {
                Some(record) => key::by_id(tag::PUBLICATION, record.id),
                None => return Err(Error::not_found(Noun::Bucket, name.as_str())),
            },
            None => vec![tag::PUBLICATION],
        };
        let mut publications = Vec::new();
        for pair in super::all(&*snapshot, &prefix)? {
            let Some(id) = key::u64_at(&pair.key, 1) else { continue };
            let Some(bucket) = crate::buckets::name_of(&*snapshot, id)? else { continue };
            let record: Record = decode("a publication", &pair.value)?;
            let node = node_of(&pair.key);
            let Record { read_only, capability, ticket_suffices, fenced_by, .. } = record;
            let fenced_by = Some(fenced_by).filter(|by| !by.is_empty());
            publications.push(Publication { bucket, node, read_only, capability, ticket_suffices, fenced_by });
        }
        Ok(publications)
    }
}
