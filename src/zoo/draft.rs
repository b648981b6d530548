//! The small files of a published model: description, recipe, scores, card and manifest.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::publish::{PublishOptions, WeightsFormat};
use super::quantize;
use super::score::scored_split;
use super::staging;
use super::summary;
use crate::data::datasets;
use crate::error::{Error, Result};
use crate::eval::analysis::{Analysis, AnalysisOptions, ErrorCounts};
use crate::eval::evaluate;
use crate::hub::RepoId;
use crate::model::card::{
    self, CardFacts, CorpusFacts, PUBLICATION, QUANTIZATION, RUN, hub_name, last_part,
};
use crate::model::folder::ModelConfig;
use crate::model::manifest;
use crate::model::quantize::Quantization;
use crate::model::tagger::Tagger;
use crate::model::weights_file;
use crate::recipe::Recipe;
use crate::registry;
use crate::train::Corpus;

/// The small files of a model folder, before they are written.
pub(super) struct ModelTexts {
    pub config: ModelConfig,
    pub recipe: Recipe,
    pub metrics: Value,
    pub corpus: Option<CorpusFacts>,
    /// True if it finds nested entities.
    pub nested: bool,
}

/// The small files of a published model, before they are written.
pub(super) struct Draft {
    pub texts: ModelTexts,
    /// The recipe as it was trained, with the paths of this machine.
    own_recipe: Recipe,
    /// Bytes of the weights as trained and as stored.
    bytes: [u64; 2],
    /// True if the weights are stored in eight bits now.
    is_int8: bool,
    /// What the card cannot say.
    pub notes: Vec<String>,
}

impl Draft {
    pub(super) fn read(source: &Path, options: &PublishOptions) -> Result<Self> {
        let config = ModelConfig::read(source)?;
        let quantization = match options.weights {
            WeightsFormat::Int8 => Some(Quantization::INT8),
            WeightsFormat::AsTrained | WeightsFormat::Half => config.quantization,
        };
        let config = config.with_quantization(quantization);
        let own_recipe = Recipe::read(&source.join("recipe.toml"), &[])?;
        if own_recipe.encoder.pretrained.is_none() && options.base_model.is_some() {
            return Err(Error::Config(
                "--base-model: the encoder of this model was trained from scratch; leave the option out".into(),
            ));
        }
        let mut metrics = summary::metrics(source)?;
        let mut notes = Vec::new();
        let pretrained = own_recipe.encoder.pretrained.as_deref();
        let origin = config.encoder_origin.as_ref();
        let given = options
            .base_model
            .as_deref()
            .and_then(|name| name.parse::<RepoId>().ok());
        let given = given.map(|id| id.name().to_string());
        let known = given.or_else(|| origin.map(|origin| origin.repository.clone()));
        let base_model = known.or_else(|| hub_name(pretrained?));
        if let (Some(encoder), None) = (pretrained, &base_model) {
            notes.push(format!(
                "the card has no base_model: the name of the encoder {} on the hub is not known; give it with --base-model \
                 OWNER/NAME",
                last_part(encoder)
            ));
        }
        let licence = options
            .encoder_licence
            .clone()
            .or(own_recipe.encoder.licence.clone());
        if pretrained.is_some() && licence.is_none() {
            notes.push(
                "the card does not name the encoder's licence; give it with --encoder-licence"
                    .into(),
            );
        }
        let corpus = corpus_facts(&own_recipe, &options.roots);
        if corpus.is_none() {
            notes.push(
                "the card does not name the corpus's licence: it is not a named corpus; describe it with a dataset.toml".into(),
            );
        }
        if metrics[RUN].is_null() {
            notes.push(
                "the card has no command, hardware and split sizes: the run was made by an older program".into(),
            );
        }
        metrics[PUBLICATION] = json!({
            "name": options.name,
            "base_model": base_model,
            "encoder_licence": licence,
            "licence": options.licence,
            "corpus": corpus.as_ref().map(|corpus| json!({
                "name": own_recipe.data.corpus,
                "title": corpus.title,
                "language": corpus.language,
                "licence": corpus.licence,
                "source": corpus.source,
            })),
        });
        let mut recipe = without_paths(own_recipe.clone(), base_model.as_deref());
        recipe.train.half |= options.weights == WeightsFormat::Half;
        Ok(Self {
            texts: ModelTexts {
                nested: registry::find(&config.head)?.nested,
                config,
                recipe,
                metrics,
                corpus,
            },
            own_recipe,
            bytes: [0; 2],
            is_int8: options.weights == WeightsFormat::Int8,
            notes,
        })
    }

    /// Describes the weights; `bytes` are their sizes as trained and as stored.
    pub(super) fn describe_weights(&mut self, path: &Path, bytes: [u64; 2]) -> Result<()> {
        self.bytes = bytes;
        let info = weights_file::read(path)?;
        let metrics = &mut self.texts.metrics;
        metrics[PUBLICATION]["weights"] =
            json!({"precision": info.precision, "values": info.values, "bytes": bytes[1]});
        if self.is_int8 {
            metrics[QUANTIZATION] = quantize::facts(bytes, None);
        }
        Ok(())
    }

    /// Scores the stored weights: the final split with its interval and kinds of errors, and if the weights are not as they
    /// were trained, the other split, too.
    pub(super) fn score(
        &mut self,
        tagger: &dyn Tagger,
        source: &Path,
        options: &PublishOptions,
    ) -> Result<()> {
        let corpus = Corpus::load(&self.own_recipe, &options.roots).map_err(|problem| {
            Error::Config(format!(
                "the corpus of the run is needed for the card's scores: {}\nGive its folder with --data, or publish the \
                 scores of the run alone with --no-score",
                problem.chain()
            ))
        })?;
        let (split, gold) = scored_split(&corpus);
        if gold.is_empty() {
            self.notes
                .push("the card has no scores: the run has neither test nor dev sentences".into());
            return Ok(());
        }
        let metrics = &mut self.texts.metrics;
        let before = metrics[split]["f1"].as_f64();
        let mentions = tagger.tag(gold)?;
        let analysis_options = AnalysisOptions {
            resamples: options.resamples.max(1),
            worst: 0,
            ..AnalysisOptions::default()
        };
        let models = vec![(options.name.clone(), mentions)];
        let analysis = Analysis::new(&corpus.train, gold, models, None, analysis_options)?;
        let results = &analysis.models[0];
        let f1 = results.report.overall.f1();
        let is_changed = options.weights != WeightsFormat::AsTrained;
        if let Some(before) = before.filter(|before| !is_changed && (before - f1).abs() > 1e-3) {
            self.notes.push(format!(
                "F1 on {split} is {:.2} now, but the run had {:.2}: the corpus or the program differs from that of the run",
                100.0 * f1,
                100.0 * before
            ));
        }
        if self.is_int8 {
            let trained = registry::load(source, &options.device, &[])?;
            let before = evaluate(&*trained, gold)?.overall.f1();
            let name = self.own_recipe.data.corpus.as_deref();
            let what = format!("{} ({split})", name.unwrap_or("its files"));
            quantize::compare(&what, [before, f1], options.tolerance)?;
            metrics[QUANTIZATION] = quantize::facts(self.bytes, Some((&what, [before, f1])));
        }
        if is_changed && split == "test" && !corpus.dev.is_empty() {
            metrics["dev"] = evaluate(tagger, &corpus.dev)?.to_json();
        }
        metrics[split] = results.report.to_json();
        let publication = &mut metrics[PUBLICATION];
        if is_changed && !self.is_int8 {
            publication["f1_before"] = json!(before);
        }
        let interval = results.significance.f1;
        publication["f1_interval"] = json!({
            "low": interval.low,
            "high": interval.high,
            "resamples": analysis.options.resamples,
        });
        let errors = ErrorCounts::KINDS.iter().zip(results.errors.kinds());
        publication["errors"] = errors
            .map(|(kind, count)| (kind.to_string(), json!(count)))
            .collect();
        Ok(())
    }
}

impl ModelTexts {
    /// Writes everything but weights and tokenizer, the manifest last.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let put = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|problem| Error::io(&path, problem))
        };
        let config = serde_json::to_value(&self.config).expect("a config is plain data");
        put("config.json", &format!("{config:#}\n"))?;
        put("recipe.toml", &self.recipe.to_toml()?)?;
        put("metrics.json", &format!("{:#}\n", self.metrics))?;
        let card = card::card(&CardFacts {
            recipe: &self.recipe,
            labels: &self.config.labels,
            corpus: self.corpus.clone(),
            metrics: &self.metrics,
            nested: self.nested,
            encoder_origin: self.config.encoder_origin.as_ref(),
        });
        put("README.md", &card)?;
        staging::same_permissions(folder)?;
        manifest::write(folder)
    }
}

/// What is known about the corpus of a recipe.
pub(super) fn corpus_facts(recipe: &Recipe, roots: &[PathBuf]) -> Option<CorpusFacts> {
    let name = recipe.data.corpus.as_deref()?;
    let found = datasets::find(name, roots).ok().map(|found| found.info);
    let info = found.or_else(|| datasets::known(name))?;
    Some(CorpusFacts {
        title: info.title,
        language: info.language,
        licence: info.licence,
        source: info.source,
    })
}

/// A recipe without paths of this machine: the encoder by its name on the hub, files by their names alone.
fn without_paths(mut recipe: Recipe, base_model: Option<&str>) -> Recipe {
    if let Some(pretrained) = &mut recipe.encoder.pretrained {
        *pretrained = base_model.map_or_else(|| last_part(pretrained), String::from);
    }
    if let Some(vectors) = &mut recipe.encoder.features.word_vectors
        && hub_name(vectors).is_none()
    {
        *vectors = last_part(vectors);
    }
    let data = &mut recipe.data;
    for path in data
        .train
        .iter_mut()
        .chain(&mut data.dev)
        .chain(&mut data.test)
    {
        *path = PathBuf::from(last_part(&path.to_string_lossy()));
    }
    recipe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_recipes_have_no_paths_of_this_machine() {
        let text = "[data]\ntrain = ['/home/me/a.jsonl']\ndev = ['../b.jsonl']\n[encoder]\npretrained = '/home/me/enc'\n\
            [encoder.features]\nword_vectors = '/home/me/glove'\n[head]\nname = 'seq_ner'\n";
        let recipe = Recipe::parse(text, "test", &[]).unwrap();
        for (base, expected) in [(None, "enc"), (Some("a/b"), "a/b")] {
            let clean = without_paths(recipe.clone(), base);
            assert_eq!(clean.encoder.pretrained.as_deref(), Some(expected));
            let text = clean.to_toml().unwrap();
            assert!(!text.contains("/home") && !text.contains(".."), "{text}");
        }
    }
}
