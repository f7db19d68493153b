//! Fetching the names and attributes of a directory together, behind the requests of programs that look up one after the
//! other.
//!
//! - The references that the store counts for it are the node's own (`cache`), so the kernel's first look-up takes no trip.
//! - What is fetched is bounded: [`PAGES`] of names. A directory that has more names keeps those.

use std::sync::Arc;

use node_codec::session::LOOKUPS_PER_CALL;
use objstore_base::error::Result;
use objstore_files::{Context, DirEntry, NAMES_MAX, NameOp, Names, Reply};
use tokio::task::JoinSet;

use crate::call::{fetch, one};
use crate::link::Link;

/// The most pages of names of one directory, some 900 names each.
const PAGES: usize = 8;
/// The most calls for one directory at a time.
const TOGETHER: usize = 4;

/// Fetches the names and attributes of a directory, unless others are just being fetched.
pub(crate) async fn directory(link: Arc<Link>, directory: u64) {
    let Some(_place) = link.misses.place() else { return };
    if let Err(error) = fetched(&link, directory).await {
        tracing::debug!(directory, %error, "the names of a directory cannot be fetched ahead");
    }
}

async fn fetched(link: &Arc<Link>, parent: u64) -> Result<()> {
    let Some(session) = link.about.get().map(|about| about.number) else { return Ok(()) };
    let context = Context { session, caller: None, request: None };
    let (mut after, mut looking) = (None, JoinSet::new());
    for _ in 0..PAGES {
        let read = NameOp::ReadDir { ino: parent, after: after.take(), limit: NAMES_MAX };
        let Reply::Names(Names { entries, next }) = one(link, &context, read.into(), &[]).await?.reply else { break };
        for part in entries.chunks(LOOKUPS_PER_CALL) {
            while looking.len() >= TOGETHER {
                let _ = looking.join_next().await;
            }
            let (link, entries): (_, Vec<DirEntry>) = (Arc::clone(link), part.to_vec());
            looking.spawn(async move {
                let look = NameOp::LookupAll { parent, entries: entries.into(), listed: false };
                fetch(&link, &context, look.into()).await
            });
        }
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    // What was not fetched is asked for by who needs it.
    while looking.join_next().await.is_some() {}
    Ok(())
}
