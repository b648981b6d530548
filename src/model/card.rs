//! The model card: a README with YAML metadata as model hubs read it.

use std::fmt::Write;

use serde_json::Value;

use crate::data::segmentation_choice::SegmentationChoice;
use crate::hub::Origin;
use crate::recipe::Recipe;
use crate::text::Labels;

/// The contents of a model card.
pub struct CardFacts<'a> {
    /// The recipe with every default.
    pub recipe: &'a Recipe,
    /// The entity types.
    pub labels: &'a Labels,
    /// Name, language, licence and source of the corpus, when known.
    pub corpus: Option<CorpusFacts>,
    /// `metrics.json`.
    pub metrics: &'a Value,
    /// The command that trained it.
    pub command: &'a str,
    /// True when it finds nested entities.
    pub nested: bool,
    /// How texts are split into words.
    pub segmentation: &'a SegmentationChoice,
    /// The repository and commit of the pretrained encoder, if known.
    pub encoder_origin: Option<&'a Origin>,
}

impl CardFacts<'_> {
    /// The name of the pretrained encoder: that on the hub if known.
    fn encoder(&self) -> Option<&str> {
        let repository = self.encoder_origin.map(|origin| origin.repository.as_str());
        repository.or(self.recipe.encoder.pretrained.as_deref())
    }
}

/// Facts about the corpus, for the model card.
#[derive(Debug, Clone)]
pub struct CorpusFacts {
    /// Its full name.
    pub title: String,
    /// Its language tag.
    pub language: String,
    /// Its licence.
    pub licence: String,
    /// Where it comes from.
    pub source: String,
}

/// The model card as Markdown.
pub fn card(facts: &CardFacts<'_>) -> String {
    let mut text = String::new();
    head(&mut text, facts).expect("writing to a string");
    body(&mut text, facts).expect("writing to a string");
    text
}

/// A string as a quoted YAML scalar.
fn quoted(value: &str) -> String {
    Value::String(value.to_string()).to_string()
}

fn corpus_name(facts: &CardFacts<'_>) -> String {
    match (&facts.recipe.data.corpus, facts.recipe.data.train.first()) {
        (Some(name), _) => name.clone(),
        (None, Some(path)) => path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        _ => String::new(),
    }
}

fn head(text: &mut String, facts: &CardFacts<'_>) -> std::fmt::Result {
    let name = corpus_name(facts);
    writeln!(text, "---")?;
    writeln!(text, "library_name: nerzoo")?;
    writeln!(text, "pipeline_tag: token-classification")?;
    // Corpus and encoder have licences of their own, listed in the section on licences.
    writeln!(text, "license: other")?;
    writeln!(
        text,
        "tags: [nerzoo, named-entity-recognition, {}]",
        facts.recipe.head_name()
    )?;
    if let Some(corpus) = &facts.corpus {
        writeln!(text, "language: {}", quoted(&corpus.language))?;
    }
    writeln!(text, "datasets: [{}]", quoted(&name))?;
    if let Some(encoder) = facts.encoder() {
        writeln!(text, "base_model: {}", quoted(encoder))?;
    }
    let test = &facts.metrics["test"];
    if test.is_object() {
        writeln!(text, "model-index:")?;
        writeln!(
            text,
            "  - name: {}",
            quoted(&format!("{}-{name}", facts.recipe.head_name()))
        )?;
        writeln!(text, "    results:")?;
        writeln!(text, "      - task: {{type: token-classification}}")?;
        writeln!(
            text,
            "        dataset: {{name: {0}, type: {0}, split: test}}",
            quoted(&name)
        )?;
        writeln!(text, "        metrics:")?;
        for metric in ["precision", "recall", "f1"] {
            writeln!(
                text,
                "          - {{type: {metric}, value: {:.4}}}",
                number(&test[metric])
            )?;
        }
    }
    writeln!(text, "---\n")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn body(text: &mut String, facts: &CardFacts<'_>) -> std::fmt::Result {
    let recipe = facts.recipe;
    writeln!(text, "# {} on {}\n", recipe.head_name(), corpus_name(facts))?;
    if !recipe.about.is_empty() {
        writeln!(text, "{}\n", recipe.about)?;
    }
    let kind = if facts.nested {
        "flat and nested"
    } else {
        "flat (outermost)"
    };
    writeln!(
        text,
        "Finds {kind} entities of {} types: {}.\n",
        facts.labels.len(),
        facts.labels.names().join(", ")
    )?;
    scores(text, facts)?;
    writeln!(
        text,
        "## Use\n\n```sh\necho 'A text of yours.' | nerzoo predict --model FOLDER -\n```\n"
    )?;
    writeln!(
        text,
        "Texts are cut into sentences first; {}.\n",
        facts.segmentation
    )?;
    writeln!(text, "## Training\n\n```sh\n{}\n```\n", facts.command)?;
    writeln!(
        text,
        "All settings are in `recipe.toml`, the hashes of all files in `manifest.json`.\n"
    )?;
    writeln!(text, "## Licences\n")?;
    match &facts.corpus {
        Some(corpus) => writeln!(
            text,
            "- Corpus: {}. {} Licence: {}",
            corpus.title, corpus.source, corpus.licence
        )?,
        None => writeln!(
            text,
            "- Corpus: files of the user; their licence is not known to this card."
        )?,
    }
    let commit = facts.encoder_origin.map(|origin| &origin.commit);
    let commit = commit.map_or(String::new(), |commit| format!(", commit {commit}"));
    match (facts.encoder(), &recipe.encoder.licence) {
        (Some(name), Some(licence)) => {
            writeln!(text, "- Encoder: {name}{commit}. Licence: {licence}")
        }
        (Some(name), None) => writeln!(
            text,
            "- Encoder: {name}{commit}; see its own model card for the licence (`encoder.licence` in the recipe puts it here)."
        ),
        (None, _) => writeln!(text, "- Encoder: trained from scratch on the corpus above."),
    }
}

fn scores(text: &mut String, facts: &CardFacts<'_>) -> std::fmt::Result {
    writeln!(
        text,
        "## Scores\n\n| split | view | precision | recall | F1 | entities |\n|---|---|---|---|---|---|"
    )?;
    for split in ["dev", "test"] {
        let report = &facts.metrics[split];
        let rows = [
            ("all entities", report),
            ("outermost only", &report["flat_view"]),
        ];
        for (view, row) in rows.into_iter().filter(|(_, row)| row.is_object()) {
            writeln!(
                text,
                "| {split} | {view} | {:.2} | {:.2} | {:.2} | {} |",
                100.0 * number(&row["precision"]),
                100.0 * number(&row["recall"]),
                100.0 * number(&row["f1"]),
                row["support"]
            )?;
        }
    }
    writeln!(text)?;
    tuning(text, &facts.metrics["tuning"])?;
    calibration(text, &facts.metrics["calibration"])
}

/// The decoding settings chosen on dev, with the scores before and after.
fn tuning(text: &mut String, tuning: &Value) -> std::fmt::Result {
    let changes = tuning["changes"].as_array().map_or(&[][..], Vec::as_slice);
    if !tuning.is_object() {
        return Ok(());
    }
    if changes.is_empty() {
        return writeln!(
            text,
            "Decoding settings were tried on dev; none was better than the ones it was trained with.\n"
        );
    }
    writeln!(
        text,
        "These decoding settings were chosen on dev after training; the scores above are with them.\n"
    )?;
    writeln!(text, "| setting | as trained | as chosen |\n|---|---|---|")?;
    for change in changes {
        writeln!(
            text,
            "| `head.{}` | {} | {} |",
            change["setting"].as_str().unwrap_or_default(),
            change["trained"],
            change["chosen"]
        )?;
    }
    let trained = &tuning["as_trained"];
    for split in ["dev", "test"]
        .into_iter()
        .filter(|split| trained[split].is_object())
    {
        writeln!(
            text,
            "| {split} F1 | {:.2} | see above |",
            100.0 * number(&trained[split]["f1"])
        )?;
    }
    writeln!(
        text,
        "\nDev F1 with settings chosen on other dev sentences: {:.2} (as trained {:.2}).\n",
        100.0 * number(&tuning["dev_f1_cross_fitted"]),
        100.0 * number(&tuning["dev_f1_as_trained"])
    )
}

/// A line on what the scores of mentions mean.
fn calibration(text: &mut String, metrics: &Value) -> std::fmt::Result {
    let method = metrics["method"].as_str().unwrap_or("none");
    if method == "none" {
        return writeln!(text, "The scores of mentions are not calibrated.\n");
    }
    write!(
        text,
        "The scores of mentions are calibrated on dev ({method}): each is the probability that the mention is correct."
    )?;
    let errors = ["test_ece_after", "test_ece_before"].map(|key| metrics[key].as_f64());
    if let [Some(after), Some(before)] = errors {
        write!(
            text,
            " Expected calibration error on test: {:.2} %, without calibration {:.2} %.",
            100.0 * after,
            100.0 * before
        )?;
    }
    writeln!(text, "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_card_says_what_scores_mean() {
        let line = |metrics: Value| {
            let mut text = String::new();
            calibration(&mut text, &metrics).unwrap();
            text
        };
        let none = "The scores of mentions are not calibrated.\n\n";
        assert_eq!(line(Value::Null), none);
        assert_eq!(line(json!({"method": "none"})), none);
        let errors =
            json!({"method": "platt", "test_ece_before": 0.0812, "test_ece_after": 0.0105});
        assert_eq!(
            line(errors),
            "The scores of mentions are calibrated on dev (platt): each is the probability that the mention is correct. \
             Expected calibration error on test: 1.05 %, without calibration 8.12 %.\n\n"
        );
        let without_test = line(json!({"method": "platt", "test_ece_before": null}));
        assert!(without_test.ends_with("is correct.\n\n"), "{without_test}");
    }
}
