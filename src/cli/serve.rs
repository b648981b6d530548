//! `nerzoo serve`: models over HTTP.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::device::{self, remote};
use crate::process;
use crate::serve::{Limits, Model, ServeOptions, Server};

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// A model: a folder, a name that `nerzoo zoo list` shows, hf:OWNER/NAME or an http(s) address; NAME=MODEL gives it another name.
    /// May be repeated; the first model answers requests that name none [default: the default model of the zoo].
    #[arg(long, short, value_name = "MODEL")]
    model: Vec<String>,
    /// The address to listen on; 0.0.0.0 for all networks of this machine. The connection is not encrypted.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: String,
    /// The port to listen on; 0 for any that is free.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// A file with a token in its first line, which clients have to present as `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let pages of this origin, such as https://example.org, use the service from a browser; * for all. May be repeated.
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Refuse requests that change settings of a model's head.
    #[arg(long)]
    no_set: bool,
    /// Largest body of a request, in bytes; of a stream, largest line.
    #[arg(long, default_value_t = Limits::default().body, value_name = "BYTES", value_parser = positive)]
    max_body: usize,
    /// Most texts of a request that is not a stream.
    #[arg(long, default_value_t = Limits::default().texts, value_name = "N", value_parser = positive)]
    max_texts: usize,
    /// Most characters of all texts of a request; of a stream, of one text.
    #[arg(long, default_value_t = Limits::default().characters, value_name = "N", value_parser = positive)]
    max_characters: usize,
    /// Word pieces of a model that may wait; further requests get the status 429.
    #[arg(long, default_value_t = Limits::default().queue, value_name = "PIECES", value_parser = positive)]
    queue: usize,
    /// Word pieces that are tagged together.
    #[arg(long, default_value_t = Limits::default().batch, value_name = "PIECES", value_parser = positive)]
    batch: usize,
    /// How long the first sentence of a batch waits for others, in milliseconds.
    #[arg(long, default_value_t = Limits::default().wait.as_millis() as u64, value_name = "MS")]
    max_wait: u64,
    /// Time limit of a request, in seconds.
    #[arg(long, default_value_t = Limits::default().timeout.as_secs(), value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Connections at the same time; further ones wait.
    #[arg(long, default_value_t = Limits::default().connections, value_name = "N", value_parser = connections)]
    connections: usize,
    /// The device to run on, as for `predict`.
    #[arg(
        long,
        env = "NERZOO_DEVICE",
        default_value = "auto",
        value_name = "DEVICE"
    )]
    device: String,
    /// A file with the token of a remote device in its first line.
    #[arg(long, env = "NERZOO_TOKEN_FILE", value_name = "FILE")]
    device_token_file: Option<PathBuf>,
}

/// Most connections that may be asked for; a system allows far fewer open files.
const MOST_CONNECTIONS: usize = 1_000_000;

fn connections(text: &str) -> Result<usize, String> {
    match positive(text)? {
        number if number > MOST_CONNECTIONS => Err(format!("has to be at most {MOST_CONNECTIONS}")),
        number => Ok(number),
    }
}

/// A whole number of at least 1.
fn positive(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| "not a whole number".to_string())?;
    if number == 0 {
        return Err("has to be at least 1".into());
    }
    Ok(number)
}

impl Serve {
    /// Serves until the program is told to stop.
    pub fn run(self) -> Result<ExitCode> {
        let token = self.token_file.as_deref().map(remote::token).transpose()?;
        let device_token = self
            .device_token_file
            .as_deref()
            .map(remote::token)
            .transpose()?;
        let device = device::find(&self.device, device_token.as_deref())?;
        let models: Vec<Model> = if self.model.is_empty() {
            vec![Model::default_of_zoo(&device)?]
        } else {
            let models = self.model.iter().map(|given| Model::load(given, &device));
            models.collect::<crate::error::Result<_>>()?
        };
        let names: Vec<String> = models
            .iter()
            .map(|model| model.name().to_string())
            .collect();
        let has_token = token.is_some();
        let options = ServeOptions {
            limits: self.limits(),
            token,
            origins: self.cors.clone(),
            no_set: self.no_set,
        };
        let host = if self.host.contains(':') && !self.host.starts_with('[') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let server = Server::bind(models, &format!("{host}:{}", self.port), options)?;
        if !server.address().ip().is_loopback() && !has_token {
            tracing::warn!(
                "everyone who can reach {} can use this service; --token-file restricts it",
                server.address()
            );
        }
        let handle = server.stop_handle();
        let is_second = AtomicBool::new(false);
        ctrlc::set_handler(move || {
            if is_second.swap(true, Ordering::SeqCst) {
                process::exit_now(130);
            }
            eprintln!("stopping after the requests that were taken; again to stop now");
            handle.stop();
        })
        .context("cannot react to Ctrl-C")?;
        println!(
            "serving {} at http://{}/",
            names.join(", "),
            server.address()
        );
        std::io::stdout().flush()?;
        process::survive_closed_pipes();
        server.run()?;
        Ok(ExitCode::SUCCESS)
    }

    fn limits(&self) -> Limits {
        Limits {
            body: self.max_body,
            texts: self.max_texts,
            characters: self.max_characters,
            queue: self.queue,
            batch: self.batch,
            wait: Duration::from_millis(self.max_wait),
            timeout: Duration::from_secs(self.timeout),
            connections: self.connections,
            // Several of the largest bodies have to fit.
            memory: Limits::default()
                .memory
                .max(self.max_body.saturating_mul(4)),
        }
    }
}
