//! The HTTP server of the S3 endpoint.
//!
//! - From the wire inward: `slots` (connection limit), `connection` (handshake and end of one), `tls`, `stream` (its
//!   bytes), `protocol` (HTTP), and `connection_service` (its requests); then `layer` follows.
//! - Everything that a client can make the server hold is bounded in size and time: [`Limits`](crate::Limits) has each
//!   bound and its reason.
//! - TCP_NODELAY is set, and head and first bytes are sent in one write: without both, a small GET stalls for 40 ms
//!   with some clients.
//! - On shutdown no connection is accepted any more; requests in progress have [`Config::drain`] to end.

mod activity;
mod config;
mod connection;
mod connection_service;
mod protocol;
mod slots;
mod stream;
mod tls;
mod waker;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use objstore::{Store, accept};
use s3s::region::Region;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::access_log::AccessLog;
use crate::adapter::Adapter;
use crate::authorization::{Callers, Reader};
use crate::layer::{Hosts, Layer};
use crate::outbound::Listeners;
use crate::public_access;
use crate::request::Ids;
use crate::service::Service;
use connection::EndpointState;

pub use config::{Config, Error};
pub use tls::{Tls, TlsError};

/// How long the delivery of access logs may take after the last request of a server.
pub const DELIVERY_LIMIT: Duration = Duration::from_secs(5);

/// A configured S3 endpoint.
pub struct Server {
    shared: Arc<EndpointState>,
    website: Option<TcpListener>,
    access_log: AccessLog,
    drain: Duration,
}

impl Server {
    /// Creates the endpoint of `store`.
    ///
    /// # Errors
    /// [`Error::Region`].
    pub fn new(store: Store, config: Config) -> Result<Self, Error> {
        let region = Region::new(config.region.as_str().into()).map_err(|_| Error::Region(config.region.clone()))?;
        let bucket_access = Arc::new(Reader::new(public_access::all(config.block_public_access)));
        let (region_name, presigned_v2) = (Arc::from(region.as_str()), config.presigned_v2);
        let (callers, issuers) = (Callers::default(), config.issuers.clone());
        let service = Arc::new(Service { store, region: region_name, presigned_v2, issuers, bucket_access, callers });
        let adapter = Adapter::new(region, config.domains.clone());
        let ids = Arc::new(Ids::new());
        let (store, region, lines) = (service.store.clone(), Arc::clone(&service.region), config.metrics.log_lines());
        let access_log = AccessLog::new(store, region, lines, config.access_log_delay);
        let log = Some((access_log.clone(), ids.run.clone()));
        let listeners = Listeners { metrics: config.metrics.clone(), auditor: config.auditor, access_log: log };
        let hosts = Hosts { s3: config.domains, websites: config.website_domains };
        let layer = Layer::new(adapter, service, listeners, (hosts, ids), &config.limits);
        let tls = config.tls.clone();
        config.metrics.watch(layer.memory(), Box::new(move || tls.as_ref()?.expiry()));
        let shared = Arc::new(EndpointState::new(layer, config.metrics, config.tls, config.limits));
        Ok(Self { shared, website: None, access_log, drain: config.drain })
    }

    /// Serves the buckets that are websites on this listener, with the certificate and within the limits of S3.
    #[must_use]
    pub fn with_website(self, listener: TcpListener) -> Self {
        Self { website: Some(listener), ..self }
    }

    /// Serves until `shutdown` completes, then lets requests in progress end.
    ///
    /// # Errors
    /// [`Error::Accept`].
    pub async fn serve(mut self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let stop = watch::Sender::new(false);
        if let Some(tls) = &self.shared.tls {
            tokio::spawn(tls.clone().keep_fresh(self.shared.metrics.clone(), stop.subscribe()));
        }
        let stop_delivery = watch::Sender::new(false);
        let delivery = tokio::spawn(self.access_log.clone().deliver(stop_delivery.subscribe()));
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => (accepted, false),
                accepted = accepted_by(self.website.as_ref()) => (accepted, true),
            };
            let (accepted, website) = accepted;
            match accepted {
                Ok((socket, from)) => self.admit(socket, (from, website), &stop),
                Err(error) => accept::recover(error, "a connection").await.map_err(Error::Accept)?,
            }
        }
        drop((listener, self.website.take()));
        stop.send_replace(true);
        // Each connection holds a receiver.
        if tokio::time::timeout(self.drain, stop.closed()).await.is_err() {
            tracing::warn!(
                seconds = self.drain.as_secs(),
                "requests were still in progress when the time to drain ended"
            );
        }
        stop_delivery.send_replace(true);
        let unfinished = delivery.abort_handle();
        if tokio::time::timeout(DELIVERY_LIMIT, delivery).await.is_err() {
            unfinished.abort();
            tracing::warn!("access logs of buckets were not delivered in time; what was left of them is lost");
        }
        Ok(())
    }

    fn admit(&self, socket: TcpStream, from: (SocketAddr, bool), stop: &watch::Sender<bool>) {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it was served");
            return;
        }
        let Some(ticket) = self.shared.places.enter() else {
            self.shared.metrics.turned_away();
            return;
        };
        tokio::spawn(connection::serve(Arc::clone(&self.shared), socket, from, ticket, stop.subscribe()));
    }
}

/// The next connection of a listener; without one there never is any.
async fn accepted_by(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
