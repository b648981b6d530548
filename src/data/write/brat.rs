//! Writing BRAT standoff: a text file and an annotation file for each document.
//!
//! Sentences that were cut from a text give this text back. Other sentences of a document, or without one, are the lines
//! of a text file. Offsets count characters in the whole file. A score is a note: `#1<tab>AnnotatorNotes T1<tab>score=0.9`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::annotated::{Annotated, not_writable, rounded};
use super::documents::{Document, DocumentEntity, runs};
use super::summary::{Loss, Summary};
use super::{WriteOptions, json_records as records};
use crate::error::{Error, Result};

/// The name of the files for sentences without a document.
const UNNAMED: &str = "document";
/// Longest name of a file, in bytes, without its ending.
const LONGEST_NAME: usize = 200;

/// The two files of a document.
struct Pair {
    /// File name without ending.
    name: String,
    text: String,
    annotations: String,
}

/// Writes documents into a folder, or one document into a pair of files.
///
/// ```
/// use nerzoo::data::write::{Annotated, BratWriter, WriteOptions};
/// use nerzoo::data::Format;
/// use nerzoo::text::{Entity, Mention, Sentence};
///
/// # fn main() -> nerzoo::error::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("tagged");
/// let sentence = Sentence::from_words(["Ada", "wrote"]);
/// let mentions = [Mention { entity: Entity::new(0, 1, "PER"), score: 0.93 }];
/// let mut writer = BratWriter::begin(&path, false, WriteOptions::of(Format::Brat))?;
/// writer.record(&[Annotated::predicted(&sentence, &mentions)])?;
/// writer.finish()?;
/// # let written = std::fs::read_to_string(path.join("document.ann")).unwrap();
/// assert_eq!(written, "T1\tPER 0 3\tAda\n#1\tAnnotatorNotes T1\tscore=0.93\n");
/// # Ok(())
/// # }
/// ```
pub struct BratWriter {
    /// The folder, or the pair's path without ending.
    path: PathBuf,
    is_pair: bool,
    /// Where the files are written before they get their place.
    temporary: tempfile::TempDir,
    force: bool,
    options: WriteOptions,
    /// Lower-case names of the files so far.
    names: HashSet<String>,
    summary: Summary,
}

impl BratWriter {
    /// Prepares a folder; or, for a path that ends in `.ann` or `.txt`, a pair of files for one document.
    ///
    /// Everything is written to a temporary folder, and [`finish`](Self::finish) puts it in its place. Existing files are
    /// overwritten only with `force`.
    pub fn begin(path: &Path, force: bool, options: WriteOptions) -> Result<Self> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_pair = matches!(ending, Some("ann" | "txt")) && !path.is_dir();
        if !is_pair && path.exists() && !path.is_dir() {
            return Err(Error::Config(format!(
                "{} is a file, but brat is written to a folder, or to a pair of files named with .ann",
                path.display()
            )));
        }
        let beside = match path.parent() {
            _ if path.is_dir() => path,
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let temporary = tempfile::Builder::new()
            .prefix(".brat.")
            .suffix(".partial")
            .tempdir_in(beside)
            .map_err(|source| Error::io(path, source))?;
        Ok(Self {
            path: if is_pair {
                path.with_extension("")
            } else {
                path.to_path_buf()
            },
            is_pair,
            temporary,
            force,
            options,
            names: HashSet::new(),
            summary: Summary::default(),
        })
    }

    /// Writes the sentences of one or more documents. The sentences of a document must be in one call.
    pub fn record(&mut self, items: &[Annotated<'_>]) -> Result<()> {
        let mut start = 0;
        while start < items.len() {
            let name = &items[start].sentence.document;
            let same = items[start..].iter();
            let length = same
                .take_while(|item| item.sentence.document == *name)
                .count();
            let pair = self.pair(&items[start..start + length])?;
            self.write(&pair)?;
            start += length;
        }
        Ok(())
    }

    /// Puts the files in their place and returns the counts.
    pub fn finish(self) -> Result<Summary> {
        self.summary.check_strict(&self.options)?;
        let path = &self.path;
        if !self.is_pair && !path.exists() {
            set_permissions(self.temporary.path());
            let folder = self.temporary.keep();
            std::fs::rename(folder, path).map_err(|source| Error::io(path, source))?;
            return Ok(self.summary);
        }
        let mut moves: Vec<(PathBuf, PathBuf)> = Vec::new();
        for file in files(self.temporary.path())? {
            let to = match file.extension() {
                Some(ending) if self.is_pair => append(path, &ending.to_string_lossy()),
                _ => path.join(file.file_name().unwrap_or_default()),
            };
            if to.exists() && !self.force {
                return Err(Error::Config(format!(
                    "{} exists; choose another name, or overwrite it with --force",
                    to.display()
                )));
            }
            moves.push((file, to));
        }
        if !self.is_pair {
            // Left-over documents would become part of the corpus.
            let new: HashSet<&PathBuf> = moves.iter().map(|(_, to)| to).collect();
            let is_pair = |file: &Path| file.extension().is_some_and(|e| e == "ann" || e == "txt");
            let other = files(path)?
                .into_iter()
                .find(|file| is_pair(file) && !new.contains(file));
            if let Some(other) = other {
                return Err(Error::Config(format!(
                    "{} is not a document of this corpus; remove it, or choose another folder",
                    other.display()
                )));
            }
        }
        for (from, to) in moves {
            std::fs::rename(from, &to).map_err(|source| Error::io(&to, source))?;
        }
        Ok(self.summary)
    }

    /// The two files of the sentences of a document.
    fn pair(&mut self, items: &[Annotated<'_>]) -> Result<Pair> {
        let name = self.name(items);
        let (text, annotations) = standoff(items, &mut self.summary)?;
        Ok(Pair {
            name,
            text,
            annotations,
        })
    }

    /// A file name for a document, unique in the folder.
    fn name(&mut self, items: &[Annotated<'_>]) -> String {
        let given = items[0].sentence.document.as_deref();
        let plain = file_name(given.unwrap_or(UNNAMED));
        let mut name = plain.clone();
        let mut count = 1;
        while !self.names.insert(name.to_lowercase()) {
            count = count.max(self.names.len()) + 1;
            name = format!("{plain}-{count}");
        }
        let changed = given.is_some_and(|given| given != name) && !self.is_pair;
        self.summary.lose(Loss::DocumentName, usize::from(changed));
        name
    }

    fn write(&self, pair: &Pair) -> Result<()> {
        if self.is_pair && self.names.len() > 1 {
            return Err(Error::Config(format!(
                "there are several documents, and {} is one pair of files; name a folder instead",
                append(&self.path, "ann").display()
            )));
        }
        let stem = self.temporary.path().join(&pair.name);
        for (ending, content) in [("txt", &pair.text), ("ann", &pair.annotations)] {
            let path = append(&stem, ending);
            std::fs::write(&path, content).map_err(|source| Error::io(&path, source))?;
        }
        Ok(())
    }
}

/// The text and the annotations of the sentences of one document.
///
/// ```
/// use nerzoo::data::write::{Annotated, brat_document};
/// use nerzoo::text::{Entity, Mention, Sentence};
///
/// # fn main() -> nerzoo::error::Result<()> {
/// let sentence = Sentence::from_words(["Ada", "wrote"]);
/// let mentions = [Mention { entity: Entity::new(0, 1, "PER"), score: 0.93 }];
/// let (text, annotations) = brat_document(&[Annotated::predicted(&sentence, &mentions)])?;
/// assert_eq!(text, "Ada wrote\n");
/// assert_eq!(annotations, "T1\tPER 0 3\tAda\n#1\tAnnotatorNotes T1\tscore=0.93\n");
/// # Ok(())
/// # }
/// ```
pub fn brat_document(items: &[Annotated<'_>]) -> Result<(String, String)> {
    standoff(items, &mut Summary::default())
}

fn standoff(items: &[Annotated<'_>], summary: &mut Summary) -> Result<(String, String)> {
    let (mut text, mut annotations) = (String::new(), String::new());
    let runs = runs(items);
    let has_name = items
        .first()
        .is_some_and(|item| item.sentence.document.is_some());
    let lines = runs.len() > 1 || !has_name;
    let (mut offset, mut number) = (0, 0);
    for run in runs {
        for item in &items[run.clone()] {
            summary.sentences += 1;
            item.check(summary.sentences)?;
        }
        let document = Document::join(&items[run]);
        for entity in &document.entities {
            let label = entity.label;
            if label.is_empty() || label.contains(char::is_whitespace) {
                let problem = format!(
                    "the type `{}` contains white space, which brat does not allow; rename it, or write text_jsonl instead",
                    label.escape_debug()
                );
                return Err(not_writable(summary.sentences, problem));
            }
            let (parts, texts) = lines_of(entity, offset);
            let (parts, texts) = (parts.join(";"), texts.join(" "));
            if parts.is_empty() {
                summary.lose(Loss::Misaligned, 1);
                continue;
            }
            number += 1;
            summary.entities += 1;
            annotations += &format!("T{number}\t{label} {parts}\t{texts}\n");
            if let Some(score) = entity.score {
                let score = rounded(score);
                annotations += &format!("#{number}\tAnnotatorNotes T{number}\tscore={score}\n");
            }
        }
        records::lose_document_extras(&document, &[], summary);
        text += &document.text;
        offset += document.text.chars().count();
        if lines && !text.ends_with('\n') {
            text.push('\n');
            offset += 1;
        }
    }
    summary.documents += 1;
    Ok((text, annotations))
}

/// Offsets and texts of the parts of an entity. A part of several lines is one part per line, as in BRAT itself: an
/// annotation is a line.
fn lines_of<'a>(entity: &DocumentEntity<'a>, offset: usize) -> (Vec<String>, Vec<&'a str>) {
    let (mut parts, mut texts) = (Vec::new(), Vec::new());
    for ((start, _), text) in entity.parts.iter().zip(&entity.texts) {
        let mut start = start + offset;
        for line in text.split(['\n', '\r']) {
            let end = start + line.chars().count();
            if !line.trim().is_empty() {
                parts.push(format!("{start} {end}"));
                texts.push(line);
            }
            start = end + 1;
        }
    }
    (parts, texts)
}

/// A path with an ending. `with_extension` would remove the end of a name such as `pmid.123`.
fn append(stem: &Path, ending: &str) -> PathBuf {
    let mut path = stem.to_path_buf().into_os_string();
    path.push(".");
    path.push(ending);
    PathBuf::from(path)
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::io(folder, source);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A temporary folder is for its owner only; the finished one is like any new folder.
fn set_permissions(folder: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The umask cannot be read without changing it; a folder made the usual way shows it.
        let sample = folder.join(".permissions");
        let mode = std::fs::create_dir(&sample)
            .and_then(|()| std::fs::metadata(&sample))
            .map_or(0o755, |data| data.permissions().mode());
        let _ = std::fs::remove_dir(&sample);
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = folder;
}

/// A name that is allowed on every file system.
fn file_name(name: &str) -> String {
    let mut plain: String = (name.chars())
        .map(|c| {
            if c.is_control() || "/\\:*?\"<>|".contains(c) {
                '_'
            } else {
                c
            }
        })
        .collect();
    while plain.len() > LONGEST_NAME {
        plain.pop();
    }
    if plain.starts_with('.') || plain.trim().is_empty() {
        plain.insert(0, '_');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Format, ReadOptions, read, words};
    use crate::text::{Discontinuous, Entity, Misaligned, Sentence};

    fn options() -> WriteOptions {
        WriteOptions::of(Format::Brat)
    }

    fn write(path: &Path, sentences: &[Sentence], force: bool) -> Result<Summary> {
        let items: Vec<_> = sentences.iter().map(Annotated::gold).collect();
        let mut writer = BratWriter::begin(path, force, options())?;
        writer.record(&items)?;
        writer.finish()
    }

    fn document() -> Vec<Sentence> {
        let mut first = words::sentence("Zoë 👍 left.", Default::default());
        first.trailing = "\n\n".to_string();
        first.document = Some("a/b".to_string());
        first.entities = vec![Entity::new(0, 1, "PER")];
        let mut second = words::sentence("Left lung and right lung", Default::default());
        second.offset = 13;
        second.document = first.document.clone();
        second.entities = vec![Entity::new(3, 5, "X")];
        second.misaligned = vec![Misaligned {
            start: 0,
            end: 2,
            label: "M".to_string(),
        }];
        second.discontinuous = vec![Discontinuous {
            parts: vec![(0, 4), (20, 24)],
            label: "X".to_string(),
        }];
        vec![first, second]
    }

    #[test]
    fn a_document_is_a_pair_with_offsets_in_the_whole_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let summary = write(&path, &document(), false).unwrap();
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
        assert_eq!(read("a_b.txt"), "Zoë 👍 left.\n\nLeft lung and right lung");
        assert_eq!(
            read("a_b.ann"),
            "T1\tPER 0 3\tZoë\nT2\tX 27 37\tright lung\nT3\tM 13 15\tLe\nT4\tX 13 17;33 37\tLeft lung\n"
        );
        assert_eq!((summary.documents, summary.entities), (1, 4));
        let mut lines = words::sentence("x one\r\ntwo y", Default::default());
        lines.entities = vec![Entity::new(1, 3, "A")];
        lines.document = Some("lines".to_string());
        write(&folder.path().join("lines"), &[lines], false).unwrap();
        let annotations = std::fs::read_to_string(folder.path().join("lines/lines.ann")).unwrap();
        assert_eq!(annotations, "T1\tA 2 5;7 10\tone two\n");
        std::fs::remove_dir_all(folder.path().join("lines")).unwrap();
        assert_eq!(summary.losses.len(), 1, "the name has a slash");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write(&path, &document(), false).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        write(&path, &document(), true).unwrap();
        std::fs::write(path.join("old.ann"), "").unwrap();
        let error = write(&path, &document(), true).unwrap_err().to_string();
        assert!(error.contains("old.ann"), "{error}");
        let pair = folder.path().join("one.v1.ann");
        write(&pair, &document(), false).unwrap();
        assert!(folder.path().join("one.v1.txt").is_file());
    }

    #[test]
    fn other_sentences_are_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut sentences = vec![
            Sentence::from_words(["a", "北京"]),
            Sentence::from_words(["c", "d"]),
            Sentence::from_words(["e"]),
        ];
        sentences[1].entities = vec![Entity::new(1, 2, "X")];
        sentences[2].document = Some("Document".to_string());
        write(&path, &sentences, false).unwrap();
        let text = std::fs::read_to_string(path.join("document.txt")).unwrap();
        assert_eq!(text, "a 北京\nc d\n");
        assert!(path.join("Document-2.txt").is_file());
        let back = read(&path, &ReadOptions::default()).unwrap();
        let found = back
            .iter()
            .flat_map(|s| s.entities.iter().map(|e| s.surface(e.span)));
        assert_eq!(found.collect::<Vec<_>>(), ["d"]);
        let error = write(&folder.path().join("x.ann"), &sentences, false);
        assert!(error.unwrap_err().to_string().contains("folder"));
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut sentence = Sentence::from_words(["a"]);
        sentence.entities = vec![Entity::new(0, 1, "two words")];
        let path = folder.path().join("out");
        assert!(write(&path, &[sentence], false).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(write(&file, &[], false).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_has_the_usual_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("a"), folder.path().join("b"));
        write(&ours, &document(), false).unwrap();
        std::fs::create_dir(&plain).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
        assert_eq!(std::fs::read_dir(&ours).unwrap().count(), 2);
    }
}
