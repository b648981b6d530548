//! Reading requests: limits, JSON, and the model and settings that a request asks for.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use super::App;
use super::failure::Failure;
use super::tagging::Choice;
use crate::error::{key_problem, nearest};

/// Bytes that a permit of the memory for bodies stands for.
const PERMIT: usize = 1 << 10;

/// The body of a request, and its share of the memory for bodies.
pub(super) struct RequestBody {
    pub bytes: Bytes,
    pub _share: OwnedSemaphorePermit,
}

impl App {
    /// Reads the body of a request that has to be JSON.
    pub async fn read_json_body(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<RequestBody, Failure> {
        let kind = content_type(headers);
        if kind != "application/json" {
            return Err(Failure::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body has to be JSON: send the header Content-Type: application/json",
            ));
        }
        self.read_body(headers, body).await
    }

    async fn read_body(&self, headers: &HeaderMap, body: Body) -> Result<RequestBody, Failure> {
        let limit = self.limits.body;
        let too_long = || {
            Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "the body is longer than the limit of {limit} bytes (--max-body); send fewer texts at a time, or a stream \
                     of lines as application/x-ndjson"
                ),
            )
        };
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > limit) {
            return Err(too_long());
        }
        let share = self.share_of_memory(length.unwrap_or(limit))?;
        let reading = Limited::new(body, limit).collect();
        let read = tokio::time::timeout(self.limits.timeout, reading).await;
        let read = read.map_err(|_| {
            let seconds = self.limits.timeout.as_secs_f64();
            let message = format!(
                "the body did not arrive within the limit of {seconds} seconds (--timeout)"
            );
            Failure::new(StatusCode::REQUEST_TIMEOUT, message)
        })?;
        let read = read.map_err(|problem| {
            if problem.downcast_ref::<LengthLimitError>().is_some() {
                return too_long();
            }
            tracing::debug!("a body could not be read: {problem}");
            Failure::malformed("the body ended early, or is not valid HTTP")
        })?;
        Ok(RequestBody {
            bytes: read.to_bytes(),
            _share: share,
        })
    }

    /// A share of the memory for requests; refused when there is none left.
    pub fn share_of_memory(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let permits = bytes
            .div_ceil(PERMIT)
            .min(self.limits.memory / PERMIT)
            .max(1);
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let share = self.memory.clone().try_acquire_many_owned(permits);
        share.map_err(|_| {
            let limit = self.limits.memory;
            let message = format!(
                "the requests that are being answered take up the {limit} bytes for them; try again later"
            );
            Failure::busy(message, 1)
        })
    }

    /// The model with this name, or the first; its tagger with settings replaced.
    pub fn choose(
        &self,
        name: Option<&str>,
        set: &Map<String, Value>,
        threshold: Option<f32>,
    ) -> Result<Choice, Failure> {
        let threshold = threshold.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&threshold) {
            return Err(Failure::invalid(format!(
                "threshold: {threshold} is not between 0 and 1"
            )));
        }
        let names = || self.models.iter().map(|model| model.about.name.as_str());
        let model = match name {
            None => &self.models[0],
            Some(name) => {
                (self.models.iter().find(|model| model.about.name == name)).ok_or_else(|| {
                    let hint = nearest(name, names());
                    let hint =
                        hint.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
                    let message =
                        format!("there is no model {name:?}{hint} GET /v1/models lists them");
                    Failure::new(StatusCode::NOT_FOUND, message.replace("\" GET", "\". GET"))
                })?
            }
        };
        if !set.is_empty() && !self.allows_set {
            return Err(Failure::invalid(
                "set: this service does not let requests change settings (--no-set)",
            ));
        }
        Ok(Choice {
            model: model.clone(),
            tagger: model.tagger(set)?,
            threshold,
        })
    }

    /// Fails if texts are more or longer than the limits.
    pub fn check_texts(&self, texts: &[String]) -> Result<(), Failure> {
        let (most, longest) = (self.limits.texts, self.limits.characters);
        if texts.len() > most {
            return Err(Failure::invalid(format!(
                "{} texts are more than the limit of {most} (--max-texts); send several requests, or a stream of lines as \
                 application/x-ndjson",
                texts.len()
            )));
        }
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        if characters > longest {
            return Err(Failure::invalid(format!(
                "{characters} characters are more than the limit of {longest} (--max-characters); send several requests, or \
                 a stream of lines as application/x-ndjson"
            )));
        }
        Ok(())
    }
}

/// The type of a body, without parameters, in lower case.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// Parses JSON. What is not JSON is malformed; a wrong key or value is invalid.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|problem| {
        let at = problem.valid_up_to();
        Failure::malformed(format!(
            "the body is not UTF-8 after byte {at}; JSON has to be"
        ))
    })?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|problem| {
        let path = problem.path().to_string();
        let inner = problem.into_inner();
        if inner.is_data() {
            Failure::invalid(key_problem(&path, &inner.to_string()))
        } else {
            Failure::malformed(format!("not JSON: {inner}"))
        }
    })?;
    let ended = reader.end();
    ended.map_err(|problem| Failure::malformed(format!("not JSON: {problem}")))?;
    Ok(value)
}
