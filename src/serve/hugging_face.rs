//! Hugging Face's API for token classification: `POST /models/NAME`, or `POST /` for the first model.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::App;
use super::body::parse;
use super::failure::{Failure, json};
use super::tagging::TaggedText;
use crate::data::input_text::InputText;
use crate::data::write::PredictedMention;

/// A request in Hugging Face's form. Fields that are not listed are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Request {
    /// A text, or several.
    pub inputs: Inputs,
    /// How entities are returned.
    #[serde(default)]
    pub parameters: Option<Parameters>,
}

/// A text, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "has to be a text, or a list of texts")]
pub(super) enum Inputs {
    /// A text; the answer is a list of entities.
    One(String),
    /// Several; the answer has a list of entities for each.
    Many(Vec<String>),
}

/// How entities are returned.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Parameters {
    /// `none` returns the words of each entity; all others return entities.
    #[serde(default)]
    pub aggregation_strategy: Option<Aggregation>,
    /// Types to leave out.
    #[serde(default)]
    pub ignore_labels: Option<Vec<String>>,
}

/// How Hugging Face's pipeline joins tokens. Entities are not made of tokens here, so all but `none` mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Aggregation {
    /// The words of each entity.
    None,
    /// Entities.
    Simple,
    /// Entities.
    First,
    /// Entities.
    Average,
    /// Entities.
    Max,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Answer {
    /// The entities of a text.
    One(Vec<Element>),
    /// Those of several.
    Many(Vec<Vec<Element>>),
}

/// An entity, or a word of one.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Element {
    /// The type of an entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_group: Option<String>,
    /// The type of a word's entity, with B- for its first word and I- for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The model's confidence.
    pub score: f64,
    /// Number of a word in the text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The text of the entity or word.
    pub word: String,
    /// Its first character.
    pub start: usize,
    /// One past its last character.
    pub end: usize,
}

/// `POST /models/NAME`.
pub(super) async fn model(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    tag(&app, Some(&name), &headers, body).await
}

/// `POST /`.
pub(super) async fn first_model(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    tag(&app, None, &headers, body).await
}

async fn tag(
    app: &App,
    name: Option<&str>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let body = app.read_json_body(headers, body).await?;
    let request: Request = parse(&body.bytes)?;
    let (texts, is_one) = match request.inputs {
        Inputs::One(text) => (vec![text], true),
        Inputs::Many(texts) => (texts, false),
    };
    app.check_texts(&texts)?;
    let choice = app.choose(name, &Map::new(), None)?;
    let parameters = request.parameters.unwrap_or_default();
    let texts = texts.into_iter().map(InputText::Plain).collect();
    app.tag(choice, texts, move |texts| {
        let lists: Result<Vec<_>, Failure> = texts
            .iter()
            .map(|text| elements(text, &parameters))
            .collect();
        let mut lists = lists?;
        let answer = if is_one {
            Answer::One(lists.pop().unwrap_or_default())
        } else {
            Answer::Many(lists)
        };
        Ok(json(StatusCode::OK, &answer))
    })
    .await
}

fn elements(text: &TaggedText, parameters: &Parameters) -> Result<Vec<Element>, Failure> {
    let is_ignored = |label: &str| {
        let ignored = parameters.ignore_labels.iter().flatten();
        ignored.into_iter().any(|one| one == label)
    };
    if parameters.aggregation_strategy == Some(Aggregation::None) {
        return Ok(words(text, is_ignored));
    }
    let entities = text.document()?.entities.into_iter();
    let kept = entities.filter(|mention| !is_ignored(&mention.label));
    let element = |mention: PredictedMention<'_>| Element {
        entity_group: Some(mention.label.into_owned()),
        entity: None,
        score: mention.score.unwrap_or(0.0),
        index: None,
        word: mention.text.into_owned(),
        start: mention.start,
        end: mention.end,
    };
    Ok(kept.map(element).collect())
}

/// The words of each entity, entity by entity.
fn words(text: &TaggedText, is_ignored: impl Fn(&str) -> bool) -> Vec<Element> {
    let mut elements = Vec::new();
    let mut first = 1;
    for (sentence, mentions) in &text.0 {
        for mention in mentions {
            let span = mention.entity.span;
            for number in span.start..span.end {
                let Some(word) = sentence.words.get(number) else {
                    continue;
                };
                let prefix = if number == span.start { "B" } else { "I" };
                let label = format!("{prefix}-{}", mention.entity.label);
                if is_ignored(&label) || is_ignored(&mention.entity.label) {
                    continue;
                }
                elements.push(Element {
                    entity_group: None,
                    entity: Some(label),
                    score: f64::from(mention.score),
                    index: Some(first + number),
                    word: word.text.clone(),
                    start: sentence.offset + word.start,
                    end: sentence.offset + word.end,
                });
            }
        }
        first += sentence.len();
    }
    elements
}
