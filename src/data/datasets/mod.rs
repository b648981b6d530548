//! Datasets by name: their description, the location of their files, and a check of counts and hashes.
//!
//! A dataset is a folder `<root>/<name>/` with the files of a corpus. They are described by `dataset.toml`, either in that
//! folder or, for the datasets in [`KNOWN`], in this program. A dataset can also be made of others; it needs no files then.
//! `datasets/README.md` explains all fields.

mod info;
mod verify;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::ReadOptions;
use crate::data;
use crate::error::{Error, Result, nearest};
use crate::files::read_text;
use crate::text::Sentence;

pub use info::{DatasetInfo, InfoError, PaperCounts, SplitCounts, SplitInfo};
pub use verify::{SplitCheck, Verification, verify};

/// The environment variable with further root folders, separated as in `PATH`.
pub const VARIABLE: &str = "NERZOO_DATA";

macro_rules! known {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../datasets/", $name, "/dataset.toml")))),*]
    };
}

/// Names of the datasets that this program describes, with the text of their `dataset.toml`.
#[rustfmt::skip]
pub const KNOWN: &[(&str, &str)] = known!(
    "ace04" "ace05" "bc5cdr" "btc" "conll03" "conll04" "conllpp" "genia" "gum-open" "kbp17" "msra" "names-en" "ncbi"
    "ontonotes5" "quickstart" "resume" "scierc" "uner-zh-gsdsimp" "weibo" "wikigold" "wnut16" "wnut17"
);

/// A dataset whose files were found.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Its name.
    pub name: String,
    /// The folder of its files.
    pub folder: PathBuf,
    /// Its description.
    pub info: DatasetInfo,
    /// True when there is no `dataset.toml` and the splits were inferred from file names.
    pub inferred: bool,
    /// The datasets that it is made of; none if it has files of its own.
    pub parts: Vec<Dataset>,
}

/// The folders in which datasets are searched: the one given on the command line, those of [`VARIABLE`], then `datasets`.
pub fn roots(flag: Option<&Path>) -> Vec<PathBuf> {
    roots_with(flag, std::env::var_os(VARIABLE))
}

fn roots_with(flag: Option<&Path>, variable: Option<OsString>) -> Vec<PathBuf> {
    let listed = variable.iter().flat_map(std::env::split_paths);
    let listed = listed.filter(|path| !path.as_os_str().is_empty());
    let first = flag.map(Path::to_path_buf).into_iter();
    first
        .chain(listed)
        .chain([PathBuf::from("datasets")])
        .collect()
}

/// The names of all known datasets and of all folders in the roots, sorted.
pub fn names(roots: &[PathBuf]) -> Vec<String> {
    let entries = roots
        .iter()
        .filter_map(|root| root.read_dir().ok())
        .flatten()
        .flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.extend(KNOWN.iter().map(|(name, _)| name.to_string()));
    names.sort();
    names.dedup();
    names
}

/// The description of a known dataset, whether or not its files are available.
pub fn known(name: &str) -> Option<DatasetInfo> {
    let (_, text) = KNOWN.iter().find(|(known, _)| *known == name)?;
    Some(DatasetInfo::parse(text, Path::new(name)).expect("a test parses every one"))
}

/// Finds a dataset by name: in the first root that has all files of at least one of its splits.
pub fn find(name: &str, roots: &[PathBuf]) -> Result<Dataset> {
    if name.trim().is_empty() || !info::is_inside(name) || name.contains('/') {
        return Err(Error::Config(unknown(name, &names(roots), "nowhere")));
    }
    let mut searched = Vec::new();
    let mut info = known(name);
    for root in roots {
        let folder = root.join(name);
        let Some((found, inferred)) = describe(name, &folder)? else {
            searched.push(format!("{} (no such folder)", folder.display()));
            continue;
        };
        if !found.parts.is_empty() {
            return joined(name, folder, found, roots);
        }
        if found
            .splits
            .values()
            .any(|split| split.is_complete(&folder))
        {
            let name = name.to_string();
            return Ok(Dataset {
                name,
                folder,
                info: found,
                inferred,
                parts: Vec::new(),
            });
        }
        searched.push(format!("{} (without the files)", folder.display()));
        info = info.or((!inferred).then_some(found));
    }
    if let Some(info) = info.take_if(|info| !info.parts.is_empty()) {
        return joined(name, PathBuf::new(), info, roots);
    }
    let searched = searched.join(", ");
    Err(Error::Config(match info {
        Some(info) => info.how_to_get(name, &searched),
        None => unknown(name, &names(roots), &searched),
    }))
}

/// A dataset that is made of others.
fn joined(name: &str, folder: PathBuf, info: DatasetInfo, roots: &[PathBuf]) -> Result<Dataset> {
    let mut parts = Vec::new();
    for part in &info.parts {
        let part = find_with_files(part, roots)?;
        let options = part.info.options.clone();
        let options = options.with_general_options_of(&info.options);
        let info = DatasetInfo {
            options,
            ..part.info
        };
        parts.push(Dataset { info, ..part });
    }
    Ok(Dataset {
        name: name.to_string(),
        folder,
        info,
        inferred: false,
        parts,
    })
}

/// Finds a part of a dataset, which must not be made of others.
fn find_with_files(name: &str, roots: &[PathBuf]) -> Result<Dataset> {
    let has_parts = |info: &DatasetInfo| !info.parts.is_empty();
    let mut described = roots.iter().map(|root| describe(name, &root.join(name)));
    let is_joined = known(name).as_ref().is_some_and(has_parts)
        || described.any(|found| matches!(found, Ok(Some((info, _))) if has_parts(&info)));
    if is_joined {
        return Err(Error::Config(format!(
            "dataset {name} is made of other datasets, so it cannot be part of one; name its parts instead"
        )));
    }
    find(name, roots)
}

/// Longest `dataset.toml` that is read, in bytes.
const LONGEST_TEXT: u64 = 1 << 20;

/// The description of a dataset from its folder, else from this program, else inferred from its file names (then the flag
/// is true); `None` when there is no such folder.
fn describe(name: &str, folder: &Path) -> Result<Option<(DatasetInfo, bool)>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let file = folder.join("dataset.toml");
    if file.exists() {
        let text = read_text(&file, LONGEST_TEXT)?;
        return Ok(Some((DatasetInfo::parse(&text, &file)?, false)));
    }
    match known(name) {
        Some(info) => Ok(Some((info, false))),
        None => Ok(Some((DatasetInfo::infer(name, folder)?, true))),
    }
}

fn unknown(name: &str, all: &[String], searched: &str) -> String {
    let near = nearest(&name.to_lowercase(), all.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    format!(
        "no file and no dataset {name:?}{near}\nknown datasets: {}\nlooked in: {searched}",
        all.join(", ")
    )
}

impl Dataset {
    /// Names of its splits, such as `dev`, `test`, `train`, sorted.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        let parts = std::iter::once(self).chain(&self.parts);
        let names: BTreeSet<&str> = parts
            .flat_map(|part| part.info.splits.keys().map(String::as_str))
            .collect();
        names.into_iter()
    }

    /// Skips bad records and renames types as these options say, besides the dataset's own options.
    pub fn add_general_options(&mut self, options: &ReadOptions) {
        for dataset in
            std::iter::once(&mut self.info).chain(self.parts.iter_mut().map(|part| &mut part.info))
        {
            dataset.options = dataset.options.clone().with_general_options_of(options);
        }
    }

    /// The parts that have a split of this name; an error if there is none.
    fn parts_with(&self, split: &str) -> Result<Vec<&Dataset>> {
        let parts = self.parts.iter();
        let parts: Vec<&Dataset> = parts
            .filter(|part| part.info.splits.contains_key(split))
            .collect();
        if parts.is_empty() {
            return Err(self.no_split(split));
        }
        Ok(parts)
    }

    fn split(&self, name: &str) -> Result<&SplitInfo> {
        (self.info.splits.get(name)).ok_or_else(|| self.no_split(name))
    }

    fn no_split(&self, name: &str) -> Error {
        let all: Vec<&str> = self.splits().collect();
        let near = nearest(name, all.iter().copied());
        let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        let all = all.join(", ");
        Error::Config(format!(
            "dataset {} has no split {name:?}{near} (it has {all})",
            self.name
        ))
    }

    /// The files of a split. For a held-out split: those of the split it is taken from.
    pub fn files(&self, split: &str) -> Result<Vec<PathBuf>> {
        if !self.parts.is_empty() {
            let parts = self.parts_with(split)?.into_iter();
            return join(parts.map(|part| part.files(split)));
        }
        let info = self.split(split)?;
        if let Some(source) = &info.hold_out_of {
            return self.files(source);
        }
        let files: Vec<PathBuf> = info
            .files
            .iter()
            .map(|file| self.folder.join(file))
            .collect();
        match files.iter().find(|file| !file.is_file()) {
            None => Ok(files),
            Some(missing) => Err(Error::Config(format!(
                "dataset {}, split {split}: {} is missing\nsource: {}\nlicence: {}",
                self.name,
                missing.display(),
                self.info.source,
                self.info.licence
            ))),
        }
    }

    /// The options for reading its files.
    pub fn options(&self) -> ReadOptions {
        let mut options = self.info.options.clone();
        options.format = self.info.format.or(options.format);
        options
    }

    /// The sentences of a split, without those that another split holds out.
    pub fn load(&self, split: &str) -> Result<Vec<Sentence>> {
        if !self.parts.is_empty() {
            let parts = self.parts_with(split)?.into_iter();
            return join(parts.map(|part| part.load(split)));
        }
        let mut sentences = self.read(split)?;
        let info = self.split(split)?;
        if info.hold_out_of.is_some() {
            return Ok(sentences.split_off(info.held_out_from(sentences.len())));
        }
        let mut others = self.info.splits.values();
        if let Some(held) = others.find(|other| other.hold_out_of.as_deref() == Some(split)) {
            sentences.truncate(held.held_out_from(sentences.len()));
        }
        Ok(sentences)
    }

    /// All sentences of a split's files, including held-out ones, as used by papers without a dev split.
    pub fn load_whole(&self, split: &str) -> Result<Vec<Sentence>> {
        if !self.parts.is_empty() {
            let parts = self.parts_with(split)?.into_iter();
            return join(parts.map(|part| part.load_whole(split)));
        }
        match self.split(split)?.hold_out_of {
            Some(_) => self.load(split),
            None => self.read(split),
        }
    }

    fn read(&self, split: &str) -> Result<Vec<Sentence>> {
        data::read_many(&self.files(split)?, &self.options())
    }

    /// The recorded counts of a split's files.
    pub fn expected(&self, split: &str) -> Result<SplitCounts> {
        let SplitInfo {
            sentences,
            entities,
            ..
        } = *self.split(split)?;
        Ok(SplitCounts {
            sentences,
            entities,
        })
    }
}

/// One list of all items, or the first error.
fn join<T>(lists: impl Iterator<Item = Result<Vec<T>>>) -> Result<Vec<T>> {
    let lists: Vec<Vec<T>> = lists.collect::<Result<_>>()?;
    Ok(lists.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file of `count` one-word sentences with one entity each.
    pub fn jsonl(folder: &Path, file: &str, count: usize) {
        std::fs::create_dir_all(folder).unwrap();
        let line = |i| {
            format!(
                "{{\"tokens\":[\"w{i}\"],\"entities\":[{{\"start\":0,\"end\":1,\"type\":\"X\"}}]}}\n"
            )
        };
        std::fs::write(folder.join(file), (0..count).map(line).collect::<String>()).unwrap();
    }

    pub const HELD_OUT: &str = "title='t'\ndescription='d'\nlanguage='en'\nnested=false\ntypes=['X']\nsource='s'\n\
        licence='l'\nredistributable=true\nformat='tokens_jsonl'\n[splits.train]\nfiles=['a.jsonl','b.jsonl']\n\
        sentences=25\nentities=25\n[splits.dev]\nhold_out_of='train'\nlast_percent=10\n";

    #[test]
    fn every_known_dataset_parses() {
        for (name, text) in KNOWN {
            let info = DatasetInfo::parse(text, Path::new(name)).unwrap();
            let has_split = |split| info.splits.contains_key(split);
            assert!(
                has_split("train") || has_split("test") || !info.parts.is_empty(),
                "{name}"
            );
            assert!(
                info.parts.iter().all(|part| known(part).is_some()),
                "{name}"
            );
            assert!(!info.types.is_empty() && !info.source.is_empty(), "{name}");
            assert!(info.format.is_some() || !info.parts.is_empty(), "{name}");
            assert!(known(name).is_some(), "{name}");
            let hashes = info.splits.values().flat_map(|split| split.sha256.values());
            assert!(hashes.into_iter().all(|hash| hash.len() == 64), "{name}");
        }
        let sorted = KNOWN.is_sorted_by_key(|(name, _)| *name);
        assert!(sorted);
        let folders = names(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets")]);
        assert_eq!(
            folders.len(),
            KNOWN.len(),
            "a folder of datasets/ is missing in KNOWN"
        );
    }

    #[test]
    fn a_dataset_can_be_made_of_others() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let described = |name: &str, text: &str| {
            std::fs::create_dir_all(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("dataset.toml"), text).unwrap();
        };
        let fields = "title='t'\ndescription='d'\nlanguage='en'\nnested=false\ntypes=['X']\nsource='s'\nlicence='l'\n\
            redistributable=true\n";
        described("a", HELD_OUT);
        jsonl(&root.join("a"), "a.jsonl", 10);
        jsonl(&root.join("a"), "b.jsonl", 15);
        jsonl(&root.join("b"), "train.jsonl", 3);
        jsonl(&root.join("b"), "test.jsonl", 4);
        described(
            "both",
            &format!("{fields}parts=['a','b']\n[options.rename]\nX='Y'\n"),
        );
        described("again", &format!("{fields}parts=['both']\n"));
        described("itself", &format!("{fields}parts=['itself']\n"));
        let roots = [root.to_path_buf()];
        let both = find("both", &roots).unwrap();
        assert_eq!(both.splits().collect::<Vec<_>>(), ["dev", "test", "train"]);
        let train = both.load("train").unwrap();
        assert_eq!(train.len(), 23 + 3);
        assert!(
            train
                .iter()
                .all(|sentence| sentence.entities[0].label == "Y")
        );
        assert_eq!(
            (
                both.load("dev").unwrap().len(),
                both.load("test").unwrap().len()
            ),
            (2, 4)
        );
        assert_eq!(both.load_whole("train").unwrap().len(), 25 + 3);
        assert_eq!(both.files("train").unwrap().len(), 3);
        assert!(
            both.load("tset")
                .unwrap_err()
                .to_string()
                .contains("did you mean \"test\"?")
        );
        let checked = verify(&both).unwrap();
        assert_eq!(checked.splits.len(), 3);
        assert_eq!(checked.splits[0].split, "a train");
        for name in ["again", "itself"] {
            let error = find(name, &roots).unwrap_err().to_string();
            assert!(error.contains("made of other datasets"), "{error}");
        }
    }

    #[test]
    fn the_flag_comes_first_and_datasets_last() {
        let variable = std::env::join_paths(["b", "c"]).unwrap();
        let all = roots_with(Some(Path::new("a")), Some(variable));
        assert_eq!(all, ["a", "b", "c", "datasets"].map(PathBuf::from));
        assert_eq!(
            roots_with(None, Some(OsString::new())),
            [PathBuf::from("datasets")]
        );
    }

    #[test]
    fn the_first_root_with_files_is_used() {
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
        assert!(
            error.contains("test.jsonl is missing") && error.contains("source:"),
            "{error}"
        );
        let error = dataset.files("tets").unwrap_err().to_string();
        assert!(error.contains("did you mean \"test\""), "{error}");
    }

    fn known_text(name: &str) -> &'static str {
        KNOWN.iter().find(|(known, _)| *known == name).unwrap().1
    }

    #[test]
    fn missing_files_are_explained() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().to_path_buf();
        let error = find("ace04", &[root.clone(), root.join("x")])
            .unwrap_err()
            .to_string();
        for part in [
            "ace04_train_context.json",
            "LDC",
            "licence:",
            VARIABLE,
            "x/ace04",
        ] {
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
        assert!(
            error.contains("mine") && error.contains("wnut17"),
            "{error}"
        );
        assert!(find("mine", &roots).is_err());
        assert!(find("", &roots).is_err());
        let error = find("CoNLL-03", &roots).unwrap_err().to_string();
        assert!(error.contains("did you mean \"conll03\"?"), "{error}");
    }

    #[test]
    fn splits_are_inferred_without_a_description() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("mine");
        for (file, count) in [
            ("train-1.jsonl", 4),
            ("train-2.jsonl", 3),
            ("valid.jsonl", 2),
            ("notes.txt", 1),
        ] {
            jsonl(&folder, file, count);
        }
        let dataset = find("mine", &[temporary.path().to_path_buf()]).unwrap();
        assert!(dataset.inferred);
        assert_eq!(dataset.splits().collect::<Vec<_>>(), ["dev", "train"]);
        assert_eq!(dataset.load("train").unwrap().len(), 7);
        assert_eq!(dataset.load("dev").unwrap().len(), 2);
    }

    #[test]
    fn held_out_sentences_are_not_in_train() {
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
}
