//! Requests to a hub: redirects, timeouts, retries, and the token only for the hub itself.

use std::time::Duration;

use ureq::http::header::{self, HeaderMap, HeaderName};
use ureq::http::{HeaderValue, Method, Request, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Timeout};

use super::fault::Fault;
use super::settings::{Token, variable};
use crate::error::{Error, Result};

/// Header with the ETag of the file that a hub redirects to.
pub const LINKED_ETAG: &str = "x-linked-etag";
/// Header with its size.
pub const LINKED_SIZE: &str = "x-linked-size";
/// Redirects that are followed.
const REDIRECTS: usize = 10;
/// Longest time for a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// Longest answer that is read into memory.
const LONGEST_TEXT: u64 = 32 << 20;
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A client of one hub.
pub struct Client {
    pub(super) agent: Agent,
    pub(super) endpoint: Uri,
    pub(super) authorization: Option<HeaderValue>,
    timeout: Duration,
    attempts: usize,
    pause: Duration,
}

/// An answer of a server, with the headers of the redirects that led to it.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// The headers of redirects, in order.
    pub redirects: Vec<HeaderMap>,
    pub host: String,
    pub body: ureq::Body,
}

/// Which redirects to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirects {
    /// All of them.
    All,
    /// All until the hub says what it redirects to. A storage server may not answer the same question.
    UntilLinked,
}

impl Client {
    /// A client; fails if the endpoint is not an address or a token has forbidden characters.
    pub fn new(
        endpoint: &str,
        token: Option<&Token>,
        timeout: Duration,
        attempts: usize,
        pause: Duration,
    ) -> Result<Self> {
        let address: Uri = (endpoint.parse().ok())
            .filter(|uri: &Uri| uri.host().is_some() && scheme(uri).is_some())
            .ok_or_else(|| {
                Error::Config("HF_ENDPOINT is not an address such as https://huggingface.co".into())
            })?;
        let authorization = match token {
            None => None,
            Some(token) => {
                let value = HeaderValue::from_str(&format!("Bearer {}", token.secret()));
                let mut value = value.map_err(|_| {
                    Error::Config(
                        "the access token (HF_TOKEN or its file) has characters that no token has"
                            .into(),
                    )
                })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("nerzoo/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .tls_config(tls()?)
            .timeout_resolve(Some(CONNECT.min(timeout)))
            .timeout_connect(Some(CONNECT.min(timeout)))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout));
        if is_loopback(&address) {
            config = config.proxy(None);
        }
        Ok(Self {
            agent: config.build().new_agent(),
            endpoint: address,
            authorization,
            timeout,
            attempts: attempts.max(1),
            pause,
        })
    }

    /// The host of the hub.
    pub fn host(&self) -> String {
        host(&self.endpoint)
    }

    /// True if a token is sent to the hub.
    pub fn has_token(&self) -> bool {
        self.authorization.is_some()
    }

    /// Reads a text of the hub, with several attempts.
    pub fn text(&self, address: &str) -> Result<String, Fault> {
        self.retry(|| {
            let mut answer = self.send(Method::GET, address, None, Redirects::All)?;
            answer.check()?;
            let text = answer
                .body
                .with_config()
                .limit(LONGEST_TEXT)
                .read_to_string();
            text.map_err(|problem| self.fault(&answer.host, problem))
        })
    }

    /// Asks for the headers of a file, with several attempts.
    pub fn head(&self, address: &str) -> Result<Answer, Fault> {
        self.retry(|| {
            let answer = self.send(Method::HEAD, address, None, Redirects::UntilLinked)?;
            if !(300..400).contains(&answer.status) {
                answer.check()?;
            }
            Ok(answer)
        })
    }

    /// Asks for a file from a position on, once.
    pub fn get(&self, address: &str, start: u64) -> Result<Answer, Fault> {
        let range = (start > 0).then(|| format!("bytes={start}-"));
        self.send(Method::GET, address, range.as_deref(), Redirects::All)
    }

    /// Calls `work` until it succeeds, fails for good, or fails too often.
    pub(super) fn retry<T>(&self, mut work: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
        let mut failures = 0;
        loop {
            match work() {
                Err(fault) if fault.is_transient() && failures + 1 < self.attempts => {
                    failures += 1;
                    self.wait(failures, &fault);
                }
                result => return result,
            }
        }
    }

    /// Longest time for a connection.
    fn connect(&self) -> Duration {
        CONNECT.min(self.timeout)
    }

    /// Number of attempts for one request.
    pub fn attempts(&self) -> usize {
        self.attempts
    }

    /// Waits before the next attempt: twice as long each time, or as long as the server says.
    pub fn wait(&self, failures: usize, fault: &Fault) {
        let doubled = self.pause * (1 << failures.saturating_sub(1).min(10));
        let pause = match fault {
            Fault::Status {
                wait: Some(seconds),
                ..
            } => Duration::from_secs(*seconds).max(doubled),
            _ => doubled,
        };
        tracing::debug!("attempt {failures} failed, the next one follows");
        std::thread::sleep(pause.min(LONGEST_PAUSE));
    }

    fn send(
        &self,
        method: Method,
        address: &str,
        range: Option<&str>,
        redirects: Redirects,
    ) -> Result<Answer, Fault> {
        let mut uri: Uri = address.parse().map_err(|_| Fault::Protocol {
            host: self.host(),
            reason: "an address of the file cannot be made".into(),
        })?;
        let mut passed = Vec::new();
        for _ in 0..=REDIRECTS {
            let host = host(&uri);
            let mut request = Request::builder().method(method.clone()).uri(&uri);
            if let Some(range) = range {
                request = request.header(header::RANGE, range);
            }
            if let Some(authorization) = &self.authorization
                && is_same_server(&uri, &self.endpoint)
            {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let request = request.body(()).map_err(|_| Fault::Protocol {
                host: host.clone(),
                reason: "an address that is not valid".into(),
            })?;
            let response = self
                .agent
                .run(request)
                .map_err(|problem| self.fault(&host, problem))?;
            let (parts, body) = response.into_parts();
            let status = parts.status.as_u16();
            let next = location(&uri, status, &parts.headers);
            let has = |name: &str| parts.headers.contains_key(name);
            let leaves = |next: &Uri| !is_same_server(next, &self.endpoint);
            let is_told = redirects == Redirects::UntilLinked
                && has(LINKED_ETAG)
                && (has(LINKED_SIZE) || next.as_ref().is_some_and(leaves));
            if is_told || !is_redirect(status) {
                return Ok(Answer {
                    status,
                    headers: parts.headers,
                    redirects: passed,
                    host,
                    body,
                });
            }
            let next = next.ok_or_else(|| Fault::Protocol {
                host: host.clone(),
                reason: format!("a redirect ({status}) without a usable address"),
            })?;
            if scheme(&uri) == Some("https") && scheme(&next) != Some("https") {
                return Err(Fault::Protocol {
                    host,
                    reason: "a redirect from https to http".into(),
                });
            }
            passed.push(parts.headers);
            uri = next;
        }
        Err(Fault::Protocol {
            host: host(&uri),
            reason: format!("more than {REDIRECTS} redirects"),
        })
    }

    /// The fault of an error while a request is sent or an answer read.
    pub fn fault(&self, host: &str, problem: ureq::Error) -> Fault {
        use std::io::ErrorKind;
        use ureq::Error as Problem;
        let host = host.to_string();
        match problem {
            // A firewall may drop what is sent; more attempts would not help.
            Problem::Timeout(Timeout::Connect | Timeout::Resolve) => Fault::Connect {
                host,
                reason: format!("no connection within {} s", self.connect().as_secs_f64()),
            },
            Problem::Timeout(_) => Fault::Timeout {
                host,
                seconds: self.timeout.as_secs_f64(),
            },
            Problem::HostNotFound => Fault::Connect {
                host,
                reason: "no such host".into(),
            },
            Problem::ConnectionFailed => Fault::Connect {
                host,
                reason: "no connection".into(),
            },
            Problem::Io(source) => match source.kind() {
                ErrorKind::TimedOut | ErrorKind::WouldBlock => Fault::Timeout {
                    host,
                    seconds: self.timeout.as_secs_f64(),
                },
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::Interrupted
                | ErrorKind::UnexpectedEof => Fault::Cut {
                    host,
                    reason: source.to_string(),
                },
                _ => Fault::Connect {
                    host,
                    reason: source.to_string(),
                },
            },
            // The connection ended before the answer did.
            Problem::Protocol(reason) => Fault::Cut {
                host,
                reason: reason.to_string(),
            },
            Problem::Rustls(reason) => Fault::Connect {
                host,
                reason: format!(
                    "TLS: {reason}; behind a proxy that replaces certificates, set SSL_CERT_FILE"
                ),
            },
            Problem::BodyExceedsLimit(limit) => Fault::Protocol {
                host,
                reason: format!("more than {limit} bytes"),
            },
            // Other messages may quote the address.
            Problem::BadUri(_) | Problem::RequireHttpsOnly(_) => Fault::Protocol {
                host,
                reason: "an address that is not valid".into(),
            },
            other => Fault::Connect {
                host,
                reason: other.to_string(),
            },
        }
    }
}

impl Answer {
    /// A fault unless the status is that of a success.
    pub fn check(&self) -> Result<(), Fault> {
        if (200..300).contains(&self.status) {
            return Ok(());
        }
        Err(Fault::Status {
            host: self.host.clone(),
            status: self.status,
            code: text(&self.headers, "x-error-code").map(String::from),
            wait: text(&self.headers, "retry-after").and_then(|text| text.trim().parse().ok()),
        })
    }

    /// A header of the answer or, if it has none, of the last redirect with it.
    pub fn header(&self, name: &str) -> Option<&str> {
        let all = std::iter::once(&self.headers).chain(self.redirects.iter().rev());
        all.into_iter().find_map(|headers| text(headers, name))
    }

    /// A header of the answer itself.
    pub fn own_header(&self, name: &str) -> Option<&str> {
        text(&self.headers, name)
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    headers.get(name)?.to_str().ok()
}

/// Certificates: those built in, or those of the file that `SSL_CERT_FILE` or `REQUESTS_CA_BUNDLE` names.
fn tls() -> Result<TlsConfig> {
    let named = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"]
        .into_iter()
        .find_map(|name| {
            let path = variable(name).filter(|path| !path.trim().is_empty())?;
            Some((name, path))
        });
    let Some((name, path)) = named else {
        return Ok(TlsConfig::default());
    };
    let pem = std::fs::read(&path).map_err(|problem| {
        Error::Config(format!(
            "{name}={path}: the file of certificates cannot be read ({problem}); correct or unset {name}"
        ))
    })?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        return Err(Error::Config(format!(
            "{name}={path}: the file has no certificates in PEM format"
        )));
    }
    let roots = RootCerts::Specific(std::sync::Arc::new(certificates));
    Ok(TlsConfig::builder().root_certs(roots).build())
}

/// `http` or `https`; `None` for others.
pub(super) fn scheme(uri: &Uri) -> Option<&'static str> {
    match uri.scheme_str() {
        Some("https") => Some("https"),
        Some("http") => Some("http"),
        _ => None,
    }
}

/// The host with its port if it is not the usual one; never a user name or password.
pub(super) fn host(uri: &Uri) -> String {
    match (uri.host(), uri.port_u16()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or("?").to_string(),
    }
}

fn is_loopback(uri: &Uri) -> bool {
    matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// True if two addresses have the same scheme, host and port.
pub(super) fn is_same_server(one: &Uri, other: &Uri) -> bool {
    let parts = |uri: &Uri| {
        let usual = if scheme(uri) == Some("https") {
            443
        } else {
            80
        };
        (
            scheme(uri),
            uri.host().map(str::to_ascii_lowercase),
            uri.port_u16().unwrap_or(usual),
        )
    };
    parts(one) == parts(other)
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The address that an answer redirects to.
fn location(base: &Uri, status: u16, headers: &HeaderMap) -> Option<Uri> {
    let location = text(headers, header::LOCATION.as_str());
    join(base, location.filter(|_| is_redirect(status))?)
}

/// The address that a redirect from `base` leads to.
fn join(base: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    let scheme_of_base = scheme(base)?;
    let server = format!("{scheme_of_base}://{}", base.authority()?);
    let address = if location.contains("://") {
        location.to_string()
    } else if location.starts_with("//") {
        format!("{scheme_of_base}:{location}")
    } else if location.starts_with('/') {
        format!("{server}{location}")
    } else {
        let folder = base
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{server}{folder}/{location}")
    };
    let uri: Uri = address.parse().ok()?;
    (scheme(&uri).is_some() && uri.host().is_some()).then_some(uri)
}

/// A path or one part of it with all characters escaped that addresses do not have; slashes stay if `keep_slashes`.
pub fn escaped(path: &str, keep_slashes: bool) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (byte == b'/' && keep_slashes)
        {
            text.push(char::from(byte));
        } else {
            text += &format!("%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_joined() {
        let base: Uri = "https://h:8/a/b?x=1".parse().unwrap();
        for (location, expected) in [
            ("https://other/x?y=1#z", Some("https://other/x?y=1")),
            ("//other/x", Some("https://other/x")),
            ("/x/y", Some("https://h:8/x/y")),
            ("c", Some("https://h:8/a/c")),
            ("ftp://other/x", None),
            ("https://", None),
        ] {
            let joined = join(&base, location).map(|uri| uri.to_string());
            assert_eq!(joined.as_deref(), expected, "{location}");
        }
    }

    #[test]
    fn the_token_is_for_one_server() {
        let is_same =
            |one: &str, other: &str| is_same_server(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(is_same("https://h/a", "https://H:443/b"));
        for other in [
            "http://h/a",
            "https://h:1/a",
            "https://h.evil/a",
            "https://h@evil/a",
            "https://evil/h",
        ] {
            assert!(!is_same("https://h/a", other), "{other}");
        }
    }

    #[test]
    fn hosts_have_no_passwords_and_paths_are_escaped() {
        assert_eq!(host(&"https://user:secret@h:8/a".parse().unwrap()), "h:8");
        assert_eq!(escaped("a b/ü%", true), "a%20b/%C3%BC%25");
        assert_eq!(escaped("refs/pr/1", false), "refs%2Fpr%2F1");
    }
}
