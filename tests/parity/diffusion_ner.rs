//! DiffusionNER against the authors' code, from their parameter names on.

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor};
use libtest_mimic::{Failed, Trial};
use nerzoo::encoder::batching::{PackedRows, PieceBatch};
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::{EncoderConfig, LayerPooling, Pooling, RowLayout, WordStates, load};
use nerzoo::heads::diffusion_ner::import::layer_name;
use nerzoo::heads::diffusion_ner::{
    Config, Denoised, DiffusionNer, EncodedWords, Expansion, Gold, GoldEntity, NoiseSchedule,
    NoiseSource, Pair, SentenceTarget, SpanCandidate, SpanFeatures, Trajectory, Variance,
    candidates, choose, entities, loss_of_matches, matching, noisy, sample, signals,
};
use nerzoo::heads::{Head, Overlaps, Preset, Settings};
use nerzoo::model::folder::{self, ModelConfig};
use nerzoo::model::recognizer::Recognizer;
use nerzoo::nn::host::floats;
use nerzoo::text::{Entity, Labels, Sentence};
use serde_json::Value;

use super::common::{Fixture, assert_close};
use super::import::imported;
use super::{Names, common_encoder, device_cases, no_dropout, renamed, sentence, transposed};

pub fn cases(path: &Path) -> Vec<Trial> {
    let mut cases = super::cases(
        path,
        &[
            ("schedule", check_schedule),
            ("noising", |fixture| {
                check_noising(fixture);
            }),
            ("decode_cases", check_decode_cases),
            ("import", check_import),
        ],
    );
    cases.extend(device_cases(
        path,
        &[
            ("outputs", |f, d, what| {
                Model::new(f, d).check_outputs(&check_noising(f), what);
            }),
            ("loss", |f, d, what| {
                Model::new(f, d).check_loss(&check_noising(f), what);
            }),
            ("sampling", |f, d, what| {
                Model::new(f, d).check_sampling(what)
            }),
        ],
    ));
    cases
}

fn number(fixture: &Fixture, key: &str) -> usize {
    fixture.json[key].as_u64().unwrap() as usize
}

fn config(fixture: &Fixture) -> Config {
    let name = |key: &str| fixture.json[key].as_str().unwrap();
    Config {
        spans: number(fixture, "K"),
        steps: number(fixture, "sampling_timesteps"),
        timesteps: number(fixture, "T"),
        scale: fixture.json["scale"].as_f64().unwrap(),
        variance: serde_json::from_value(fixture.json["beta_schedule"].clone()).unwrap(),
        expansion: match name("extand_noise_spans") {
            "concat" => Expansion::Random,
            _ => Expansion::Repeat,
        },
        features: match name("soi_pooling") {
            "lrconcat" => SpanFeatures::Ends,
            _ => SpanFeatures::Mean,
        },
        feed_forward: fixture.shape("w.spanattention.layers.0.linear1.bias")[0],
        dropout: 0.0,
        ..Config::of(Preset::Released)
    }
}

/// Names of the types, without "none", that sort in the order in which the fixture numbers them.
fn labels(fixture: &Fixture) -> Labels {
    let count = fixture.json["types"].as_array().unwrap().len() - 1;
    Labels::new((0..count).map(|index| format!("{index:03}")))
}

fn sentences(fixture: &Fixture) -> Vec<Sentence> {
    let types = fixture.json["types"].as_array().unwrap();
    let list = fixture.json["sentences"].as_array().unwrap();
    list.iter()
        .map(|item| {
            let mut sentence = sentence(&item["tokens"]);
            let index = |entity: &Value, key: &str| entity[key].as_u64().unwrap() as usize;
            sentence.entities = item["entities"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entity| {
                    let kind = types.iter().position(|kind| *kind == entity["type"]);
                    let label = format!("{:03}", kind.unwrap() - 1);
                    Entity::new(index(entity, "start"), index(entity, "end"), label)
                })
                .collect();
            sentence
        })
        .collect()
}

fn pairs(values: &[f32]) -> Vec<Pair> {
    let (pairs, _) = values.as_chunks::<2>();
    pairs.iter().map(|pair| pair.map(f64::from)).collect()
}

fn flat(pairs: &[Pair]) -> Vec<f32> {
    pairs
        .concat()
        .into_iter()
        .map(|value| value as f32)
        .collect()
}

fn check_schedule(fixture: &Fixture) {
    let config = config(fixture);
    let schedule = NoiseSchedule::new(config.variance, config.timesteps);
    let kept: Vec<f32> = schedule.alpha_bar.iter().map(|kept| *kept as f32).collect();
    let what = format!("{} schedule", fixture.name);
    assert_close(&what, &kept, &fixture.floats("schedule.alphas_cumprod"));
    let times: Vec<[i64; 2]> = serde_json::from_value(fixture.json["ddim_times"].clone()).unwrap();
    let own: Vec<[i64; 2]> = schedule
        .timesteps(config.steps)
        .into_iter()
        .map(|(time, next)| [time as i64, next.map_or(-1, |next| next as i64)])
        .collect();
    assert_eq!(own, times, "{what}");
}

/// Gold and noisy spans from the recorded timesteps and noise.
fn check_noising(fixture: &Fixture) -> Gold {
    let config = config(fixture);
    let schedule = NoiseSchedule::new(config.variance, config.timesteps);
    let sentences = sentences(fixture);
    let spans = fixture.integers("in.gt_spans");
    let types = fixture.integers("in.gt_types");
    let mask = fixture.integers("in.entity_masks");
    let mut random = pairs(&fixture.floats("in.placeholder_randn")).into_iter();
    let noise = pairs(&fixture.floats("in.noise"));
    let mut targets = Vec::new();
    for (index, sentence) in sentences.iter().enumerate() {
        let rows = index * config.spans..(index + 1) * config.spans;
        let entities = entities(&config, &labels(fixture), sentence);
        let expected: Vec<GoldEntity> = rows
            .clone()
            .filter(|row| mask[*row] == 1)
            .map(|row| GoldEntity {
                left: spans[2 * row] as usize,
                right: spans[2 * row + 1] as usize,
                class: types[row] as usize,
            })
            .collect();
        assert_eq!(entities, expected, "{} gold {index}", fixture.name);
        let signals = signals(&config, sentence.len(), &entities, || {
            random.next().expect("recorded")
        });
        let timestep = fixture.integers("in.timestep")[index] as usize;
        targets.push(SentenceTarget {
            timestep,
            spans: noisy(&config, &schedule, &signals, timestep, &noise[rows]),
            entities,
        });
    }
    assert!(random.next().is_none(), "every random span was used");
    let own: Vec<Pair> = targets.iter().flat_map(|t| t.spans.clone()).collect();
    let what = format!("{} noisy spans", fixture.name);
    assert_close(&what, &flat(&own), &fixture.floats("out.noisy_spans_lr01"));
    Gold(targets)
}

struct Model<'a> {
    fixture: &'a Fixture,
    config: Config,
    batch: PieceBatch,
    model: Recognizer<DiffusionNer>,
}

impl<'a> Model<'a> {
    fn new(fixture: &'a Fixture, device: &Device) -> Self {
        let folder = &common_encoder();
        let device = device.clone().autodiff();
        let transformer = no_dropout(load::config(folder).unwrap());
        let width = transformer.width;
        let config = config(fixture);
        let imported = DiffusionNer::import(&fixture.under("w.")).unwrap();
        let pooling = serde_json::from_value(fixture.json["pool_type"].clone());
        let pooling: Pooling = pooling.unwrap();
        let mut encoder = EncoderConfig {
            transformer,
            pooling,
            layers: LayerPooling::Last,
            overlap: 0,
            context: 0,
            rows: RowLayout::Standard,
            features: None,
        }
        .init(&device);
        load::weights_from_bytes(&mut encoder.transformer, imported.encoder).unwrap();
        let mut head = DiffusionNer::init(&config, width, &labels(fixture), &device);
        folder::load_weights_from_bytes(&mut head, imported.head).unwrap();
        Self {
            fixture,
            config,
            batch: pieces(fixture),
            model: Recognizer { encoder, head },
        }
    }

    fn expect<const D: usize>(&self, what: &str, found: Tensor<D>, name: &str) {
        let expected = self.fixture.floats(name);
        assert_close(&format!("{what} {name}"), &floats(found), &expected);
    }

    /// Compares the rows of real words, not those of padding.
    fn expect_words(&self, what: &str, found: Tensor<3>, name: &str) {
        let width = found.dims()[2];
        let mask = self.fixture.integers("in.token_masks");
        let own = super::real(&floats(found), &mask, width);
        let expected = super::real(&self.fixture.floats(name), &mask, width);
        assert_close(&format!("{what} {name}"), &own, &expected);
    }

    fn plain(&self) -> (DiffusionNer, WordStates, EncodedWords) {
        let model = self.model.valid();
        let states = model.states(&self.batch, false);
        let encoded = model.head.encode(&states);
        (model.head, states, encoded)
    }

    /// Every intermediate result in order, so that the first difference is reported.
    fn check_outputs(&self, gold: &Gold, what: &str) {
        let (head, states, encoded) = self.plain();
        self.expect_words(what, states.words, "out.h_word_pooled");
        self.expect_words(what, encoded.words.clone(), "out.h_lstm");
        let spans: Vec<&[Pair]> = gold.0.iter().map(|target| &target.spans[..]).collect();
        let times: Vec<usize> = gold.0.iter().map(|target| target.timestep).collect();
        let features = head.span_features(&encoded, &spans);
        self.expect(what, features.clone(), "out.span_in");
        let slots = head.slot_vectors(self.config.spans).unwrap();
        let slots = slots.repeat_dim(0, gold.0.len());
        self.expect(what, slots, "out.slot_pos");
        let attended = head.attend(&encoded, features, None);
        self.expect(what, attended.clone(), "out.span_attn_out");
        let time = head.time_vectors(&times);
        self.expect(what, time.clone(), "out.time_emb");
        let timed = attended + time.unsqueeze_dim::<3>(1);
        self.expect(what, timed, "out.span_plus_time");
        let states = head.span_states(&encoded, &spans, None, &times);
        self.expect(what, states, "out.span_plus_time");
        let whole = head.denoise(&encoded, &spans, &times);
        self.expect_predictions(what, &whole, "out");
    }

    fn expect_predictions(&self, what: &str, denoised: &Denoised, prefix: &str) {
        let name = |part: &str| format!("{prefix}.{part}");
        self.expect(what, sigmoid(denoised.left.clone()), &name("left_prob"));
        self.expect(what, sigmoid(denoised.right.clone()), &name("right_prob"));
        self.expect(what, denoised.types.clone(), &name("type_logits"));
    }

    /// Matching, both losses, the total from [`Head::loss`], and gradients down into the encoder.
    fn check_loss(&self, gold: &Gold, what: &str) {
        let (head, _, encoded) = self.plain();
        let spans: Vec<&[Pair]> = gold.0.iter().map(|target| &target.spans[..]).collect();
        let times: Vec<usize> = gold.0.iter().map(|target| target.timestep).collect();
        let denoised = head.denoise(&encoded, &spans, &times);
        let matches = matching(&self.config, &denoised, gold);
        let listed: Vec<[Vec<usize>; 2]> =
            serde_json::from_value(self.fixture.json["match"].clone()).unwrap();
        for (index, (own, [predictions, golds])) in matches.iter().zip(&listed).enumerate() {
            // Copies of an entity are interchangeable.
            let entity = |gold_index: &usize| gold.0[index].entities[*gold_index];
            let own: Vec<(usize, GoldEntity)> = own
                .iter()
                .map(|(span, gold)| (*span, entity(gold)))
                .collect();
            let theirs: Vec<(usize, GoldEntity)> = predictions
                .iter()
                .zip(golds)
                .map(|(span, gold)| (*span, entity(gold)))
                .collect();
            assert_eq!(own, theirs, "{what} match of sentence {index}");
        }
        let losses = loss_of_matches(&self.config, &denoised, gold, &matches);
        for (term, name) in [("boundaries", "loss.boundary"), ("types", "loss.ce")] {
            let value = losses.terms.iter().find(|(found, _)| *found == term);
            self.expect(what, value.unwrap().1.clone(), name);
        }
        let total = self.model.loss(&self.batch, gold, false).total;
        self.expect(what, total.clone().inner(), "loss.total");
        let gradients = GradientsParams::from_grads(total.backward(), &self.model);
        self.check_gradients(&gradients, what);
    }

    fn check_gradients(&self, gradients: &GradientsParams, what: &str) {
        let mut names = Names::default();
        names.of(&self.model, gradients);
        let all = self.fixture.tensors();
        let listed: Vec<String> = (all.names().into_iter())
            .filter_map(|name| name.strip_prefix("grad.").map(str::to_string))
            .collect();
        assert!(listed.len() > 10, "{what}");
        for theirs in listed {
            let key = format!("grad.{theirs}");
            let (expected, shape) = (self.fixture.floats(&key), self.fixture.shape(&key));
            let (stem, kind) = theirs.rsplit_once('.').unwrap();
            let own = if let Some(inside) = theirs.strip_prefix("bert.") {
                named(&names, &format!("encoder.transformer.{}", renamed(inside)))
            } else if let Some(gates) = theirs.strip_prefix("lstm.") {
                own_gates(&names, gates)
            } else if kind == "in_proj_weight" {
                own_inputs(&names, stem)
            } else {
                let ours = layer_name(stem).expect("a known layer");
                named(&names, &format!("head.{ours}.{kind}"))
            };
            // All are weights of linear layers: [out, in] in the fixture, [in, out] here.
            let expected = transposed(&expected, &[shape[1], shape[0]]);
            assert_close(&format!("{what} gradient of {theirs}"), &own, &expected);
        }
    }

    /// All steps with the recorded noise, and the entities decoded from the last step.
    fn check_sampling(&self, what: &str) {
        let (head, _, encoded) = self.plain();
        let mut recorded = Recorded::new(self.fixture, &self.config);
        let trajectory = sample(&head, &encoded, &mut recorded);
        let own: Vec<Pair> = trajectory.signals.concat().concat();
        assert_close(
            &format!("{what} infer.span_per_step"),
            &flat(&own),
            &self.fixture.floats("infer.span_per_step"),
        );
        self.expect_predictions(what, &trajectory.last, "infer");
        let words: Vec<i64> = trajectory
            .words
            .concat()
            .concat()
            .into_iter()
            .map(|word| word as i64)
            .collect();
        let expected = self.fixture.integers("infer.pred_spans");
        assert_eq!(words, expected, "{what} words of the last step");
        for threshold in ["0.0", "1.0", "1.6"] {
            let prefix = format!("thr{threshold}");
            check_decoded(
                self.fixture,
                &trajectory,
                &prefix,
                threshold.parse().unwrap(),
            );
        }
    }
}

/// The batch as the fixture laid it out, with pieces of neighbouring sentences around each.
fn pieces(fixture: &Fixture) -> PieceBatch {
    let shape = fixture.shape("in.context2token_masks");
    let [batch, words, width] = [shape[0], shape[1], shape[2]];
    let sums = |name: &str, count: usize| -> Vec<usize> {
        let mask = fixture.integers(name);
        mask.chunks(count)
            .map(|row| row.iter().sum::<i64>() as usize)
            .collect()
    };
    let lengths = sums("in.context_masks", width);
    let encodings = fixture.integers("in.encodings");
    let ids = (encodings.chunks(width).zip(&lengths))
        .flat_map(|(row, length)| &row[..*length])
        .map(|id| *id as u32)
        .collect();
    let rows = PackedRows {
        ids,
        lengths,
        padding_id: 0,
        least_width: 0,
    };
    let row_starts = rows.starts();
    let of_words = fixture.integers("in.context2token_masks");
    let first_piece = of_words.chunks(width).enumerate().map(|(word, row)| {
        row_starts[word / words] + row.iter().position(|piece| *piece == 1).unwrap_or(0)
    });
    let counts = sums("in.context2token_masks", width).into_iter();
    PieceBatch {
        sentence_rows: (0..batch).collect(),
        lengths: sums("in.token_masks", words),
        words,
        first_piece: first_piece.collect(),
        piece_count: counts.map(|count| count.max(1)).collect(),
        features: None,
        shape: None,
        rows,
    }
}

fn named(names: &Names<'_>, name: &str) -> Vec<f32> {
    let found = names.found.get(name);
    found
        .unwrap_or_else(|| panic!("no gradient of {name}"))
        .1
        .clone()
}

/// One direction of one layer of our BiLSTM, for a name such as `weight_hh_l1_reverse`.
fn own_gates(names: &Names<'_>, name: &str) -> Vec<f32> {
    let reverse = usize::from(name.ends_with("_reverse"));
    let layer = name
        .trim_end_matches("_reverse")
        .rsplit_once("_l")
        .unwrap()
        .1;
    if name.starts_with("weight_hh") {
        let (shape, values) = &names.found[&format!("head.lstm.{layer}.recurrent")];
        let size = shape[1] * shape[2];
        return values[reverse * size..(reverse + 1) * size].to_vec();
    }
    let (shape, values) = &names.found[&format!("head.lstm.{layer}.input.weight")];
    let gates = shape[1] / 2;
    values
        .chunks(2 * gates)
        .flat_map(|row| row[reverse * gates..(reverse + 1) * gates].to_vec())
        .collect()
}

/// Queries, keys and values side by side: [width, 3 · width].
fn own_inputs(names: &Names<'_>, stem: &str) -> Vec<f32> {
    let stem = stem
        .replace("spanattention.", "head.")
        .replace("self_attn", "self_attention")
        .replace("cross_attn", "cross_attention");
    let parts = ["query", "key", "value"].map(|part| {
        let (shape, values) = &names.found[&format!("{stem}.{part}.weight")];
        (shape[1], values)
    });
    let rows = parts[0].1.len() / parts[0].0;
    (0..rows)
        .flat_map(|row| {
            let of_row = parts.map(|(width, values)| &values[row * width..(row + 1) * width]);
            of_row.concat()
        })
        .collect()
}

/// The noise that the authors' code drew before the first step and then in each step.
struct Recorded {
    lists: Vec<Vec<Pair>>,
    batch: usize,
    drawn: usize,
}

impl Recorded {
    fn new(fixture: &Fixture, config: &Config) -> Self {
        let batch = fixture.shape("infer.init_noise")[0];
        let mut values = fixture.floats("infer.init_noise");
        values.extend(fixture.floats("infer.step_noise"));
        let lists = pairs(&values)
            .chunks(config.spans)
            .map(<[_]>::to_vec)
            .collect();
        Self {
            lists,
            batch,
            drawn: 0,
        }
    }
}

impl NoiseSource for Recorded {
    fn draw(&mut self, sentence: usize, _: usize) -> Vec<Pair> {
        assert_eq!(self.drawn % self.batch, sentence, "sentences in turn");
        self.drawn += 1;
        self.lists[self.drawn - 1].clone()
    }
}

/// The fixture's entities for a threshold, for each kind of overlap that can be allowed.
fn check_decoded(fixture: &Fixture, trajectory: &Trajectory, prefix: &str, threshold: f64) {
    for (overlaps, ending) in [
        (Overlaps::Nested, "nested"),
        (Overlaps::Flat, "flat"),
        (Overlaps::Any, "none"),
    ] {
        let config = Config {
            threshold,
            overlaps,
            ..config(fixture)
        };
        let name = format!("{prefix}_{ending}");
        let expected: Vec<Vec<[f64; 4]>> =
            serde_json::from_value(fixture.json["decoded"][&name].clone()).unwrap();
        let found = candidates(trajectory);
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.into_iter().zip(expected) {
            let found = choose(&config, &found);
            let own: Vec<[usize; 3]> = found.iter().map(entity).collect();
            let theirs: Vec<[usize; 3]> = expected
                .iter()
                .map(|[left, right, class, _]| [*left, *right, *class].map(|n| n as usize))
                .collect();
            assert_eq!(own, theirs, "{} {name}", fixture.name);
            for (found, expected) in found.iter().zip(expected) {
                assert!((found.sum() as f64 - expected[3]).abs() < 1e-4, "{name}");
            }
        }
    }
}

fn entity(candidate: &SpanCandidate) -> [usize; 3] {
    [candidate.left, candidate.right, candidate.class]
}

/// Entities decoded from made-up probabilities.
fn check_decode_cases(fixture: &Fixture) {
    let device = Device::flex();
    let scores = |name: &str| {
        let probabilities = fixture.tensor::<3>(name, &device);
        (probabilities.clone() / (probabilities.neg() + 1.0)).log()
    };
    let last = Denoised {
        left: scores("dec.left"),
        right: scores("dec.right"),
        types: fixture.tensor("dec.type_logits", &device),
    };
    let [_, spans, _] = last.left.dims();
    let best = |scores: &Tensor<3>| nerzoo::nn::host::integers(scores.clone().argmax(2));
    let words: Vec<[usize; 2]> = (best(&last.left).into_iter())
        .zip(best(&last.right))
        .map(|(left, right)| [left as usize, right as usize])
        .collect();
    let trajectory = Trajectory {
        signals: Vec::new(),
        last,
        words: words.chunks(spans).map(<[_]>::to_vec).collect(),
    };
    check_decoded(fixture, &trajectory, "handmade_thr2.5", 2.5);
}

pub fn schedules_differ() -> Result<(), Failed> {
    let kept = |variance| NoiseSchedule::new(variance, 1000).alpha_bar[500];
    assert!(kept(Variance::Cosine) > 2.0 * kept(Variance::Linear));
    Ok(())
}

/// The entities of the authors' program, from a model folder that was imported from their weights, with their noise.
fn check_import(fixture: &Fixture) {
    let own = |key: &str| fixture.json[key].clone();
    let mut settings = serde_json::json!({"num_proposals": own("K"), "timesteps": own("T")});
    for key in [
        "types",
        "sampling_timesteps",
        "scale",
        "soi_pooling",
        "extand_noise_spans",
        "beta_schedule",
        "pool_type",
    ] {
        settings[key] = own(key);
    }
    let (_folder, out) = imported(fixture, "diffusion_ner", &settings);
    let device = super::common::first_device();
    let config = ModelConfig::read(&out).unwrap();
    let head = config.head_config::<DiffusionNer>(&out).unwrap();
    let mut model =
        Recognizer::<DiffusionNer>::new(&config.encoder, &head, &config.labels, &device);
    let weights = std::fs::read(out.join("model.safetensors")).unwrap();
    folder::load_weights_from_bytes(&mut model, weights).unwrap();
    let tokenizer = WordTokenizer::from_file(&out.join("tokenizer.json")).unwrap();
    let batcher = config.encoder.batcher(Arc::new(tokenizer), 0);
    let list = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut sentences = sentences(fixture);
    for (sentence, item) in sentences
        .iter_mut()
        .zip(fixture.json["sentences"].as_array().unwrap())
    {
        (sentence.left, sentence.right) = (list(&item["ltokens"]), list(&item["rtokens"]));
    }
    let encoded = batcher.encode(&sentences);
    let batch = batcher.make_batch(
        &sentences,
        &encoded,
        &(0..sentences.len()).collect::<Vec<_>>(),
    );
    assert_eq!(
        super::padded_ids(&batch),
        fixture.integers("in.encodings"),
        "{}",
        fixture.name
    );
    let words = model.head.encode(&model.states(&batch, false));
    let trajectory = sample(&model.head, &words, &mut Recorded::new(fixture, &head));
    let types = list(&fixture.json["types"]);
    for (name, expected) in fixture.json["decoded"].as_object().unwrap() {
        let Some((threshold, ending)) = name
            .strip_prefix("thr")
            .and_then(|name| name.split_once('_'))
        else {
            continue;
        };
        let config_of_case = Config {
            threshold: threshold.parse().unwrap(),
            overlaps: match ending {
                "nested" => Overlaps::Nested,
                "flat" => Overlaps::Flat,
                _ => Overlaps::Any,
            },
            ..head.clone()
        };
        let expected: Vec<Vec<[f64; 4]>> = serde_json::from_value(expected.clone()).unwrap();
        for (found, expected) in candidates(&trajectory).into_iter().zip(expected) {
            let chosen = choose(&config_of_case, &found);
            let found: Vec<(usize, usize, &str)> = (chosen.iter())
                .map(|found| (found.left, found.right, config.labels.name(found.class - 1)))
                .collect();
            let expected: Vec<(usize, usize, &str)> = (expected.iter())
                .map(|[left, right, class, _]| {
                    (
                        *left as usize,
                        *right as usize,
                        types[*class as usize].as_str(),
                    )
                })
                .collect();
            assert_eq!(found, expected, "{} {name}", fixture.name);
        }
    }
}
