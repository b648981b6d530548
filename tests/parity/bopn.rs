//! BOPN against the authors' code, from their parameter names on.

use std::path::Path;

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use libtest_mimic::Trial;
use nerzoo::encoder::batching::PieceBatch;
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::{EncoderConfig, LayerPooling, Pooling, RowLayout, WordStates, load};
use nerzoo::heads::bopn::import::PARAMETERS;
use nerzoo::heads::bopn::{
    Bopn, Config, Decoding, Gold, GridCell, Mode, Offset, OffsetScheme, mentions,
};
use nerzoo::heads::import::Layout;
use nerzoo::heads::{Head, Preset, Settings};
use nerzoo::model::folder;
use nerzoo::model::recognizer::Recognizer;
use nerzoo::nn::host::floats;
use nerzoo::text::{Entity, Labels, Mention, Sentence};
use serde_json::Value;

use super::common::{Fixture, assert_close};
use super::import::tagged;
use super::{
    Names, batch, common_encoder, device_cases, no_dropout, padded_ids, renamed, sentence,
    transposed,
};

pub fn cases(path: &Path) -> Vec<Trial> {
    let mut cases = super::cases(
        path,
        &[
            ("label_cases", check_label_cases),
            ("decode_cases", check_decode_cases),
            ("import", check_import),
        ],
    );
    cases.extend(device_cases(
        path,
        &[
            ("states", |f, d, what| Model::new(f, d).check_states(what)),
            ("scores", |f, d, what| Model::new(f, d).check_scores(what)),
            ("loss", |f, d, what| Model::new(f, d).check_loss(what)),
            ("mentions", |f, d, what| {
                Model::new(f, d).check_mentions(what)
            }),
            ("padding", |f, d, what| Model::new(f, d).check_padding(what)),
        ],
    ));
    cases
}

struct Model<'a> {
    fixture: &'a Fixture,
    device: Device,
    config: Config,
    labels: Labels,
    sentences: Vec<Sentence>,
    batch: PieceBatch,
    model: Recognizer<Bopn>,
}

impl<'a> Model<'a> {
    fn new(fixture: &'a Fixture, device: &Device) -> Self {
        let folder = &common_encoder();
        let device = device.clone().autodiff();
        let pieces = WordTokenizer::from_folder(folder).unwrap();
        let transformer = no_dropout(load::config(folder).unwrap());
        let window = transformer.window();
        let width = transformer.width;
        let labels = labels(fixture.shape("w.bert_encoder.prompt")[0]);
        let config = config(fixture);
        let imported = Bopn::import(&fixture.under("w.")).unwrap();
        let mut encoder = EncoderConfig {
            transformer,
            pooling: Pooling::Mean,
            layers: LayerPooling::Last,
            overlap: 0,
            context: 0,
            rows: RowLayout::Standard,
            features: None,
        }
        .init(&device);
        load::weights_from_bytes(&mut encoder.transformer, imported.encoder).unwrap();
        let mut head = Bopn::init(&config, width, &labels, &device);
        folder::load_weights_from_bytes(&mut head, imported.head).unwrap();
        let sentences = sentences(fixture);
        let batch = batch(&pieces, &sentences, window - labels.len());
        assert_eq!(
            padded_ids(&batch),
            fixture.integers("in.bert_inputs"),
            "pieces"
        );
        Self {
            fixture,
            device,
            config,
            labels,
            sentences,
            batch,
            model: Recognizer { encoder, head },
        }
    }

    fn states(&self) -> WordStates {
        self.model.states(&self.batch, false)
    }

    fn expect<const D: usize>(&self, what: &str, found: Tensor<D>, name: &str) {
        let expected = self.fixture.floats(name);
        assert_close(&format!("{what} {name}"), &floats(found.inner()), &expected);
    }

    fn check_states(&self, what: &str) {
        let states = self.states();
        let hidden = self
            .fixture
            .tensor::<3>("out.bert_last_hidden", &self.device);
        let prompts = hidden.narrow(1, 0, self.labels.len());
        assert_close(
            &format!("{what} states of the types"),
            &floats(states.prompts.clone().unwrap().inner()),
            &floats(prompts.inner()),
        );
        let [_, words, width] = states.words.dims();
        let real = |values: Vec<f32>| -> Vec<f32> {
            let rows = values.chunks(width).enumerate();
            rows.filter(|(row, _)| row % words < states.lengths[row / words])
                .flat_map(|(_, row)| row.to_vec())
                .collect()
        };
        assert_close(
            &format!("{what} words"),
            &real(floats(states.words.clone().inner())),
            &real(self.fixture.floats("out.word_pooled")),
        );
    }

    fn check_scores(&self, what: &str) {
        let head = &self.model.head;
        let encoded = head.encode(&self.states());
        self.expect(what, encoded.types.clone(), "out.prompt_repr");
        self.expect(what, encoded.words.clone(), "out.token_repr");
        self.expect(what, head.spans(&encoded), "out.cln_span");
        let features = head.span_features(&encoded);
        self.expect(what, features.clone(), "out.span_with_dist_region");
        let [batch, words, _, width] = features.dims();
        let features = features.reshape([batch, words * words, width]);
        let biaffine = head.biaffine.forward(encoded.types.clone(), features);
        let shape = head.scores(&encoded).dims();
        let biaffine = biaffine.reshape(shape);
        self.expect(what, last(biaffine.clone()), "out.biaffine_flat");
        let scores = head.scores(&encoded);
        self.expect(
            what,
            last(scores.clone() - biaffine),
            "out.cln_prompt_linear",
        );
        self.expect(what, last(scores.clone()), "out.scores_before_conv");
        let logits = head.logits(&encoded);
        self.expect(what, last(logits.clone() - scores), "out.conv_out");
        self.expect(what, last(logits), "out.logits");
    }

    fn gold(&self) -> Gold {
        let sentences: Vec<&Sentence> = self.sentences.iter().collect();
        Bopn::gold(&self.config, &self.labels, &sentences, 0)
    }

    /// Labels, both losses, and gradients down into the encoder.
    fn check_loss(&self, what: &str) {
        let gold = self.gold();
        let labels: Vec<i64> = gold.labels.iter().map(|label| *label as i64).collect();
        assert_eq!(labels, self.fixture.integers("in.grid_labels"), "{what}");
        let plain = Config {
            smoothing: 0.0,
            ..self.config.clone()
        };
        for (config, name) in [
            (&plain, "loss.total_ls0"),
            (&self.config, "loss.total_ls001"),
        ] {
            let head = self.with(config);
            let loss = head.loss(&self.states(), &gold).total;
            self.expect(what, loss.clone(), name);
            // A graph without a backward pass slows down all later ones.
            let gradients = loss.backward();
            if name == "loss.total_ls001" {
                let model = Recognizer {
                    encoder: self.model.encoder.clone(),
                    head,
                };
                let gradients = GradientsParams::from_grads(gradients, &model);
                self.check_gradients(&model, &gradients, what);
            }
        }
    }

    /// A head with the same weights and other settings.
    fn with(&self, config: &Config) -> Bopn {
        let width = self.model.head.types.dims()[1];
        let mut head = Bopn::init(config, width, &self.labels, &self.device);
        let imported = Bopn::import(&self.fixture.under("w.")).unwrap();
        folder::load_weights_from_bytes(&mut head, imported.head).unwrap();
        // The states come from this model's prompt: the gradient has to find it.
        head.types = self.model.head.types.clone();
        head
    }

    fn check_gradients(&self, model: &Recognizer<Bopn>, gradients: &GradientsParams, what: &str) {
        let mut names = Names::default();
        names.of(model, gradients);
        let all = self.fixture.tensors();
        let listed = all.names().into_iter();
        let listed: Vec<&str> = listed
            .filter_map(|name| name.strip_prefix("grad."))
            .collect();
        assert!(listed.len() > 10, "{what}");
        for theirs in listed {
            let expected = self.fixture.floats(&format!("grad.{theirs}"));
            let shape = self.fixture.shape(&format!("grad.{theirs}"));
            let known = PARAMETERS.iter().find(|(name, _, _)| *name == theirs);
            let (ours, layout) = match (known, theirs.strip_prefix("bert_encoder.bert.")) {
                (Some((_, ours, layout)), _) => (format!("head.{ours}"), *layout),
                (None, Some(inside)) => {
                    let name = renamed(inside).replace("attention.self.", "");
                    (format!("encoder.transformer.{name}"), Layout::Transposed)
                }
                (None, None) => {
                    assert_eq!(theirs, "bert_encoder.lstm.weight_ih_l0", "{what}");
                    self.check_gates(&names, &expected, &shape, what);
                    continue;
                }
            };
            let (own_shape, gradient) = &names.found[&ours];
            let expected = match layout {
                Layout::Same => expected,
                Layout::Transposed => transposed(&expected, own_shape),
            };
            assert_close(&format!("{what} gradient of {theirs}"), gradient, &expected);
        }
    }

    /// The forward half of our gates.
    fn check_gates(&self, names: &Names<'_>, expected: &[f32], shape: &[usize], what: &str) {
        let (own_shape, gradient) = &names.found["head.lstm.input.weight"];
        let gates = shape[0];
        assert_eq!(own_shape[1], 2 * gates);
        let forward: Vec<f32> = gradient
            .chunks(2 * gates)
            .flat_map(|row| row[..gates].to_vec())
            .collect();
        let expected = transposed(expected, &[own_shape[0], gates]);
        assert_close(&format!("{what} gradient of the LSTM"), &forward, &expected);
    }

    fn check_mentions(&self, what: &str) {
        for (decode, name) in [
            (Decoding::Centre, "pred_center"),
            (Decoding::Votes, "pred_offset"),
        ] {
            let config = Config {
                decode,
                ..self.config.clone()
            };
            let head = burn::module::Module::valid(&self.with(&config));
            let encoder = burn::module::Module::valid(&self.model.encoder);
            let found = Recognizer { encoder, head }.decode(&self.batch);
            let found: Vec<Vec<[i64; 3]>> = found.iter().map(|list| numbers(list)).collect();
            assert_eq!(found, lists(&self.fixture.json[name]), "{what} {name}");
        }
    }

    /// With padding masked, the logits of a sentence are the same in a batch and alone, and equal those of the authors' code.
    fn check_padding(&self, what: &str) {
        let masked = Config {
            mask_convolution: true,
            ..self.config.clone()
        };
        let head = burn::module::Module::valid(&self.with(&masked));
        let encoder = burn::module::Module::valid(&self.model.encoder);
        let model = Recognizer { encoder, head };
        let encoded = model.head.encode(&model.states(&self.batch, false));
        let together = model.head.logits(&encoded);
        for (index, length) in encoded.lengths.iter().copied().enumerate() {
            let mut alone = encoded.clone();
            alone.types = alone.types.narrow(0, index, 1);
            alone.words = alone.words.narrow(0, index, 1).narrow(1, 0, length);
            alone.lengths = vec![length];
            let own = together.clone().narrow(0, index, 1);
            let own = own.narrow(3, 0, length).narrow(4, 0, length);
            assert_close(
                &format!("{what} sentence {index} in a batch and alone"),
                &floats(own.clone()),
                &floats(model.head.logits(&alone)),
            );
            if length == self.batch.words {
                let theirs = self.fixture.tensor::<5>("out.logits", &model.device());
                assert_close(
                    &format!("{what} logits of the longest sentence, masked"),
                    &floats(last(own)),
                    &floats(theirs.narrow(0, index, 1)),
                );
            }
        }
    }
}

/// [batch, labels, types, words, words] with the labels last.
fn last(scores: Tensor<5>) -> Tensor<5> {
    scores.permute([0, 2, 3, 4, 1])
}

/// Type names that sort in the order in which the fixture numbers the types.
fn labels(count: usize) -> Labels {
    Labels::new((0..count).map(|index| format!("{index:03}")))
}

fn config(fixture: &Fixture) -> Config {
    let windows = fixture.json["id2window"].as_object().unwrap().len();
    let width = |name: &str| fixture.shape(name)[1];
    Config {
        offsets: (windows - 2) / 4,
        lstm_width: fixture.shape("w.w2w.gamma")[0],
        lstm_dropout: 0.0,
        region_width: width("w.grid_encoder.region_embeddings.weight"),
        distance_width: width("w.grid_encoder.distance_embeddings.weight"),
        biaffine_width: fixture.shape("w.biaffine.left.linear.bias")[0],
        biaffine_dropout: 0.0,
        convolution_dropout: 0.0,
        mask_convolution: false,
        ..Config::of(Preset::Released)
    }
}

fn sentences(fixture: &Fixture) -> Vec<Sentence> {
    let gold = lists(&fixture.json["gold"]);
    let tokens = fixture.json["tokens"].as_array().unwrap();
    tokens
        .iter()
        .zip(gold)
        .map(|(words, gold)| {
            let mut sentence = sentence(words);
            sentence.entities = gold
                .into_iter()
                .map(|[start, end, kind]| {
                    Entity::new(start as usize, end as usize + 1, format!("{kind:03}"))
                })
                .collect();
            sentence
        })
        .collect()
}

fn lists(value: &Value) -> Vec<Vec<[i64; 3]>> {
    serde_json::from_value(value.clone()).unwrap()
}

/// [first word, last word, type] of each mention.
fn numbers(mentions: &[Mention]) -> Vec<[i64; 3]> {
    mentions
        .iter()
        .map(|mention| {
            let span = mention.entity.span;
            let label = mention.entity.label.parse().unwrap();
            [span.start as i64, span.end as i64 - 1, label]
        })
        .collect()
}

fn check_label_cases(fixture: &Fixture) {
    let cases = fixture.json["label_cases"].as_array().unwrap();
    for (index, case) in cases.iter().enumerate() {
        let grid: Vec<Vec<Vec<i32>>> = serde_json::from_value(case["labels"].clone()).unwrap();
        let config = Config {
            offsets: case["S"].as_u64().unwrap() as usize,
            mode: serde_json::from_value(case["mode"].clone()).unwrap(),
            ..Config::of(Preset::Released)
        };
        let names = case["id2window"].as_object().unwrap();
        let list = OffsetScheme::of(&config).list();
        assert_eq!(list.len(), names.len(), "label case {index}");
        for (id, offset) in list.into_iter().enumerate() {
            let name = match offset {
                Offset::Out => "pad".to_string(),
                Offset::Start(offset) => format!("s:{offset}"),
                Offset::End(offset) => format!("e:{offset}"),
                Offset::Centre => "c:0".to_string(),
            };
            assert_eq!(names[&id.to_string()], name.as_str(), "label case {index}");
        }
        let words = case["n"].as_u64().unwrap() as usize;
        let mut sentence = Sentence::from_words((0..words).map(|word| word.to_string()));
        let entities: Vec<[usize; 3]> =
            serde_json::from_value(case["entities_inclusive_type_start_end"].clone()).unwrap();
        sentence.entities = entities
            .into_iter()
            .map(|[kind, start, end]| Entity::new(start, end + 1, format!("{kind:03}")))
            .collect();
        let gold = Bopn::gold(&config, &labels(grid.len()), &[&sentence], 0);
        assert_eq!(gold.labels, grid.concat().concat(), "label case {index}");
    }
    assert!(!cases.is_empty(), "{}", fixture.name);
}

fn check_decode_cases(fixture: &Fixture) {
    let cases = fixture.json["decode_cases"].as_array().unwrap();
    for (index, case) in cases.iter().enumerate() {
        let grid: Vec<Vec<Vec<usize>>> = serde_json::from_value(case["labels"].clone()).unwrap();
        let length = case["n"].as_u64().unwrap() as usize;
        let scheme = OffsetScheme::new(case["S"].as_u64().unwrap() as usize, Mode::Both);
        let list = scheme.list();
        let mut cells = Vec::new();
        for (label, plane) in grid.iter().enumerate() {
            for start in 0..length {
                for end in start..length {
                    let offset = list[plane[start][end]];
                    if offset != Offset::Out {
                        cells.push(GridCell {
                            label,
                            span: [start as i32, end as i32],
                            offset,
                            probability: 1.0,
                        });
                    }
                }
            }
        }
        for (decoding, name) in [(Decoding::Centre, "center"), (Decoding::Votes, "offset")] {
            let mut found: Vec<[i64; 3]> = mentions(&scheme, decoding, length, &cells)
                .into_iter()
                .map(|((label, [start, end]), _)| [start as i64, end as i64, label as i64])
                .collect();
            let mut expected: Vec<[i64; 3]> = serde_json::from_value(case[name].clone()).unwrap();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "decode case {index}, {name}");
        }
    }
    assert!(!cases.is_empty(), "{}", fixture.name);
}

/// The entities of the authors' program from a model folder that was imported from their weights.
fn check_import(fixture: &Fixture) {
    let types: Vec<String> = serde_json::from_value(fixture.json["types"].clone()).unwrap();
    for (parse_offset, name) in [(true, "pred_offset"), (false, "pred_center")] {
        let mut settings = fixture.json["config"].clone();
        settings["types"] = types.clone().into();
        settings["parse_offset"] = parse_offset.into();
        let found = tagged(fixture, "bopn", &settings, &sentences(fixture));
        let found: Vec<Vec<[i64; 3]>> = (found.iter())
            .map(|mentions| {
                let number = |mention: &Mention| {
                    let (span, label) = (mention.entity.span, &mention.entity.label);
                    let kind = types.iter().position(|name| name == label).unwrap();
                    [span.start as i64, span.end as i64 - 1, kind as i64]
                };
                let mut numbers: Vec<[i64; 3]> = mentions.iter().map(number).collect();
                numbers.sort();
                numbers
            })
            .collect();
        let mut expected = lists(&fixture.json[name]);
        expected.iter_mut().for_each(|list| list.sort());
        assert_eq!(found, expected, "{} {name}", fixture.name);
    }
}
