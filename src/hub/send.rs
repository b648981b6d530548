//! Requests that send something to a hub or a storage server.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;
use ureq::http::{Method, Request, Uri, header};
use ureq::{AsSendBody, SendBody};

use super::fault::Fault;
use super::http::{Answer, Client, host, is_same_server, scheme};
use crate::error::Error;

/// Longest text of an error that is shown, in characters.
const LONGEST_REASON: usize = 300;

/// A part of a file that is sent, with a report of the bytes so far that can stop it.
pub struct Part<'a> {
    pub path: &'a Path,
    pub start: u64,
    pub length: u64,
    pub report: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Client {
    /// Sends a text with POST, and reads the answer as JSON.
    pub fn post(&self, address: &str, content_type: &str, body: &str) -> Result<Value, Fault> {
        self.retry(|| {
            let request = self
                .request(Method::POST, address)?
                .header(header::CONTENT_TYPE, content_type)
                .header(header::ACCEPT, content_type.replace("x-ndjson", "json"));
            let mut answer = self.run(request, address, body.as_bytes())?;
            self.check(&mut answer)?;
            let text = answer.body.with_config().limit(32 << 20).read_to_string();
            let text = text.map_err(|problem| self.fault(&answer.host, problem))?;
            if text.trim().is_empty() {
                return Ok(Value::Null);
            }
            Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
        })
    }

    /// Sends a part of a file with PUT, in several attempts; returns the ETag of the answer.
    pub fn put(
        &self,
        address: &str,
        headers: &[(String, String)],
        part: &mut Part<'_>,
    ) -> Result<Option<String>, Fault> {
        self.retry(|| {
            let fail = |source| Fault::File(Error::io(part.path, source));
            let mut file = File::open(part.path).map_err(fail)?;
            file.seek(SeekFrom::Start(part.start)).map_err(fail)?;
            let mut request = self
                .request(Method::PUT, address)?
                .header(header::CONTENT_LENGTH, part.length);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            let mut reader = Reported {
                file: file.take(part.length),
                done: 0,
                was_stopped: false,
                report: &mut *part.report,
            };
            let answer = self.run(request, address, SendBody::from_reader(&mut reader));
            if reader.was_stopped {
                return Err(Fault::Interrupted);
            }
            let mut answer = answer?;
            self.check(&mut answer)?;
            Ok(answer.own_header("etag").map(String::from))
        })
    }

    /// A request with the token, if it goes to the hub itself.
    fn request(
        &self,
        method: Method,
        address: &str,
    ) -> Result<ureq::http::request::Builder, Fault> {
        let uri = self.address(address)?;
        let mut request = Request::builder().method(method).uri(&uri);
        if let Some(authorization) = &self.authorization
            && is_same_server(&uri, &self.endpoint)
        {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        Ok(request)
    }

    /// An address to send to: http(s), and not http if the hub has https.
    fn address(&self, address: &str) -> Result<Uri, Fault> {
        let uri: Option<Uri> = address.parse().ok();
        let uri = uri.filter(|uri| uri.host().is_some() && scheme(uri).is_some());
        let uri = uri.ok_or_else(|| Fault::Protocol {
            host: self.host(),
            reason: "an address for an upload that is not valid".into(),
        })?;
        if scheme(&self.endpoint) == Some("https") && scheme(&uri) != Some("https") {
            return Err(Fault::Protocol {
                host: self.host(),
                reason: "an address for an upload without https".into(),
            });
        }
        Ok(uri)
    }

    fn run(
        &self,
        request: ureq::http::request::Builder,
        address: &str,
        body: impl AsSendBody,
    ) -> Result<Answer, Fault> {
        let host = host(&self.address(address)?);
        let request = request.body(body).map_err(|_| Fault::Protocol {
            host: host.clone(),
            reason: "headers for an upload that are not valid".into(),
        })?;
        let response = self
            .agent
            .run(request)
            .map_err(|problem| self.fault(&host, problem))?;
        let (parts, body) = response.into_parts();
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            redirects: Vec::new(),
            host,
            body,
        })
    }

    /// A fault unless the status is that of a success, with what the server says.
    fn check(&self, answer: &mut Answer) -> Result<(), Fault> {
        let Err(fault) = answer.check() else {
            return Ok(());
        };
        if fault.is_transient() {
            return Err(fault);
        }
        let text = answer.body.with_config().limit(1 << 16).read_to_string();
        let text = text.unwrap_or_default();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let reason = json["error"].as_str().unwrap_or_default();
        let is_shown = |character: &char| !character.is_control();
        Err(Fault::Refused {
            host: answer.host.clone(),
            status: answer.status,
            reason: reason
                .chars()
                .filter(is_shown)
                .take(LONGEST_REASON)
                .collect(),
        })
    }
}

/// A reader of a file that reports how far it is.
struct Reported<'a> {
    file: std::io::Take<File>,
    done: u64,
    was_stopped: bool,
    report: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Read for Reported<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.done += count as u64;
        if (self.report)(self.done).is_break() {
            self.was_stopped = true;
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        Ok(count)
    }
}
