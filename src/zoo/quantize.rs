//! Quantisation: a model folder becomes one with weights in eight bits, if its score stays.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::draft::{ModelTexts, corpus_facts};
use super::places::is_model_name;
use super::publish::{check_source, copy};
use super::score::scored_split;
use super::verify::verify;
use super::{index, staging, summary};
use crate::data;
use crate::device;
use crate::error::{Error, Result};
use crate::eval::{Report, evaluate};
use crate::model::card::{CorpusFacts, PUBLICATION, QUANTIZATION};
use crate::model::folder::ModelConfig;
use crate::model::quantize::{Quantization, write_int8};
use crate::model::tagger::Tagger;
use crate::model::weights_file;
use crate::recipe::Recipe;
use crate::registry;
use crate::text::Sentence;
use crate::train::Corpus;

/// The largest loss of F1 by default, in points of percent.
pub const TOLERANCE: f64 = 0.5;

/// What F1 before and after is made on.
#[derive(Debug, Clone)]
pub enum Check {
    /// The test split of the model's recipe, or its dev split.
    OwnCorpus,
    /// These sentences, with a name for them.
    Sentences(String, Vec<Sentence>),
    /// Nothing.
    None,
}

/// How to quantise a model.
#[derive(Debug, Clone)]
pub struct QuantizeOptions {
    /// The new folder.
    pub out: PathBuf,
    /// What F1 before and after is made on.
    pub check: Check,
    /// The largest loss of F1, in points of percent.
    pub tolerance: f64,
    /// Folders of named corpora.
    pub roots: Vec<PathBuf>,
    /// Replace the folder if there is one.
    pub force: bool,
}

/// A quantised model.
#[derive(Debug)]
pub struct Quantized {
    /// Its folder.
    pub folder: PathBuf,
    /// Bytes of the weights before and after.
    pub bytes: [u64; 2],
    /// What F1 was made on, and F1 before and after.
    pub scores: Option<(String, [f64; 2])>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// Fails if a tolerance is not a number of points.
pub fn check_tolerance(tolerance: f64) -> Result<()> {
    if (0.0..=100.0).contains(&tolerance) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "--tolerance {tolerance} is not a number of points of F1 between 0 and 100"
    )))
}

/// Fails if F1 has fallen by more than the tolerance, in points of percent.
pub(super) fn compare(what: &str, [before, after]: [f64; 2], tolerance: f64) -> Result<()> {
    // With a little more than the tolerance, for the rounding of the difference.
    if 100.0 * (before - after) <= tolerance + 1e-9 {
        return Ok(());
    }
    Err(Error::Config(format!(
        "F1 on {what} falls from {:.2} to {:.2} with weights in eight bits, by more than {tolerance} points; nothing was \
         written. Accept the loss with a larger --tolerance, or store 16-bit floats with `nerzoo zoo publish --half`",
        100.0 * before,
        100.0 * after
    )))
}

/// What `metrics.json` says about the quantisation.
pub(super) fn facts(bytes: [u64; 2], scores: Option<(&str, [f64; 2])>) -> Value {
    let mut facts = json!({"kind": "int8", "bytes_before": bytes[0], "bytes": bytes[1]});
    if let Some((what, [before, after])) = scores {
        facts["checked_on"] = json!(what);
        facts["f1_before"] = json!(before);
        facts["f1"] = json!(after);
    }
    facts
}

/// Number of bytes of a file.
pub(super) fn size(path: &Path) -> Result<u64> {
    let about = fs::metadata(path).map_err(|problem| Error::io(path, problem))?;
    Ok(about.len())
}

/// Writes a model with weights in eight bits. `report` gets a line about each step. The folder appears when it is complete,
/// was checked and has lost no more of its F1 than the tolerance; otherwise nothing is left behind. If it is in a zoo's
/// `models`, the zoo's index is written as well.
pub fn quantize(
    source: &Path,
    options: &QuantizeOptions,
    report: &dyn Fn(&str),
) -> Result<Quantized> {
    check_tolerance(options.tolerance)?;
    let out = &options.out;
    let Some(name) = out.file_name().map(|name| name.to_string_lossy()) else {
        return Err(Error::Config(format!(
            "--out {} does not name a new folder",
            out.display()
        )));
    };
    if out.exists() && !options.force {
        return Err(Error::model_folder(
            out,
            "this folder is there already; choose another --out, or replace it with --force",
        ));
    }
    if let (Ok(source), Ok(out)) = (source.canonicalize(), out.canonicalize())
        && source.starts_with(out)
    {
        return Err(Error::Config(
            "--out is the folder of the model itself; choose another one".into(),
        ));
    }
    report("checking the model");
    check_source(source)?;
    let config = ModelConfig::read(source)?;
    if config.quantization.is_some() {
        return Err(Error::model_folder(
            source,
            "its weights are in eight bits already; give the model that it was made from",
        ));
    }
    let recipe = Recipe::read(&source.join("recipe.toml"), &[])?;
    let mut draft = QuantizedDraft::new(source, config, recipe, &name, options)?;
    let parent = match out.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let _new_folders = NewFolders::create(parent)?;
    let staged = staging::temporary(parent)?;
    let folder = staged.path();
    report("quantising the weights");
    let tokenizer = "tokenizer.json";
    copy(&source.join(tokenizer), &folder.join(tokenizer))?;
    let [before, after] = [source, folder].map(|folder: &Path| folder.join("model.safetensors"));
    write_int8(&before, &after)?;
    let bytes = [size(&before)?, size(&after)?];
    draft.describe(bytes, &after)?;
    draft.texts.write(folder)?;
    draft.score(source, folder, options, report)?;
    draft.texts.write(folder)?;
    verify(folder)?;
    staging::install(staged, out)?;
    index::update(parent)?;
    Ok(Quantized {
        folder: out.clone(),
        bytes,
        scores: draft.scores,
        notes: draft.notes,
    })
}

/// Folders that were created, from the innermost to the outermost. Those that are empty in the end are removed.
struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Creates a folder and those around it.
    fn create(folder: &Path) -> Result<Self> {
        let missing = folder.ancestors().take_while(|path| !path.exists());
        let missing = missing.filter(|path| !path.as_os_str().is_empty());
        let missing = Self(missing.map(Path::to_path_buf).collect());
        fs::create_dir_all(folder).map_err(|problem| Error::io(folder, problem))?;
        Ok(missing)
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        for folder in &self.0 {
            // Fails if it has contents, which stay.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The small files of a quantised model, before they are written.
struct QuantizedDraft {
    texts: ModelTexts,
    bytes: [u64; 2],
    scores: Option<(String, [f64; 2])>,
    notes: Vec<String>,
}

impl QuantizedDraft {
    fn new(
        source: &Path,
        config: ModelConfig,
        recipe: Recipe,
        name: &str,
        options: &QuantizeOptions,
    ) -> Result<Self> {
        let mut metrics = summary::metrics(source)?;
        let published = &mut metrics[PUBLICATION];
        let text = |value: &Value| value.as_str().map(String::from);
        let corpus = text(&published["corpus"]["title"]).map(|title| CorpusFacts {
            title,
            language: text(&published["corpus"]["language"]).unwrap_or_default(),
            licence: text(&published["corpus"]["licence"]).unwrap_or_default(),
            source: text(&published["corpus"]["source"]).unwrap_or_default(),
        });
        if let Value::Object(published) = published {
            // Made with the weights before.
            for key in ["f1_interval", "errors", "f1_before"] {
                published.remove(key);
            }
            if is_model_name(name) {
                published.insert("name".into(), json!(name));
            }
        } else if let Value::Object(metrics) = &mut metrics {
            metrics.remove(PUBLICATION);
        }
        Ok(Self {
            texts: ModelTexts {
                nested: registry::find(&config.head)?.nested,
                config: config.with_quantization(Some(Quantization::INT8)),
                corpus: corpus.or_else(|| corpus_facts(&recipe, &options.roots)),
                recipe,
                metrics,
            },
            bytes: [0; 2],
            scores: None,
            notes: Vec::new(),
        })
    }

    /// Describes the weights.
    fn describe(&mut self, bytes: [u64; 2], weights: &Path) -> Result<()> {
        self.bytes = bytes;
        let metrics = &mut self.texts.metrics;
        metrics[QUANTIZATION] = facts(bytes, None);
        if metrics[PUBLICATION].is_object() {
            let info = weights_file::read(weights)?;
            metrics[PUBLICATION]["weights"] =
                json!({"precision": info.precision, "values": info.values, "bytes": bytes[1]});
        }
        Ok(())
    }

    /// Scores the model before and after. The scores of splits that were made with the weights before are replaced or left
    /// out.
    fn score(
        &mut self,
        source: &Path,
        folder: &Path,
        options: &QuantizeOptions,
        report: &dyn Fn(&str),
    ) -> Result<()> {
        let load = |folder: &Path| registry::load(folder, &device::cpu(), &[]);
        let mut own = None;
        let (what, mut gold) = match &options.check {
            Check::None => {
                load(folder)?;
                self.forget_scores(&["dev", "test"]);
                self.notes
                    .push("the model was not scored; the card has no scores".into());
                return Ok(());
            }
            Check::Sentences(what, gold) => (what.clone(), gold.clone()),
            Check::OwnCorpus => {
                let recipe = &self.texts.recipe;
                let corpus = Corpus::load(recipe, &options.roots).map_err(|problem| {
                    Error::Config(format!(
                        "the corpus of the run is needed to compare F1: {}\nGive its folder with --data, other sentences \
                         with --check, or --no-check",
                        problem.chain()
                    ))
                })?;
                let (split, gold) = scored_split(&corpus);
                let name = recipe.data.corpus.as_deref().unwrap_or("its files");
                let found = (format!("{name} ({split})"), gold.to_vec());
                own = Some((split, corpus));
                found
            }
        };
        if gold.is_empty() {
            return Err(Error::Config(format!(
                "{what} has no sentences to compare F1 on; give others with --check, or --no-check"
            )));
        }
        report("scoring the model before");
        let tagger = load(source)?;
        if own.is_none() {
            data::link_context(&mut gold, tagger.context());
        }
        let before = evaluate(&*tagger, &gold)?.overall.f1();
        drop(tagger);
        report("scoring the model after");
        let tagger = load(folder)?;
        let after: Report = evaluate(&*tagger, &gold)?;
        let f1 = [before, after.overall.f1()];
        compare(&what, f1, options.tolerance)?;
        if before == 0.0 {
            self.notes.push(format!(
                "F1 on {what} is 0 before and after, so the comparison says nothing; give other sentences with --check"
            ));
        }
        self.texts.metrics[QUANTIZATION] = facts(self.bytes, Some((&what, f1)));
        self.replace_scores(&*tagger, &after, own)?;
        self.scores = Some((what, f1));
        Ok(())
    }

    /// Replaces the scores of the splits of the model's own corpus; others are left out.
    fn replace_scores(
        &mut self,
        tagger: &dyn Tagger,
        after: &Report,
        own: Option<(&'static str, Corpus)>,
    ) -> Result<()> {
        self.forget_scores(&["dev", "test"]);
        let Some((split, corpus)) = own else {
            return Ok(());
        };
        if split == "test" && !corpus.dev.is_empty() {
            self.texts.metrics["dev"] = evaluate(tagger, &corpus.dev)?.to_json();
        }
        self.texts.metrics[split] = after.to_json();
        Ok(())
    }

    fn forget_scores(&mut self, splits: &[&str]) {
        if let Value::Object(metrics) = &mut self.texts.metrics {
            metrics.retain(|key, _| !splits.contains(&key.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_more_than_the_tolerance_is_refused() {
        compare("x", [0.5, 0.495], 0.5).unwrap();
        compare("x", [0.5, 0.9], 0.0).unwrap();
        compare("x", [0.5, 0.5], 0.0).unwrap();
        let problem = compare("x", [0.5, 0.494], 0.5).unwrap_err().to_string();
        assert!(problem.contains("from 50.00 to 49.40"), "{problem}");
        for bad in [-0.1, f64::NAN, f64::INFINITY, 101.0] {
            assert!(check_tolerance(bad).is_err(), "{bad}");
        }
    }
}
