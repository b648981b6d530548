//! Reasons why a download fails, each with a remedy.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// Why a request or a download failed. Addresses are not kept: those of storage servers contain signatures.
#[derive(Debug)]
pub enum Fault {
    /// The server answered with an error.
    Status {
        host: String,
        status: u16,
        /// The header `X-Error-Code`, such as `GatedRepo`.
        code: Option<String>,
        /// Seconds to wait, from the header `Retry-After`.
        wait: Option<u64>,
    },
    /// The server refused an upload, for the reason it gives.
    Refused {
        host: String,
        status: u16,
        reason: String,
    },
    /// There is no connection to the server.
    Connect { host: String, reason: String },
    /// The connection ended early.
    Cut { host: String, reason: String },
    /// The server was silent for too long.
    Timeout { host: String, seconds: f64 },
    /// The answer makes no sense.
    Protocol { host: String, reason: String },
    /// The content is longer or shorter than the server says elsewhere.
    WrongSize {
        host: String,
        file: String,
        expected: u64,
        found: u64,
    },
    /// The content has another hash than the server says.
    WrongHash {
        host: String,
        file: String,
        expected: String,
        found: String,
    },
    /// The file is larger than the limit.
    TooLarge {
        host: String,
        file: String,
        size: u64,
        limit: u64,
    },
    /// There is no space for the file.
    DiskFull {
        path: PathBuf,
        needed: u64,
        available: Option<u64>,
    },
    /// The user stopped it.
    Interrupted,
    /// A local file cannot be written.
    File(Error),
}

impl Fault {
    /// The fault of writing a file of a download.
    pub fn writing(path: &Path, needed: u64, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: path.to_path_buf(),
                needed,
                available: None,
            },
            _ => Self::File(Error::io(path, source)),
        }
    }

    /// True if the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Cut { .. } | Self::Timeout { .. } => true,
            _ => false,
        }
    }

    /// The error of an upload for the user, with what to do about it.
    pub fn explain_upload(self, name: &str, page: &str) -> Error {
        let Self::Refused {
            host,
            status,
            reason,
        } = self
        else {
            return match self {
                Self::Interrupted => Error::Interrupted(format!(
                    "{name}: the upload was stopped; nothing was committed"
                )),
                other => other.explain(name, page, true),
            };
        };
        let remedy = match status {
            401 => {
                "the access token (HF_TOKEN, HF_TOKEN_PATH) is not valid; make one with the permission to write"
            }
            403 => {
                "the access token may not write there; check the owner's name and the permissions of the token"
            }
            404 => {
                "there is no such repository or branch, or the token may not see it; check the name"
            }
            413 => "a file is too large for the server",
            _ => "correct what it says and try again",
        };
        let reason = if reason.is_empty() {
            String::new()
        } else {
            format!(" ({reason})")
        };
        Error::Hub {
            name: name.into(),
            problem: format!("{host} answered {status}{reason}: {remedy}; nothing was committed"),
        }
    }

    /// The error for the user. `name` is what was asked for, `page` the address of its page for people.
    pub fn explain(self, name: &str, page: &str, has_token: bool) -> Error {
        let problem = match self {
            Self::File(error) => return error,
            Self::Interrupted => {
                return Error::Interrupted(format!(
                    "{name}: the download was stopped; the next one goes on from there"
                ));
            }
            Self::Status {
                host, status, code, ..
            } => format!(
                "{host} answered {status}: {}",
                status_problem(status, code.as_deref(), page, has_token)
            ),
            Self::Refused {
                host,
                status,
                reason,
            } => format!("{host} answered {status} ({reason}); check the name and HF_ENDPOINT"),
            Self::Connect { host, reason } => format!(
                "cannot connect to {host} ({reason}); check the network, HTTPS_PROXY and HF_ENDPOINT. Without a network, \
                 download the model elsewhere and set NERZOO_ENCODERS to the folder that contains its folder"
            ),
            Self::Cut { host, reason } => format!(
                "the connection to {host} ended early, also after several attempts ({reason}); run the command again to go \
                 on from there"
            ),
            Self::Timeout { host, seconds } => format!(
                "timeout: {host} sent nothing for {seconds} s, also after several attempts; run the command again to go on \
                 from there, or set HF_HUB_DOWNLOAD_TIMEOUT to more seconds"
            ),
            Self::Protocol { host, reason } => format!(
                "{host} gave an answer that is not one of a model hub: {reason}; check HF_ENDPOINT and proxies"
            ),
            Self::WrongSize {
                host,
                file,
                expected,
                found,
            } => format!(
                "wrong size: {host} sent {found} bytes for {file}, but says that it has {expected}; try again later, or \
                 another HF_ENDPOINT"
            ),
            Self::WrongHash {
                host,
                file,
                expected,
                found,
            } => format!(
                "wrong hash: {file} from {host} has {found}, but should have {expected}; it was deleted. Try again, and \
                 check proxies between here and {host}"
            ),
            Self::TooLarge {
                host,
                file,
                size,
                limit,
            } => format!(
                "{host} says that {file} has {}, more than the limit of {}; choose a smaller model, or download it with \
                 another program and set encoder.pretrained to its folder",
                bytes(size),
                bytes(limit)
            ),
            Self::DiskFull {
                path,
                needed,
                available,
            } => format!(
                "disk full: {} more are needed in {}{}; free space, or set HF_HUB_CACHE to a folder on another disk",
                bytes(needed),
                path.display(),
                available.map_or(String::new(), |free| format!(
                    ", but only {} are free",
                    bytes(free)
                ))
            ),
        };
        Error::Hub {
            name: name.into(),
            problem,
        }
    }
}

fn status_problem(status: u16, code: Option<&str>, page: &str, has_token: bool) -> String {
    let gated = format!("the model is gated: accept its conditions on {page} with your account");
    let login = "set HF_TOKEN to an access token of your account, or run `hf auth login`";
    match (status, code) {
        (401 | 403, Some("GatedRepo")) if has_token => gated,
        (401 | 403, Some("GatedRepo")) => format!("{gated}, and {login}"),
        (401, _) if has_token => {
            "there is no such model, or the access token (HF_TOKEN, HF_TOKEN_PATH) is not valid or may not read it; check \
             the name and the token"
                .into()
        }
        (401, _) => format!("there is no such model, or it is private or gated; check the name, or {login}"),
        (403, _) if has_token => format!(
            "access is not allowed; if the model is gated, accept its conditions on {page}, and check that the token may \
             read it"
        ),
        (403, _) => format!("access is not allowed; if the model is gated, accept its conditions on {page}, and {login}"),
        (404, Some("RevisionNotFound")) => {
            format!("there is no such branch, tag or commit; see {page} for those that exist")
        }
        (404, Some("EntryNotFound")) => format!("the model has no such file; see {page} for its files"),
        (404, _) => "there is no such model or revision; check the name (owner/name@revision) and HF_ENDPOINT".into(),
        (429, _) => "too many requests; wait some minutes, or set HF_TOKEN, which has a higher limit".into(),
        (500..=599, _) => "the server has a problem, also after several attempts; try again later".into(),
        _ => "not expected; check HF_ENDPOINT and proxies".into(),
    }
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["bytes", "kB", "MB", "GB"] {
        if value < 1000.0 {
            return if unit == "bytes" {
                format!("{count} bytes")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, code: Option<&str>) -> Fault {
        Fault::Status {
            host: "h".into(),
            status,
            code: code.map(String::from),
            wait: None,
        }
    }

    #[test]
    fn every_status_has_a_remedy() {
        for (code, error, has_token, expected) in [
            (401, None, false, "set HF_TOKEN"),
            (401, None, true, "is not valid or may not read it"),
            (
                401,
                Some("GatedRepo"),
                false,
                "accept its conditions on https://h/a",
            ),
            (
                403,
                Some("GatedRepo"),
                true,
                "accept its conditions on https://h/a",
            ),
            (
                404,
                Some("RevisionNotFound"),
                false,
                "no such branch, tag or commit",
            ),
            (404, None, false, "check the name"),
            (429, None, false, "wait some minutes"),
            (503, None, false, "try again later"),
            (418, None, false, "check HF_ENDPOINT"),
        ] {
            let problem = status(code, error)
                .explain("a", "https://h/a", has_token)
                .to_string();
            assert!(
                problem.starts_with(&format!("a: h answered {code}: ")),
                "{problem}"
            );
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn transient_faults() {
        for (code, expected) in [
            (500, true),
            (429, true),
            (503, true),
            (501, false),
            (404, false),
        ] {
            assert_eq!(status(code, None).is_transient(), expected, "{code}");
        }
        let full = Fault::writing(Path::new("x"), 5, std::io::ErrorKind::StorageFull.into());
        let problem = full.explain("a", "p", false).to_string();
        assert!(
            problem.starts_with("a: disk full: 5 bytes more"),
            "{problem}"
        );
    }

    #[test]
    fn sizes_for_people() {
        for (count, expected) in [
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (1_234_567, "1.2 MB"),
            (5 << 40, "5.5 TB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }
}
