//! `/metrics`, `/healthz` and `/readyz`.
//!
//! - `/healthz` answers while the process serves at all; `/readyz` only while it takes writes.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use objstore::Store;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

/// The OpenMetrics text format, which Prometheus asks for.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the answers come from.
#[derive(Clone)]
pub(super) struct Source {
    store: Store,
    registry: Arc<Registry>,
    stopping: watch::Receiver<bool>,
}

impl Source {
    pub(super) fn new(store: &Store, registry: Registry, stopping: watch::Receiver<bool>) -> Self {
        Self { store: store.clone(), registry: Arc::new(registry), stopping }
    }
}

/// The routes.
pub(super) fn routes(source: Source) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(source)
}

async fn metrics(State(source): State<Source>) -> Response {
    let encoded = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &source.registry).map(|()| text)
    });
    match encoded.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be encoded\n").into_response(),
    }
}

async fn ready(State(source): State<Source>) -> Response {
    if *source.stopping.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n").into_response();
    }
    match tokio::task::spawn_blocking(move || source.store.stats().poisoned).await {
        Ok(None) => "ready\n".into_response(),
        Ok(Some(why)) => {
            let text = format!("the store refuses writes since a write to disk failed: {why}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response(),
    }
}
