//! Corpora by name: what is known about each, where its files are, and whether they are the files we know.
//!
//! A dataset is a folder `<root>/<name>/` with the corpus's files. What they are stands in `dataset.toml`, either in
//! that folder or, for the corpora in [`KNOWN`], in this program. `datasets/README.md` explains every field.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::data::{self, Format, Options};
use crate::error::{Error, Result, nearest};
use crate::text::Sentence;

/// The environment variable that names more roots, separated as in `PATH`.
pub const VARIABLE: &str = "NERZOO_DATA";

macro_rules! known {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../datasets/", $name, "/dataset.toml")))),*]
    };
}

/// The corpora this program knows, each with its `dataset.toml`.
#[rustfmt::skip]
pub const KNOWN: &[(&str, &str)] = known!(
    "ace04" "ace05" "bc5cdr" "conll03" "conll04" "conllpp" "genia" "gum-open" "kbp17" "msra" "ncbi" "ontonotes5"
    "quickstart" "resume" "scierc" "uner-zh-gsdsimp" "weibo" "wnut16" "wnut17"
);

/// What `dataset.toml` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The corpus's full name.
    pub title: String,
    /// What it is, in a sentence or two.
    pub description: String,
    /// Language tag, such as `en`.
    pub language: String,
    /// True when entities may contain each other.
    pub nested: bool,
    /// The entity types.
    pub types: Vec<String>,
    /// Where it comes from.
    pub source: String,
    /// Under which terms.
    pub licence: String,
    /// True when the licence lets everyone pass the files on.
    pub redistributable: bool,
    /// How its files are written; recognised from the file when absent.
    pub format: Option<Format>,
    /// How to read them.
    #[serde(default)]
    pub options: Options,
    /// Train, dev and test.
    pub splits: BTreeMap<String, Split>,
    /// What the papers count, where that differs from the files.
    #[serde(default)]
    pub papers: Vec<Paper>,
    /// Whatever else one should know.
    pub notes: Option<String>,
}

/// A part of a corpus: files, or the tail of another part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Split {
    /// Files inside the dataset's folder, read one after the other.
    pub files: Vec<String>,
    /// How many sentences the files have.
    pub sentences: Option<usize>,
    /// How many entities they have, those that miss a word border included.
    pub entities: Option<usize>,
    /// SHA-256 of the files the numbers were counted in.
    pub sha256: BTreeMap<String, String>,
    /// The split this one is the tail of.
    pub hold_out_of: Option<String>,
    /// How much of it, in percent of its sentences.
    pub last_percent: Option<usize>,
}

/// How many sentences and entities there are, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Count {
    /// Sentences.
    pub sentences: Option<usize>,
    /// Entities.
    pub entities: Option<usize>,
}

/// The counts a paper prints.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Which paper and table.
    pub paper: String,
    /// Its counts for training.
    pub train: Option<Count>,
    /// For development.
    pub dev: Option<Count>,
    /// For testing.
    pub test: Option<Count>,
}

/// A corpus that was found.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The name it was asked for by.
    pub name: String,
    /// Where its files are.
    pub folder: PathBuf,
    /// What is known about it.
    pub about: About,
    /// True when no `dataset.toml` exists and the splits were guessed from file names.
    pub inferred: bool,
}

/// Where corpora are looked for: the flag's folder, those of [`VARIABLE`], then `datasets`.
pub fn roots(flag: Option<&Path>) -> Vec<PathBuf> {
    roots_with(flag, std::env::var_os(VARIABLE))
}

fn roots_with(flag: Option<&Path>, variable: Option<OsString>) -> Vec<PathBuf> {
    let listed = variable.iter().flat_map(std::env::split_paths);
    let listed = listed.filter(|path| !path.as_os_str().is_empty());
    let first = flag.map(Path::to_path_buf).into_iter();
    first.chain(listed).chain([PathBuf::from("datasets")]).collect()
}

/// The corpora of this program and the folders of the roots, sorted.
pub fn names(roots: &[PathBuf]) -> Vec<String> {
    let entries = roots.iter().filter_map(|root| root.read_dir().ok()).flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.extend(KNOWN.iter().map(|(name, _)| name.to_string()));
    names.sort();
    names.dedup();
    names
}

/// What this program knows about a corpus, whether or not its files are here.
pub fn known(name: &str) -> Option<About> {
    let (_, text) = KNOWN.iter().find(|(known, _)| *known == name)?;
    Some(About::parse(text, Path::new(name)).expect("a test parses every one"))
}

/// The corpus of that name in the first root that has the files of at least one of its splits.
pub fn find(name: &str, roots: &[PathBuf]) -> Result<Dataset> {
    let mut looked = Vec::new();
    let mut about = known(name);
    for root in roots {
        let folder = root.join(name);
        let Some((found, inferred)) = describe(name, &folder)? else {
            looked.push(format!("{} (no such folder)", folder.display()));
            continue;
        };
        if found.splits.values().any(|split| split.is_in(&folder)) {
            let name = name.to_string();
            return Ok(Dataset { name, folder, about: found, inferred });
        }
        looked.push(format!("{} (without the files)", folder.display()));
        about = about.or((!inferred).then_some(found));
    }
    let looked = looked.join(", ");
    Err(Error::Config(match about {
        Some(about) => about.how_to_get(name, &looked),
        None => unknown(name, &names(roots), &looked),
    }))
}

/// What the folder's own file, else this program, else its file names say; nothing when there is no such folder.
fn describe(name: &str, folder: &Path) -> Result<Option<(About, bool)>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let file = folder.join("dataset.toml");
    if file.is_file() {
        let text = std::fs::read_to_string(&file).map_err(|error| Error::io(&file, error))?;
        return Ok(Some((About::parse(&text, &file)?, false)));
    }
    match known(name) {
        Some(about) => Ok(Some((about, false))),
        None => Ok(Some((About::infer(name, folder)?, true))),
    }
}

fn unknown(name: &str, all: &[String], looked: &str) -> String {
    let near = nearest(name, all.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    format!("no dataset {name:?}{near}\nknown: {}\nlooked in: {looked}", all.join(", "))
}

impl About {
    /// Reads a `dataset.toml`; `file` is named in errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self> {
        let problem = |problem: String| Error::Config(format!("{}: {problem}", file.display()));
        let about: Self = toml::from_str(text).map_err(|error| problem(error.to_string()))?;
        about.check().map_err(problem)?;
        Ok(about)
    }

    fn check(&self) -> Result<(), String> {
        let mut sources = Vec::new();
        for (name, split) in &self.splits {
            let stray = split.sha256.keys().find(|file| !split.files.contains(file));
            if let Some(stray) = stray {
                return Err(format!("splits.{name}.sha256 names {stray:?}, which is not among its files"));
            }
            let Some(source) = &split.hold_out_of else {
                if split.files.is_empty() {
                    return Err(format!("splits.{name} needs files or hold_out_of"));
                }
                continue;
            };
            if !split.files.is_empty() || !matches!(split.last_percent, Some(1..=99)) {
                return Err(format!("splits.{name} is held out: it takes no files and a last_percent from 1 to 99"));
            }
            if self.splits.get(source).is_none_or(|source| source.files.is_empty()) {
                return Err(format!("splits.{name}.hold_out_of: {source:?} is no split with files"));
            }
            if sources.contains(&source) {
                return Err(format!("two splits are held out of {source:?}"));
            }
            sources.push(source);
        }
        Ok(())
    }

    /// A folder without a `dataset.toml`: files whose names start with train, dev (valid, devel) or test.
    fn infer(name: &str, folder: &Path) -> Result<Self> {
        let entries = folder.read_dir().map_err(|error| Error::io(folder, error))?;
        let files = entries.flatten().filter(|entry| entry.path().is_file());
        let mut files: Vec<String> = files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        files.sort();
        let mut splits: BTreeMap<String, Split> = BTreeMap::new();
        for file in files {
            let starts = [("train", "train"), ("dev", "dev"), ("valid", "dev"), ("test", "test")];
            if let Some((_, split)) = starts.iter().find(|(start, _)| file.starts_with(start)) {
                splits.entry(split.to_string()).or_default().files.push(file);
            }
        }
        Ok(Self {
            title: name.to_string(),
            description: "A folder without a dataset.toml; its splits are guessed from file names.".into(),
            language: "und".into(),
            nested: true,
            types: Vec::new(),
            source: "unknown".into(),
            licence: "unknown".into(),
            redistributable: false,
            format: None,
            options: Options::default(),
            splits,
            papers: Vec::new(),
            notes: None,
        })
    }

    fn how_to_get(&self, name: &str, looked: &str) -> String {
        let files: Vec<&str> = self.splits.values().flat_map(|split| &split.files).map(String::as_str).collect();
        format!(
            "the files of dataset {name} ({title}) are not here: {files}\n\
             looked in: {looked}\n\
             source: {source}\n\
             licence: {licence}\n\
             Put the files into a folder named {name} and set {VARIABLE} to the folder that holds it. Files with other \
             names need a dataset.toml beside them (datasets/README.md says what goes in).",
            title = self.title,
            files = files.join(", "),
            source = self.source,
            licence = self.licence,
        )
    }
}

impl Dataset {
    /// The splits it has, such as `dev`, `test`, `train`.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        self.about.splits.keys().map(String::as_str)
    }

    fn split(&self, name: &str) -> Result<&Split> {
        self.about.splits.get(name).ok_or_else(|| {
            let all: Vec<&str> = self.splits().collect();
            let near = nearest(name, all.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            let all = all.join(", ");
            Error::Config(format!("dataset {} has no split {name:?}{near} (it has {all})", self.name))
        })
    }

    /// The files a split is read from; those of the split it is held out of, when it has none of its own.
    pub fn files(&self, split: &str) -> Result<Vec<PathBuf>> {
        let described = self.split(split)?;
        if let Some(source) = &described.hold_out_of {
            return self.files(source);
        }
        let files: Vec<PathBuf> = described.files.iter().map(|file| self.folder.join(file)).collect();
        match files.iter().find(|file| !file.is_file()) {
            None => Ok(files),
            Some(missing) => Err(Error::Config(format!(
                "dataset {}, split {split}: {} is missing\nsource: {}\nlicence: {}",
                self.name,
                missing.display(),
                self.about.source,
                self.about.licence
            ))),
        }
    }

    /// How its files are to be read.
    pub fn options(&self) -> Options {
        let mut options = self.about.options.clone();
        options.format = self.about.format.or(options.format);
        options
    }

    /// The sentences of a split: without the tail that another split holds out, or that tail.
    pub fn load(&self, split: &str) -> Result<Vec<Sentence>> {
        let mut sentences = self.read(split)?;
        let described = self.split(split)?;
        if described.hold_out_of.is_some() {
            return Ok(sentences.split_off(described.cut(sentences.len())));
        }
        let mut others = self.about.splits.values();
        if let Some(held) = others.find(|other| other.hold_out_of.as_deref() == Some(split)) {
            sentences.truncate(held.cut(sentences.len()));
        }
        Ok(sentences)
    }

    /// All sentences of a split's files, whatever is held out of them; what papers train on that have no dev.
    pub fn load_whole(&self, split: &str) -> Result<Vec<Sentence>> {
        match self.split(split)?.hold_out_of {
            Some(_) => self.load(split),
            None => self.read(split),
        }
    }

    fn read(&self, split: &str) -> Result<Vec<Sentence>> {
        data::read_many(&self.files(split)?, &self.options())
    }

    /// What a split's files should contain, as far as it is recorded.
    pub fn expected(&self, split: &str) -> Result<Count> {
        let Split { sentences, entities, .. } = *self.split(split)?;
        Ok(Count { sentences, entities })
    }
}

impl Split {
    /// Where its tail begins in so many sentences.
    fn cut(&self, sentences: usize) -> usize {
        sentences - sentences * self.last_percent.unwrap_or(0) / 100
    }

    /// True when it has files and the folder has them all.
    fn is_in(&self, folder: &Path) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| folder.join(file).is_file())
    }
}

/// What was counted in a split's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The split.
    pub split: String,
    /// Sentences and entities that are there.
    pub found: Count,
    /// Those that should be.
    pub expected: Count,
    /// Every file, and whether its hash is the recorded one; `None` when none is recorded.
    pub hashes: Vec<(String, Option<bool>)>,
}

/// The result of [`verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The dataset.
    pub name: String,
    /// Every split that has files.
    pub splits: Vec<Checked>,
}

/// Counts and hashes the files of every split and compares them with what is recorded. A missing file is an error.
pub fn verify(dataset: &Dataset) -> Result<Verification> {
    let mut splits = Vec::new();
    for (name, split) in dataset.about.splits.iter().filter(|(_, split)| split.hold_out_of.is_none()) {
        let sentences = dataset.load_whole(name)?;
        let entities = sentences.iter().map(|sentence| sentence.entities.len() + sentence.misaligned.len());
        let mut hashes = Vec::new();
        for (file, path) in split.files.iter().zip(dataset.files(name)?) {
            let recorded = split.sha256.get(file);
            let equal = recorded.map(|recorded| Ok(sha256(&path)?.eq_ignore_ascii_case(recorded)));
            hashes.push((file.clone(), equal.transpose()?));
        }
        splits.push(Checked {
            split: name.clone(),
            found: Count { sentences: Some(sentences.len()), entities: Some(entities.sum()) },
            expected: dataset.expected(name)?,
            hashes,
        });
    }
    Ok(Verification { name: dataset.name.clone(), splits })
}

fn sha256(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Checked {
    fn counts(&self) -> [(Option<usize>, Option<usize>); 2] {
        let (found, expected) = (self.found, self.expected);
        [(found.sentences, expected.sentences), (found.entities, expected.entities)]
    }

    /// True when nothing recorded differs from what is there.
    pub fn ok(&self) -> bool {
        self.counts().iter().all(|(found, expected)| expected.is_none() || found == expected)
            && self.hashes.iter().all(|(_, equal)| *equal != Some(false))
    }
}

impl Verification {
    /// True when nothing recorded differs from what is there.
    pub fn ok(&self) -> bool {
        self.splits.iter().all(Checked::ok)
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:8}{:>11}{:>11}{:>11}{:>11}  files", "split", "sentences", "expected", "entities", "expected")?;
        for checked in &self.splits {
            write!(f, "{:8}", checked.split)?;
            for number in checked.counts().iter().flat_map(|(found, expected)| [found, expected]) {
                write!(f, "{:>11}", number.map_or("-".to_string(), |number| number.to_string()))?;
            }
            for (index, (file, equal)) in checked.hashes.iter().enumerate() {
                let verdict = match equal {
                    Some(true) => "hash matches",
                    Some(false) => "hash differs",
                    None => "no hash recorded",
                };
                write!(f, "{}{file} ({verdict})", if index == 0 { "  " } else { ", " })?;
            }
            writeln!(f, "{}", if checked.ok() { "" } else { "  <- differs" })?;
        }
        let verdict = if self.ok() { "matches what is recorded" } else { "differs from what is recorded" };
        write!(f, "{} {verdict}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A corpus folder of `count` one-word sentences with an entity each.
    fn jsonl(folder: &Path, file: &str, count: usize) {
        std::fs::create_dir_all(folder).unwrap();
        let line = |i| format!("{{\"tokens\":[\"w{i}\"],\"entities\":[{{\"start\":0,\"end\":1,\"type\":\"X\"}}]}}\n");
        std::fs::write(folder.join(file), (0..count).map(line).collect::<String>()).unwrap();
    }

    const HELD_OUT: &str = "title='t'\ndescription='d'\nlanguage='en'\nnested=false\ntypes=['X']\nsource='s'\n\
        licence='l'\nredistributable=true\nformat='tokens_jsonl'\n[splits.train]\nfiles=['a.jsonl','b.jsonl']\n\
        sentences=25\nentities=25\n[splits.dev]\nhold_out_of='train'\nlast_percent=10\n";

    #[test]
    fn every_known_dataset_parses() {
        for (name, text) in KNOWN {
            let about = About::parse(text, Path::new(name)).unwrap();
            assert!(about.splits.contains_key("train") || about.splits.contains_key("test"), "{name}");
            assert!(!about.types.is_empty() && !about.source.is_empty(), "{name}");
            assert!(about.format.is_some() && known(name).is_some(), "{name}");
            let hashes = about.splits.values().flat_map(|split| split.sha256.values());
            assert!(hashes.into_iter().all(|hash| hash.len() == 64), "{name}");
        }
        let sorted = KNOWN.is_sorted_by_key(|(name, _)| *name);
        assert!(sorted);
        let folders = names(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets")]);
        assert_eq!(folders.len(), KNOWN.len(), "a folder of datasets/ is missing in KNOWN");
    }

    #[test]
    fn the_flag_comes_first_and_datasets_last() {
        let variable = std::env::join_paths(["b", "c"]).unwrap();
        let all = roots_with(Some(Path::new("a")), Some(variable));
        assert_eq!(all, ["a", "b", "c", "datasets"].map(PathBuf::from));
        assert_eq!(roots_with(None, Some(OsString::new())), [PathBuf::from("datasets")]);
    }

    #[test]
    fn the_first_root_with_files_wins() {
        let temporary = tempfile::tempdir().unwrap();
        let roots = ["a", "b", "c"].map(|root| temporary.path().join(root));
        std::fs::create_dir_all(roots[0].join("genia")).unwrap();
        std::fs::write(roots[0].join("genia/dataset.toml"), known_text("genia")).unwrap();
        jsonl(&roots[1].join("genia"), "train.jsonl", 2);
        jsonl(&roots[2].join("genia"), "train.jsonl", 3);
        let dataset = find("genia", &roots).unwrap();
        assert_eq!(dataset.folder, roots[1].join("genia"));
        assert!(!dataset.inferred);
        assert_eq!(dataset.expected("train").unwrap().sentences, Some(16692));
        let error = dataset.files("test").unwrap_err().to_string();
        assert!(error.contains("test.jsonl is missing") && error.contains("source:"), "{error}");
        let error = dataset.files("tets").unwrap_err().to_string();
        assert!(error.contains("did you mean \"test\""), "{error}");
    }

    fn known_text(name: &str) -> &'static str {
        KNOWN.iter().find(|(known, _)| *known == name).unwrap().1
    }

    #[test]
    fn missing_files_say_where_to_get_them() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().to_path_buf();
        let error = find("ace04", &[root.clone(), root.join("x")]).unwrap_err().to_string();
        for part in ["ace04_train_context.json", "LDC", "licence:", VARIABLE, "x/ace04"] {
            assert!(error.replace('\\', "/").contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::create_dir(temporary.path().join("mine")).unwrap();
        let roots = [temporary.path().to_path_buf()];
        let error = find("gneia", &roots).unwrap_err().to_string();
        assert!(error.contains("did you mean \"genia\"?"), "{error}");
        assert!(error.contains("mine") && error.contains("wnut17"), "{error}");
        assert!(find("mine", &roots).is_err());
    }

    #[test]
    fn folders_without_a_description_are_guessed() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("mine");
        for (file, count) in [("train-1.jsonl", 4), ("train-2.jsonl", 3), ("valid.jsonl", 2), ("notes.txt", 1)] {
            jsonl(&folder, file, count);
        }
        let dataset = find("mine", &[temporary.path().to_path_buf()]).unwrap();
        assert!(dataset.inferred);
        assert_eq!(dataset.splits().collect::<Vec<_>>(), ["dev", "train"]);
        assert_eq!(dataset.load("train").unwrap().len(), 7);
        assert_eq!(dataset.load("dev").unwrap().len(), 2);
    }

    #[test]
    fn the_held_out_tail_is_not_trained_on() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("held");
        jsonl(&folder, "a.jsonl", 20);
        jsonl(&folder, "b.jsonl", 5);
        std::fs::write(folder.join("dataset.toml"), HELD_OUT).unwrap();
        let dataset = find("held", &[temporary.path().to_path_buf()]).unwrap();
        let (train, dev) = (dataset.load("train").unwrap(), dataset.load("dev").unwrap());
        let mut whole = dataset.load_whole("train").unwrap();
        assert_eq!((train.len(), dev.len(), whole.len()), (23, 2, 25));
        assert_eq!(whole.split_off(23), dev);
        assert_eq!(whole, train);
        assert_eq!(dataset.load_whole("dev").unwrap(), dev);
    }

    #[test]
    fn verifying_compares_counts_and_hashes() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("held");
        jsonl(&folder, "a.jsonl", 20);
        jsonl(&folder, "b.jsonl", 5);
        let with_hash = |hash: &str| {
            let table = format!("sha256 = {{ 'a.jsonl' = '{hash}' }}\n[splits.dev]");
            std::fs::write(folder.join("dataset.toml"), HELD_OUT.replace("[splits.dev]", &table)).unwrap();
            verify(&find("held", &[temporary.path().to_path_buf()]).unwrap()).unwrap()
        };
        let good = with_hash(&sha256(&folder.join("a.jsonl")).unwrap());
        assert!(good.ok(), "{good}");
        assert!(good.to_string().contains("b.jsonl (no hash recorded)"), "{good}");
        assert!(good.to_string().ends_with("held matches what is recorded"), "{good}");
        let bad = with_hash(&"0".repeat(64));
        assert!(!bad.ok() && bad.to_string().contains("a.jsonl (hash differs)"), "{bad}");
        jsonl(&folder, "b.jsonl", 6);
        let longer = verify(&find("held", &[temporary.path().to_path_buf()]).unwrap()).unwrap();
        assert!(!longer.ok() && longer.splits[0].found.sentences == Some(26));
    }

    #[test]
    fn contradictions_are_refused() {
        let refuse = |from: &str, to: &str, why: &str| {
            let text = HELD_OUT.replace(from, to);
            let error = About::parse(&text, Path::new("x/dataset.toml")).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("x/dataset.toml"), "{error}");
        };
        refuse("last_percent=10", "last_percent=100", "from 1 to 99");
        refuse("hold_out_of='train'", "hold_out_of='rain'", "no split with files");
        refuse("hold_out_of='train'\nlast_percent=10", "", "needs files or hold_out_of");
        refuse("sentences=25", "sha256={'c'='0'}", "not among its files");
        refuse("title", "titel", "titel");
    }

    #[test]
    fn the_quickstart_is_as_recorded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets");
        let verification = verify(&find("quickstart", &[root]).unwrap()).unwrap();
        assert!(verification.ok(), "{verification}");
    }
}
