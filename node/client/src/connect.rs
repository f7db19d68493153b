//! Opening a session with a store on another machine.

use std::sync::Arc;
use std::time::Duration;

use node_wire::Random;
use node_wire::client::{Client, Config, Transport, Unproven};
use node_wire::credential::Credential;
use node_wire::refusal::Refusal;
use objstore_files::About;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::behind;
use crate::hand_in;
use crate::keeper::{Task, follow, renew, watch};
use crate::link::Link;
use crate::options::Options;
use crate::remote::Remote;

/// How many events of the connections wait.
const EVENTS: usize = 64;

/// Why a session was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Unopened {
    /// Nothing would prove the server.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// The store refused.
    #[error("the store refuses the session: {0}")]
    Refused(Refusal),
    /// The store was not reached.
    #[error("the store did not answer within {0:?}: check its address, its certificate, and the log of both sides")]
    Unreachable(Duration),
}

/// Opens a session. `config` says who the node is; its session is that of the options.
///
/// # Errors
/// [`Unopened`].
pub async fn open<T: Transport>(
    transport: T,
    config: Config,
    options: Options,
    random: &Random,
) -> Result<Remote, Unopened> {
    let (sender, events) = mpsc::channel(EVENTS);
    let name = options.session.0.to_be_bytes().to_vec().into();
    let limit = options.limit;
    let is_of_ticket = matches!(config.credential, Credential::Ticket(_));
    let client = Client::start(transport, Config { session: name, ..config }, &sender, random)?;
    let link = Link::new(client, options, is_of_ticket);
    if let Some(journal) = link.options.journal.clone() {
        link.queue.open(&journal);
    }
    let tasks = vec![
        Task::spawn(follow(Arc::clone(&link), events)),
        Task::spawn(renew(Arc::clone(&link))),
        Task::spawn(watch(Arc::clone(&link))),
        Task::spawn(behind::send(Arc::clone(&link))),
        Task::spawn(hand_in::run(Arc::clone(&link))),
    ];
    let opened = async {
        link.open().await?;
        // What an earlier process has answered is in the store before anything is served.
        link.handed_in(link.queue.last()).await
    };
    match timeout(limit, opened).await {
        Err(_) => Err(Unopened::Unreachable(limit)),
        Ok(Err(refusal)) => Err(Unopened::Refused(refusal)),
        Ok(Ok(())) => {
            let about = *link.about.get().ok_or(Unopened::Unreachable(limit))?;
            // What the mount has to know of its own machine is not what the store knows of the node.
            let about = match link.options.kept {
                Some(kept) => About { id: Some(kept), inherited: link.options.resumes, ..about },
                None => about,
            };
            Ok(Remote::new(link, about, Handle::current(), tasks))
        }
    }
}
