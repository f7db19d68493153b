//! The endpoints of a process: each is a task that serves until it is stopped.

use std::fmt::Display;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;

use crate::audit::{self, Audit};
use crate::failure::Failure;

/// The open endpoints.
pub(crate) struct OpenListeners {
    tasks: JoinSet<(&'static str, Result<(), String>)>,
    stop: watch::Sender<bool>,
    calls: rpc::Calls,
}

impl OpenListeners {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new(), stop: watch::Sender::new(false), calls: rpc::Calls::default() }
    }

    /// Becomes true when the endpoints have to close.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Completes when the endpoints have to close.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.subscribe();
        async move {
            // A dropped sender means the same.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }

    /// Opens an endpoint: `served` completes once it was asked to close and its requests are answered.
    pub(crate) fn open<E: Display>(
        &mut self,
        name: &'static str,
        served: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.tasks.spawn(async move { (name, served.await.map_err(|error| error.to_string())) });
    }

    /// Opens a gRPC endpoint for root and the own user; each call passes `audit`.
    pub(crate) fn open_grpc(&mut self, name: &'static str, listener: UnixListener, routes: Routes, audit: &Audit) {
        let audit = from_fn_with_state(audit.clone(), audit::record);
        let around = |router: axum::Router| router.layer(audit);
        self.open(name, rpc::serve(listener, routes, self.calls.clone(), around, self.stopped()));
    }

    /// Waits for an endpoint that ends by itself, which none should.
    pub(crate) async fn broken(&mut self) -> Failure {
        match self.tasks.join_next().await {
            Some(Ok((name, Ok(())))) => Failure::failed(format!("the {name} endpoint ended by itself")),
            Some(Ok((name, Err(why)))) => Failure::failed(format!("the {name} endpoint ended: {why}")),
            Some(Err(error)) => Failure::failed(format!("an endpoint ended: {error}")),
            None => std::future::pending().await,
        }
    }

    /// Accepts no new work and gives requests in progress until `limit`.
    pub(crate) async fn close(mut self, limit: Duration) {
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
