//! Texts that are cut into sentences and words, and files of predictions.

use nerzoo::data::input_text::{self, InputText};
use nerzoo::data::sentence_bounds::sentence_bounds;
use nerzoo::data::words::Segmentation;
use nerzoo::eval::predictions as predictions_file;
use nerzoo::model::cut::cut;
use nerzoo::model::document::{DocumentSettings, TextSentences};
use nerzoo::text::{Entity, Mention, Sentence, slice};

use crate::input::{self, Input};
use crate::readers::check;

/// Two characters with options, then a text.
pub fn sentences(data: &[u8]) {
    let mut given = Input::new(data);
    let choice = given.choose(12);
    let settings = DocumentSettings {
        segmentation: [Segmentation::Words, Segmentation::Han, Segmentation::Cjk][choice % 3],
        context: choice / 3 % 2,
        longest: 1 + given.choose(32),
        nested: choice / 6 == 0,
        whole: false,
    };
    let text = String::from_utf8_lossy(given.rest());
    let mut end = 0;
    for range in sentence_bounds(&text) {
        assert!(range.start == end && range.end > end);
        assert!(text.is_char_boundary(range.end));
        end = range.end;
    }
    assert_eq!(end, text.len());
    let mut joined = String::new();
    for sentence in TextSentences::new(&text, settings) {
        check(&sentence);
        assert_eq!(sentence.offset, joined.chars().count());
        joined += &sentence.text;
        joined += &sentence.trailing;
    }
    assert_eq!(joined, text);
    cut_and_join(InputText::Plain(text.to_string()), settings, &text);
    if let Ok(line) = input_text::parse_json(&text) {
        if let InputText::Sentences(sentences) = &line {
            // Words that are given may be anything.
            assert!(
                sentences
                    .iter()
                    .flat_map(|sentence| &sentence.words)
                    .all(|word| word.start <= word.end)
            );
        }
        cut_and_join(line, settings, "");
    }
}

/// Cuts a text, tags every word and every pair of words, and joins the parts: all words are found, and all offsets are right.
fn cut_and_join(given: InputText, settings: DocumentSettings, text: &str) {
    let mut parts = Vec::new();
    let plan = cut(given, settings, &mut parts);
    let tagged = parts.into_iter().map(|part| {
        assert!(part.len() <= settings.longest);
        let mentions = mentions(&part, settings.nested);
        (part, mentions)
    });
    for (sentence, found) in plan.join(tagged) {
        let singles = found
            .iter()
            .filter(|mention| mention.entity.span.len() == 1);
        assert_eq!(singles.count(), sentence.len());
        for Mention { entity, .. } in &found {
            assert!(entity.span.end <= sentence.len());
            let (start, end) = sentence.characters(entity.span);
            if !text.is_empty() {
                assert_eq!(
                    slice(text, sentence.offset + start, sentence.offset + end),
                    sentence.surface(entity.span)
                );
            }
        }
    }
}

/// Each word as a mention; with `nested` each pair of words, too.
fn mentions(sentence: &Sentence, nested: bool) -> Vec<Mention> {
    let lengths = if nested { 1..=2 } else { 1..=1 };
    let spans = (0..sentence.len())
        .flat_map(|start| lengths.clone().map(move |length| (start, start + length)));
    (spans.filter(|(_, end)| *end <= sentence.len()))
        .map(|(start, end)| Mention {
            entity: Entity::new(start, end, "A"),
            score: 0.5,
        })
        .collect()
}

/// A file of predictions for three sentences.
pub fn predictions(data: &[u8]) {
    let mut gold: Vec<Sentence> = ["Ada Lovelace wrote it .", "In London", "a 北京 e\u{301} 👩‍🔬"]
        .map(|text| Sentence::from_words(text.split(' ')))
        .to_vec();
    gold[1].offset = 24;
    gold[0].trailing = " ".into();
    let path = input::file("predictions.jsonl", data);
    let Ok(found) = predictions_file::read(&path, &gold) else {
        return;
    };
    assert_eq!(found.len(), gold.len());
    for (sentence, mentions) in gold.iter().zip(&found) {
        for mention in mentions {
            let span = mention.entity.span;
            assert!(!span.is_empty() && span.end <= sentence.len());
            assert!(mention.score.is_finite(), "{mention:?}");
        }
    }
    predictions_file::write(&path, &gold, &found).expect("a file");
    assert_eq!(
        predictions_file::read(&path, &gold).expect("what was written"),
        found
    );
}
