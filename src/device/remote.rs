//! Devices of other machines, through Burn's remote backend over WebSocket. The connection is not encrypted: use it in
//! trusted networks only.

use std::path::Path;

use burn::tensor::Device;

use crate::error::{Error, Result};

/// Reads a token: the first line of a file.
pub fn token(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::io(file, source))?;
    match text.lines().next().map(str::trim) {
        Some(token) if !token.is_empty() => Ok(token.to_string()),
        _ => Err(Error::Device(format!(
            "{}: the first line of the token file is empty; write a long random word into it, the same on both machines",
            file.display()
        ))),
    }
}

/// Connects to the device at `HOST:PORT` or `HOST:PORT/INDEX`.
#[cfg(feature = "remote")]
pub(super) fn connect(address: &str, token: Option<&str>) -> Result<Device> {
    use burn::remote::{ConnectError, RemoteHost};
    let (host, index) = match address.split_once('/') {
        Some((host, index)) => (host, index.parse::<u32>().ok()),
        None => (address, Some(0)),
    };
    let (Some(index), true) = (index, host.contains(':')) else {
        return Err(Error::Device(format!(
            "device \"remote:{address}\" is not a valid address; write remote:HOST:PORT, or remote:HOST:PORT/1 for the \
             worker's second device"
        )));
    };
    let mut worker = RemoteHost::websocket(&format!("ws://{host}"));
    if let Some(token) = token {
        worker = worker.with_credential(token);
    }
    let device = Device::remote_options(&worker).device_index(index as usize);
    device.init().map_err(|problem: ConnectError| {
        let remedy = match problem {
            ConnectError::Unauthorized => {
                "give the worker's token with --token-file or NERZOO_TOKEN_FILE"
            }
            ConnectError::Unreachable { .. } => "is `nerzoo worker` running there?",
            ConnectError::IncompatibleProtocol { .. } => {
                "use the same version of nerzoo on both machines"
            }
            _ => "see the worker's log",
        };
        Error::Device(format!("device \"remote:{address}\": {problem}; {remedy}"))
    })
}

/// Fails, because this build lacks the feature `remote`.
#[cfg(not(feature = "remote"))]
pub(super) fn connect(address: &str, _: Option<&str>) -> Result<Device> {
    Err(not_built(&format!("device \"remote:{address}\"")))
}

/// Serves devices to clients with the token, until the program is stopped.
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
        // Flushed, because scripts wait for this line.
        println!(
            "serving {} device(s) on {address}; stop with Ctrl-C",
            devices.len()
        );
        let _ = std::io::Write::flush(&mut std::io::stdout());
    }
    log_closed_connections();
    RemoteServer::new(devices)
        .with_authorizer(authorizer)
        .serve(WebSocketTransport::from_listener(listener))
        .map_err(|stopped| problem(&stopped))
}

/// Logs one line when a client or another worker closes its connection, instead of the message of the panic with which
/// Burn ends the connection's thread.
#[cfg(feature = "remote")]
fn log_closed_connections() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        let lost = text.starts_with("Failed to receive message from websocket");
        if lost && (text.contains("Reset") || text.contains("Closed")) {
            tracing::info!("a connection was closed by the other side");
            tracing::debug!("{panic}");
        } else {
            default(panic)
        }
    }));
}

/// Fails, because this build lacks the feature `remote`.
#[cfg(not(feature = "remote"))]
pub fn serve(_: &str, _: Vec<Device>, _: &str) -> Result<()> {
    Err(not_built("worker"))
}

#[cfg(not(feature = "remote"))]
fn not_built(subject: &str) -> Error {
    Error::Device(format!(
        "{subject}: this program was built without support for it; build with `--features remote`"
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
