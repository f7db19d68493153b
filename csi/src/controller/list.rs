//! Pagination, and listing of volumes. CSI v1.12, ListVolumes.
//!
//! - Every bucket is listed, since every bucket can be a volume: the external-attacher treats a missing volume as
//!   detached.
//! - A token holds the last name of the page before, so pages stay correct while volumes are created and deleted.

use std::collections::HashMap;

use objstore::name::BucketName;
use objstore::store::{Bucket, Publication};
use proto::csi::v1::list_volumes_response::{Entry, VolumeStatus};
use proto::csi::v1::{ListVolumesRequest, ListVolumesResponse, VolumeCondition};
use tonic::Status;

use super::Controller;
use super::volume::{condition, describe};
use crate::Topology;

/// The most entries of a page, which keeps a response far below the 4 MiB that gRPC clients accept.
const PAGE_ENTRIES_MAX: usize = 1000;
/// The prefix of a token.
const TOKEN: &str = "after:";

/// The requested page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The name after which to continue.
    pub(super) after: Option<String>,
    /// The most entries.
    pub(super) limit: usize,
}

impl Page {
    pub(super) fn parse(max_entries: i32, starting_token: &str) -> Result<Self, Status> {
        let limit = usize::try_from(max_entries)
            .map_err(|_| Status::invalid_argument(format!("max_entries is {max_entries}; it must not be negative")))?;
        let limit = if limit == 0 { PAGE_ENTRIES_MAX } else { limit.min(PAGE_ENTRIES_MAX) };
        Ok(Self { after: after(starting_token)?, limit })
    }

    /// Truncates `items`, of which one more than the limit was read, to the page, and returns the token for the next.
    pub(super) fn cut<T>(&self, items: &mut Vec<T>, name: impl Fn(&T) -> &str) -> String {
        if items.len() <= self.limit {
            return String::new();
        }
        items.truncate(self.limit);
        items.last().map(|last| format!("{TOKEN}{}", name(last))).unwrap_or_default()
    }
}

fn after(token: &str) -> Result<Option<String>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let name = token.strip_prefix(TOKEN).filter(|name| name.parse::<BucketName>().is_ok());
    match name {
        Some(name) => Ok(Some(name.to_owned())),
        // CSI v1.12, ListVolumes: the caller starts again from the first page.
        None => Err(Status::aborted("starting_token was not issued by this driver; start again without it")),
    }
}

impl Controller {
    pub(super) async fn list_volumes(self, request: ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
        let page = Page::parse(request.max_entries, &request.starting_token)?;
        let (after, limit) = (page.after.clone(), page.limit + 1);
        let read = self.read(move |store| {
            let (buckets, stats) = (store.buckets(after.as_deref(), limit)?, store.stats());
            let with_condition = buckets.into_iter().map(|bucket| Ok((condition(store, &bucket, &stats)?, bucket)));
            Ok((with_condition.collect::<objstore::Result<Vec<_>>>()?, store.publications(None)?))
        });
        let (mut buckets, publications) = read.await?;
        let next_token = page.cut(&mut buckets, |(_, bucket)| bucket.name.as_str());
        let mut nodes = nodes_by_volume(publications);
        let entries = buckets
            .into_iter()
            .map(|(condition, bucket)| entry(&bucket, condition, (&mut nodes, &self.config.topology)));
        Ok(ListVolumesResponse { entries: entries.collect(), next_token })
    }
}

fn nodes_by_volume(publications: Vec<Publication>) -> HashMap<BucketName, Vec<String>> {
    let mut nodes: HashMap<_, Vec<_>> = HashMap::new();
    for publication in publications {
        nodes.entry(publication.bucket).or_default().push(publication.node);
    }
    nodes
}

fn entry(
    bucket: &Bucket,
    condition: VolumeCondition,
    (nodes, topology): (&mut HashMap<BucketName, Vec<String>>, &Topology),
) -> Entry {
    let published_node_ids = nodes.remove(&bucket.name).unwrap_or_default();
    let status = VolumeStatus { published_node_ids, volume_condition: Some(condition) };
    Entry { volume: Some(describe(bucket, topology)), status: Some(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_the_token_of_the_next() {
        let page = Page::parse(2, "").unwrap();
        let mut items = vec!["aaa", "bbb", "ccc"];
        let token = page.cut(&mut items, |item| item);
        assert_eq!((items.as_slice(), token.as_str()), (&["aaa", "bbb"][..], "after:bbb"));
        assert_eq!(Page::parse(0, &token).unwrap(), Page { after: Some("bbb".into()), limit: PAGE_ENTRIES_MAX });
        assert_eq!(page.cut(&mut items, |item| item), "");
    }

    #[test]
    fn foreign_tokens_are_aborted_and_negative_counts_refused() {
        for token in ["invalid-token", "after:", "after:NOT A NAME"] {
            assert_eq!(Page::parse(0, token).unwrap_err().code(), tonic::Code::Aborted, "{token}");
        }
        assert_eq!(Page::parse(-1, "").unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
