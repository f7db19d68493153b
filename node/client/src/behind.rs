//! The task that returns references of the kernel to the store, behind the requests of programs.

use std::sync::Arc;

use objstore_files::{Context, NameOp};
use tokio::task::JoinSet;

use crate::call::one;
use crate::link::Link;

/// How many calls are under way at a time.
const TOGETHER: usize = 16;

/// Sends what waits, until the task is dropped.
pub(crate) async fn send(link: Arc<Link>) {
    let mut sending = JoinSet::new();
    loop {
        while sending.len() < TOGETHER
            && let Some((ino, count)) = link.forgets.take()
        {
            let link = Arc::clone(&link);
            sending.spawn(async move {
                let Some(session) = link.about.get().map(|about| about.number) else { return };
                let context = Context { session, caller: None, request: None };
                if let Err(error) = one(&link, &context, NameOp::Forget { ino, count }.into(), &[]).await {
                    tracing::debug!(ino, %error, "cannot return inode references to the store; they end with the session");
                }
            });
        }
        if sending.is_empty() {
            link.forgets.added().await;
        } else {
            // A panic is that task's own.
            let _ = sending.join_next().await;
        }
    }
}
