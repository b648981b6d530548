//! Publishing: a trained model becomes a folder of a zoo, with a card filled from its run.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::{Value, json};

use super::index::Index;
use super::places::{MODELS, NAME_RULE, is_model_name};
use super::score::scored_split;
use super::staging;
use super::summary::{self, ModelSummary};
use super::verify::verify;
use crate::error::{Error, Result};
use crate::eval::analysis::{Analysis, AnalysisOptions, ErrorCounts};
use crate::eval::evaluate;
use crate::hub::RepoId;
use crate::model::card::{self, CardFacts, CorpusFacts, PUBLICATION, RUN, hub_name, last_part};
use crate::model::folder::{ModelConfig, REQUIRED, VERSION};
use crate::model::manifest::{self, Manifest};
use crate::model::tagger::Tagger;
use crate::model::weights_file;
use crate::recipe::Recipe;
use crate::registry;
use crate::train::Corpus;

/// How the weights of a published model are stored. A format with fewer bits is a variant here and a line in
/// [`WeightsFormat::write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightsFormat {
    /// As they were trained.
    #[default]
    AsTrained,
    /// 16-bit floats.
    Half,
}

impl WeightsFormat {
    /// Writes the weights of a model folder into another one.
    fn write(self, source: &Path, target: &Path) -> Result<()> {
        match self {
            Self::AsTrained => copy(source, target),
            Self::Half => weights_file::write_half(source, target),
        }
    }
}

/// What to publish, and where.
#[derive(Debug, Clone)]
pub struct PublishOptions {
    /// The name of the published model.
    pub name: String,
    /// The folder that gets a folder of this name.
    pub to: PathBuf,
    /// How the weights are stored.
    pub weights: WeightsFormat,
    /// The name of the encoder on the hub, `owner/name`, if the run does not know it.
    pub base_model: Option<String>,
    /// The licence of the encoder, if the recipe does not give it.
    pub encoder_licence: Option<String>,
    /// The licence identifier of the card's metadata, such as `apache-2.0`; by default `other`.
    pub licence: Option<String>,
    /// Tag the corpus again, for the bootstrap interval and the kinds of errors, with the weights as they are stored.
    pub score: bool,
    /// Bootstrap resamples.
    pub resamples: usize,
    /// Folders of named corpora.
    pub roots: Vec<PathBuf>,
    /// The device for scoring.
    pub device: Device,
    /// Replace a model of this name.
    pub force: bool,
}

/// A published model.
#[derive(Debug)]
pub struct Published {
    /// Its folder.
    pub folder: PathBuf,
    /// The facts about it.
    pub summary: ModelSummary,
    /// What the card could not say, each with a remedy.
    pub notes: Vec<String>,
}

/// Publishes the model of a run folder or model folder. `report` gets a line about each step. The folder appears when it is
/// complete and was checked; if it is in a zoo's `models`, the zoo's index is written as well.
pub fn publish(
    source: &Path,
    options: &PublishOptions,
    report: &dyn Fn(&str),
) -> Result<Published> {
    options.check()?;
    let target = options.to.join(&options.name);
    if target.exists() && !options.force {
        return Err(Error::model_folder(
            &target,
            "a model of this name is there already; choose another --name, or replace it with --force",
        ));
    }
    report("checking the model");
    if !source.join(manifest::FILE).is_file() {
        return Err(Error::model_folder(
            source,
            "no manifest.json here: the run is not finished; continue it with `nerzoo train --resume`",
        ));
    }
    let listed = Manifest::read(source)?;
    listed.require(&REQUIRED, source)?;
    listed.require(&["recipe.toml", "metrics.json"], source)?;
    manifest::verify_files(source, &listed)?;
    let mut draft = Draft::read(source, options)?;
    fs::create_dir_all(&options.to).map_err(|problem| Error::io(&options.to, problem))?;
    let staged = staging::temporary(&options.to)?;
    let folder = staged.path();
    report("writing the weights");
    copy(
        &source.join("tokenizer.json"),
        &folder.join("tokenizer.json"),
    )?;
    let weights = folder.join("model.safetensors");
    options
        .weights
        .write(&source.join("model.safetensors"), &weights)?;
    draft.describe_weights(&weights)?;
    draft.write(folder)?;
    report("loading the model");
    let tagger = registry::load(folder, &options.device, &[])?;
    draft.nested = tagger.nested();
    if options.score {
        report("scoring");
        draft.score(&*tagger, options)?;
    }
    draft.write(folder)?;
    verify(folder)?;
    let summary = ModelSummary::read(folder, &options.name)?;
    staging::install(staged, &target)?;
    update_index(&options.to)?;
    Ok(Published {
        folder: target,
        summary,
        notes: draft.notes,
    })
}

impl PublishOptions {
    fn check(&self) -> Result<()> {
        if !is_model_name(&self.name) {
            return Err(Error::Config(format!(
                "--name {:?}: {NAME_RULE}",
                self.name
            )));
        }
        if let Some(name) = &self.base_model {
            let id: std::result::Result<RepoId, String> = name.parse();
            let is_owned = id.as_ref().is_ok_and(|id| id.name().contains('/'));
            if !is_owned || name.starts_with('.') {
                return Err(Error::Config(format!(
                    "--base-model {name:?} is not a name on the hub such as sentence-transformers/all-MiniLM-L6-v2"
                )));
            }
        }
        let is_id = |text: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.+".contains(&byte);
            (1..=60).contains(&text.len()) && text.bytes().all(is_allowed)
        };
        match self.licence.as_deref().filter(|text| !is_id(text)) {
            Some(text) => Err(Error::Config(format!(
                "--licence {text:?} is not a licence identifier such as apache-2.0 or cc-by-4.0"
            ))),
            None => Ok(()),
        }
    }
}

/// The small files of a published model, before they are written.
struct Draft {
    config: ModelConfig,
    recipe: Recipe,
    /// The recipe as it was trained, with the paths of this machine.
    own_recipe: Recipe,
    metrics: Value,
    corpus: Option<CorpusFacts>,
    nested: bool,
    notes: Vec<String>,
}

impl Draft {
    fn read(source: &Path, options: &PublishOptions) -> Result<Self> {
        let config = ModelConfig {
            format_version: VERSION,
            ..ModelConfig::read(source)?
        };
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
        let given =
            (options.base_model.as_deref()).map(|name| name.trim_start_matches("hf:").to_string());
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
        let info = own_recipe.data.corpus.as_deref().and_then(|name| {
            let found = crate::data::datasets::find(name, &options.roots)
                .ok()
                .map(|found| found.info);
            found.or_else(|| crate::data::datasets::known(name))
        });
        let corpus = info.map(|info| CorpusFacts {
            title: info.title,
            language: info.language,
            licence: info.licence,
            source: info.source,
        });
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
            nested: registry::find(&config.head)?.nested,
            config,
            recipe,
            own_recipe,
            metrics,
            corpus,
            notes,
        })
    }

    fn describe_weights(&mut self, path: &Path) -> Result<()> {
        let info = weights_file::read(path)?;
        let bytes = fs::metadata(path)
            .map_err(|problem| Error::io(path, problem))?
            .len();
        self.metrics[PUBLICATION]["weights"] =
            json!({"precision": info.precision, "values": info.values, "bytes": bytes});
        Ok(())
    }

    /// Scores the stored weights: the final split with its interval and kinds of errors, and if the weights are not as they
    /// were trained, the other split, too.
    fn score(&mut self, tagger: &dyn Tagger, options: &PublishOptions) -> Result<()> {
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
        let before = self.metrics[split]["f1"].as_f64();
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
        if is_changed && split == "test" && !corpus.dev.is_empty() {
            self.metrics["dev"] = evaluate(tagger, &corpus.dev)?.to_json();
        }
        self.metrics[split] = results.report.to_json();
        let publication = &mut self.metrics[PUBLICATION];
        if is_changed {
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

    /// Writes everything but weights and tokenizer, the manifest last.
    fn write(&self, folder: &Path) -> Result<()> {
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

/// Writes the index of the zoo whose `models` a folder is; nothing for other folders.
fn update_index(models: &Path) -> Result<()> {
    let zoo = match (models.file_name(), models.parent()) {
        (Some(name), Some(zoo)) if name == MODELS => zoo,
        _ => return Ok(()),
    };
    let before = Index::read(zoo)?;
    Index::of_folders(zoo, before.default)?
        .write(zoo)
        .map(|_| ())
}

fn copy(source: &Path, target: &Path) -> Result<()> {
    fs::copy(source, target)
        .map(|_| ())
        .map_err(|problem| Error::io(source, problem))
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
