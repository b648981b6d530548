//! The model card: a README with YAML metadata as model hubs read it.
//!
//! Everything that comes from a recipe, a corpus or a folder is escaped for the place where it is written.

mod body;
mod escape;
mod imported;
mod scores;

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::hub::{Origin, RepoId};
use crate::recipe::Recipe;
use crate::text::Labels;
pub use escape::{code, markdown, yaml};
pub use imported::{ImportedCard, imported_card};

/// The key of `metrics.json` with what publishing adds.
pub const PUBLICATION: &str = "publication";
/// The key of `metrics.json` with the sizes and scores of a quantised model before and after.
pub const QUANTIZATION: &str = "quantization";
/// The key of `metrics.json` that describes the run.
pub const RUN: &str = "run";

/// The contents of a model card.
pub struct CardFacts<'a> {
    /// The recipe with every default.
    pub recipe: &'a Recipe,
    /// The entity types.
    pub labels: &'a Labels,
    /// Name, language, licence and source of the corpus, when known.
    pub corpus: Option<CorpusFacts>,
    /// `metrics.json`: scores under `dev` and `test`, the run under [`RUN`], and for a published model more under
    /// [`PUBLICATION`].
    pub metrics: &'a Value,
    /// True when it finds nested entities.
    pub nested: bool,
    /// The repository and commit of the pretrained encoder, if known.
    pub encoder_origin: Option<&'a Origin>,
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

impl CardFacts<'_> {
    /// The name of the pretrained encoder on a hub; never a path of a machine.
    fn base_model(&self) -> Option<String> {
        let published = self.metrics[PUBLICATION]["base_model"].as_str();
        let origin = self.encoder_origin.map(|origin| origin.repository.as_str());
        let known = published.or(origin).map(String::from);
        known.or_else(|| hub_name(self.recipe.encoder.pretrained.as_deref()?))
    }

    /// The name of the encoder for people: that on a hub, or the last part of its path.
    fn encoder(&self) -> Option<String> {
        let pretrained = self.recipe.encoder.pretrained.as_deref();
        self.base_model().or_else(|| pretrained.map(last_part))
    }

    /// The name of the corpus, or of its first file.
    fn corpus_name(&self) -> String {
        match (&self.recipe.data.corpus, self.recipe.data.train.first()) {
            (Some(name), _) => name.clone(),
            (None, Some(path)) => last_part(&path.to_string_lossy()),
            _ => String::new(),
        }
    }

    /// The name of the model.
    fn name(&self) -> String {
        let published = self.metrics[PUBLICATION]["name"].as_str().map(String::from);
        published.unwrap_or_else(|| format!("{}-{}", self.recipe.head_name(), self.corpus_name()))
    }

    /// The split of the final scores.
    fn split(&self) -> Option<&'static str> {
        (["test", "dev"].into_iter()).find(|split| self.metrics[split].is_object())
    }
}

/// The name of an encoder if it has the form `owner/name` of a hub, and is no folder of this machine.
pub fn hub_name(pretrained: &str) -> Option<String> {
    let id: RepoId = pretrained.parse().ok()?;
    let is_path = Path::new(pretrained).exists();
    (id.name().contains('/') && !is_path).then(|| id.name().to_string())
}

/// The last part of a path.
pub fn last_part(path: &str) -> String {
    let mut parts = path.rsplit(['/', '\\']).filter(|part| !part.is_empty());
    parts.next().unwrap_or(path).to_string()
}

/// The model card as Markdown.
pub fn card(facts: &CardFacts<'_>) -> String {
    let mut text = String::new();
    metadata(&mut text, facts).expect("writing to a string");
    body::write(&mut text, facts).expect("writing to a string");
    text
}

/// The F1 in the metadata of a card, between 0 and 1.
pub fn reported_f1(card: &str) -> Option<f64> {
    let (metadata, _) = card.strip_prefix("---\n")?.split_once("\n---")?;
    let lines = metadata.lines().map(str::trim);
    let mut values =
        lines.filter_map(|line| line.strip_prefix("- {type: f1, value: ")?.strip_suffix('}'));
    values.next()?.trim().parse().ok()
}

fn metadata(text: &mut String, facts: &CardFacts<'_>) -> std::fmt::Result {
    let corpus = facts.corpus_name();
    let published = &facts.metrics[PUBLICATION];
    writeln!(text, "---")?;
    writeln!(text, "library_name: nerzoo")?;
    writeln!(text, "pipeline_tag: token-classification")?;
    // Corpus and encoder have licences of their own, listed in the section on licences.
    let licence = published["licence"].as_str().unwrap_or("other");
    writeln!(text, "license: {}", yaml(licence))?;
    let mut tags = vec![
        "nerzoo",
        "named-entity-recognition",
        facts.recipe.head_name(),
    ];
    if facts.nested {
        tags.push("nested-ner");
    }
    let tags: Vec<String> = tags.into_iter().map(yaml).collect();
    writeln!(text, "tags: [{}]", tags.join(", "))?;
    if let Some(corpus) = &facts.corpus {
        writeln!(text, "language: {}", yaml(&corpus.language))?;
    }
    writeln!(text, "datasets: [{}]", yaml(&corpus))?;
    if let Some(encoder) = facts.base_model() {
        writeln!(text, "base_model: {}", yaml(&encoder))?;
    }
    if let Some(split) = facts.split() {
        let scores = &facts.metrics[split];
        writeln!(text, "model-index:")?;
        writeln!(text, "  - name: {}", yaml(&facts.name()))?;
        writeln!(text, "    results:")?;
        writeln!(
            text,
            "      - task: {{type: token-classification, name: \"Named entity recognition\"}}"
        )?;
        writeln!(
            text,
            "        dataset: {{name: {0}, type: {0}, split: {split}}}",
            yaml(&corpus)
        )?;
        writeln!(text, "        metrics:")?;
        for metric in ["precision", "recall", "f1"] {
            writeln!(
                text,
                "          - {{type: {metric}, value: {:.4}}}",
                number(&scores[metric])
            )?;
        }
    }
    writeln!(text, "---\n")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A card with a hostile text in every place that a corpus or a recipe fills.
    #[test]
    fn hostile_names_do_not_leave_their_place() {
        let evil = "x\"\n---\n# h <script>alert(1)</script> | `` ` [a](b)";
        let mut recipe = Recipe::parse(
            "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner\"\n",
            "test",
            &[],
        )
        .unwrap();
        recipe.data.corpus = Some(evil.into());
        recipe.about = evil.into();
        recipe.encoder.pretrained = Some("/home/me/secret/encoder".into());
        recipe.encoder.licence = Some(evil.into());
        let labels = Labels::new([evil]);
        let scores = json!({"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 20,
            "per_type": {evil: {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 20}},
            "lengths": {"1": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 20}}});
        let metrics = json!({"test": scores, RUN: {"command": evil, "hardware": {"cpu": evil}},
            PUBLICATION: {"name": evil, "encoder_licence": evil}});
        let text = card(&CardFacts {
            recipe: &recipe,
            labels: &labels,
            corpus: Some(CorpusFacts {
                title: evil.into(),
                language: evil.into(),
                licence: evil.into(),
                source: evil.into(),
            }),
            metrics: &metrics,
            nested: true,
            encoder_origin: None,
        });
        let (head, body) = text
            .strip_prefix("---\n")
            .unwrap()
            .split_once("\n---\n")
            .unwrap();
        assert!(!head.contains("\n# h") && !head.contains("\n---"), "{head}");
        assert!(head.ends_with("value: 0.5000}"), "{head}");
        assert!(
            !text.contains("/home/me") && !text.contains("base_model"),
            "{text}"
        );
        assert!(body.contains("encoder"), "{body}");
        assert_eq!(reported_f1(&text), Some(0.5));
        // Outside of code there is no raw HTML.
        let mut in_code = false;
        for line in body.lines() {
            if line.starts_with("```") {
                in_code = !in_code;
            } else if !in_code {
                assert!(!line.contains("<script"), "{line}");
                assert!(!line.starts_with("# h"), "{line}");
            }
        }
    }

    #[test]
    fn only_names_of_a_hub_are_base_models() {
        assert_eq!(hub_name("a/b").as_deref(), Some("a/b"));
        assert_eq!(hub_name("hf:a/b@v1").as_deref(), Some("a/b"));
        for path in [
            "/home/me/encoder",
            "./a/b",
            "../a",
            "all-MiniLM-L6-v2",
            "C:\\a\\b",
            "~/a",
            "src/zoo",
        ] {
            assert_eq!(hub_name(path), None, "{path}");
        }
        assert_eq!(last_part("/a/b/"), "b");
        assert_eq!(last_part("C:\\a\\b"), "b");
    }
}
