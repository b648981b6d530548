//! Requests that fail: a status, and a JSON object that says why.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;

/// The body of every answer that is not a success.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorBody {
    /// What is wrong, and what to do about it.
    pub error: String,
}

/// Why a request fails. The message goes to the client: it names no file of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub status: StatusCode,
    pub message: String,
    /// Seconds after which the client may try again.
    pub retry_after: Option<u64>,
}

impl Failure {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The request cannot be understood.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The request is understood, but a value is wrong or above a limit.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// As much as allowed waits already.
    pub fn busy(message: impl Into<String>, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// The answer took too long.
    pub fn too_slow(limit: std::time::Duration) -> Self {
        let seconds = limit.as_secs_f64();
        Self {
            retry_after: Some(1),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "no answer within the limit of {seconds} seconds (--timeout); send fewer or shorter texts, or try again"
                ),
            )
        }
    }

    /// The service ends.
    pub fn too_late() -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the service is stopping; try again later",
            )
        }
    }

    /// Something in the service went wrong. The cause is logged, and not part of the answer.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!("a request failed: {cause}");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "tagging failed; the log of the service has the cause",
        )
    }

    /// A setting of the request is wrong. Only messages about settings are passed on.
    pub fn setting(error: &Error) -> Self {
        match error {
            Error::Config(message) => Self::invalid(format!("set: {message}")),
            other => Self::internal(&other.chain()),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: self.message,
        };
        let mut response = json(self.status, &body);
        if let Some(seconds) = self.retry_after {
            (response.headers_mut()).insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            (response.headers_mut()).insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// An answer as JSON.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(problem) => {
            tracing::error!("an answer cannot be written: {problem}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
