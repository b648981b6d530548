//! The description of the API as OpenAPI 3.1, generated from the types of requests and answers.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::failure::ErrorBody;
use super::hugging_face;
use super::routes::Status;
use super::tag::{ModelsResponse, TagRequest, TagResponse};
use crate::data::write::PredictedDocument;

/// The description.
pub(super) fn document(has_token: bool) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut requests = settings.clone().for_deserialize().into_generator();
    let mut answers = settings.for_serialize().into_generator();
    let error = answer::<ErrorBody>(&mut answers, "The request failed; `error` says why.");
    let errors = |codes: &[&str]| {
        let pairs = codes.iter().map(|code| (code.to_string(), error.clone()));
        pairs.collect::<Map<String, Value>>()
    };
    let tagging = [
        "400", "401", "404", "408", "413", "415", "422", "429", "500", "503",
    ];
    let with = |ok: Value, errors: Map<String, Value>| {
        let mut all = Map::from_iter([("200".to_string(), ok)]);
        all.extend(errors);
        Value::Object(all)
    };

    let mut tagged = answer::<TagResponse>(&mut answers, "A record for each text.");
    let record = schema::<PredictedDocument<'static>>(&mut answers);
    tagged["content"]["application/x-ndjson"] = json!({"schema": record});
    tagged["content"]["text/plain"] = json!({"schema": {"type": "string"}});
    let mut tag_body = body::<TagRequest>(&mut requests);
    tag_body["content"]["application/x-ndjson"] = json!({"schema": {
        "type": "object",
        "description": "One object per line: a text, or the words of a sentence.",
        "properties": {
            "text": {"type": "string"},
            "tokens": {"type": "array", "items": {"type": "string"}}
        }
    }});
    let parameter = |name: &str, kind: Value, description: &str| {
        json!({
            "name": name, "in": "query", "required": false, "schema": kind,
            "description": format!("{description} For streams; a request in JSON has it in its body."),
        })
    };
    let tag = json!({
        "summary": "Find the entities of texts",
        "description": "With application/x-ndjson, texts are tagged while the body is sent, and the answer has a line for each.",
        "operationId": "tag",
        "parameters": [
            parameter("model", json!({"type": "string"}), "The name of the model."),
            parameter("threshold", json!({"type": "number"}), "Leaves out entities with a lower score."),
            parameter("set", json!({"type": "array", "items": {"type": "string"}}), "Settings such as head.steps=2."),
        ],
        "requestBody": tag_body,
        "responses": with(tagged, errors(&tagging)),
    });

    let entities =
        answer::<hugging_face::Answer>(&mut answers, "The entities of the text, or of each text.");
    let hugging_face_body = body::<hugging_face::Request>(&mut requests);
    let classify = |id: &str, summary: &str, parameters: Value| {
        json!({
            "summary": summary,
            "operationId": id,
            "parameters": parameters,
            "requestBody": hugging_face_body,
            "responses": with(entities.clone(), errors(&tagging)),
        })
    };
    let name =
        json!([{"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}]);

    let models = answer::<ModelsResponse>(&mut answers, "The models and limits.");
    let status = answer::<Status>(&mut answers, "It is.");
    let get = |id: &str, summary: &str, responses: Value, is_open: bool| {
        let mut operation = json!({"summary": summary, "operationId": id, "responses": responses});
        if is_open {
            operation["security"] = json!([]);
        }
        json!({"get": operation})
    };
    let text = json!({"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}});
    let object = json!({"description": "This document.", "content": {"application/json": {"schema": {"type": "object"}}}});

    let mut schemas = requests.take_definitions(true);
    schemas.extend(answers.take_definitions(true));
    let mut components = json!({"schemas": schemas});
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nerzoo",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Named-entity recognition, flat and nested. Offsets count characters (Unicode scalar values).",
        },
        "paths": {
            "/v1/tag": {"post": tag},
            "/v1/models": get("models", "List the models", with(models, errors(&["401"])), false),
            "/models/{name}": {"post": classify("classify", "Find the entities of a text, in Hugging Face's form", name)},
            "/": {"post": classify("classifyFirst", "The same with the first model", json!([]))},
            "/health": get("health", "Whether the service runs", with(status.clone(), Map::new()), true),
            "/ready": get("ready", "Whether the service takes requests", with(status, errors(&["503"])), true),
            "/metrics": get("metrics", "Counters for Prometheus", with(text, errors(&["401"])), false),
            "/openapi.json": get("openapi", "This description", with(object, Map::new()), true),
        },
    });
    if has_token {
        components["securitySchemes"] = json!({"token": {"type": "http", "scheme": "bearer"}});
        document["security"] = json!([{"token": []}]);
    }
    document["components"] = components;
    document
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    let schema = schema::<T>(generator);
    json!({"required": true, "content": {"application/json": {"schema": schema}}})
}

fn answer<T: JsonSchema>(generator: &mut SchemaGenerator, description: &str) -> Value {
    let schema = schema::<T>(generator);
    json!({"description": description, "content": {"application/json": {"schema": schema}}})
}
