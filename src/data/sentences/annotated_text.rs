//! Texts with entities given by character offsets: from annotations to the entities of sentences.
//!
//! A document is cut into sentences so that no entity is cut: where a sentence would end inside an entity, the two sentences
//! stay one, and the entity is listed in a warning.

use std::collections::{HashMap, HashSet};

use super::bounds::sentence_bounds;
use super::entities;
use crate::data::source::Collector;
use crate::data::{ReadOptions, SentenceCutting, words};
use crate::text::{CharacterIndex, Sentence};

/// An entity of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) struct TextEntity {
    /// First character and one past the last character of each part; more than one part for a discontinuous entity.
    pub parts: Vec<(usize, usize)>,
    /// The entity type.
    pub label: String,
    /// The line of the file that it is on, for messages.
    pub line: usize,
}

/// A text, or a document of several sentences, with its entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) struct AnnotatedText<'a> {
    /// The text.
    pub text: &'a str,
    /// The name of the document.
    pub document: Option<String>,
    /// The line of the file at which it starts.
    pub line: usize,
    /// Its entities.
    pub entities: Vec<TextEntity>,
    /// Whether the text is a document, which is cut into sentences unless the options say otherwise.
    pub is_document: bool,
}

/// The lines of the file on which entities are, by their first character and one past their last.
type EntityLines = HashMap<(usize, usize), usize>;

/// Adds the sentences of a text to the corpus and reports the entities that cannot be used. A document of nothing but white
/// space has no sentences.
pub(in crate::data) fn push(
    text: AnnotatedText<'_>,
    options: &ReadOptions,
    corpus: &mut Collector,
) {
    let is_empty = text.text.trim().is_empty() && text.entities.is_empty();
    if is_empty && text.is_document {
        return;
    }
    let mut sentence = words::sentence(text.text, options.segmentation.unwrap_or_default());
    sentence.document = text.document;
    let index = CharacterIndex::new(text.text);
    let length = index.characters();
    let mut seen = HashSet::new();
    let mut lines = EntityLines::new();
    for mut entity in text.entities {
        let label = &entity.label;
        if let Err(problem) = entities::check_parts(&entity.parts, length) {
            let ranges = entities::ranges(&entity.parts);
            corpus.error(entity.line, format!("{label} {ranges} {problem}"));
            continue;
        }
        entity.parts = joined(entity.parts, &index);
        if !seen.insert((entity.parts.clone(), label.clone())) {
            corpus.warn(
                entity.line,
                entities::given_twice(label, entities::ranges(&entity.parts)),
            );
            continue;
        }
        if let (Some(first), Some(last)) = (entity.parts.first(), entity.parts.last()) {
            lines.insert((first.0, last.1), entity.line);
        }
        add(&mut sentence, entity, &index, corpus);
    }
    push_pieces(
        sentence,
        (text.line, &lines),
        text.is_document,
        options,
        corpus,
    );
}

/// The parts in text order; those with only white space between them are one. BRAT writes an entity that crosses a line
/// break as one part per line.
fn joined(mut parts: Vec<(usize, usize)>, index: &CharacterIndex<'_>) -> Vec<(usize, usize)> {
    if parts.len() == 1 {
        return parts;
    }
    parts.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::with_capacity(parts.len());
    for (start, end) in parts {
        match joined.last_mut() {
            Some(last) if start <= last.1 || index.slice(last.1, start).trim().is_empty() => {
                last.1 = last.1.max(end);
            }
            _ => joined.push((start, end)),
        }
    }
    joined
}

fn add(
    sentence: &mut Sentence,
    entity: TextEntity,
    index: &CharacterIndex<'_>,
    corpus: &mut Collector,
) {
    let TextEntity { parts, label, line } = entity;
    let part = parts[0];
    if !entities::add(sentence, parts, label.clone()) {
        let text = index.slice(part.0, part.1);
        corpus.warn(line, entities::not_at_word_boundaries(&label, part, text));
    }
}

/// Adds a document with its words and entities to the corpus, cut into sentences unless the options say otherwise.
pub(in crate::data) fn push_document(
    document: Sentence,
    line: usize,
    options: &ReadOptions,
    corpus: &mut Collector,
) {
    let place = (line, &EntityLines::new());
    push_pieces(document, place, true, options, corpus);
}

/// Adds a text with its words and entities to the corpus: cut into sentences if it is a document or the options say so,
/// otherwise as it is.
fn push_pieces(
    sentence: Sentence,
    (line, lines): (usize, &EntityLines),
    is_document: bool,
    options: &ReadOptions,
    corpus: &mut Collector,
) {
    let is_cut = match options.sentences.unwrap_or_default() {
        SentenceCutting::Auto => is_document,
        SentenceCutting::Cut => true,
        SentenceCutting::Whole => false,
    };
    if !is_cut {
        return corpus.push(line, sentence);
    }
    for piece in cut(sentence, (line, lines), corpus) {
        corpus.push(line, piece);
    }
}

/// Cuts a text into sentences, none of them inside an entity or a word.
fn cut(mut whole: Sentence, lines: (usize, &EntityLines), corpus: &mut Collector) -> Vec<Sentence> {
    let bounds = character_bounds(&whole.text);
    let kept = without_crossed(&bounds, &whole, lines, corpus);
    let text = std::mem::take(&mut whole.text);
    let index = CharacterIndex::new(&text);
    let starts: Vec<usize> = [0].into_iter().chain(kept).collect();
    if starts.len() > 1 && whole.document.is_none() {
        whole.document = Some(corpus.next_document());
    }
    // An entity that ends in white space keeps it in the sentence.
    let mut ends = starts.clone();
    let parts = whole
        .discontinuous
        .iter()
        .flat_map(|one| one.parts.iter().copied());
    for (start, end) in whole
        .misaligned
        .iter()
        .map(|one| (one.start, one.end))
        .chain(parts)
    {
        let last = &mut ends[starts.partition_point(|first| *first <= start) - 1];
        *last = end.max(*last);
    }
    let mut pieces: Vec<Sentence> = Vec::with_capacity(starts.len());
    for (number, start) in starts.iter().copied().enumerate() {
        let end = starts
            .get(number + 1)
            .copied()
            .unwrap_or(index.characters());
        let piece = &text[index.byte(start)..index.byte(end)];
        let visible = piece
            .trim_end()
            .len()
            .max(index.byte(ends[number]).saturating_sub(index.byte(start)));
        // A text of white space only stays as it is.
        let (kept, trailing) = piece.split_at(if visible == 0 { piece.len() } else { visible });
        pieces.push(Sentence {
            text: kept.to_string(),
            trailing: trailing.to_string(),
            offset: whole.offset + start,
            document: whole.document.clone(),
            ..Sentence::default()
        });
    }
    distribute(whole, &starts, &mut pieces);
    pieces
}

/// Moves words and annotations to the sentences that start at these characters.
fn distribute(whole: Sentence, starts: &[usize], pieces: &mut [Sentence]) {
    let piece_of = |character: usize| starts.partition_point(|start| *start <= character) - 1;
    let mut first_words = vec![0; pieces.len()];
    let mut tags = whole.pos.into_iter().flatten();
    let word_pieces: Vec<usize> = whole
        .words
        .iter()
        .map(|word| piece_of(word.start))
        .collect();
    for (number, (mut word, piece)) in whole.words.into_iter().zip(&word_pieces).enumerate() {
        let (start, piece) = (starts[*piece], &mut pieces[*piece]);
        if piece.words.is_empty() {
            first_words[piece_of(word.start)] = number;
        }
        word.start -= start;
        word.end -= start;
        piece.words.push(word);
        if let Some(tag) = tags.next() {
            piece.pos.get_or_insert_default().push(tag);
        }
    }
    for mut entity in whole.entities {
        let piece = word_pieces[entity.span.start];
        entity.span.start -= first_words[piece];
        entity.span.end -= first_words[piece];
        pieces[piece].entities.push(entity);
    }
    for mut entity in whole.misaligned {
        let piece = piece_of(entity.start);
        entity.start -= starts[piece];
        entity.end -= starts[piece];
        pieces[piece].misaligned.push(entity);
    }
    for mut entity in whole.discontinuous {
        let piece = piece_of(entity.parts[0].0);
        for part in &mut entity.parts {
            part.0 -= starts[piece];
            part.1 -= starts[piece];
        }
        pieces[piece].discontinuous.push(entity);
    }
    if let Some(first) = pieces.first_mut() {
        first.left = whole.left;
    }
    if let Some(last) = pieces.last_mut() {
        last.right = whole.right;
    }
}

/// The starts of the sentences of a text but the first, in characters.
fn character_bounds(text: &str) -> Vec<usize> {
    let mut bounds = Vec::new();
    let (mut byte, mut character) = (0, 0);
    for range in sentence_bounds(text).into_iter().skip(1) {
        character += text[byte..range.start].chars().count();
        byte = range.start;
        bounds.push(character);
    }
    bounds
}

/// The bounds that are inside no entity and no word. Entities with bounds inside are noted.
fn without_crossed(
    bounds: &[usize],
    whole: &Sentence,
    (line, lines): (usize, &EntityLines),
    corpus: &mut Collector,
) -> Vec<usize> {
    let entities = whole
        .entities
        .iter()
        .map(|entity| (whole.characters(entity.span), &entity.label));
    let misaligned = whole
        .misaligned
        .iter()
        .map(|one| ((one.start, one.end), &one.label));
    let hulls = whole.discontinuous.iter().filter_map(|one| {
        let (first, last) = (one.parts.first()?, one.parts.last()?);
        Some(((first.0, last.1), &one.label))
    });
    let mut annotated: Vec<((usize, usize), &String)> =
        entities.chain(misaligned).chain(hulls).collect();
    annotated.sort();
    // Bounds that are strictly inside `start..end`.
    let inside = |start: usize, end: usize| {
        let from = bounds.partition_point(|bound| *bound <= start);
        from..bounds.partition_point(|bound| *bound < end).max(from)
    };
    let index = CharacterIndex::new(&whole.text);
    let mut is_crossed = vec![false; bounds.len()];
    let mut done = 0;
    for ((start, end), label) in annotated {
        let range = inside(start, end);
        if !range.is_empty() {
            let line = lines.get(&(start, end)).copied().unwrap_or(line);
            corpus.note_crossing(line, label, index.slice(start, end));
        }
        // Sorted by start, so every bound is marked once.
        if done < range.end {
            is_crossed[range.start.max(done)..range.end].fill(true);
            done = range.end;
        }
    }
    let mut words = whole.words.iter().peekable();
    for (bound, is_crossed) in bounds.iter().zip(&mut is_crossed) {
        while words.next_if(|word| word.end <= *bound).is_some() {}
        *is_crossed |= words.peek().is_some_and(|word| word.start < *bound);
    }
    (bounds.iter().zip(is_crossed))
        .filter_map(|(bound, is_crossed)| (!is_crossed).then_some(*bound))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sentences::crossing::report_crossing;
    use crate::data::{Format, Problem, datasets, link_context, scan};
    use crate::text::{Entity, Span, slice};
    use proptest::prelude::*;
    use std::path::{Path, PathBuf};

    fn entity(start: usize, end: usize, label: &str) -> TextEntity {
        TextEntity {
            parts: vec![(start, end)],
            label: label.to_string(),
            line: 7,
        }
    }

    fn pushed(
        text: &str,
        entities: Vec<TextEntity>,
        sentences: SentenceCutting,
    ) -> (Vec<Sentence>, Vec<Problem>) {
        let mut corpus = Collector::new(Path::new("folder/file.json"));
        let options = ReadOptions {
            sentences: Some(sentences),
            ..ReadOptions::default()
        };
        let document = AnnotatedText {
            text,
            document: None,
            line: 1,
            entities,
            is_document: true,
        };
        push(document, &options, &mut corpus);
        report_crossing(&mut corpus);
        (corpus.sentences, corpus.problems)
    }

    fn cut_up(text: &str, entities: Vec<TextEntity>) -> (Vec<Sentence>, Vec<Problem>) {
        pushed(text, entities, SentenceCutting::Auto)
    }

    #[test]
    fn a_document_is_cut_into_sentences() {
        let text = "\nAnna met Dr. Bo. 👩‍🔬 She left 北京.\n\nEnd";
        let start = text.chars().position(|c| c == '北').unwrap();
        let inner = entity(start, start + 2, "LOC");
        let (sentences, problems) =
            cut_up(text, vec![entity(1, 5, "PER"), inner, entity(2, 4, "X")]);
        let texts: Vec<&str> = sentences.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(texts, ["\nAnna met Dr. Bo.", "👩‍🔬 She left 北京.", "End"]);
        let joined: String = sentences
            .iter()
            .map(|one| one.text.clone() + &one.trailing)
            .collect();
        assert_eq!(joined, text);
        assert_eq!(sentences[0].entities, [Entity::new(0, 1, "PER")]);
        assert_eq!(sentences[0].misaligned[0].start, 2);
        assert_eq!(sentences[1].surface(sentences[1].entities[0].span), "北京");
        assert_eq!(sentences[2].offset, text.chars().count() - 3);
        assert!(
            sentences
                .iter()
                .all(|one| one.document.as_deref() == Some("file-1"))
        );
        assert_eq!(problems.len(), 1);
        let (whole, _) = pushed(text, Vec::new(), SentenceCutting::Whole);
        assert_eq!((whole.len(), whole[0].text.as_str()), (1, text));
        assert!(cut_up(" \n ", Vec::new()).0.is_empty());
    }

    #[test]
    fn sentences_of_a_document_are_linked() {
        let (mut sentences, _) = cut_up("One. Two. Three.", Vec::new());
        link_context(&mut sentences, 1);
        assert_eq!(sentences[1].left, ["One", "."]);
        assert_eq!(sentences[1].right, ["Three", "."]);
    }

    #[test]
    fn no_entity_is_cut() {
        let text = "We saw Who? Weekly. Then A\n\nB and C. D. All left.";
        let (sentences, problems) = cut_up(
            text,
            vec![
                entity(7, 18, "WORK"),
                entity(25, 29, "X"),
                TextEntity {
                    parts: vec![(34, 35), (37, 38)],
                    label: "Y".to_string(),
                    line: 9,
                },
            ],
        );
        let texts: Vec<&str> = sentences.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(
            texts,
            ["We saw Who? Weekly.", "Then A\n\nB and C. D.", "All left."]
        );
        assert_eq!(sentences[1].discontinuous[0].parts, [(14, 15), (17, 18)]);
        let messages: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(
            messages[0].contains("1 entity crosses a blank line"),
            "{}",
            messages[0]
        );
        assert!(
            messages[0].starts_with("folder/file.json:7"),
            "{}",
            messages[0]
        );
        assert!(
            messages[1].contains("WORK `Who? Weekly` (folder/file.json:7)"),
            "{}",
            messages[1]
        );
    }

    #[test]
    fn many_crossing_entities_are_one_warning() {
        let text = "A. The B. ".repeat(50);
        let entities = (0..50)
            .map(|number| entity(10 * number + 3, 10 * number + 9, "X"))
            .collect();
        let (_, problems) = cut_up(&text, entities);
        let crossing: Vec<&Problem> = problems
            .iter()
            .filter(|one| one.message.contains("cross"))
            .collect();
        assert!(crossing.len() <= 1, "{crossing:?}");
    }

    #[test]
    fn parts_with_white_space_between_them_are_one() {
        let broken = TextEntity {
            parts: vec![(11, 15), (7, 10)],
            label: "LOC".to_string(),
            line: 1,
        };
        let (sentences, problems) = cut_up("He saw New\nYork, too.", vec![broken]);
        assert_eq!(problems, []);
        assert_eq!(sentences[0].entities, [Entity::new(2, 4, "LOC")]);
        let empty = TextEntity {
            parts: Vec::new(),
            label: "X".to_string(),
            line: 1,
        };
        assert_eq!(cut_up("x", vec![empty]).1.len(), 1);
    }

    fn read_jsonl(record: &str, sentences: Option<SentenceCutting>) -> Vec<Sentence> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, record).unwrap();
        let options = ReadOptions {
            sentences,
            ..ReadOptions::of(Format::TextJsonl)
        };
        scan(&path, &options).unwrap().0
    }

    #[test]
    fn a_record_is_a_sentence_unless_it_has_lines() {
        let one = r#"{"text": "It ends. It starts.\n", "entities": []}"#;
        assert_eq!(read_jsonl(one, None).len(), 1);
        assert_eq!(read_jsonl(one, None)[0].text, "It ends. It starts.\n");
        assert_eq!(read_jsonl(one, Some(SentenceCutting::Cut)).len(), 2);
        let two = r#"{"text": "It ends.\nIt starts now.", "pos": ["A", "B", "C", "D", "E", "F", "G"], "label": [[9, 11, "X"]]}"#;
        let sentences = read_jsonl(two, None);
        assert_eq!(sentences.len(), 2);
        assert_eq!(sentences[1].pos.as_deref().unwrap(), ["D", "E", "F", "G"]);
        assert_eq!(sentences[1].entities, [Entity::new(0, 1, "X")]);
        assert_eq!(read_jsonl(two, Some(SentenceCutting::Whole)).len(), 1);
    }

    #[test]
    fn counts_of_corpora_do_not_change() {
        let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpora");
        let root = std::env::var_os(datasets::VARIABLE).map_or_else(default, PathBuf::from);
        if !root.is_dir() {
            eprintln!(
                "SKIPPED counts_of_corpora_do_not_change: there is no folder {}",
                root.display()
            );
            return;
        }
        for (name, _) in datasets::KNOWN
            .iter()
            .filter(|(name, _)| root.join(name).is_dir())
        {
            let dataset = datasets::find(name, std::slice::from_ref(&root)).unwrap();
            let verification = datasets::verify(&dataset).unwrap();
            assert!(verification.ok(), "{verification}");
        }
    }

    #[test]
    fn a_long_document_takes_linear_time() {
        let text = "Anna met Bo. ".repeat(20_000);
        let entities = (0..20_000)
            .map(|number| entity(13 * number, 13 * number + 3 + number % 2, "X"))
            .collect();
        let (sentences, _) = cut_up(&text, entities);
        assert_eq!(sentences.len(), 20_000);
    }

    /// Texts of words in several scripts, with punctuation and white space.
    fn texts() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[a-zA-Z]{1,5}",
            Just("👩‍🔬".to_string()),
            Just("e\u{301}".to_string()),
            Just("北京".to_string()),
            Just("شمال".to_string()),
            Just("Dr.".to_string()),
            "[.!?。؟।]{1,2}",
            "[ \n\u{3000}]{1,2}",
            Just(" ".to_string()),
            Just("\r\n\r\n".to_string()),
        ];
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn offsets_equal_surfaces_after_cutting(
            text in texts(),
            spans in prop::collection::vec((0..60usize, 1..12usize, 0..30usize), 0..8),
        ) {
            let length = text.chars().count();
            let mut entities = Vec::new();
            for (start, size, gap) in spans {
                let end = start + size;
                let mut parts = vec![(start, end)];
                if gap > 20 {
                    parts.push((end + gap - 20, end + gap - 18));
                }
                if parts.iter().all(|part| part.1 <= length) {
                    entities.push(TextEntity { parts, label: "X".to_string(), line: 1 });
                }
            }
            let count: usize = entities.iter().map(|one| joined(one.parts.clone(), &CharacterIndex::new(&text)))
                .collect::<HashSet<_>>().len();
            let (whole, _) = pushed(&text, entities.clone(), SentenceCutting::Whole);
            let (sentences, _) = cut_up(&text, entities);
            let all: String = sentences.iter().map(|one| one.text.clone() + &one.trailing).collect();
            prop_assert!(all == text || (all.is_empty() && text.trim().is_empty()));
            let (mut found, mut words) = (Vec::new(), Vec::new());
            for sentence in &sentences {
                prop_assert_eq!(slice(&text, sentence.offset, sentence.offset + sentence.text.chars().count()), sentence.text.as_str());
                for (number, word) in sentence.words.iter().enumerate() {
                    prop_assert_eq!(sentence.surface(Span::new(number, number + 1)), word.text.as_str());
                    words.push(word.text.clone());
                }
                let characters = sentence.entities.iter().map(|one| vec![sentence.characters(one.span)]);
                let misaligned = sentence.misaligned.iter().map(|one| vec![(one.start, one.end)]);
                let parts = sentence.discontinuous.iter().map(|one| one.parts.clone());
                for parts in characters.chain(misaligned).chain(parts) {
                    let shifted: Vec<_> = parts.iter().map(|(a, b)| (a + sentence.offset, b + sentence.offset)).collect();
                    for ((a, b), (c, d)) in parts.iter().zip(&shifted) {
                        prop_assert_eq!(slice(&sentence.text, *a, *b).trim_end(), slice(&text, *c, *d).trim_end());
                    }
                    found.push(shifted);
                }
            }
            prop_assert_eq!(found.len(), count);
            if let Some(whole) = whole.first() {
                let same: Vec<String> = whole.words.iter().map(|word| word.text.clone()).collect();
                prop_assert_eq!(words, same);
            }
        }
    }
}
