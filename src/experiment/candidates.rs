//! The candidates of a comparison: heads, each with a few settings.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::data::stats::Stats;
use crate::error::{Error, Result, nearest};
use crate::recipe::defaults::EncoderSize;
use crate::recipe::set::Assignment;
use crate::recipe::{DataConfig, Recipe};
use crate::registry::{self, Entry};

/// What to compare. It is saved with the comparison, which is resumed with the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareConfig {
    /// The sentences.
    pub data: DataConfig,
    /// A pretrained encoder's folder or name; without it one is trained from scratch.
    pub encoder: Option<String>,
    /// Names of heads, or of single candidates such as `seq_ner.default`; empty for every head that is not a bundle of two
    /// others by name.
    pub heads: Vec<String>,
    /// The time in minutes; `None` for no limit, which needs `epochs`.
    pub minutes: Option<f64>,
    /// Epochs of a candidate that is trained to its end; by default as many as there is time for.
    pub epochs: Option<usize>,
    /// Number of rungs; by default so many that two candidates remain.
    pub rungs: Option<usize>,
    /// Random seed of every run.
    pub seed: u64,
    /// Settings of every candidate as `key=value`.
    pub sets: Vec<String>,
}

/// A head with settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Head and variant, as in `seq_ner.default`.
    pub name: String,
    /// The head.
    pub head: String,
    /// The name of the choice of settings.
    pub variant: String,
    /// What differs from the head's default, as `key=value`.
    pub sets: Vec<String>,
}

impl Candidate {
    /// The variant of every head whose settings are the defaults.
    pub const DEFAULT: &str = "default";

    /// True for a head with its default settings.
    pub fn is_default(&self) -> bool {
        self.variant == Self::DEFAULT
    }

    /// Its settings as a person reads them.
    pub fn settings(&self) -> String {
        if self.sets.is_empty() {
            self.variant.clone()
        } else {
            self.sets.join(" ")
        }
    }

    /// Its recipe.
    pub fn recipe(&self, config: &CompareConfig, stats: &Stats, epochs: usize) -> Result<Recipe> {
        let entry = registry::find(&self.head)?;
        let sets = [&config.sets[..], &self.sets].concat();
        let recipe = recipe_for(entry, config, stats, epochs, &sets)?;
        Ok(registry::resolve(recipe)?.0)
    }
}

/// The recipe of a head for a corpus, with the settings given as `key=value` changed.
pub fn recipe_for(
    entry: &Entry,
    config: &CompareConfig,
    stats: &Stats,
    epochs: usize,
    sets: &[String],
) -> Result<Recipe> {
    let invalid = |problem: toml::ser::Error| Error::Config(problem.to_string());
    let mut table = Table::new();
    let data = Value::try_from(&config.data).map_err(invalid)?;
    table.insert("data".into(), data);
    let text = |text: &str| Value::String(text.into());
    let mut put = |key: &str, value: Value| {
        let key = key.to_string();
        Assignment { key, value }.apply(&mut table)
    };
    put("head.name", text(entry.name))?;
    match &config.encoder {
        Some(encoder) => put("encoder.pretrained", text(encoder))?,
        None => {
            // Few words fill few pieces; a vocabulary much larger than the corpus learns nothing.
            let vocabulary = (stats.words / 20).clamp(500, 8000) / 100 * 100;
            put(
                "encoder.scratch.vocabulary",
                Value::Integer(vocabulary as i64),
            )?;
        }
    }
    let name = format!("the recipe of {}", entry.name);
    let recipe = toml::to_string(&table).map_err(invalid)?;
    let mut recipe = Recipe::parse(&recipe, &name, &[])?;
    let encoder = EncoderSize::of(config.encoder.as_deref());
    entry.defaults(stats, encoder).apply(&mut recipe)?;
    if i64::try_from(config.seed).is_err() {
        return Err(Error::Config(format!(
            "the seed {} is too large for a recipe",
            config.seed
        )));
    }
    recipe.train.seed = config.seed;
    recipe.train.epochs = epochs;
    recipe.train.patience = 0;
    Recipe::parse(&recipe.to_toml()?, &name, sets)
}

/// The choices of settings of a head: name, and what differs from `base`, its recipe with the defaults.
fn variants(entry: &Entry, base: &Recipe) -> Vec<(String, Vec<String>)> {
    let doubled = (2.0 * base.train.learning_rate).min(1.0);
    let mut variants = vec![
        (Candidate::DEFAULT.to_string(), Vec::new()),
        (
            "rate-x2".to_string(),
            vec![format!("train.learning_rate={doubled:e}")],
        ),
    ];
    if let Some(preset) = other_preset(entry, base) {
        variants.push((preset.clone(), vec![format!("head.preset={preset}")]));
    }
    variants
}

/// A preset of the head that is not the one of the recipe, if it has several.
fn other_preset(entry: &Entry, base: &Recipe) -> Option<String> {
    let settings = (entry.settings)();
    let setting = settings.iter().find(|setting| setting.name == "preset")?;
    let names: Vec<String> = setting
        .defaults
        .iter()
        .map(|(preset, _)| preset.to_string())
        .collect();
    let used = match base.head.get("preset").and_then(Value::as_str) {
        Some(used) => used,
        None => names.first()?,
    };
    names.iter().find(|name| *name != used).cloned()
}

/// The candidates of a comparison, heads in the order of the registry or as given, each with its default settings first.
pub fn candidates(config: &CompareConfig, stats: &Stats) -> Result<Vec<Candidate>> {
    let all: Vec<&Entry> = registry::heads();
    let mut found: Vec<Candidate> = Vec::new();
    if config.heads.is_empty() {
        for entry in all.iter().filter(|entry| !entry.name.contains('+')) {
            found.extend(candidates_of(entry, config, stats)?);
        }
        return Ok(found);
    }
    for name in &config.heads {
        let head = name.split_once('.').map_or(name.as_str(), |(head, _)| head);
        let mut own = candidates_of(registry::find(head)?, config, stats)?;
        if head != name {
            let names: Vec<String> = own.iter().map(|candidate| candidate.name.clone()).collect();
            own.retain(|candidate| candidate.name == *name);
            if own.is_empty() {
                let near = nearest(name, names.iter().map(String::as_str));
                let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                return Err(Error::Config(format!(
                    "there is no candidate {name}{hint} There are: {}",
                    names.join(", ")
                )));
            }
        }
        own.retain(|candidate| !found.contains(candidate));
        found.extend(own);
    }
    Ok(found)
}

fn candidates_of(entry: &Entry, config: &CompareConfig, stats: &Stats) -> Result<Vec<Candidate>> {
    let base = recipe_for(entry, config, stats, 1, &config.sets)?;
    let candidate = |(variant, sets): (String, Vec<String>)| Candidate {
        name: format!("{}.{variant}", entry.name),
        head: entry.name.to_string(),
        variant,
        sets,
    };
    Ok(variants(entry, &base).into_iter().map(candidate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::synthetic;

    fn config(heads: &[&str]) -> CompareConfig {
        CompareConfig {
            data: DataConfig {
                corpus: Some("quickstart".into()),
                ..DataConfig::default()
            },
            heads: heads.iter().map(|head| head.to_string()).collect(),
            seed: 7,
            sets: vec!["train.batch=4".into()],
            ..CompareConfig::default()
        }
    }

    fn names(heads: &[&str]) -> Result<Vec<String>> {
        let stats = Stats::of(&synthetic::sentences(50, 1));
        let found = candidates(&config(heads), &stats)?;
        Ok(found.into_iter().map(|candidate| candidate.name).collect())
    }

    #[test]
    fn all_single_heads_are_candidates_with_their_presets() {
        assert_eq!(
            names(&[]).unwrap(),
            [
                "seq_ner.default",
                "seq_ner.rate-x2",
                "span_ner.default",
                "span_ner.rate-x2",
                "bl_ner.default",
                "bl_ner.rate-x2",
                "bopn.default",
                "bopn.rate-x2",
                "bopn.released",
                "locate_label.default",
                "locate_label.rate-x2",
                "locate_label.released",
                "diffusion_ner.default",
                "diffusion_ner.rate-x2",
                "diffusion_ner.released",
            ]
        );
    }

    #[test]
    fn heads_and_single_candidates_can_be_chosen() {
        let found = names(&["bopn.released", "seq_ner+bopn", "bopn.released"]).unwrap();
        let expected = [
            "bopn.released",
            "seq_ner+bopn.default",
            "seq_ner+bopn.rate-x2",
        ];
        assert_eq!(found, expected);
        let problem = names(&["bopn.relaesed"]).unwrap_err().to_string();
        assert!(problem.contains("did you mean bopn.released?"), "{problem}");
        assert!(names(&["bopm"]).is_err());
    }

    #[test]
    fn recipes_have_the_settings_of_their_candidate() {
        let stats = Stats::of(&synthetic::sentences(50, 1));
        let all = candidates(&config(&["bopn"]), &stats).unwrap();
        let recipe = |index: usize| all[index].recipe(&config(&[]), &stats, 6).unwrap();
        let (default, doubled, released) = (recipe(0), recipe(1), recipe(2));
        assert_eq!((default.train.epochs, default.train.seed), (6, 7));
        assert_eq!(
            (default.train.batch, default.train.learning_rate),
            (4, 1e-3)
        );
        assert_eq!(doubled.train.learning_rate, 2e-3);
        assert_eq!(released.head["preset"].as_str(), Some("released"));
        assert_eq!(all[1].settings(), "train.learning_rate=2e-3");
    }
}
