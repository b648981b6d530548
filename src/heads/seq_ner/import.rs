//! SeqNER from and to the token classifiers of the transformers library.
//!
//! Their tags may be those of IO, IOB1, IOB2, BIOES or BILOU. The first three are read as BIO with the combiner `lenient`,
//! which starts an entity at an I that continues none; a tag that they do not have gets a score that no word reaches. BILOU is
//! BIOES with other letters.

use std::collections::HashMap;

use super::config::{Combiner, Config, Decoder, Transform};
use super::network::SeqNer;
use super::tag_set::{TagMark, TagSet};
use crate::error::{Error, Result};
use crate::heads::import::{Arrays, ImportedHead};
use crate::heads::settings::{Preset, Settings};
use crate::heads::token_classifier::{HiddenLayer, TokenClassifier};
use crate::nn::host::{self, HostArray};
use crate::text::Labels;

/// The bias of tags that a classifier does not have. Half precision can hold it.
const ABSENT: f32 = -10_000.0;
/// The tag of words outside of entities.
const OUTSIDE: &str = "O";
/// The type of entities whose tags have none.
const NO_TYPE: &str = "ENTITY";

/// The tags of a classifier as those of SeqNER.
#[derive(Debug, PartialEq)]
struct ReadTags {
    set: TagSet,
    labels: Labels,
    /// The number here of each of the classifier's tags.
    numbers: Vec<usize>,
}

/// The position that the letter of a tag stands for.
fn mark(letter: char) -> Option<TagMark> {
    match letter {
        'B' => Some(TagMark::Begin),
        'I' | 'M' => Some(TagMark::Inside),
        'E' | 'L' => Some(TagMark::End),
        'S' | 'U' | 'W' => Some(TagMark::Single),
        _ => None,
    }
}

/// The mark and the type of a tag such as `B-PER`, `B_PER` or `B`; one without a type has the type [`NO_TYPE`].
fn marked(tag: &str) -> Option<(TagMark, &str)> {
    let mut letters = tag.chars();
    let mark = mark(letters.next()?)?;
    match letters.as_str() {
        "" => Some((mark, NO_TYPE)),
        rest => {
            let name = rest.strip_prefix(['-', '_'])?;
            (!name.is_empty()).then_some((mark, name))
        }
    }
}

/// A tag as the transformers library reads it: only `B-` and `I-` are marks.
fn plain(tag: &str) -> (TagMark, &str) {
    match tag.strip_prefix("B-") {
        Some(name) => (TagMark::Begin, name),
        None => (TagMark::Inside, tag.strip_prefix("I-").unwrap_or(tag)),
    }
}

/// Reads the names of tags. If all but O have a mark, the marks give the positions of words; otherwise only `B-` and `I-` do,
/// and every other name is a type without marks.
fn read_tags(tags: &[String]) -> Result<ReadTags, String> {
    let inside = || {
        let names = tags.iter().map(String::as_str);
        names.filter(|tag| *tag != OUTSIDE)
    };
    if inside().count() == tags.len() {
        return Err("there is no tag O for words outside of entities".into());
    }
    if inside().next().is_none() {
        return Err("there is no tag but O".into());
    }
    let is_bio = |mark: TagMark| matches!(mark, TagMark::Begin | TagMark::Inside);
    let all: Option<Vec<(TagMark, &str)>> = inside().map(marked).collect();
    // Names such as E-mail alone are no marks.
    let all = all.filter(|all| all.iter().any(|(mark, _)| is_bio(*mark)));
    let is_marked = all.is_some();
    let read = all.unwrap_or_else(|| inside().map(plain).collect());
    let set = if read.iter().all(|(mark, _)| is_bio(*mark)) {
        TagSet::Bio
    } else {
        TagSet::Bioes
    };
    let labels = Labels::new(read.iter().map(|(_, name)| *name));
    labels.check()?;
    let mut numbers = Vec::with_capacity(tags.len());
    let mut known: HashMap<usize, &str> = HashMap::new();
    for tag in tags {
        let read = match tag.as_str() {
            OUTSIDE => None,
            tag if is_marked => marked(tag),
            tag => Some(plain(tag)),
        };
        let number = read.map_or(0, |(mark, name)| {
            set.number(labels.index(name).unwrap_or(0), mark)
        });
        if let Some(other) = known.insert(number, tag) {
            return Err(format!(
                "the tags {other:?} and {tag:?} have the same meaning"
            ));
        }
        numbers.push(number);
    }
    Ok(ReadTags {
        set,
        labels,
        numbers,
    })
}

/// The head with the weights of a classifier.
pub(super) fn from_classifier(classifier: &TokenClassifier) -> Result<ImportedHead<Config>> {
    let fail = |problem: String| Error::Config(format!("the token classifier: {problem}"));
    classifier.check().map_err(fail)?;
    let tags = read_tags(&classifier.tags).map_err(fail)?;
    let count = tags.set.count(tags.labels.len());
    let width = classifier.width();
    let mut weight = HostArray::zeros(&[count, width]);
    let mut bias = HostArray {
        shape: vec![count],
        values: vec![ABSENT; count],
    };
    for (index, number) in tags.numbers.iter().enumerate() {
        let row = &classifier.weight.values[index * width..(index + 1) * width];
        weight.values[number * width..(number + 1) * width].copy_from_slice(row);
        bias.values[*number] = classifier.bias.values[index];
    }
    let mut weights = Arrays::default();
    let mut insert = |name: &str, array: HostArray| {
        weights.0.insert(name.into(), array);
    };
    insert("emission.weight", weight.transposed());
    insert("emission.bias", bias);
    let mut config = Config {
        decoder: Decoder::Softmax,
        tags: tags.set,
        combiner: Combiner::Lenient,
        none_bias: 0.0,
        dropout: classifier.dropout,
        ..Config::of(Preset::Paper)
    };
    if let Some(hidden) = &classifier.hidden {
        config.transform = Transform::with(hidden.activation);
        config.transform_epsilon = hidden.norm_epsilon;
        insert("transform.dense.weight", hidden.weight.clone().transposed());
        insert("transform.dense.bias", hidden.bias.clone());
        insert("transform.norm.gamma", hidden.norm_weight.clone());
        insert("transform.norm.beta", hidden.norm_bias.clone());
    }
    Ok(ImportedHead {
        config,
        labels: tags.labels,
        weights: weights.write()?,
    })
}

/// The head as a classifier. Fails, with the reason, if its mentions differ from those that the tags of each word give.
pub(super) fn to_classifier(head: &SeqNer) -> Result<TokenClassifier> {
    let config = &head.config;
    let refuse = |setting: &str, reason: &str| {
        Err(Error::Config(format!(
            "head.{setting}: {reason}; transformers has no such model"
        )))
    };
    if config.decoder != Decoder::Softmax {
        return refuse(
            "decoder = \"crf\"",
            "the tags of a sentence are chosen together",
        );
    }
    if config.combiner != Combiner::Lenient {
        return refuse(
            "combiner = \"strict\"",
            "tags that continue no entity are dropped (`--set head.combiner=lenient` exports the model without this rule)",
        );
    }
    if config.tags != TagSet::Bio {
        return refuse(
            "tags = \"bioes\"",
            "the token-classification pipeline reads only the marks B- and I-",
        );
    }
    let mut tags = vec![OUTSIDE.to_string()];
    for name in head.labels.names() {
        let marks = config.tags.marks().iter();
        tags.extend(marks.map(|mark| format!("{}-{name}", mark.letter())));
    }
    let array = |shape: Vec<usize>, values: Vec<f32>| HostArray { shape, values };
    let [width, count] = head.emission.weight.dims();
    let weight = array(vec![width, count], host::floats(head.emission.weight.val()));
    let bias = head.emission.bias.as_ref();
    let mut bias = bias.map_or(vec![0.0; count], |bias| host::floats(bias.val()));
    bias[0] += config.none_bias as f32;
    let vector = |values: Vec<f32>| array(vec![values.len()], values);
    let hidden = head.transform.as_ref().map(|transform| {
        let dense = host::floats(transform.dense.weight.val());
        let zeros = || vec![0.0; width];
        let bias = transform.dense.bias.as_ref();
        let beta = transform.norm.beta.as_ref();
        HiddenLayer {
            weight: array(vec![width, width], dense).transposed(),
            bias: vector(bias.map_or_else(zeros, |bias| host::floats(bias.val()))),
            activation: transform.activation(),
            norm_weight: vector(host::floats(transform.norm.gamma.val())),
            norm_bias: vector(beta.map_or_else(zeros, |beta| host::floats(beta.val()))),
            norm_epsilon: config.transform_epsilon,
        }
    });
    Ok(TokenClassifier {
        tags,
        weight: weight.transposed(),
        bias: vector(bias),
        hidden,
        dropout: config.dropout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tags: &[&str]) -> Result<ReadTags, String> {
        read_tags(&tags.iter().map(|tag| tag.to_string()).collect::<Vec<_>>())
    }

    fn expect(tags: &[&str], set: TagSet, labels: &[&str], numbers: &[usize]) {
        let found = read(tags).unwrap();
        assert_eq!((found.set, found.labels.names().len()), (set, labels.len()));
        assert_eq!(found.labels.names(), labels, "{tags:?}");
        assert_eq!(found.numbers, numbers, "{tags:?}");
    }

    #[test]
    fn tags_of_all_schemes_are_read() {
        let (bio, bioes) = (TagSet::Bio, TagSet::Bioes);
        expect(
            &["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
            bio,
            &["LOC", "PER"],
            &[0, 3, 4, 1, 2],
        );
        expect(&["I-PER", "O", "B-PER"], bio, &["PER"], &[2, 0, 1]);
        // IO, with and without marks; the type that a mark alone has.
        expect(&["I-PER", "O"], bio, &["PER"], &[2, 0]);
        expect(&["PER", "LOC", "O"], bio, &["LOC", "PER"], &[4, 2, 0]);
        expect(&["O", "B", "I"], bio, &["ENTITY"], &[0, 1, 2]);
        expect(&["O", "B_PER", "I_PER"], bio, &["PER"], &[0, 1, 2]);
        expect(
            &["O", "B-A", "I-A", "L-A", "U-A"],
            bioes,
            &["A"],
            &[0, 1, 2, 3, 4],
        );
        expect(
            &["S-A", "E-A", "M-A", "B-A", "O"],
            bioes,
            &["A"],
            &[4, 3, 2, 1, 0],
        );
        // Types with a hyphen, and names that only look like marks.
        expect(
            &["O", "B-A-B", "I-A-B", "PER"],
            bio,
            &["A-B", "PER"],
            &[0, 1, 2, 4],
        );
        expect(
            &["O", "E-mail", "U-turn"],
            bio,
            &["E-mail", "U-turn"],
            &[0, 2, 4],
        );
        // B of a type without I.
        expect(&["O", "B-A", "B-B"], bio, &["A", "B"], &[0, 1, 3]);
    }

    #[test]
    fn tags_without_a_meaning_are_refused() {
        for (tags, problem) in [
            (vec!["LABEL_0", "LABEL_1"], "no tag O"),
            (vec![], "no tag O"),
            (vec!["O"], "no tag but O"),
            (vec!["O", "PER", "I-PER"], "same meaning"),
            (vec!["O", "O", "I-PER"], "same meaning"),
            (vec!["O", "E-A", "L-A", "B-A"], "same meaning"),
            (vec!["O", ""], "label"),
        ] {
            let found = read(&tags).unwrap_err();
            assert!(found.contains(problem), "{tags:?}: {found}");
        }
    }
}
