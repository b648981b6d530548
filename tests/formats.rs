//! Conversion between formats: what two formats can both represent comes back equal.
//!
//! The case `pair/A/B` writes random sentences as A, reads them, writes them as B, reads them, writes them as A and reads them
//! again, with everything that both formats can represent according to [`FORMATS`]. `document/A` does the same with documents
//! that were cut into sentences: joined, they must give the text back byte for byte. `detect/A` reads a file without naming
//! its format. `losses/A` checks that every entity is either written or counted as left out, and that `strict` refuses what
//! would be left out.

use std::collections::BTreeSet;
use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};
use nerzoo::data::write::documents::documents;
use nerzoo::data::write::{self, Summary, WriteOptions};
use nerzoo::data::{self, Format, ReadOptions, SentenceCutting, Severity, TagScheme, words};
use nerzoo::text::{Discontinuous, Entity, Misaligned, Sentence};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Random corpora per case.
const CORPORA: usize = 12;

/// What a format can represent.
#[derive(Debug, Clone, Copy)]
struct Ability {
    /// The format, and after a slash the options it is written with.
    name: &'static str,
    /// Entities that share words.
    overlapping: bool,
    /// Entities that do not start and end at word boundaries.
    misaligned: bool,
    /// Entities of several parts.
    discontinuous: bool,
    /// The white space between words.
    spacing: bool,
    /// Words that this program would split further.
    words: bool,
    /// Words that begin with `#`. Detecting several tags per word skips lines that may be comments.
    hashes: bool,
    /// Words that contain a space.
    spaces: bool,
    /// Words that contain a tab.
    tabs: bool,
    /// Types that contain a space.
    label_spaces: bool,
    /// Whole documents, with line breaks.
    documents: bool,
}

const NONE: Ability = Ability {
    name: "",
    overlapping: false,
    misaligned: false,
    discontinuous: false,
    spacing: false,
    words: false,
    hashes: true,
    spaces: false,
    tabs: false,
    label_spaces: false,
    documents: false,
};
/// Words in columns.
const COLUMNS: Ability = Ability {
    overlapping: true,
    words: true,
    ..NONE
};
/// Words in JSON.
const TOKENS: Ability = Ability {
    overlapping: true,
    words: true,
    spaces: true,
    tabs: true,
    label_spaces: true,
    ..NONE
};
/// Texts in JSON.
const TEXTS: Ability = Ability {
    overlapping: true,
    misaligned: true,
    spacing: true,
    label_spaces: true,
    documents: true,
    ..NONE
};

/// All formats that can be written, in all variants.
const FORMATS: &[Ability] = &[
    Ability {
        name: "columns/iob2",
        ..COLUMNS
    },
    Ability {
        name: "columns/iob1",
        ..COLUMNS
    },
    Ability {
        name: "columns/bioes",
        ..COLUMNS
    },
    Ability {
        name: "columns/bmes",
        ..COLUMNS
    },
    Ability {
        name: "columns/multi",
        hashes: false,
        ..COLUMNS
    },
    Ability {
        name: "columns/flat",
        overlapping: false,
        ..COLUMNS
    },
    Ability {
        name: "tokens_jsonl",
        misaligned: true,
        discontinuous: true,
        spacing: true,
        ..TOKENS
    },
    Ability {
        name: "tokens_jsonl/tags",
        overlapping: false,
        spacing: true,
        label_spaces: false,
        ..TOKENS
    },
    Ability {
        name: "text_jsonl",
        discontinuous: true,
        documents: false,
        ..TEXTS
    },
    Ability {
        name: "spert",
        ..TOKENS
    },
    Ability {
        name: "w2ner",
        discontinuous: true,
        ..TOKENS
    },
    Ability {
        name: "gliner",
        ..TOKENS
    },
    Ability {
        name: "brat",
        discontinuous: true,
        label_spaces: false,
        ..TEXTS
    },
    Ability {
        name: "doccano",
        ..TEXTS
    },
    Ability {
        name: "prodigy",
        ..TEXTS
    },
    Ability {
        name: "label_studio",
        ..TEXTS
    },
    Ability {
        name: "spacy",
        ..TEXTS
    },
    Ability {
        name: "pubtator",
        documents: false,
        ..TEXTS
    },
    Ability {
        name: "conllu",
        discontinuous: true,
        spacing: true,
        tabs: false,
        ..TOKENS
    },
    Ability {
        name: "csv",
        overlapping: false,
        label_spaces: false,
        ..TOKENS
    },
];

impl Ability {
    fn format(&self) -> Format {
        let name = self.name.split('/').next().unwrap();
        name.parse().unwrap()
    }

    fn options(&self) -> WriteOptions {
        let mut options = WriteOptions::of(self.format());
        match self.name.split('/').nth(1) {
            Some("iob1") => options.scheme = TagScheme::Iob1,
            Some("bioes") => options.scheme = TagScheme::Bioes,
            Some("bmes") => options.scheme = TagScheme::Bmes,
            Some("multi") => options.multi_tag = true,
            Some("flat") => options.flat = true,
            Some("tags") => options.tags = true,
            _ => {}
        }
        options
    }

    /// What both formats can represent.
    fn and(&self, other: &Ability) -> Ability {
        Ability {
            name: self.name,
            overlapping: self.overlapping && other.overlapping,
            misaligned: self.misaligned && other.misaligned,
            discontinuous: self.discontinuous && other.discontinuous,
            spacing: self.spacing && other.spacing,
            words: self.words && other.words,
            hashes: self.hashes && other.hashes,
            spaces: self.spaces && other.spaces,
            tabs: self.tabs && other.tabs,
            label_spaces: self.label_spaces && other.label_spaces,
            documents: self.documents && other.documents,
        }
    }

    /// Writes a corpus and reads it. `None` when this build cannot read the format.
    fn convert(
        &self,
        sentences: &[Sentence],
        cutting: SentenceCutting,
    ) -> Result<Option<(Vec<Sentence>, Summary)>, Failed> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("corpus");
        let summary = write::to_path(&path, sentences, &self.options(), false)?;
        let options = ReadOptions {
            strip_digit: Some(false),
            sentences: Some(cutting),
            ..ReadOptions::of(self.format())
        };
        Ok(scan(&path, &options)?.map(|read| (read, summary)))
    }
}

/// Reads a corpus without errors. `None` when this build cannot read the format.
fn scan(path: &Path, options: &ReadOptions) -> Result<Option<Vec<Sentence>>, Failed> {
    let (read, problems) = data::scan(path, options)?;
    let errors: Vec<String> = (problems.iter())
        .filter(|problem| problem.severity == Severity::Error)
        .map(ToString::to_string)
        .collect();
    if errors
        .iter()
        .any(|error| error.contains("cannot be read yet"))
    {
        return Ok(None);
    }
    if !errors.is_empty() {
        return Err(format!("{}\n{}", errors.join("\n"), content(path)).into());
    }
    Ok(Some(read))
}

/// The content of a file, or of all files of a folder.
fn content(path: &Path) -> String {
    if !path.is_dir() {
        return std::fs::read_to_string(path).unwrap_or_default();
    }
    let entries = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
        .collect()
}

/// A text, and the parts and types of its entities.
type NormalForm = (String, BTreeSet<(Vec<(usize, usize)>, String)>);

/// The text of a corpus and its entities with offsets in this text, however the text is distributed over sentences. Line
/// breaks become spaces, because BRAT has sentences without a document on lines of one text.
fn normal(sentences: &[Sentence]) -> NormalForm {
    let (mut text, mut entities) = (String::new(), BTreeSet::new());
    for document in documents(sentences) {
        let offset = text.chars().count();
        for entity in &document.entities {
            let parts = entity
                .parts()
                .iter()
                .map(|(start, end)| (start + offset, end + offset));
            entities.insert((parts.collect(), entity.label.to_string()));
        }
        text += document.text.trim_end();
        text.push(' ');
    }
    (text.replace('\n', " "), entities)
}

/// Words that this program does not split.
const WORDS: &[&str] = &[
    "Maria",
    "Keller",
    "Zoë",
    "Zoe\u{308}",
    "naïve",
    "Orvane",
    "北",
    "京",
    "👩‍🔬",
    "🇩🇪",
    "שָׁלוֹם",
    "العربية",
    "の",
    "1",
    "_",
    "O",
    ".",
    ",",
    "\"",
    "'",
    "|",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    "&",
    "#",
    "-",
    "%",
    "\\",
    "/",
    ";",
    ":",
    "{",
    "}",
    "*",
    "=",
];
/// Words that it splits.
const TOKENS_ONLY: &[&str] = &[
    "a|b",
    "[x]",
    "<b>",
    "&amp;",
    "\"q\"",
    "\"\"",
    "O'Neil",
    "B-PER",
    "#tag",
    "北京",
    "a,b",
    "T1",
    "1-2",
    "x\u{a0}y",
    "(e1-X)",
    "{\"a\"",
    "//",
    "%20",
    "👍👍",
    "שלום.",
];
const SEPARATORS: &[&str] = &["", " ", "  ", "\u{a0}", "\u{3000}"];
const LABELS: &[&str] = &["PER", "B-c", "a_b", "人.NAM", "Ünï", "x:y", "A/B"];

/// Sentences with everything that a format can represent.
fn sentence(ability: Ability) -> impl Strategy<Value = Sentence> {
    let mut known: Vec<String> = WORDS.iter().map(|word| word.to_string()).collect();
    if ability.words {
        known.extend(TOKENS_ONLY.iter().map(|word| word.to_string()));
    }
    if !ability.hashes {
        known.retain(|word| !word.starts_with('#'));
    }
    if ability.words && ability.spaces {
        known.push("a b".to_string());
    }
    if ability.words && ability.tabs {
        known.push("a\tb".to_string());
    }
    let mut labels: Vec<&'static str> = LABELS.to_vec();
    if ability.label_spaces {
        labels.push("work of art");
    }
    let word = (
        prop::sample::select(known),
        prop::sample::select(SEPARATORS),
    );
    let span = (0..8usize, 1..4usize, prop::sample::select(labels), 0..4u8);
    (
        prop::collection::vec(word, 1..10),
        prop::collection::vec(span, 0..8),
    )
        .prop_map(move |(words, spans)| {
            let mut sentence = if ability.spacing && !ability.words {
                let text: String = words
                    .iter()
                    .flat_map(|(word, space)| [word.as_str(), space])
                    .collect();
                words::sentence(text.trim(), Default::default())
            } else {
                Sentence::from_words(words.into_iter().map(|(word, _)| word))
            };
            annotate(&mut sentence, &spans, ability);
            sentence
        })
}

/// Adds the entities that fit the sentence and the format.
fn annotate(sentence: &mut Sentence, spans: &[(usize, usize, &str, u8)], ability: Ability) {
    for (start, length, label, kind) in spans {
        let (start, end) = (*start, start + length);
        let words = &sentence.words;
        let long = words
            .iter()
            .skip(start)
            .find(|word| word.end - word.start > 2);
        match kind {
            0 if ability.misaligned && long.is_some() => {
                let entity = Misaligned {
                    start: long.unwrap().start + 1,
                    end: long.unwrap().end,
                    label: label.to_string(),
                };
                if !sentence.misaligned.contains(&entity) {
                    sentence.misaligned.push(entity);
                }
            }
            1 if ability.discontinuous && start + 2 < words.len() => {
                let (first, last) = (&words[start], &words[start + 2]);
                let entity = Discontinuous {
                    parts: vec![(first.start, first.end), (last.start, last.end)],
                    label: label.to_string(),
                };
                if !sentence.discontinuous.contains(&entity) {
                    sentence.discontinuous.push(entity);
                }
            }
            _ => {
                let entity = Entity::new(start, end, *label);
                let overlaps = (sentence.entities.iter()).any(|e| e.span.overlaps(&entity.span));
                let is_free =
                    !overlaps || ability.overlapping && !sentence.entities.contains(&entity);
                if end <= words.len() && is_free {
                    sentence.entities.push(entity);
                }
            }
        }
    }
}

/// Random corpora, other ones for each case but the same on every run.
fn corpora(case: &str, strategy: impl Strategy<Value = Vec<Sentence>>) -> Vec<Vec<Sentence>> {
    let mut seed = [0u8; 32];
    for (index, byte) in case.bytes().enumerate() {
        seed[index % 32] = byte.wrapping_add(seed[index % 32].wrapping_mul(31));
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let corpora = (0..CORPORA).map(|_| strategy.new_tree(&mut runner).unwrap().current());
    corpora.collect()
}

fn check_equal(step: &str, before: &[Sentence], after: &[Sentence]) -> Result<(), Failed> {
    let (before, after) = (normal(before), normal(after));
    if before == after {
        return Ok(());
    }
    Err(format!("{step}:\nbefore {before:?}\nafter  {after:?}").into())
}

fn skipped(name: &str) -> Result<(), Failed> {
    println!("SKIPPED {name}: this build cannot read the format");
    Ok(())
}

fn pair(first: &Ability, second: &Ability) -> Result<(), Failed> {
    let both = first.and(second);
    let case = format!("{} {}", first.name, second.name);
    for corpus in corpora(&case, prop::collection::vec(sentence(both), 1..4)) {
        let is_csv = first.name == "csv" || second.name == "csv";
        if is_csv && corpus.iter().all(|sentence| sentence.len() == 1) {
            // With a sentence on every line, numbers of sentences are numbers of lines.
            continue;
        }
        let mut sentences = corpus.clone();
        for format in [first, second, first] {
            let Some((read, summary)) = format.convert(&sentences, SentenceCutting::Whole)? else {
                return skipped(format.name);
            };
            if summary.left_out > 0 {
                return Err(
                    format!("{} lost {:?} of {corpus:?}", format.name, summary.losses).into(),
                );
            }
            check_equal(&format!("as {}", format.name), &corpus, &read)?;
            sentences = read;
        }
        if both.words {
            let words = |sentences: &[Sentence]| -> Vec<Vec<String>> {
                let texts = |s: &Sentence| s.words.iter().map(|word| word.text.clone()).collect();
                sentences.iter().map(texts).collect()
            };
            if words(&sentences) != words(&corpus) {
                return Err(format!("{:?} became {:?}", words(&corpus), words(&sentences)).into());
            }
        }
    }
    Ok(())
}

/// Documents of several sentences, cut from a text with all kinds of white space.
fn document(ability: Ability) -> impl Strategy<Value = Vec<Sentence>> {
    let spaces = prop::sample::select(vec![" ", "\n", "\r\n", "\n\n", "  ", "\t", " \n "]);
    let part = (sentence(ability), spaces);
    (prop::collection::vec(part, 1..5), 0..1000u32).prop_map(|(parts, number)| {
        let mut offset = 0;
        let mut sentences = Vec::new();
        for (mut sentence, space) in parts {
            sentence.document = Some(format!("doc-{number}"));
            sentence.offset = offset;
            sentence.trailing = space.to_string();
            offset += sentence.text.chars().count() + space.chars().count();
            sentences.push(sentence);
        }
        sentences
    })
}

fn cut_documents(ability: &Ability) -> Result<(), Failed> {
    for sentences in corpora(ability.name, document(*ability)) {
        let original = documents(&sentences);
        for cutting in [SentenceCutting::Whole, SentenceCutting::Auto] {
            let Some((read, _)) = ability.convert(&sentences, cutting)? else {
                return skipped(ability.name);
            };
            check_equal("entities", &sentences, &read)?;
            let joined = documents(&read);
            let (before, after) = (&original[0].text, &joined[0].text);
            if joined.len() != 1 || before != after {
                return Err(format!("{cutting}: {before:?} became {after:?}").into());
            }
        }
    }
    Ok(())
}

/// A file with the usual ending is read without naming its format.
fn detected(ability: &Ability) -> Result<(), Failed> {
    let name = match ability.format() {
        Format::Columns => "corpus.conll",
        Format::Conllu => "corpus.conllu",
        Format::Csv => "corpus.csv",
        Format::Pubtator => "corpus.pubtator",
        Format::Brat => "corpus",
        Format::TokensJsonl | Format::TextJsonl | Format::Doccano | Format::Prodigy => {
            "corpus.jsonl"
        }
        _ => "corpus.json",
    };
    let mut plain = *ability;
    // Words that end in numbers may be WeiboNER's.
    (plain.words, plain.hashes) = (false, false);
    for sentences in corpora(ability.name, prop::collection::vec(sentence(plain), 3..6)) {
        if sentences
            .iter()
            .all(|sentence| sentence.entities.is_empty())
        {
            continue;
        }
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(name);
        write::to_path(&path, &sentences, &ability.options(), false)?;
        let options = ReadOptions {
            sentences: Some(SentenceCutting::Whole),
            ..ReadOptions::default()
        };
        match scan(&path, &options)? {
            Some(read) => check_equal("detected", &sentences, &read)?,
            None => return skipped(ability.name),
        }
    }
    Ok(())
}

/// Everything at once: no format but tokens_jsonl can represent all of it.
fn everything() -> Ability {
    let mut all = *FORMATS
        .iter()
        .find(|ability| ability.name == "tokens_jsonl")
        .unwrap();
    all.words = false;
    all.label_spaces = false;
    all
}

fn losses(ability: &Ability) -> Result<(), Failed> {
    let mut lost = 0;
    for sentences in corpora(
        ability.name,
        prop::collection::vec(sentence(everything()), 1..4),
    ) {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("corpus");
        let summary = write::to_path(&path, &sentences, &ability.options(), false)?;
        let count = |s: &Sentence| s.entities.len() + s.misaligned.len() + s.discontinuous.len();
        let total: usize = sentences.iter().map(count).sum();
        if summary.entities + summary.left_out != total || summary.sentences != sentences.len() {
            return Err(format!("{total} entities, {summary:?}").into());
        }
        lost += summary.left_out;
        let strict = WriteOptions {
            strict: true,
            ..ability.options()
        };
        let other = folder.path().join("strict");
        let result = write::to_path(&other, &sentences, &strict, false);
        if result.is_ok() != (summary.left_out == 0) || other.exists() != result.is_ok() {
            return Err(format!("strict: {result:?}, {summary:?}").into());
        }
    }
    let keeps = ability.overlapping && ability.misaligned && ability.discontinuous;
    if keeps != (lost == 0) {
        return Err(format!("{lost} entities were left out").into());
    }
    Ok(())
}

fn main() {
    let mut trials = Vec::new();
    for first in FORMATS {
        for second in FORMATS {
            let name = format!("pair/{}/{}", first.name, second.name);
            trials.push(Trial::test(name, || pair(first, second)));
        }
        if first.documents {
            let name = format!("document/{}", first.name);
            trials.push(Trial::test(name, || cut_documents(first)));
        }
        let name = format!("detect/{}", first.name);
        trials.push(Trial::test(name, || detected(first)));
        let name = format!("losses/{}", first.name);
        trials.push(Trial::test(name, || losses(first)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
