//! Other machines' devices, through Burn's remote backend over WebSocket: unencrypted, for networks that are trusted.

use std::path::Path;

use burn::tensor::Device;

use crate::error::{Error, Result};

/// A token from a file: its first line.
pub fn token(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::io(file, source))?;
    match text.lines().next().map(str::trim) {
        Some(token) if !token.is_empty() => Ok(token.to_string()),
        _ => Err(Error::Device(format!(
            "{}: the token file is empty; put a long random word into its first line, the same on both machines",
            file.display()
        ))),
    }
}

/// The device at `HOST:PORT` or `HOST:PORT/NUMBER`.
#[cfg(feature = "remote")]
pub(super) fn connect(address: &str, token: Option<&str>) -> Result<Device> {
    use burn::remote::{ConnectError, RemoteHost};
    let (host, number) = match address.split_once('/') {
        Some((host, number)) => (host, number.parse().ok()),
        None => (address, Some(0)),
    };
    let (Some(number), true) = (number, host.contains(':')) else {
        return Err(Error::Device(format!(
            "device \"remote:{address}\" is not understood; write remote:HOST:PORT, or remote:HOST:PORT/1 for the \
             worker's second device"
        )));
    };
    let mut worker = RemoteHost::websocket(&format!("ws://{host}"));
    if let Some(token) = token {
        worker = worker.with_credential(token);
    }
    let device = Device::remote_options(&worker).device_index(number as usize);
    device.init().map_err(|problem: ConnectError| {
        let remedy = match problem {
            ConnectError::Unauthorized => {
                "give the worker's token with --token-file or NERZOO_TOKEN_FILE"
            }
            ConnectError::Unreachable { .. } => "is `nerzoo worker` running there?",
            ConnectError::IncompatibleProtocol { .. } => "use the same nerzoo on both machines",
            _ => "look at the worker's log",
        };
        Error::Device(format!("device \"remote:{address}\": {problem}; {remedy}"))
    })
}

/// Without the feature there is nothing to connect with.
#[cfg(not(feature = "remote"))]
pub(super) fn connect(address: &str, _: Option<&str>) -> Result<Device> {
    Err(without(&format!("device \"remote:{address}\"")))
}

/// Serves devices to whoever has the token, until Ctrl-C.
#[cfg(feature = "remote")]
pub fn serve(listen: &str, devices: Vec<Device>, token: &str) -> Result<()> {
    use burn::server::{RemoteServer, TokenAuthorizer, WebSocketTransport};
    let listener = std::net::TcpListener::bind(listen).map_err(|problem| {
        Error::Device(format!(
            "cannot listen on {listen}: {problem}; give a free HOST:PORT of this machine"
        ))
    })?;
    let problem = |problem: &dyn std::fmt::Display| Error::Device(format!("worker: {problem}"));
    let authorizer = TokenAuthorizer::new(token).map_err(|empty| problem(&empty))?;
    if let Ok(address) = listener.local_addr() {
        // Waited for by scripts, so not held back.
        println!(
            "serving {} device(s) on {address}; Ctrl-C ends it",
            devices.len()
        );
        let _ = std::io::Write::flush(&mut std::io::stdout());
    }
    say_who_left();
    RemoteServer::new(devices)
        .with_authorizer(authorizer)
        .serve(WebSocketTransport::from_listener(listener))
        .map_err(|stopped| problem(&stopped))
}

/// A client or another worker that ends without a word makes the thread of its connection panic, and only that: one
/// line is enough.
#[cfg(feature = "remote")]
fn say_who_left() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        let lost = text.starts_with("Failed to receive message from websocket");
        if lost && (text.contains("Reset") || text.contains("Closed")) {
            tracing::info!("a connection was closed from the other side");
            tracing::debug!("{panic}");
        } else {
            before(panic)
        }
    }));
}

/// Without the feature there is nothing to serve with.
#[cfg(not(feature = "remote"))]
pub fn serve(_: &str, _: Vec<Device>, _: &str) -> Result<()> {
    Err(without("worker"))
}

#[cfg(not(feature = "remote"))]
fn without(what: &str) -> Error {
    Error::Device(format!(
        "{what}: this program was built without it; build with `--features remote`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        assert!(token(&file).is_err());
        std::fs::write(&file, "  secret \nrest\n").unwrap();
        assert_eq!(token(&file).unwrap(), "secret");
        std::fs::write(&file, "\n").unwrap();
        assert!(token(&file).unwrap_err().to_string().contains("empty"));
    }
}
