//! The endpoints of a server: each is a task that serves until it is stopped.

use std::fmt::Display;
use std::future::IntoFuture as _;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;

use super::{http, wiring};
use crate::audit::{self, Audit};
use crate::config::Settings;
use crate::failure::Failure;
use crate::process::PassedSockets;

/// The TCP listeners, bound and not yet served.
pub(super) struct Ports {
    /// The TLS certificate of S3, if any.
    pub(super) tls: Option<s3::Tls>,
    pub(super) s3: TcpListener,
    pub(super) s3_address: SocketAddr,
    pub(super) http: TcpListener,
    pub(super) http_address: SocketAddr,
    pub(super) website: Option<(TcpListener, SocketAddr)>,
    pub(super) volume: Option<(TcpListener, SocketAddr)>,
}

impl Ports {
    pub(super) async fn bind(settings: &Settings, passed: &mut PassedSockets) -> Result<Self, Failure> {
        let tls = wiring::tls(settings).await?;
        let (s3, s3_address) = open("s3", settings.s3_listen, passed).await?;
        let (http, http_address) = open("http", settings.http_listen, passed).await?;
        let website = match settings.website_listen {
            Some(address) => Some(open("website", address, passed).await?),
            None => None,
        };
        let volume = match &settings.volumes {
            Some(volumes) => Some(open("volume", volumes.listen, passed).await?),
            None => None,
        };
        Ok(Self { tls, s3, s3_address, http, http_address, website, volume })
    }

    /// The URL of S3 at its bound address.
    pub(super) fn s3_url(&self) -> String {
        self.url(self.s3_address)
    }

    /// The URL of websites at the bound address, where they are served.
    pub(super) fn website_url(&self) -> Option<String> {
        self.website.as_ref().map(|(_, address)| self.url(*address))
    }

    fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }
}

/// The listener of the flag `--NAME-listen`: inherited, or newly bound.
async fn open(
    name: &str,
    address: SocketAddr,
    passed: &mut PassedSockets,
) -> Result<(TcpListener, SocketAddr), Failure> {
    let opened = match passed.socket(name).and_then(|socket| inherited(socket, address)) {
        Some(inherited) => inherited,
        None => bind(&format!("--{name}-listen"), address).await?,
    };
    passed.keep(name, &opened.0);
    Ok(opened)
}

/// An inherited socket that already listens at the address.
fn inherited(socket: OwnedFd, address: SocketAddr) -> Option<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::from(socket);
    let bound = listener.local_addr().ok()?;
    let fits = bound == address || (address.port() == 0 && bound.ip() == address.ip());
    listener.set_nonblocking(true).ok()?;
    fits.then(|| TcpListener::from_std(listener).ok()).flatten().map(|listener| (listener, bound))
}

/// Binds an address; with port 0 the bound address differs.
async fn bind(flag: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = match TcpListener::bind(address).await {
        Ok(listener) => listener.local_addr().map(|bound| (listener, bound)),
        Err(error) => Err(error),
    };
    bound.map_err(|error| {
        let variable = flag.trim_start_matches('-').replace('-', "_").to_uppercase();
        Failure::failed(format!(
            "{address} cannot be served ({error}): stop the program that uses it, or name another with {flag} or AMPHORA_{variable}"
        ))
    })
}

/// The open endpoints.
pub(super) struct OpenListeners {
    tasks: JoinSet<(&'static str, Result<(), String>)>,
    stop: watch::Sender<bool>,
    calls: rpc::Calls,
}

impl OpenListeners {
    pub(super) fn new() -> Self {
        Self { tasks: JoinSet::new(), stop: watch::Sender::new(false), calls: rpc::Calls::default() }
    }

    /// Becomes true when the endpoints have to close.
    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Completes when the endpoints have to close.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.subscribe();
        async move {
            // A dropped sender means the same.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }

    /// Opens an endpoint: `served` completes once it was asked to close and its requests are answered.
    pub(super) fn open<E: Display>(
        &mut self,
        name: &'static str,
        served: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.tasks.spawn(async move { (name, served.await.map_err(|error| error.to_string())) });
    }

    /// Opens the endpoint for metrics and health.
    pub(super) fn open_http(&mut self, listener: TcpListener, source: http::Source) {
        let served = axum::serve(http::Listener::new(listener), http::routes(source));
        self.open("HTTP", served.with_graceful_shutdown(self.stopped()).into_future());
    }

    /// Opens a gRPC endpoint for root and the own user; each call passes `audit`.
    pub(super) fn open_grpc(&mut self, name: &'static str, listener: UnixListener, routes: Routes, audit: &Audit) {
        let audit = from_fn_with_state(audit.clone(), audit::record);
        let around = |router: axum::Router| router.layer(audit);
        self.open(name, rpc::serve(listener, routes, self.calls.clone(), around, self.stopped()));
    }

    /// Waits for an endpoint that ends by itself, which none should.
    pub(super) async fn broken(&mut self) -> Failure {
        match self.tasks.join_next().await {
            Some(Ok((name, Ok(())))) => Failure::failed(format!("the {name} endpoint ended by itself")),
            Some(Ok((name, Err(why)))) => Failure::failed(format!("the {name} endpoint ended: {why}")),
            Some(Err(error)) => Failure::failed(format!("an endpoint ended: {error}")),
            None => std::future::pending().await,
        }
    }

    /// Accepts no new work and gives requests in progress until `limit`.
    pub(super) async fn close(mut self, limit: Duration) {
        self.stop.send_replace(true);
        let drained = tokio::time::timeout(limit, async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Ok((name, Err(why))) = ended {
                    tracing::warn!(endpoint = name, why, "an endpoint did not close cleanly");
                }
            }
        });
        if drained.await.is_err() {
            tracing::warn!(
                limit_s = limit.as_secs(),
                "requests in progress did not end within the time limit and are cut off"
            );
            self.tasks.shutdown().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_named_with_its_flag() {
        let (_held, address) = bind("--s3-listen", "127.0.0.1:0".parse().expect("an address")).await.expect("bound");
        let text = bind("--s3-listen", address).await.expect_err("in use").to_string();
        assert!(text.contains(&address.to_string()) && text.contains("--s3-listen"), "{text}");
        assert!(text.contains("AMPHORA_S3_LISTEN"), "{text}");
    }

    #[tokio::test]
    async fn doors_drain_and_then_are_cut_off() {
        let mut listeners = OpenListeners::new();
        let stopped = listeners.stopped();
        listeners.open("good", async move {
            stopped.await;
            Ok::<(), String>(())
        });
        listeners.open("stuck", std::future::pending::<Result<(), String>>());
        let closed = tokio::time::timeout(Duration::from_secs(5), listeners.close(Duration::from_millis(50))).await;
        assert!(closed.is_ok());
    }

    #[tokio::test]
    async fn a_broken_door_is_named() {
        let mut listeners = OpenListeners::new();
        listeners.open("s3", async { Err("no memory") });
        let text = listeners.broken().await.to_string();
        assert!(text.contains("s3") && text.contains("no memory"), "{text}");
    }
}
