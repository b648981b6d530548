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
use serde_json::{Value, json};

use super::annotated::rounded;
use super::documents::Document;
use super::json_records::{self as records, Record};
use super::summary::Summary;

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

/// A document as a task.
pub(super) fn record(
    document: &Document<'_>,
    names: &LabelStudioNames,
    summary: &mut Summary,
) -> Record {
    let mut data = Record::new();
    data.insert("text".into(), json!(document.text));
    records::name(&mut data, document);
    let entities = records::continuous(document, summary);
    let scores: Vec<f32> = entities.iter().filter_map(|(_, e)| e.score).collect();
    let result: Vec<Value> = (entities.into_iter().enumerate())
        .map(|(index, ((start, end), entity))| {
            let mut region = json!({
                "id": format!("e{}", index + 1),
                "from_name": names.from_name,
                "to_name": names.to_name,
                "type": "labels",
                "value": {
                    "start": start,
                    "end": end,
                    "text": entity.texts.concat(),
                    "labels": [entity.label],
                },
            });
            if let Some(score) = entity.score {
                region["score"] = json!(rounded(score));
            }
            region
        })
        .collect();
    let mut record = Record::new();
    record.insert("data".into(), data.into());
    if document.is_predicted {
        let mut prediction = json!({"model_version": names.model_version});
        if !scores.is_empty() {
            let mean = scores.iter().sum::<f32>() / scores.len() as f32;
            prediction["score"] = json!(rounded(mean));
        }
        prediction["result"] = result.into();
        record.insert("predictions".into(), json!([prediction]));
    } else {
        record.insert("annotations".into(), json!([{"result": result}]));
    }
    records::lose_document_extras(document, &[], summary);
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::write::{Annotated, WriteOptions, predictions, write_with};
    use crate::data::{Format, TagScheme};
    use crate::text::{Entity, Mention, Sentence};

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
