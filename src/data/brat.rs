//! BRAT standoff: a text file, and an annotation file of the same name with character offsets.
//!
//! A text file is a document, which is cut into sentences. Only text-bound annotations (`T`) are read; those of several parts
//! are discontinuous entities, unless only white space is between the parts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::ReadOptions;
use super::sentences::annotated_text::{self, AnnotatedText, TextEntity};
use super::source::{Collector, Source};
use crate::error::{Error, Result};
use crate::files::open_regular;
use crate::text::CharacterIndex;

/// Reads a pair of files, named by either of them, or a folder of pairs.
pub(super) fn read(path: &Path, options: &ReadOptions, corpus: &mut Collector) -> Result<()> {
    if !path.is_dir() {
        return read_pair(path, options, corpus);
    }
    let entries = std::fs::read_dir(path).map_err(|source| Error::io(path, source))?;
    let mut stems: BTreeSet<PathBuf> = BTreeSet::new();
    for entry in entries {
        let file = entry.map_err(|source| Error::io(path, source))?.path();
        if matches!(
            file.extension().and_then(|e| e.to_str()),
            Some("ann" | "txt")
        ) {
            stems.insert(file.with_extension(""));
        }
    }
    for stem in stems {
        // `with_extension` would remove the end of a name such as `pmid.123`.
        let with_extension = |extension: &str| {
            let mut name = stem.clone().into_os_string();
            name.push(extension);
            PathBuf::from(name)
        };
        let (text, annotations) = (with_extension(".txt"), with_extension(".ann"));
        if !annotations.is_file() {
            corpus.set_file(&text);
            corpus.warn(0, "has no `.ann` file of the same name; skipped");
        } else if !text.is_file() {
            corpus.set_file(&annotations);
            corpus.error(
                0,
                "has no `.txt` file of the same name; add the text, or remove this file",
            );
        } else {
            read_pair(&text, options, corpus)?;
        }
    }
    Ok(())
}

fn read_pair(path: &Path, options: &ReadOptions, corpus: &mut Collector) -> Result<()> {
    let text_path = path.with_extension("txt");
    let annotation_path = path.with_extension("ann");
    // A pipe in place of one of the files would wait for its writer for ever.
    for path in [&text_path, &annotation_path] {
        open_regular(path)?;
    }
    let source = Source::open(&text_path)?;
    let annotations = Source::open(&annotation_path)?;
    corpus.set_file(&text_path);
    let text = match source.text() {
        Ok(text) => text,
        Err((line, column)) => {
            corpus.bad_encoding(line, column);
            return Ok(());
        }
    };
    let index = CharacterIndex::new(text);
    let mut document = AnnotatedText {
        text,
        document: Some(corpus.stem()),
        line: 1,
        entities: Vec::new(),
        is_document: true,
    };
    corpus.set_file(&annotation_path);
    let first_problem = corpus.problems.len();
    for line in annotations.lines() {
        match corpus.line_text(&line) {
            Some(text) if text.starts_with('T') => match text_bound(text, line.number) {
                Ok((entity, surface)) => {
                    if has_surface(&entity, surface, &index, corpus) {
                        document.entities.push(entity);
                    }
                }
                Err(error) => corpus.error(line.number, error.to_string()),
            },
            _ => {}
        }
    }
    let first = corpus.sentences.len();
    annotated_text::push(document, options, corpus);
    corpus.problems[first_problem..].sort_by(|one, other| one.location.cmp(&other.location));
    corpus.set_file(&text_path);
    set_lines(text, first, corpus);
    Ok(())
}

/// A line that is not a text-bound annotation.
#[derive(Debug, thiserror::Error)]
#[error("expected `T1<tab>TYPE start end<tab>text`; correct the line or delete it")]
struct InvalidAnnotation;

/// Parses a text-bound annotation such as `T1<tab>PER 0 5<tab>Maria`, or `T2<tab>PER 0 5;9 12<tab>Maria Ruiz` of several
/// parts. Also returns its text as it is written there.
fn text_bound(line: &str, number: usize) -> Result<(TextEntity, &str), InvalidAnnotation> {
    let mut columns = line.splitn(3, '\t');
    let (Some(_), Some(middle), Some(surface)) = (columns.next(), columns.next(), columns.next())
    else {
        return Err(InvalidAnnotation);
    };
    let (label, offsets) = middle.trim().split_once(' ').ok_or(InvalidAnnotation)?;
    let part = |part: &str| {
        let mut numbers = part.split_ascii_whitespace().map(str::parse::<usize>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(start)), Some(Ok(end)), None) => Ok((start, end)),
            _ => Err(InvalidAnnotation),
        }
    };
    let parts = offsets
        .split(';')
        .map(part)
        .collect::<Result<Vec<_>, _>>()?;
    let entity = TextEntity {
        parts,
        label: label.to_string(),
        line: number,
    };
    Ok((entity, surface))
}

/// Whether the text of an entity is what the annotation says, up to white space: BRAT writes line breaks as spaces, and puts
/// a space between parts. A difference is reported. Offsets out of range are reported later.
fn has_surface(
    entity: &TextEntity,
    surface: &str,
    index: &CharacterIndex<'_>,
    corpus: &mut Collector,
) -> bool {
    let is_within = |(start, end): &(usize, usize)| start < end && *end <= index.characters();
    if !entity.parts.iter().all(is_within) {
        return true;
    }
    let actual: Vec<&str> = entity
        .parts
        .iter()
        .map(|(start, end)| index.slice(*start, *end))
        .collect();
    let actual = actual.join(" ");
    if actual.split_whitespace().eq(surface.split_whitespace()) {
        return true;
    }
    let parts: Vec<String> = entity
        .parts
        .iter()
        .map(|(start, end)| format!("{start}..{end}"))
        .collect();
    corpus.error(entity.line, format!(
        "{} {} is `{actual}` in the text but `{surface}` here; offsets count characters, correct them",
        entity.label,
        parts.join(";")
    ));
    false
}

/// Sets the line numbers of the sentences from the `first` on, all of this text.
fn set_lines(text: &str, first: usize, corpus: &mut Collector) {
    let mut characters = text.chars();
    let (mut line, mut at) = (1, 0);
    for (sentence, number) in corpus.sentences[first..]
        .iter()
        .zip(&mut corpus.lines[first..])
    {
        // The first sentence may have blank lines before it.
        let blank = sentence
            .text
            .chars()
            .take_while(|one| one.is_whitespace())
            .count();
        let start = sentence.offset + blank;
        let before = characters.by_ref().take(start.saturating_sub(at));
        line += before.filter(|character| *character == '\n').count();
        at = at.max(start);
        *number = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Severity, read, scan};
    use crate::text::Entity;

    fn pair(folder: &Path, name: &str, text: &str, annotations: &str) {
        std::fs::write(folder.join(format!("{name}.txt")), text).unwrap();
        std::fs::write(folder.join(format!("{name}.ann")), annotations).unwrap();
    }

    #[test]
    fn a_pair_is_a_document() {
        let folder = tempfile::tempdir().unwrap();
        let text = "Zoë lebt.\r\n\r\n👍 In 北京 auch.";
        pair(
            folder.path(),
            "a.b",
            text,
            "T1\tPER 0 3\tZoë\nT2\tLOC 18 20\t北京\nR1\tx Arg1:T1 Arg2:T2\nT3\tX 1 3\toë\n",
        );
        for name in ["a.b.txt", "a.b.ann", ""] {
            let sentences = read(&folder.path().join(name), &ReadOptions::default()).unwrap();
            assert_eq!(sentences.len(), 2);
            assert_eq!(sentences[0].document.as_deref(), Some("a.b"));
            assert_eq!(sentences[0].entities, [Entity::new(0, 1, "PER")]);
            assert_eq!(sentences[0].misaligned.len(), 1);
            assert_eq!(sentences[1].surface(sentences[1].entities[0].span), "北京");
        }
    }

    #[test]
    fn invalid_annotations_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        pair(
            folder.path(),
            "a",
            "one two\nthree\n",
            "T1\tA 4 13\ttwo three\nT2\tA 0 2;4 6\ton tw\nT3\tA 0 3\tuno\nT4\tA 0 99\tone\nT5 A\nT6\tA 0 3\tone\nT7\tA 0 3\tone\n",
        );
        std::fs::write(folder.path().join("b.ann"), "").unwrap();
        std::fs::write(folder.path().join("c.txt"), "x").unwrap();
        let (sentences, problems) = scan(folder.path(), &ReadOptions::default()).unwrap();
        assert_eq!(sentences.len(), 1);
        assert_eq!(
            sentences[0].entities,
            [Entity::new(1, 3, "A"), Entity::new(0, 1, "A")]
        );
        assert_eq!(sentences[0].discontinuous[0].parts, [(0, 2), (4, 6)]);
        let found: Vec<(usize, Severity)> = (problems.iter())
            .map(|p| (p.location.line, p.severity))
            .collect();
        let (warning, error) = (Severity::Warning, Severity::Error);
        for expected in [
            (3, error),
            (4, error),
            (5, error),
            (7, warning),
            (0, error),
            (0, warning),
        ] {
            assert!(found.contains(&expected), "{expected:?} in {found:?}");
        }
    }

    #[test]
    fn an_entity_may_cross_a_line_and_sentences_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let text = "He moved to New\nYork. Then to Bonn.\n\nThe end\n";
        pair(
            folder.path(),
            "a",
            text,
            "T1\tLOC 12 15;16 20\tNew York\nT2\tLOC 12 20\tNew York\nT3\tLOC 30 34\tBonn\n",
        );
        let options = ReadOptions::of(crate::data::Format::Brat);
        let (_, corpus) = crate::data::collect(folder.path(), &options, false).unwrap();
        let texts: Vec<&str> = corpus
            .sentences
            .iter()
            .map(|one| one.text.as_str())
            .collect();
        assert_eq!(
            texts,
            ["He moved to New\nYork.", "Then to Bonn.", "The end"]
        );
        assert_eq!(corpus.lines, [1, 2, 4]);
        assert_eq!(corpus.sentences[0].entities, [Entity::new(3, 5, "LOC")]);
        assert_eq!(
            corpus.sentences[1].surface(corpus.sentences[1].entities[0].span),
            "Bonn"
        );
        assert_eq!(corpus.sentences[2].trailing, "\n");
        assert_eq!(corpus.problems.len(), 1, "the same entity twice");
    }
}
