//! Parity with the reference implementations: every fixture under `NERZOO_GOLDEN` (default ../shared/golden), sizes
//! read from the files. The largest difference allowed is 1e-4, relative.

mod common;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use common::{Fixture, agree};
use nerzoo::encoder::batch::PieceBatch;
use nerzoo::encoder::pieces::{Encoded, Pieces};
use nerzoo::encoder::transformer::TransformerConfig;
use nerzoo::encoder::{Encoder, EncoderConfig, Layers, Pooling, WordStates, load};
use nerzoo::heads::Head;
use nerzoo::heads::seq_ner::{self, Combiner, Config, Decoder, SeqNer, combine};
use nerzoo::nn::host::floats;
use nerzoo::text::{Entity, Labels, Sentence};

/// Families with fixtures and a test below; any other folder is named as not covered.
const COVERED: [&str; 3] = ["encoders", "bundling", "common"];

#[test]
fn no_family_is_overlooked() {
    let Some(golden) = common::golden("no_family_is_overlooked") else {
        return;
    };
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !COVERED.contains(&name.as_str()) {
            println!("SKIPPED fixtures of {name}: this head is not in the zoo yet");
        }
    }
}

fn encoder(transformer: TransformerConfig, layers: Layers, device: &Device) -> Encoder {
    EncoderConfig {
        transformer,
        pooling: Pooling::Max,
        layers,
        overlap: 0,
    }
    .init(device)
}

#[test]
fn pretrained_encoders() {
    let Some(golden) = common::golden("pretrained_encoders") else {
        return;
    };
    let Some(folders) = common::encoders("pretrained_encoders") else {
        return;
    };
    for path in common::fixtures(&golden, "encoders") {
        let fixture = Fixture::read(&path);
        let folder = folders.join(fixture.json["encoder"].as_str().unwrap());
        if !folder.is_dir() {
            println!("SKIPPED {}: no {}", fixture.name, folder.display());
            continue;
        }
        let pieces = Pieces::from_folder(&folder).unwrap();
        let config = load::config(&folder).unwrap();
        for (device_name, device) in common::devices() {
            for (layers, output) in [
                (Layers::Last, "last_hidden_state"),
                (Layers::MeanOfLastFour, "mean_last_four"),
            ] {
                let mut encoder = encoder(config.clone(), layers, &device);
                load::weights(&mut encoder.transformer, &folder).unwrap();
                for index in 0..fixture.json["sentences"].as_array().unwrap().len() {
                    let what = format!("{} {device_name} {index}.{output}", fixture.name);
                    check_encoder(&fixture, index, output, &pieces, &encoder, &device, &what);
                }
            }
        }
    }
}

fn check_encoder(
    fixture: &Fixture,
    index: usize,
    output: &str,
    pieces: &Pieces,
    encoder: &Encoder,
    device: &Device,
    what: &str,
) {
    let expected = &fixture.json["sentences"][index];
    let batch = batch(pieces, &[sentence(&expected["words"])], 512);
    let names: Vec<String> = batch
        .ids
        .iter()
        .map(|id| pieces.name(*id as u32).unwrap())
        .collect();
    let expected_names: Vec<&str> = strings(&expected["pieces"]);
    assert_eq!(names, expected_names, "{what}");
    let ids: Vec<i64> = batch.ids.iter().map(|id| *id as i64).collect();
    assert_eq!(
        ids,
        fixture.integers(&format!("{index}.input_ids")),
        "{what}"
    );
    let owners = fixture.integers(&format!("{index}.word_of_piece"));
    for (word, (first, count)) in batch.first_piece.iter().zip(&batch.piece_count).enumerate() {
        assert!(
            owners[*first..first + count]
                .iter()
                .all(|owner| *owner == word as i64),
            "{what}"
        );
    }
    let states = floats(encoder.piece_states(&batch, device));
    agree(what, &states, &fixture.floats(&format!("{index}.{output}")));
}

fn strings(list: &serde_json::Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}

fn sentence(words: &serde_json::Value) -> Sentence {
    Sentence::from_words(strings(words))
}

fn batch(pieces: &Pieces, sentences: &[Sentence], window: usize) -> PieceBatch {
    let encoded = pieces.encode(sentences);
    PieceBatch::new(
        &encoded.iter().collect::<Vec<&Encoded>>(),
        pieces,
        window,
        0,
    )
}

#[test]
fn seq_ner() {
    let Some(golden) = common::golden("seq_ner") else {
        return;
    };
    for path in common::fixtures(&golden, "bundling") {
        let fixture = Fixture::read(&path);
        for (device_name, device) in common::devices() {
            let tagger = Tagger::new(&fixture, &golden.join("common/encoder"), &device);
            tagger.check(&fixture, &format!("{} {device_name}", fixture.name));
        }
    }
}

/// The tagging half of a bundling fixture, with its weights.
struct Tagger {
    states: WordStates,
    softmax: SeqNer,
    crf: SeqNer,
    gold: seq_ner::Gold,
}

impl Tagger {
    fn new(fixture: &Fixture, encoder_folder: &std::path::Path, device: &Device) -> Self {
        let device = device.clone().autodiff();
        let pieces = Pieces::from_folder(encoder_folder).unwrap();
        let config = load::config(encoder_folder).unwrap();
        let mut encoder = encoder(config.clone(), Layers::Last, &device).valid();
        load::weights_from_bytes(&mut encoder.transformer, fixture.under("w.bert.")).unwrap();
        // The fixture numbers its types as listed; ours are sorted, so they are renamed to sort that way.
        let count = fixture.json["types"].as_array().unwrap().len();
        let labels = Labels::new((0..count).map(|index| format!("{index:03}")));
        let sentences = sentences(&fixture.json["sentences"]);
        let batch = batch(&pieces, &sentences, config.positions);
        let ids: Vec<i64> = batch.ids.iter().map(|id| *id as i64).collect();
        assert_eq!(ids, fixture.integers("in.ids"), "pieces");
        let states = encoder.forward(&batch, &device.clone().inner());
        let states = WordStates {
            words: Tensor::from_inner(states.words),
            sentence: Tensor::from_inner(states.sentence),
            lengths: states.lengths,
        };
        let head = |decoder| {
            let config = Config {
                decoder,
                dropout: 0.0,
                ..Config::default()
            };
            let mut head = SeqNer::init(&config, encoder_width(fixture), &labels, &device);
            let weight = fixture.tensor::<2>("w.seq_ffn.weight", &device).transpose();
            head.emission.weight = Param::from_tensor(weight);
            head.emission.bias = Some(Param::from_tensor(
                fixture.tensor("w.seq_ffn.bias", &device),
            ));
            if let Some(crf) = &mut head.crf {
                crf.start = Param::from_tensor(fixture.tensor("w.crf.start_transitions", &device));
                crf.end = Param::from_tensor(fixture.tensor("w.crf.end_transitions", &device));
                crf.transitions = Param::from_tensor(fixture.tensor("w.crf.transitions", &device));
            }
            head
        };
        let references: Vec<&Sentence> = sentences.iter().collect();
        Self {
            softmax: head(Decoder::Softmax),
            crf: head(Decoder::Crf),
            gold: seq_ner::Gold::new(&labels, &references),
            states,
        }
    }

    fn check(&self, fixture: &Fixture, what: &str) {
        let words = fixture.shape("out.words")[1];
        let bio = fixture.integers("in.bio");
        let mask = fixture.integers("in.word_mask");
        for (index, tags) in self.gold.tags.iter().enumerate() {
            let own: Vec<i64> = tags.iter().map(|tag| *tag as i64).collect();
            assert_eq!(
                own,
                bio[index * words..index * words + own.len()],
                "{what} gold tags"
            );
        }
        let width = encoder_width(fixture);
        agree(
            &format!("{what} words"),
            &real(&floats(self.states.words.clone()), &mask, width),
            &real(&fixture.floats("out.words"), &mask, width),
        );
        agree(
            &format!("{what} e0"),
            &floats(self.states.sentence.clone()),
            &fixture.floats("out.e0"),
        );
        let kinds = fixture.shape("out.emissions")[2];
        agree(
            &format!("{what} emissions"),
            &real(&floats(self.crf.emissions(&self.states)), &mask, kinds),
            &real(&fixture.floats("out.emissions"), &mask, kinds),
        );
        self.check_losses(fixture, what);
        self.check_tags(fixture, what);
    }

    fn check_losses(&self, fixture: &Fixture, what: &str) {
        let crf = self.crf.crf.as_ref().unwrap();
        let emissions = self.crf.emissions(&self.states);
        let likelihood = crf.log_likelihood(emissions, &self.states.lengths, &self.gold.tags);
        agree(
            &format!("{what} log-likelihoods"),
            &floats(likelihood),
            &fixture.floats("out.crf_llh_per_sentence"),
        );
        let is_crf = fixture.json["tagger"] == "crf";
        let head = if is_crf { &self.crf } else { &self.softmax };
        let loss = head.loss(&self.states, &self.gold).total;
        agree(
            &format!("{what} loss"),
            &floats(loss.clone()),
            &fixture.floats("loss.seq"),
        );
        // The fixture's gradients are those of alpha · seq + (1 - alpha) · span.
        let alpha = fixture.json["alpha"].as_f64().unwrap() as f32;
        let gradients = (loss * alpha).backward();
        let weight = head.emission.weight.grad(&gradients).unwrap().transpose();
        agree(
            &format!("{what} gradient of the tagger"),
            &floats(weight),
            &fixture.floats("grad.seq_ffn.weight"),
        );
        if is_crf {
            for (name, parameter) in [("start", &crf.start), ("end", &crf.end)] {
                let gradient = floats(parameter.grad(&gradients).unwrap());
                let expected = fixture.floats(&format!("grad.crf.{name}_transitions"));
                agree(&format!("{what} gradient of {name}"), &gradient, &expected);
            }
            let gradient = floats(crf.transitions.grad(&gradients).unwrap());
            agree(
                &format!("{what} gradient of transitions"),
                &gradient,
                &fixture.floats("grad.crf.transitions"),
            );
        }
    }

    fn check_tags(&self, fixture: &Fixture, what: &str) {
        let emissions = self.crf.emissions(&self.states).inner();
        let best = self
            .crf
            .valid()
            .crf
            .unwrap()
            .viterbi(emissions.clone(), &self.states.lengths);
        assert_eq!(best, tags(&fixture.json["viterbi_tags"]), "{what} Viterbi");
        let [_, words, kinds] = emissions.dims();
        let argmax = nerzoo::nn::host::best(&floats(emissions), words, kinds, &self.states.lengths);
        let chosen = if fixture.json["tagger"] == "crf" {
            best
        } else {
            argmax
        };
        assert_eq!(
            chosen,
            tags(&fixture.json["argmax_or_viterbi_tags"]),
            "{what} tags"
        );
        for (combiner, key) in [
            (Combiner::Lenient, "seq_entities_lenient"),
            (Combiner::Strict, "seq_entities_strict"),
        ] {
            let found: Vec<Vec<[i64; 3]>> = chosen
                .iter()
                .map(|tags| {
                    combine(tags, combiner)
                        .into_iter()
                        .map(|(label, span)| [label as i64, span.start as i64, span.end as i64 - 1])
                        .collect()
                })
                .collect();
            let expected: Vec<Vec<[i64; 3]>> =
                serde_json::from_value(fixture.json[key].clone()).unwrap();
            assert_eq!(found, expected, "{what} {key}");
        }
    }
}

fn tags(value: &serde_json::Value) -> Vec<Vec<i32>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn encoder_width(fixture: &Fixture) -> usize {
    fixture.shape("w.seq_ffn.weight")[1]
}

fn sentences(list: &serde_json::Value) -> Vec<Sentence> {
    let list = list.as_array().unwrap();
    list.iter()
        .map(|item| {
            let mut sentence = sentence(&item["tokens"]);
            let entities: Vec<[usize; 3]> =
                serde_json::from_value(item["entities_type_start_endexcl"].clone()).unwrap();
            sentence.entities = entities
                .into_iter()
                .map(|[kind, start, end]| Entity::new(start, end, format!("{kind:03}")))
                .collect();
            sentence
        })
        .collect()
}

/// The rows of real words.
fn real(values: &[f32], mask: &[i64], width: usize) -> Vec<f32> {
    values
        .chunks(width)
        .zip(mask)
        .filter(|(_, real)| **real == 1)
        .flat_map(|(row, _)| row.to_vec())
        .collect()
}
