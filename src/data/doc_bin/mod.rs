//! spaCy's binary `.spacy` files: a DocBin, which is MessagePack compressed with zlib.
//!
//! The layout is that of `spacy.tokens.DocBin.to_bytes` of spaCy 3.8 (<https://spacy.io/api/docbin>), which older versions
//! from 2.2 on share. Words, spaces, entities (`ENT_IOB`, `ENT_TYPE`), span groups, sentence starts and part-of-speech tags
//! are read. A document without sentence starts is one sentence.

mod counts;
mod document;
mod msgpack;
mod span_groups;
mod strings;

use std::collections::BTreeMap;

use super::sentences::annotated_text;
use super::source::compressed::{Limit, inflate};
use super::source::{Collector, Source};
use super::{ReadOptions, SentenceCutting};
use counts::Counts;
use document::{Document, Token, TokenSpan};
use msgpack::Cursor;
use strings::Strings;

/// Numbers of the attributes that are read.
const ORTH: u64 = 65;
const POS: u64 = 74;
const TAG: u64 = 75;
const ENT_IOB: u64 = 77;
const ENT_TYPE: u64 = 78;
const SENT_START: u64 = 80;

/// Most attributes of a token; spaCy has fewer.
const MAX_ATTRIBUTES: usize = 1000;

/// True when the bytes begin like a DocBin.
pub(super) fn is_doc_bin(bytes: &[u8]) -> bool {
    // The header of zlib, and a map at the start of what was compressed.
    let [0x78, flags, ..] = bytes else {
        return false;
    };
    let mut first = [0; 1];
    let mut decoder = flate2::bufread::ZlibDecoder::new(bytes);
    (0x7800 + u32::from(*flags)).is_multiple_of(31)
        && std::io::Read::read_exact(&mut decoder, &mut first).is_ok()
        && matches!(first[0], 0x80..=0x8f | 0xde | 0xdf)
}

/// Reads all documents of a file.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let bytes = source.bytes();
    if !is_doc_bin(bytes) {
        return corpus.error(
            0,
            "not a DocBin, which is what spaCy 3 writes as `.spacy`; write one with `DocBin(docs=docs).to_disk(\"train.spacy\")`",
        );
    }
    let result = inflate(
        flate2::bufread::ZlibDecoder::new(bytes),
        bytes.len(),
        Limit::default(),
    );
    match result {
        Ok(message) => match DocBin::parse(&message) {
            Ok(bin) => bin.read(options, corpus),
            Err(problem) => corpus.error(0, format!("{problem}; write the file again with spaCy")),
        },
        Err(problem) => corpus.error(0, problem),
    }
}

/// The parts of a file.
struct DocBin<'a> {
    /// Number of 64-bit values for each token.
    width: usize,
    /// Index of each attribute among these values.
    columns: BTreeMap<u64, usize>,
    tokens: &'a [u8],
    spaces: &'a [u8],
    /// Number of tokens of each document.
    lengths: Vec<usize>,
    strings: Strings<'a>,
    /// For each document, whether it was made from words without spaces.
    unknown_spaces: Vec<bool>,
    /// For each document, its span groups.
    groups: Vec<&'a [u8]>,
}

impl<'a> DocBin<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, String> {
        let mut cursor = Cursor::new(message);
        let mut parts = BTreeMap::new();
        let damaged = "the MessagePack data is damaged";
        for _ in 0..cursor.map().ok_or(damaged)? {
            let key = cursor.string().ok_or(damaged)?;
            parts.insert(key, cursor.skip().ok_or(damaged)?);
        }
        let part = |name: &str| {
            let part = parts.get(name).copied();
            part.ok_or_else(|| format!("has no `{name}`, so it is not a DocBin"))
        };
        let attributes: Option<Vec<u64>> =
            elements(part("attrs")?, MAX_ATTRIBUTES, |cursor| cursor.integer());
        let attributes = attributes.ok_or("`attrs` is not a list of numbers")?;
        let mut strings = part("strings")?;
        let count = strings.list().ok_or("`strings` is not a list")?;
        let strings = Strings::new((0..count).map_while(|_| strings.string()));
        let bytes = |name: &str| {
            let bytes = part(name)?.bytes();
            bytes.ok_or_else(|| format!("`{name}` is not a string of bytes"))
        };
        let (lengths, rest) = bytes("lengths")?.as_chunks::<4>();
        let lengths: Result<Vec<usize>, _> = lengths
            .iter()
            .map(|length| usize::try_from(i32::from_le_bytes(*length)))
            .collect();
        let lengths = lengths
            .ok()
            .filter(|_| rest.is_empty())
            .ok_or("`lengths` is damaged")?;
        let columns: BTreeMap<u64, usize> = attributes.iter().copied().zip(0..).collect();
        if !columns.contains_key(&ORTH) {
            return Err("has no words (the attribute ORTH)".to_string());
        }
        let tokens: usize = lengths.iter().sum();
        let (width, data, spaces) = (attributes.len(), bytes("tokens")?, bytes("spaces")?);
        if data.len() as u128 != 8 * width as u128 * tokens as u128 || spaces.len() != tokens {
            return Err(format!(
                "has {} bytes of token data and {} of spaces for {tokens} tokens of {width} attributes",
                data.len(),
                spaces.len()
            ));
        }
        // Versions before 3 have no such parts.
        let documents = lengths.len();
        let unknown_spaces = match parts.get("flags") {
            Some(part) => elements(*part, documents, unknown_spaces).ok_or("`flags` is damaged")?,
            None => Vec::new(),
        };
        let groups = match parts.get("span_groups") {
            Some(part) => {
                elements(*part, documents, Cursor::bytes).ok_or("`span_groups` is damaged")?
            }
            None => Vec::new(),
        };
        Ok(Self {
            width,
            columns,
            tokens: data,
            spaces,
            lengths,
            strings,
            unknown_spaces,
            groups,
        })
    }

    fn read(&self, options: &ReadOptions, corpus: &mut Collector) {
        let mut counts = Counts::default();
        let whole = options.sentences == Some(SentenceCutting::Whole);
        let stem = corpus.stem();
        let mut first = 0;
        for (index, length) in self.lengths.iter().enumerate() {
            let number = index + 1;
            match self.document(index, first..first + length, &mut counts) {
                Ok(mut document) => {
                    document.name = format!("{stem}-{number}");
                    let cut = document.sentences(whole);
                    counts.joined += cut.joined;
                    counts.blank += cut.blank;
                    for mut sentence in cut.sentences {
                        if document.has_starts || whole {
                            corpus.push(number, sentence);
                        } else {
                            // The file does not say where sentences start.
                            sentence.text += &std::mem::take(&mut sentence.trailing);
                            annotated_text::push_document(sentence, number, options, corpus);
                        }
                    }
                }
                Err(problem) => corpus.error(
                    number,
                    format!("document {number}: {problem}; write the file again with spaCy"),
                ),
            }
            first += length;
        }
        let has_entities =
            self.columns.contains_key(&ENT_IOB) && self.columns.contains_key(&ENT_TYPE);
        counts.report(has_entities, corpus);
    }

    /// The value of an attribute of a token; 0, which means unset, if the file does not have the attribute.
    fn value(&self, token: usize, attribute: u64) -> u64 {
        let index = self
            .columns
            .get(&attribute)
            .map(|column| token * self.width + column);
        let bytes = index.and_then(|index| self.tokens.as_chunks::<8>().0.get(index));
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn string(&self, number: u64) -> Result<&'a str, String> {
        let string = self.strings.get(number);
        string.ok_or_else(|| format!("the string with the number {number} is missing"))
    }

    fn document(
        &self,
        index: usize,
        range: std::ops::Range<usize>,
        counts: &mut Counts,
    ) -> Result<Document<'a>, String> {
        let mut document = Document::default();
        let unknown_spaces = self
            .unknown_spaces
            .get(index)
            .is_some_and(|unknown| *unknown);
        let last = range.end;
        let tag = [TAG, POS].into_iter().find(|attribute| {
            !range.is_empty()
                && range
                    .clone()
                    .all(|token| self.value(token, *attribute) != 0)
        });
        for token in range.clone() {
            let start = self.value(token, SENT_START);
            document.has_starts |= token > range.start && start != 0;
            document.tokens.push(Token {
                text: self.string(self.value(token, ORTH))?,
                space: if unknown_spaces {
                    token + 1 < last
                } else {
                    self.spaces[token] != 0
                },
                pos: tag
                    .map(|tag| self.string(self.value(token, tag)))
                    .transpose()?,
                starts_sentence: start == 1,
            });
        }
        let missing = range
            .clone()
            .filter(|token| self.value(*token, ENT_IOB) == 0)
            .count();
        self.entities(range.clone(), &mut document.entities)?;
        let groups = self.groups.get(index).copied().unwrap_or_default();
        let has_groups = self.span_groups(groups, range.len(), counts, &mut document.entities)?;
        counts.documents += 1;
        if missing == range.len() {
            counts.unannotated += usize::from(!has_groups && missing > 0);
        } else {
            counts.missing += missing;
        }
        Ok(document)
    }

    /// The entities from the tags of the tokens: 0 unknown, 1 inside, 2 outside, 3 begin.
    fn entities(
        &self,
        range: std::ops::Range<usize>,
        entities: &mut Vec<TokenSpan<'a>>,
    ) -> Result<(), String> {
        let first = range.start;
        let mut open: Option<(usize, u64)> = None;
        for token in range.start..=range.end {
            let (tag, label) = if token < range.end {
                (self.value(token, ENT_IOB), self.value(token, ENT_TYPE))
            } else {
                (2, 0)
            };
            let continues = tag == 1 && open.is_some_and(|(_, open)| open == label);
            if continues {
                continue;
            }
            if let Some((start, label)) = open.take() {
                entities.push((start - first, token - first, self.string(label)?));
            }
            // spaCy marks a token that is set to be outside of entities as the begin of one without a type.
            if matches!(tag, 1 | 3) && label != 0 {
                open = Some((token, label));
            }
        }
        Ok(())
    }

    /// Adds the spans of a document's span groups; true when there are any groups.
    fn span_groups(
        &self,
        bytes: &'a [u8],
        length: usize,
        counts: &mut Counts,
        entities: &mut Vec<TokenSpan<'a>>,
    ) -> Result<bool, String> {
        let groups = span_groups::parse(bytes).ok_or("the span groups are damaged")?;
        for (name, mut spans) in groups.iter().copied() {
            let is_read = !span_groups::is_not_entities(name);
            for _ in 0..spans.list().unwrap_or(0) {
                let span = spans.bytes().and_then(span_groups::parse_span);
                let (label, start, end) = span.ok_or("the span groups are damaged")?;
                if !is_read || label == 0 {
                    *counts.left_out.entry(name.to_string()).or_default() += 1;
                    continue;
                }
                let label = self.string(label)?;
                if start >= end || end > length {
                    return Err(format!(
                        "{label} {start}..{end} of the span group `{name}` is not within the {length} tokens of its document"
                    ));
                }
                *counts.groups.entry(name.to_string()).or_default() += 1;
                entities.push((start, end, label));
            }
        }
        Ok(!groups.is_empty())
    }
}

/// The elements of a list of at most `limit`.
fn elements<'a, T>(
    mut cursor: Cursor<'a>,
    limit: usize,
    mut element: impl FnMut(&mut Cursor<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let length = cursor.list().filter(|length| *length <= limit)?;
    (0..length).map(|_| element(&mut cursor)).collect()
}

/// Whether the flags of a document say that its spaces are not known.
fn unknown_spaces(cursor: &mut Cursor<'_>) -> Option<bool> {
    let mut unknown = false;
    for _ in 0..cursor.map()? {
        let key = cursor.string()?;
        let value = cursor.skip()?.is_true();
        unknown |= key == "has_unknown_spaces" && value == Some(true);
    }
    Some(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::compressed::tests::zlib;
    use crate::data::{Format, Problem, detect_format, scan};
    use crate::text::Sentence;
    use proptest::prelude::*;
    use std::path::Path;

    const FLAT: &[u8] = include_bytes!("../../../tests/fixtures/formats/doc_bin/flat.spacy");
    const NESTED: &[u8] = include_bytes!("../../../tests/fixtures/formats/doc_bin/nested.spacy");

    fn from_bytes(bytes: &[u8], options: &ReadOptions) -> (Vec<Sentence>, Vec<Problem>) {
        let source = Source::from_bytes(bytes.to_vec()).unwrap();
        let mut corpus = Collector::new(Path::new("a.spacy"));
        read(&source, options, &mut corpus);
        (corpus.sentences, corpus.problems)
    }

    fn surfaces(sentence: &Sentence) -> Vec<(&str, &str)> {
        let entities = sentence.entities.iter();
        entities
            .map(|entity| (sentence.surface(entity.span), entity.label.as_str()))
            .collect()
    }

    /// The text of the document `number`.
    fn joined(sentences: &[Sentence], number: usize) -> String {
        let name = format!("a-{number}");
        let sentences = sentences
            .iter()
            .filter(|sentence| sentence.document.as_ref() == Some(&name));
        sentences
            .map(|sentence| format!("{}{}", sentence.text, sentence.trailing))
            .collect()
    }

    #[test]
    fn flat_entities_as_spacy_writes_them() {
        let (sentences, problems) = from_bytes(FLAT, &ReadOptions::default());
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(sentences.len(), 4);
        assert_eq!(sentences[0].text, "  Maria Keller lives in Lindholm.");
        assert_eq!(sentences[0].trailing, "\n\n");
        assert_eq!(
            surfaces(&sentences[0]),
            [("Maria Keller", "PERSON"), ("Lindholm", "GPE")]
        );
        assert_eq!(
            (sentences[1].offset, sentences[1].trailing.as_str()),
            (35, " ")
        );
        assert_eq!(
            surfaces(&sentences[1]),
            [("Orvane", "ORG"), ("May 2024", "DATE")]
        );
        assert_eq!(surfaces(&sentences[2]), [("Zoë", "PER"), ("北京", "LOC")]);
        // Words that are names of spaCy's symbols have a number instead of a hash.
        assert!(sentences[2].words.iter().any(|word| word.text == "NORP"));
        assert_eq!(sentences[3].text, "no spaces known");
        assert_eq!(surfaces(&sentences[3]), [("known", "X")]);
        let text = "  Maria Keller lives in Lindholm.\n\nOrvane hired her in May 2024. ";
        assert_eq!(joined(&sentences, 1), text);
        for sentence in &sentences {
            for word in &sentence.words {
                assert_eq!(
                    crate::text::slice(&sentence.text, word.start, word.end),
                    word.text
                );
            }
        }
    }

    #[test]
    fn nested_entities_come_from_span_groups() {
        let (sentences, problems) = from_bytes(NESTED, &ReadOptions::default());
        let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        assert_eq!(messages.len(), 4, "{messages:#?}");
        assert!(messages[0].starts_with("1 of 3 documents have no annotation"));
        assert!(
            messages[1].contains("`other` (1 spans), `sc` (3 spans)"),
            "{}",
            messages[1]
        );
        assert!(messages[2].contains("`coref_clusters_1` (1 spans), `other` (1 spans)"));
        assert!(messages[3].contains("1 sentences start within an entity"));
        assert_eq!(sentences.len(), 3);
        let entities = [
            ("University of Lindholm", "ORG"),
            ("Lindholm", "GPE"),
            ("Lindholm", "GPE"),
            ("Lindholm. It is", "CROSS"),
        ];
        assert_eq!(surfaces(&sentences[0]), entities);
        assert_eq!(
            sentences[0].text,
            "The University of Lindholm is in Lindholm. It is old."
        );
    }

    #[test]
    fn a_document_can_stay_whole() {
        let options = ReadOptions {
            sentences: Some(SentenceCutting::Whole),
            ..ReadOptions::default()
        };
        let (sentences, _) = from_bytes(FLAT, &options);
        assert_eq!(sentences.len(), 3);
        assert_eq!(sentences[0].entities.len(), 4);
    }

    /// A DocBin with one document of words, each with the tag of its entity (1 inside, 2 outside, 3 begin) and its sentence
    /// start, which is left out of the file if it is `None`.
    fn file(words: &[(&str, u64, Option<u64>)]) -> Vec<u8> {
        let bytes = |content: Vec<u8>| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[0xc5][..], &length, &content].concat()
        };
        let text = |text: &str| {
            let length = 0xa0 | u8::try_from(text.len()).unwrap();
            [&[length][..], text.as_bytes()].concat()
        };
        let has_starts = words[0].2.is_some();
        let mut attributes = vec![ORTH, ENT_IOB, ENT_TYPE];
        attributes.extend(has_starts.then_some(SENT_START));
        let mut tokens = Vec::new();
        for (word, tag, start) in words {
            let label = if *tag == 2 { 0 } else { strings::hash(b"PERS") };
            let values = [strings::hash(word.as_bytes()), *tag, label];
            tokens.extend(values.into_iter().chain(*start).flat_map(u64::to_le_bytes));
        }
        let mut file = vec![0x85];
        file.extend(text("attrs"));
        file.push(0x90 | attributes.len() as u8);
        file.extend(attributes.iter().map(|attribute| *attribute as u8));
        file.extend(text("strings"));
        file.extend([0xdc, 0, words.len() as u8 + 1]);
        file.extend(text("PERS"));
        file.extend(words.iter().flat_map(|(word, ..)| text(word)));
        for (name, content) in [
            ("lengths", (words.len() as i32).to_le_bytes().to_vec()),
            ("tokens", tokens),
            ("spaces", vec![1; words.len()]),
        ] {
            file.extend(text(name));
            file.extend(bytes(content));
        }
        zlib(&file)
    }

    #[test]
    fn a_document_without_sentence_starts_is_cut_by_the_rules() {
        let words = [
            "Zoë", "met", "Yahoo", "!", "Inc", "staff", "there", ".", "They", "left", "it", ".",
        ];
        let with = |starts: Option<u64>| -> Vec<(&str, u64, Option<u64>)> {
            let tags = [3, 2, 3, 1, 1, 2, 2, 2, 2, 2, 2, 2];
            (words.iter().zip(tags))
                .map(|(word, tag)| (*word, tag, starts))
                .collect()
        };
        let text = format!("{} ", words.join(" "));
        let (sentences, problems) = from_bytes(&file(&with(None)), &ReadOptions::default());
        let texts: Vec<&str> = sentences.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(
            texts,
            ["Zoë met Yahoo ! Inc staff there .", "They left it ."],
            "{problems:?}"
        );
        assert_eq!(
            surfaces(&sentences[0]),
            [("Zoë", "PERS"), ("Yahoo ! Inc", "PERS")]
        );
        assert_eq!((sentences[1].offset, sentences[1].len()), (34, 4));
        assert_eq!(joined(&sentences, 1), text);
        let whole = ReadOptions {
            sentences: Some(SentenceCutting::Whole),
            ..ReadOptions::default()
        };
        let (sentences, _) = from_bytes(&file(&with(None)), &whole);
        assert_eq!((sentences.len(), joined(&sentences, 1)), (1, text.clone()));
        // Starts that are known are followed, also if there is none: spaCy writes -1 for a token that starts no sentence.
        let (sentences, _) = from_bytes(&file(&with(Some(u64::MAX))), &ReadOptions::default());
        assert_eq!((sentences.len(), joined(&sentences, 1)), (1, text));
    }

    #[test]
    fn the_format_is_detected() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats/doc_bin");
        assert_eq!(
            detect_format(&folder.join("flat.spacy")).unwrap(),
            Format::DocBin
        );
        assert_eq!(
            scan(&folder.join("flat.spacy"), &ReadOptions::default())
                .unwrap()
                .0
                .len(),
            4
        );
        assert!(!is_doc_bin(b"x^2 is not zlib") && !is_doc_bin(b"x"));
        assert!(!is_doc_bin(&zlib(b"text")));
    }

    #[test]
    fn other_content_is_refused() {
        for (bytes, part) in [
            (b"{\"tokens\": []}".to_vec(), "not a DocBin"),
            (zlib(b"\x81\xa1a\x01"), "has no `attrs`"),
            (zlib(b"\x81\xa1a"), "damaged"),
            (zlib(b"\x85\xa5attrs\x91\x42\xa7strings\x90\xa7lengths\xc4\0\xa6tokens\xc4\0\xa6spaces\xc4\0"), "ORTH"),
            (zlib(b"\x85\xa5attrs\x91\x41\xa7strings\x90\xa7lengths\xc4\x04\x02\0\0\0\xa6tokens\xc4\0\xa6spaces\xc4\0"), "0 bytes of token data"),
            (zlib(b"\x85\xa5attrs\x91\x41\xa7strings\x90\xa7lengths\xc4\x04\xff\xff\xff\xff\xa6tokens\xc4\0\xa6spaces\xc4\0"), "`lengths`"),
            (zlib(b"\x85\xa5attrs\x91\x41\xa7strings\x90\xa7lengths\xc4\x04\x01\0\0\0\xa6tokens\xc4\x08abcdefgh\xa6spaces\xc4\x01\0"), "is missing"),
        ] {
            let (sentences, problems) = from_bytes(&bytes, &ReadOptions::default());
            assert!(sentences.is_empty());
            assert!(problems[0].message.contains(part), "{}", problems[0]);
        }
    }

    proptest! {
        #[test]
        fn damaged_files_are_errors(
            nested in any::<bool>(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4),
            cut in any::<prop::sample::Index>(),
            compressed in any::<bool>(),
        ) {
            // Most damage to the compressed bytes is noticed by zlib, so the bytes within are damaged too.
            let file = if nested { NESTED } else { FLAT };
            let mut bytes = if compressed {
                file.to_vec()
            } else {
                inflate(flate2::bufread::ZlibDecoder::new(file), file.len(), Limit::default()).unwrap()
            };
            for (index, bit) in flips {
                let index = index.index(bytes.len());
                bytes[index] ^= 1 << bit;
            }
            let parts = [&bytes[..cut.index(bytes.len())], &bytes[..]];
            for bytes in parts {
                let bytes = if compressed { bytes.to_vec() } else { zlib(bytes) };
                let Ok(source) = Source::from_bytes(bytes) else { continue };
                let mut corpus = Collector::new(Path::new("a.spacy"));
                read(&source, &ReadOptions::default(), &mut corpus);
                for sentence in &corpus.sentences {
                    prop_assert!(sentence.entities.iter().all(|entity| entity.span.end <= sentence.len()));
                }
            }
        }
    }
}
