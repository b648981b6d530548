//! The decoders of all heads, with any scores. The first character says which: networks with any word states, or the decoder of a
//! head with any candidates.

use std::sync::LazyLock;

use burn::tensor::{Tensor, TensorData};
use nerzoo::device;
use nerzoo::encoder::WordStates;
use nerzoo::heads::bopn::{self, Bopn, GridCell, Offset, OffsetScheme};
use nerzoo::heads::bundle::Bundle;
use nerzoo::heads::diffusion_ner::{DiffusionNer, SpanCandidate};
use nerzoo::heads::locate_label::{LocateLabel, Proposal};
use nerzoo::heads::overlaps::one_type_per_span;
use nerzoo::heads::seq_ner::{Combiner, SeqNer, TagSet, combine};
use nerzoo::heads::span_ner::{SpanNer, SpanScore};
use nerzoo::heads::{Detail, Head, Overlaps, settings};
use nerzoo::nn::crf::Crf;
use nerzoo::text::{Entity, Labels, Mention, Span};
use serde_json::{Map, Value, json};

use crate::input::Input;

/// Width of the word states.
const WIDTH: usize = 8;
/// Most words of a sentence.
const WORDS: usize = 6;

static LABELS: LazyLock<Labels> = LazyLock::new(|| Labels::new(["A", "B", "C"]));

/// Settings of all decoders; each head takes those that it has.
fn decoding(given: &mut Input<'_>, names: &[&str]) -> Map<String, Value> {
    let all = [
        (
            "overlaps",
            json!(given.one_of(&["auto", "flat", "nested", "any"])),
        ),
        ("one_type", json!(given.choose(2) == 1)),
        (
            "none_bias",
            json!(given.one_of(&[0.0, 1.0, -1.0, 100.0, -100.0])),
        ),
        ("threshold", json!(given.one_of(&[0.0, 0.5, 0.9]))),
        (
            "decode",
            json!(given.one_of(&["centre", "all", "votes", "rules"])),
        ),
        ("duplicates", json!(given.one_of(&["merge", "multiply"]))),
        ("crossing", json!(given.one_of(&["keep", "drop"]))),
        (
            "soft_nms",
            json!(given.one_of(&["paper", "released", "off"])),
        ),
        ("combiner", json!(given.one_of(&["lenient", "strict"]))),
    ];
    let wanted = all.into_iter().filter(|(name, _)| names.contains(name));
    wanted
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

/// A head of few and narrow layers.
fn head<H: Head>(sizes: Value) -> H {
    let Value::Object(sizes) = sizes else {
        unreachable!("the sizes are a table")
    };
    let config = settings::read(sizes).expect("settings of this head");
    H::init(&config, WIDTH, &LABELS, &device::cpu())
}

/// The settings of a head with others replaced.
fn changed<H: Head>(head: &H, others: Map<String, Value>) -> H::Config {
    let Ok(Value::Object(mut all)) = serde_json::to_value(head.config()) else {
        unreachable!("settings are a table")
    };
    all.extend(others);
    settings::read(all).unwrap_or_else(|problem| panic!("{problem}"))
}

fn bopn_sizes() -> Value {
    json!({"lstm_width": 8, "biaffine_width": 8, "distance_width": 4, "region_width": 4, "convolutions": 1})
}

fn diffusion_sizes() -> Value {
    json!({"spans": 5, "heads": 2, "feed_forward": 8, "steps": 2, "timesteps": 10})
}

const SPANS: &[&str] = &["overlaps", "none_bias"];
const GRID: &[&str] = &["overlaps", "none_bias", "one_type", "decode"];
const PROPOSALS: &[&str] = &[
    "overlaps",
    "one_type",
    "threshold",
    "duplicates",
    "crossing",
    "soft_nms",
];
const DENOISED: &[&str] = &["overlaps", "one_type", "threshold", "none_bias"];

/// A head with any word states, made once.
macro_rules! states_of {
    ($given:expr, $head:ty, $sizes:expr, $settings:expr) => {{
        static HEAD: LazyLock<$head> = LazyLock::new(|| head::<$head>($sizes));
        states(&*HEAD, $given, $settings);
    }};
}

pub fn decoders(data: &[u8]) {
    let mut given = Input::new(data);
    let given = &mut given;
    match given.choose(15) {
        0 => states_of!(given, SeqNer, json!({}), &["none_bias", "combiner"]),
        1 => states_of!(
            given,
            SeqNer,
            json!({"decoder": "crf", "tags": "bioes"}),
            &["none_bias", "combiner"]
        ),
        2 => states_of!(given, SpanNer, json!({"length_width": 4}), SPANS),
        3 => states_of!(given, Bopn, bopn_sizes(), GRID),
        4 => states_of!(given, LocateLabel, json!({}), PROPOSALS),
        5 => states_of!(given, LocateLabel, json!({"preset": "released"}), PROPOSALS),
        6 => states_of!(given, DiffusionNer, diffusion_sizes(), DENOISED),
        7 => {
            states_of!(given, Bundle<SeqNer, DiffusionNer>, json!({"span": diffusion_sizes()}), &[]);
        }
        8 => {
            states_of!(given, Bundle<SeqNer, Bopn>, json!({"span": bopn_sizes(), "output": "seq"}), &[]);
        }
        9 => spans(given),
        10 => grid(given),
        11 => proposals(given),
        12 => denoised(given),
        13 => tags(given),
        _ => overlaps(given),
    }
}

/// The mentions of two sentences with any states.
fn states<H: Head>(head: &H, given: &mut Input<'_>, names: &[&str]) {
    let config = changed(head, decoding(given, names));
    let lengths = [1 + given.choose(WORDS), 1 + given.choose(WORDS)];
    let words = lengths[0].max(lengths[1]);
    let device = device::cpu();
    let mut floats = |count: usize| -> Vec<f32> { (0..count).map(|_| given.float()).collect() };
    let prompts = head.prompt().map(|prompt| {
        let count = prompt.dims()[0];
        Tensor::from_data(
            TensorData::new(floats(2 * count * WIDTH), [2, count, WIDTH]),
            &device,
        )
    });
    let states = WordStates {
        words: Tensor::from_data(
            TensorData::new(floats(2 * words * WIDTH), [2, words, WIDTH]),
            &device,
        ),
        sentence: Tensor::from_data(TensorData::new(floats(2 * WIDTH), [2, WIDTH]), &device),
        prompts,
        lengths: lengths.to_vec(),
    };
    let candidates = head.candidates(&states);
    assert_eq!(candidates.len(), 2);
    for (candidates, length) in candidates.iter().zip(lengths) {
        check(&head.mentions(&config, candidates), length, true);
    }
    let diagnosis = head.diagnose(&candidates, Detail::Full);
    for (mentions, length) in diagnosis.mentions.iter().zip(lengths) {
        check(mentions, length, true);
    }
}

/// Fails unless the mentions are of a sentence of `length` words, in order; with `scored`, their scores are probabilities.
fn check(mentions: &[Mention], length: usize, scored: bool) {
    for mention in mentions {
        let Entity { span, label } = &mention.entity;
        assert!(
            span.start < span.end && span.end <= length,
            "{mention:?} of {length} words"
        );
        assert!(LABELS.index(label).is_some());
        assert!(
            !scored || (0.0..=1.0).contains(&mention.score),
            "{mention:?}"
        );
    }
    assert!(
        mentions.is_sorted_by_key(|mention| mention.entity.span),
        "{mentions:?}"
    );
}

/// A span of a sentence of `length` words.
fn span(given: &mut Input<'_>, length: usize) -> Span {
    let start = given.choose(length);
    Span::new(start, start + 1 + given.choose(length - start))
}

fn spans(given: &mut Input<'_>) {
    static HEAD: LazyLock<SpanNer> = LazyLock::new(|| head(json!({"length_width": 4})));
    let config = changed(&*HEAD, decoding(given, SPANS));
    let length = 1 + given.choose(30);
    let mut candidates = Vec::new();
    let mut is_proper = true;
    while !given.is_empty() && candidates.len() < 100 {
        let found = span(given, length);
        let (label, of_type, of_none) = (given.choose(3), given.float(), given.float());
        is_proper &= is_distribution(of_type, of_none);
        candidates.push(SpanScore::new(
            found.start,
            found.end,
            label,
            of_type,
            of_none,
        ));
    }
    check(&HEAD.mentions(&config, &candidates), length, is_proper);
}

/// True if these can be the probabilities of two classes.
fn is_distribution(one: f32, other: f32) -> bool {
    one >= 0.0 && other >= 0.0 && one + other <= 1.0
}

fn grid(given: &mut Input<'_>) {
    let mode = given.one_of(&[
        bopn::Mode::Both,
        bopn::Mode::Start,
        bopn::Mode::End,
        bopn::Mode::None,
    ]);
    let decoding = given.one_of(&[
        bopn::Decoding::Centre,
        bopn::Decoding::All,
        bopn::Decoding::Votes,
        bopn::Decoding::Rules,
    ]);
    let scheme = OffsetScheme::new(1 + given.choose(4), mode);
    let offsets = scheme.list();
    let length = 1 + given.choose(20);
    let mut cells = Vec::new();
    while !given.is_empty() && cells.len() < 200 {
        let found = span(given, length);
        let offset = given.one_of(&offsets);
        cells.push(GridCell {
            label: given.choose(3),
            span: [found.start as i32, found.end as i32 - 1],
            offset: if offset == Offset::Out {
                Offset::Centre
            } else {
                offset
            },
            probability: given.float(),
        });
    }
    for ((label, [start, end]), _) in bopn::mentions(&scheme, decoding, length, &cells) {
        assert!(label < 3 && 0 <= start && start <= end && (end as usize) < length);
    }
}

fn proposals(given: &mut Input<'_>) {
    static HEAD: LazyLock<LocateLabel> = LazyLock::new(|| head(json!({})));
    let config = changed(&*HEAD, decoding(given, PROPOSALS));
    let length = 1 + given.choose(30);
    let mut proposals = Vec::new();
    while !given.is_empty() && proposals.len() < 100 {
        proposals.push(Proposal {
            class: 1 + given.choose(3),
            span: span(given, length),
            score: f64::from(given.float()),
        });
    }
    check(&HEAD.mentions(&config, &proposals), length, false);
}

fn denoised(given: &mut Input<'_>) {
    static HEAD: LazyLock<DiffusionNer> = LazyLock::new(|| head(diffusion_sizes()));
    let config = changed(&*HEAD, decoding(given, DENOISED));
    let length = 1 + given.choose(30);
    let mut candidates = Vec::new();
    while !given.is_empty() && candidates.len() < 100 {
        let found = span(given, length);
        candidates.push(SpanCandidate {
            left: found.start,
            right: found.end - 1,
            class: 1 + given.choose(3),
            type_probability: given.float(),
            none_probability: given.float(),
            boundaries: given.float() + given.float(),
        });
    }
    check(&HEAD.mentions(&config, &candidates), length, false);
}

/// Viterbi and marginals of a CRF with any scores, and the entities of any tags.
fn tags(given: &mut Input<'_>) {
    static CRF: LazyLock<Crf> = LazyLock::new(|| Crf::new(7, &device::cpu()));
    let mut emissions = Vec::new();
    while !given.is_empty() && emissions.len() < 7 * 40 {
        emissions.push(given.float());
    }
    emissions.truncate(emissions.len() / 7 * 7);
    let scores = CRF.scores();
    let tags = scores.viterbi(&emissions);
    assert_eq!(tags.len(), emissions.len() / 7);
    assert!(tags.iter().all(|tag| *tag < 7));
    assert_eq!(scores.marginals(&emissions).len(), emissions.len());
    for set in [TagSet::Bio, TagSet::Bioes] {
        for combiner in [Combiner::Lenient, Combiner::Strict] {
            let mut end = 0;
            for (_, span) in combine(&tags, set, combiner) {
                assert!(end <= span.start && span.start < span.end && span.end <= tags.len());
                end = span.end;
            }
        }
    }
}

/// Which of many mentions may stand together.
fn overlaps(given: &mut Input<'_>) {
    let choice = given.one_of(&[
        Overlaps::Auto,
        Overlaps::Flat,
        Overlaps::Nested,
        Overlaps::Any,
    ]);
    let length = 1 + given.choose(30);
    let mut mentions = Vec::new();
    while !given.is_empty() && mentions.len() < 200 {
        let entity = Entity {
            span: span(given, length),
            label: given.one_of(&["A", "B", "C"]).into(),
        };
        let score = given.float();
        mentions.push(Mention { entity, score });
    }
    let count = mentions.len();
    let single = one_type_per_span(mentions.clone());
    check(&single, length, false);
    let kept = choice.keep_best(mentions);
    check(&kept, length, false);
    assert!(kept.len() <= count && (count == 0 || !kept.is_empty()));
    let crosses = |one: Span, other: Span| {
        one.overlaps(&other) && !one.contains(&other) && !other.contains(&one)
    };
    for (index, one) in kept.iter().enumerate() {
        for other in &kept[index + 1..] {
            let (one, other) = (one.entity.span, other.entity.span);
            match choice {
                Overlaps::Flat => assert!(!one.overlaps(&other)),
                Overlaps::Nested => assert!(!crosses(one, other)),
                _ => {}
            }
        }
    }
}
