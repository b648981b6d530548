//! `nerzoo serve`: models over HTTP, and a page to try them.
//!
//! A request is cut into sentences and tokenised on a thread for blocking work. Its sentences wait in the queue of their
//! model, whose one worker thread tags them in batches together with those of other requests. What a client no longer waits
//! for is not tagged.
//!
//! ```no_run
//! # fn main() -> nerzoo::error::Result<()> {
//! use nerzoo::serve::{Model, ServeOptions, Server};
//!
//! let model = Model::load("runs/quickstart", &nerzoo::device::parse("auto")?)?;
//! let server = Server::bind(vec![model], "127.0.0.1:8080", ServeOptions::default())?;
//! println!("http://{}", server.address());
//! server.run()
//! # }
//! ```

mod access;
mod body;
mod failure;
mod http;
mod hugging_face;
mod limits;
mod metrics;
mod models;
mod openapi;
mod page;
mod queue;
mod stream;
mod tag;
mod tagging;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use access::Token;
use failure::{Failure, json};
pub use limits::Limits;
use metrics::Metrics;
pub use models::Model;
use models::ServedModel;

use crate::error::{Error, Result};

/// How models are served.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// What is accepted, and how batches are formed.
    pub limits: Limits,
    /// The token that clients have to present; `None` to serve everyone who can connect.
    pub token: Option<String>,
    /// Origins of other pages that may use the service from a browser, such as `https://example.org`; `*` for all.
    pub origins: Vec<String>,
    /// Refuse requests that change settings of a model.
    pub no_set: bool,
}

/// The state that all requests share.
struct App {
    models: Vec<Arc<ServedModel>>,
    limits: Limits,
    token: Option<Token>,
    allows_set: bool,
    metrics: Metrics,
    openapi: Value,
    /// Permits for bodies in memory, and for threads that cut texts.
    memory: Arc<Semaphore>,
    preparing: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

/// The answer of `/health` and `/ready`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Status {
    status: &'static str,
}

/// A service that is bound to an address.
pub struct Server {
    app: Arc<App>,
    listener: std::net::TcpListener,
    address: SocketAddr,
    origins: Vec<String>,
}

/// Tells a service to stop.
#[derive(Clone)]
pub struct StopHandle(Arc<App>);

impl StopHandle {
    /// Lets the service finish the requests it has taken and end.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }
}

impl Server {
    /// Binds an address. Fails without models, for two models of one name, and if the address is not free.
    pub fn bind(models: Vec<Model>, address: &str, options: ServeOptions) -> Result<Self> {
        let limits = options.limits;
        let mut names = HashSet::new();
        if let Some(twice) = models.iter().find(|model| !names.insert(model.name())) {
            let name = twice.name();
            return Err(Error::Config(format!(
                "two models are called {name}; give one of them another name, as in NAME=FOLDER"
            )));
        }
        if models.is_empty() {
            return Err(Error::Config(
                "there is no model to serve; name one with --model".into(),
            ));
        }
        for origin in &options.origins {
            let is_origin =
                origin == "*" || origin.starts_with("http://") || origin.starts_with("https://");
            if !is_origin || origin.parse::<HeaderValue>().is_err() || origin.ends_with('/') {
                return Err(Error::Config(format!(
                    "--cors {origin}: not an origin; write it as https://example.org, without a path, or *"
                )));
            }
        }
        let unusable = |problem: std::io::Error| {
            Error::Config(format!(
                "cannot listen on {address}: {problem}; choose another --port or --host"
            ))
        };
        let listener = std::net::TcpListener::bind(address).map_err(unusable)?;
        listener.set_nonblocking(true).map_err(unusable)?;
        let cores = thread::available_parallelism().map_or(2, |cores| cores.get());
        let allows_set = !options.no_set;
        let app = App {
            models: (models.into_iter().enumerate())
                .map(|(index, model)| {
                    Arc::new(ServedModel::new(model, index == 0, &limits, allows_set))
                })
                .collect(),
            memory: Arc::new(Semaphore::new((limits.memory >> 10).max(1))),
            preparing: Arc::new(Semaphore::new(cores)),
            openapi: openapi::document(options.token.is_some()),
            token: options.token.as_deref().map(Token::new),
            metrics: Metrics::default(),
            stopping: watch::Sender::new(false),
            allows_set,
            limits,
        };
        Ok(Self {
            app: Arc::new(app),
            address: listener.local_addr().map_err(unusable)?,
            listener,
            origins: options.origins,
        })
    }

    /// The address it is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle to stop it.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.app.clone())
    }

    /// Serves until it is told to stop, then answers the requests it has taken. Fails if some could not be answered.
    pub fn run(self) -> Result<()> {
        let failed =
            |problem: std::io::Error| Error::Config(format!("the service cannot start: {problem}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let workers: Vec<_> = (self.app.models.iter())
            .map(|model| {
                let model = model.clone();
                let builder = thread::Builder::new().name(format!("tag {}", model.about.name));
                builder.spawn(move || model.queue.work()).map_err(failed)
            })
            .collect::<Result<_>>()?;
        let router = router(self.app.clone(), &self.origins);
        let is_complete = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed)?;
            let stopping = self.app.stopping.subscribe();
            Ok::<_, Error>(http::serve(listener, router, &self.app.limits, stopping).await)
        })?;
        for model in &self.app.models {
            model.queue.end();
        }
        for worker in workers {
            // It catches the panics of the tagger.
            let _ = worker.join();
        }
        runtime.shutdown_background();
        if is_complete {
            Ok(())
        } else {
            Err(Error::Interrupted(
                "the service stopped, but some connections did not end within the time limit (--timeout)".into(),
            ))
        }
    }
}

fn router(app: Arc<App>, origins: &[String]) -> Router {
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
