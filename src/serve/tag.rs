//! `POST /v1/tag`: texts in, entities out; and `GET /v1/models`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::App;
use super::body::{content_type, parse};
use super::failure::{Failure, json};
use super::models::ModelAbout;
use super::stream;
use super::tagging::TaggedText;
use crate::data::Format;
use crate::data::input_text::InputText;
use crate::data::write::{PredictedDocument, WriteOptions, Writer, brat_document};
use crate::error::Error;

/// A request to `/v1/tag`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TagRequest {
    /// The texts, of any length within the limits.
    pub texts: Vec<String>,
    /// The name of the model; the first one if it is missing.
    #[serde(default)]
    pub model: Option<String>,
    /// Leaves out entities with a lower score.
    #[serde(default)]
    pub threshold: Option<f32>,
    /// Other values for settings of the model's head, such as `{"head.steps": 2}`.
    #[serde(default)]
    pub set: Map<String, Value>,
    /// The form of the answer.
    #[serde(default)]
    pub format: AnswerFormat,
}

/// The form of an answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerFormat {
    /// A JSON object.
    #[default]
    Json,
    /// Lines of words and tags, as `predict --format conll` prints them.
    Conll,
    /// The annotations of one text in BRAT's standoff format.
    Brat,
    /// The texts with entities in brackets.
    Text,
}

/// The answer to a request to `/v1/tag`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TagResponse {
    /// The name of the model.
    pub model: String,
    /// A record for each text, in the same order, as `predict` prints them.
    pub results: Vec<PredictedDocument<'static>>,
}

/// The answer of `/v1/models`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ModelsResponse {
    /// The models.
    pub models: Vec<ModelAbout>,
    /// The limits for a request.
    pub limits: LimitsAbout,
}

/// The limits for a request.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LimitsAbout {
    /// Bytes of a body.
    pub body: usize,
    /// Texts.
    pub texts: usize,
    /// Characters of all texts together.
    pub characters: usize,
    /// Seconds until the answer.
    pub seconds: f64,
}

/// `POST /v1/tag`.
pub(super) async fn tag(
    State(app): State<Arc<App>>,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    if matches!(
        content_type(&headers).as_str(),
        "application/x-ndjson" | "application/jsonl" | "application/jsonlines"
    ) {
        return stream::tag(app, query, body);
    }
    if let Some((key, _)) = query.first() {
        let message = format!(
            "{key}: the address of a request in JSON has no parameters; put it into the body"
        );
        return Err(Failure::invalid(message));
    }
    let body = app.read_json_body(&headers, body).await?;
    let request: TagRequest = parse(&body.bytes)?;
    app.check_texts(&request.texts)?;
    let choice = app.choose(request.model.as_deref(), &request.set, request.threshold)?;
    let (format, model) = (request.format, choice.model.about.name.clone());
    if format == AnswerFormat::Brat && request.texts.len() != 1 {
        return Err(Failure::invalid(
            "format: the answer in brat is about one text; send one at a time",
        ));
    }
    let texts = request.texts.into_iter().map(InputText::Plain).collect();
    app.tag(choice, texts, move |texts| answer(format, model, &texts))
        .await
}

fn answer(format: AnswerFormat, model: String, texts: &[TaggedText]) -> Result<Response, Failure> {
    let format = match format {
        AnswerFormat::Json => {
            let results: Result<Vec<_>, Failure> = texts.iter().map(TaggedText::document).collect();
            return Ok(json(
                StatusCode::OK,
                &TagResponse {
                    model,
                    results: results?,
                },
            ));
        }
        AnswerFormat::Brat => {
            let pairs: Result<Vec<_>, Error> = texts
                .iter()
                .map(|text| brat_document(&text.annotated()))
                .collect();
            let annotations: String = pairs
                .map_err(not_writable)?
                .into_iter()
                .map(|(_, annotations)| annotations)
                .collect();
            return Ok(plain_text(annotations.into_bytes()));
        }
        AnswerFormat::Conll => Format::Columns,
        AnswerFormat::Text => Format::PlainText,
    };
    let written = Writer::begin(Vec::new(), WriteOptions::of(format)).and_then(|mut writer| {
        texts
            .iter()
            .try_for_each(|text| writer.record(&text.annotated()))?;
        writer.finish()
    });
    Ok(plain_text(written.map_err(not_writable)?.0))
}

/// A format cannot represent a text: the message says why.
fn not_writable(error: Error) -> Failure {
    match error {
        Error::Config(message) => Failure::invalid(message),
        other => Failure::internal(&other.chain()),
    }
}

fn plain_text(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], bytes).into_response()
}

/// `GET /v1/models`.
pub(super) async fn models(State(app): State<Arc<App>>) -> Response {
    let response = ModelsResponse {
        models: app.models.iter().map(|model| model.about.clone()).collect(),
        limits: LimitsAbout {
            body: app.limits.body,
            texts: app.limits.texts,
            characters: app.limits.characters,
            seconds: app.limits.timeout.as_secs_f64(),
        },
    };
    json(StatusCode::OK, &response)
}
