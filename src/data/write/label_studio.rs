//! Writing Label Studio's JSON: one task per document with the text in `data.text`. Gold entities are an annotation, predicted
//! mentions a prediction with scores ("pre-annotation").
//!
//! Regions refer to the labelling configuration: `from_name` is the name of its `Labels` tag and `to_name` the name of its
//! `Text` tag. The default names fit
//!
//! ```xml
//! <View>
//!   <Labels name="label" toName="text">
//!     <Label value="PER"/>
//!   </Labels>
//!   <Text name="text" value="$text"/>
//! </View>
//! ```
//!
//! Offsets count characters (Unicode code points), as Label Studio does since version 1.5.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::annotated::rounded;
use super::documents::Document;
use super::json_records::{self as records, LazyList};
use super::summary::Summary;
use crate::text::CharacterIndex;

/// Names that Label Studio's tasks refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelStudioNames {
    /// Name of the `Labels` tag of the labelling configuration.
    pub from_name: String,
    /// Name of the `Text` tag of the labelling configuration.
    pub to_name: String,
    /// Name of the model, shown with its predictions.
    pub model_version: String,
}

impl Default for LabelStudioNames {
    fn default() -> Self {
        Self {
            from_name: "label".to_string(),
            to_name: "text".to_string(),
            model_version: "nerzoo".to_string(),
        }
    }
}

/// A document with either predictions or annotations.
#[derive(Serialize)]
struct Task<'a, L: Serialize> {
    data: TaskData<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predictions: Option<[Regions<'a, L>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<[Regions<'a, L>; 1]>,
}

#[derive(Serialize)]
struct TaskData<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<&'a str>,
}

#[derive(Serialize)]
struct Regions<'a, L: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    result: L,
}

/// A document as a task.
pub(super) fn record<'d>(
    document: &'d Document,
    characters: &'d CharacterIndex<'d>,
    names: &'d LabelStudioNames,
    summary: &mut Summary,
) -> impl Serialize + use<'d> {
    records::count_continuous(document, summary);
    records::lose_document_extras(document, &[], summary);
    let result = LazyList(|| {
        let entities = records::continuous(document).enumerate();
        entities.map(|(index, ((start, end), entity))| {
            let mut region = json!({
                "id": format!("e{}", index + 1),
                "from_name": names.from_name,
                "to_name": names.to_name,
                "type": "labels",
                "value": {
                    "start": start,
                    "end": end,
                    "text": characters.slice(start, end),
                    "labels": [&*entity.label],
                },
            });
            if let Some(score) = entity.score {
                region["score"] = json!(rounded(score));
            }
            region
        })
    });
    let mut task = Task {
        data: TaskData {
            text: &document.text,
            doc: document.name.as_deref(),
        },
        predictions: None,
        annotations: None,
    };
    if document.is_predicted {
        task.predictions = Some([Regions {
            model_version: Some(&names.model_version),
            score: mean_score(document),
            result,
        }]);
    } else {
        task.annotations = Some([Regions {
            model_version: None,
            score: None,
            result,
        }]);
    }
    task
}

/// The mean of the scores of a document's entities.
fn mean_score(document: &Document) -> Option<f64> {
    let scores = || records::continuous(document).filter_map(|(_, entity)| entity.score);
    let count = scores().count();
    (count > 0).then(|| rounded(scores().sum::<f32>() / count as f32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::write::{Annotated, WriteOptions, predictions, write_with};
    use crate::data::{Format, TagScheme};
    use crate::text::{Entity, Mention, Sentence};
    use serde_json::Value;

    #[test]
    fn mentions_are_predictions_and_entities_annotations() {
        let mut sentence = Sentence::from_words(["Ada", "left"]);
        let mention = |score: f32, label: &str| Mention {
            entity: Entity::new(0, 1, label),
            score,
        };
        let mentions = [mention(0.9, "PER"), mention(0.5, "ORG")];
        let mut out = Vec::new();
        let items = [Annotated::predicted(&sentence, &mentions)];
        predictions(&mut out, Format::LabelStudio, TagScheme::Iob2, &items).unwrap();
        let tasks: Value = serde_json::from_slice(&out).unwrap();
        let region = |id: &str, label: &str| {
            json!({"id": id, "from_name": "label", "to_name": "text", "type": "labels",
                "value": {"start": 0, "end": 3, "text": "Ada", "labels": [label]}})
        };
        let (mut first, mut second) = (region("e1", "PER"), region("e2", "ORG"));
        first["score"] = json!(0.9);
        second["score"] = json!(0.5);
        assert_eq!(
            tasks,
            json!([{"data": {"text": "Ada left"}, "predictions": [
                {"model_version": "nerzoo", "score": 0.7, "result": [first, second]}]}])
        );
        sentence.entities = vec![Entity::new(0, 1, "PER")];
        sentence.document = Some("d".to_string());
        let mut options = WriteOptions::of(Format::LabelStudio);
        options.label_studio.from_name = "ner".to_string();
        let mut out = Vec::new();
        write_with(&mut out, &[sentence], &options).unwrap();
        let tasks: Value = serde_json::from_slice(&out).unwrap();
        let mut region = region("e1", "PER");
        region["from_name"] = json!("ner");
        assert_eq!(
            tasks,
            json!([{"data": {"text": "Ada left", "doc": "d"}, "annotations": [{"result": [region]}]}])
        );
    }
}
