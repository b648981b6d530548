//! The addresses of the service, and what all requests have in common: counters, the token, other origins.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::Serialize;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::App;
use super::failure::{Failure, json};
use super::{hugging_face, page, tag};

/// The answer of `/health` and `/ready`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Status {
    status: &'static str,
}

/// The addresses of a service.
pub(super) fn router(app: Arc<App>, origins: &[String]) -> Router {
    let router = Router::new()
        .route("/v1/tag", post(tag::tag))
        .route("/v1/models", get(tag::models))
        .route("/models/{*name}", post(hugging_face::model))
        .route("/metrics", get(metrics_text))
        .route("/", get(page::index).post(hugging_face::first_model))
        .route("/style.css", get(page::style))
        .route("/script.js", get(page::script))
        .route("/icon.svg", get(page::icon))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/openapi.json", get(openapi_document))
        .fallback(|| async {
            Failure::new(
                StatusCode::NOT_FOUND,
                "there is nothing at this address; /openapi.json lists what there is",
            )
        })
        .method_not_allowed_fallback(|| async {
            let message =
                "this address does not take this method; /openapi.json lists what there is";
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, message)
        })
        .layer(middleware::from_fn_with_state(app.clone(), check_token))
        .layer(CatchPanicLayer::custom(
            |_: Box<dyn std::any::Any + Send>| {
                Failure::internal(&"a panic while a request was answered").into_response()
            },
        ));
    let router = if origins.is_empty() {
        router
    } else {
        router.layer(cors(origins))
    };
    router
        .layer(middleware::from_fn_with_state(app.clone(), observe))
        .with_state(app)
}

/// Lets pages of other origins use the service.
fn cors(origins: &[String]) -> CorsLayer {
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| origin.parse().ok()))
    };
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([header::RETRY_AFTER])
}

/// The route of a request, for counters; addresses that do not exist are one.
fn route(request: &Request) -> &'static str {
    let routes = [
        "/",
        "/v1/tag",
        "/v1/models",
        "/metrics",
        "/style.css",
        "/script.js",
        "/icon.svg",
        "/health",
        "/ready",
        "/openapi.json",
    ];
    let path = request.uri().path();
    match routes.into_iter().find(|route| *route == path) {
        Some(route) => route,
        None if path.starts_with("/models/") => "/models/{name}",
        None => "other",
    }
}

/// Counts requests, and adds headers that all answers have.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    /// Counts a request until it is answered, or dropped because its client is gone.
    struct InFlight(Arc<App>);
    impl Drop for InFlight {
        fn drop(&mut self) {
            self.0.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let (route, start) = (route(&request), Instant::now());
    app.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
    let guard = InFlight(app.clone());
    let mut response = next.run(request).await;
    drop(guard);
    app.metrics
        .add_request(route, response.status().as_u16(), start.elapsed());
    tracing::debug!(
        "{route} {} in {:?}",
        response.status().as_u16(),
        start.elapsed()
    );
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if *app.stopping.borrow() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Refuses requests without the token, except for the page, the description of the API and the probes.
async fn check_token(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_open =
        request.method() == Method::GET && !matches!(route(&request), "/v1/models" | "/metrics");
    if let Some(token) = app.token.as_ref().filter(|_| !is_open) {
        let header = request.headers().get(header::AUTHORIZATION);
        if !token.is_presented(header.map(HeaderValue::as_bytes)) {
            let message =
                "this service needs its token: send the header Authorization: Bearer TOKEN";
            return Failure::new(StatusCode::UNAUTHORIZED, message).into_response();
        }
    }
    next.run(request).await
}

async fn health() -> Response {
    json(StatusCode::OK, &Status { status: "ok" })
}

async fn ready(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    if *app.stopping.borrow() {
        return Err(Failure::too_late());
    }
    Ok(json(StatusCode::OK, &Status { status: "ready" }))
}

async fn openapi_document(State(app): State<Arc<App>>) -> Response {
    json(StatusCode::OK, &app.openapi)
}

async fn metrics_text(State(app): State<Arc<App>>) -> Response {
    let models = app.models.iter();
    let models = models.map(|model| {
        (
            model.about.name.as_str(),
            &model.metrics,
            model.queue.waiting(),
        )
    });
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(models)).into_response()
}
