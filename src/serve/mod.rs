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
mod batch;
mod body;
mod failure;
mod http;
mod hugging_face;
mod limits;
mod lines;
mod metrics;
mod models;
mod openapi;
mod page;
mod queue;
mod request;
mod routes;
mod stream;
mod tag;
mod tagging;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use axum::http::HeaderValue;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use access::Token;
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
                "two models are called {name}; give one of them another name, as in NAME=MODEL"
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
        // Cutting and joining texts is computation. More threads than processors would not make it faster, and every thread
        // keeps memory of its own.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .max_blocking_threads(2 * cores)
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
        let router = routes::router(self.app.clone(), &self.origins);
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
