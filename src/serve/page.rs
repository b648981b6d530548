//! The page at `/`.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

const INDEX: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");
const ICON: &str = include_str!("page/icon.svg");

/// Only files of this service may be loaded, and nothing may be written into the page as code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn index() -> Response {
    let mut response = file(INDEX, "text/html; charset=utf-8");
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    response
}

pub(super) async fn style() -> Response {
    let entities = crate::data::write::ENTITY_STYLE;
    file(&format!("{entities}\n{STYLE}"), "text/css; charset=utf-8")
}

pub(super) async fn script() -> Response {
    file(SCRIPT, "text/javascript; charset=utf-8")
}

pub(super) async fn icon() -> Response {
    file(ICON, "image/svg+xml")
}

fn file(content: &str, kind: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content.to_string()).into_response()
}
