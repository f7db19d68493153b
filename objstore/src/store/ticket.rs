//! Tickets: what a node shows to open a session on a volume that is published to it.
//!
//! - A ticket is valid for one volume, node, mode and epoch: those of the publication whose record has its hash. It ends
//!   with the publication, in the transaction that removes it.
//! - Its secret is derived from the master key, so that a repeated request returns the same ticket, and the store keeps
//!   no secret. After a rotation of the master key earlier tickets stay valid by their hashes.
//! - It opens nothing but sessions of mounts: no S3 request, no other volume.
//! - A publication may ask for an access key beside the ticket. The store checks that, since a node is not trusted to.

use prost::Message;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Secret, Store};
use crate::error::{Error, Noun, Result};
use crate::meta::Read;
use crate::name::BucketName;
use crate::record::account::Publication as Record;
use crate::record::decode;
use crate::record::key;

/// The first characters of a ticket: what it is, and the version of its format.
const PREFIX: &str = "amt1-";
/// The bytes of a ticket behind the prefix, in hex: the bucket's id, the epoch, the secret.
const BYTES: usize = 8 + 8 + 32;
/// The most tickets of a publication that are valid at a time. Each rotation of the master key adds one.
const TICKETS_MAX: usize = 8;

/// A ticket of a node; never to be logged.
#[derive(Clone, Debug)]
pub struct MountTicket(Secret);

/// What a valid ticket opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// The bucket.
    pub bucket: BucketName,
    /// Whether the node may only read.
    pub read_only: bool,
    /// The epoch of the publication.
    pub epoch: u64,
    /// Whether the ticket suffices without an access key.
    pub ticket_suffices: bool,
}

/// A ticket as shown.
struct Shown {
    bucket: u64,
    epoch: u64,
    secret: [u8; 32],
}

impl MountTicket {
    /// The ticket's text; never to be logged or put in an error.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl Shown {
    fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(PREFIX).filter(|hex| hex.len() == 2 * BYTES)?;
        let bytes = hex_simd::decode_to_vec(hex).ok()?;
        let (bucket, rest) = bytes.split_first_chunk()?;
        let (epoch, secret) = rest.split_first_chunk()?;
        let secret = secret.try_into().ok()?;
        Some(Self { bucket: u64::from_be_bytes(*bucket), epoch: u64::from_be_bytes(*epoch), secret })
    }

    fn text(&self) -> MountTicket {
        let bytes = [&self.bucket.to_be_bytes()[..], &self.epoch.to_be_bytes(), &self.secret].concat();
        let hex = hex_simd::encode_to_string(&bytes, hex_simd::AsciiCase::Lower);
        MountTicket(Secret::new(format!("{PREFIX}{hex}")))
    }

    fn hash(&self) -> Vec<u8> {
        Sha256::digest(self.secret).to_vec()
    }
}

/// What a ticket opens for a node, as the records are now.
///
/// # Errors
/// [`Error::Denied`] for a ticket of no publication of this node; the error does not tell why.
pub(crate) fn published(read: &dyn Read, node: &str, ticket: &str) -> Result<Published> {
    let denied = || Error::Denied {
        why: format!("the ticket of node \"{node}\" is not valid, or the volume is no longer published to the node"),
    };
    let shown = Shown::parse(ticket).ok_or_else(denied)?;
    let value = read.get(&key::publication(shown.bucket, node))?.ok_or_else(denied)?;
    let record: Record = decode("a publication", &value)?;
    let hash = shown.hash();
    // All are compared, so that the time tells nothing.
    let known = record.tickets.iter().fold(false, |known, ticket| known | bool::from(ticket[..].ct_eq(&hash[..])));
    if !known || record.epoch != shown.epoch {
        return Err(denied());
    }
    let bucket = crate::buckets::name_of(read, shown.bucket)?.ok_or_else(denied)?;
    let Record { read_only, epoch, ticket_suffices, .. } = record;
    Ok(Published { bucket, read_only, epoch, ticket_suffices })
}

impl Store {
    /// The bucket that a ticket opens for a node.
    ///
    /// # Errors
    /// [`Error::Denied`] for a ticket that is not valid for this node; the error does not tell why.
    pub fn published_bucket(&self, node: &str, ticket: &str) -> Result<BucketName> {
        Ok(published(&*self.core.meta.snapshot(), node, ticket)?.bucket)
    }

    /// The ticket with which a node opens sessions on a volume that is published to it (CSI v1.12,
    /// ControllerPublishVolume). Each call returns the same ticket, until the master key is rotated.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the volume is not published to the node.
    pub async fn ticket(&self, bucket: &BucketName, node: &str) -> Result<MountTicket> {
        let (bucket, node, access) = (bucket.clone(), node.to_owned(), self.access.clone());
        self.change(move |txn, core| {
            let record = core.bucket_record(&*txn, &bucket)?;
            let id = record.ok_or_else(|| Error::not_found(Noun::Bucket, bucket.as_str()))?.id;
            let key = key::publication(id, &node);
            let value = txn.get(&key)?.ok_or_else(|| Error::not_found(Noun::Publication, &node))?;
            let mut publication: Record = decode("a publication", &value)?;
            if publication.epoch == 0 {
                publication.epoch = super::header::next_id(txn)?;
            }
            let of = [&id.to_be_bytes()[..], &publication.epoch.to_be_bytes(), node.as_bytes()].concat();
            let secret = access.master.sealer().ticket(&of);
            let ticket = Shown { bucket: id, epoch: publication.epoch, secret };
            let hash = ticket.hash();
            if !publication.tickets.contains(&hash) {
                let beyond = (publication.tickets.len() + 1).saturating_sub(TICKETS_MAX);
                publication.tickets.drain(..beyond);
                publication.tickets.push(hash);
                txn.put(key, publication.encode_to_vec());
            }
            Ok(ticket.text())
        })
        .await
    }
}
