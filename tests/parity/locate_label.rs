//! Locate and Label against the authors' code, from their parameter names on.

use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use libtest_mimic::Trial;
use nerzoo::encoder::batching::PieceBatch;
use nerzoo::encoder::features::{FeatureConfig, LstmInput};
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::vocabulary::FeatureVocabulary;
use nerzoo::encoder::{EncodedSentence, EncoderConfig, LayerPooling, Pooling, RowLayout, load};
use nerzoo::heads::import::Layout;
use nerzoo::heads::locate_label::import::{FEATURES, PARAMETERS};
use nerzoo::heads::locate_label::{
    Averaging, Borders, Config, Example, Gold, LocateLabel, PairedEntity, Proposal, SpanContext,
    Weighting, prediction_seeds, suppress,
};
use nerzoo::heads::{Head, Preset, Settings};
use nerzoo::model::folder;
use nerzoo::model::recognizer::Recognizer;
use nerzoo::nn::host::floats;
use nerzoo::nn::spans::BatchSpan;
use nerzoo::text::{Entity, Labels, Sentence, Span};
use serde_json::Value;

use super::common::{Fixture, assert_close};
use super::import::tagged;
use super::{
    Names, common_encoder, device_cases, no_dropout, renamed, sentence, strings, transposed,
};

pub fn cases(path: &Path) -> Vec<Trial> {
    let mut cases = super::cases(
        path,
        &[
            ("suppression_cases", check_suppression_cases),
            ("import", check_import),
        ],
    );
    cases.extend(device_cases(
        path,
        &[
            ("states", |f, d, what| Model::new(f, d).check_states(what)),
            ("examples", |f, d, what| {
                Model::new(f, d).check_examples(what)
            }),
            ("scores", |f, d, what| Model::new(f, d).check_scores(what)),
            ("loss", |f, d, what| Model::new(f, d).check_loss(what)),
            ("mentions", |f, d, what| {
                Model::new(f, d).check_mentions(what)
            }),
        ],
    ));
    cases
}

struct Model<'a> {
    fixture: &'a Fixture,
    config: Config,
    labels: Labels,
    sentences: Vec<Sentence>,
    batch: PieceBatch,
    model: Recognizer<LocateLabel>,
    gold: Gold,
}

impl<'a> Model<'a> {
    fn new(fixture: &'a Fixture, device: &Device) -> Self {
        let folder = &common_encoder();
        let device = device.clone().autodiff();
        let pieces = WordTokenizer::from_folder(folder).unwrap();
        let transformer = no_dropout(load::config(folder).unwrap());
        let window = transformer.window();
        let types = fixture.json["types"].as_array().unwrap().len() - 1;
        // The fixture numbers its types in the order of its list, we in alphabetical order: names that sort in that order.
        let labels = Labels::new((0..types).map(|index| format!("{index:03}")));
        let config = config(fixture);
        let encoder_config = EncoderConfig {
            transformer,
            pooling: Pooling::Max,
            layers: LayerPooling::MeanOfLastFour,
            overlap: 0,
            context: 1,
            rows: RowLayout::Standard,
            features: Some(features(fixture)),
        };
        let imported = LocateLabel::import(&fixture.under("w.")).unwrap();
        let mut encoder = encoder_config.init(&device);
        load::weights_from_bytes(&mut encoder.transformer, imported.encoder).unwrap();
        let own = encoder.features.as_mut().unwrap();
        folder::load_weights_from_bytes(own, imported.features.unwrap()).unwrap();
        let mut head = LocateLabel::init(&config, encoder_config.width(), &labels, &device);
        folder::load_weights_from_bytes(&mut head, imported.head).unwrap();
        let sentences = sentences(fixture);
        let encoded = pieces.encode_with(&sentences, true);
        let rows: Vec<&EncodedSentence> = encoded.iter().collect();
        let batch = PieceBatch::new(&rows, &pieces, window, 0);
        let chosen: Vec<&Sentence> = sentences.iter().collect();
        let known = encoder_config
            .feature_lookup()
            .unwrap()
            .batch(&chosen, batch.words);
        for (own, theirs) in [
            (&batch.rows.padded_ids(), "in.encodings"),
            (&known.vectors, "in.wordvec_encoding"),
            (&known.tags, "in.pos_encoding"),
        ] {
            let own: Vec<i64> = own.iter().map(|id| *id as i64).collect();
            assert_eq!(own, fixture.integers(theirs), "{theirs}");
        }
        Self {
            fixture,
            config,
            labels,
            sentences,
            batch: batch.with_features(Some(known)),
            model: Recognizer { encoder, head },
            gold: samples(fixture),
        }
    }

    fn view(&self) -> SpanContext {
        SpanContext::new(&self.model.states(&self.batch, false))
    }

    /// Compares our rows with the rows of real examples in a [sentences, rows, width] tensor.
    fn expect<const D: usize>(&self, what: &str, found: Tensor<D>, name: &str, mask: &str) {
        let expected = chosen(self.fixture, name, mask);
        assert_close(&format!("{what} {name}"), &floats(found.inner()), &expected);
    }

    fn check_states(&self, what: &str) {
        let device = self.model.device();
        let transformed = self.model.encoder.transformed(&self.batch, None);
        let pieces = self.fixture.tensor::<3>("out.bert_mean_last4", &device);
        let first = pieces.narrow(1, 0, 1);
        assert_close(
            &format!("{what} sentence"),
            &floats(transformed.sentence.clone().inner()),
            &floats(first.inner()),
        );
        let features = self.model.encoder.features.as_ref().unwrap();
        let known = self.batch.features.as_ref().unwrap();
        let joined = features.joined(transformed.words, known);
        let words = self.model.states(&self.batch, false).words;
        for (found, name) in [(joined, "out.lstm_input"), (words, "out.h_word")] {
            let width = found.dims()[2];
            let real = |values: Vec<f32>| -> Vec<f32> {
                let rows = values.chunks(width).enumerate();
                let words = self.batch.words;
                rows.filter(|(row, _)| row % words < self.batch.lengths[row / words])
                    .flat_map(|(_, row)| row.to_vec())
                    .collect()
            };
            let expected = real(self.fixture.floats(name));
            assert_close(
                &format!("{what} {name}"),
                &real(floats(found.inner())),
                &expected,
            );
        }
    }

    /// The examples that our code makes from the gold entities: the fixture's, except for the random choice of negatives.
    fn check_examples(&self, what: &str) {
        let sentences: Vec<&Sentence> = self.sentences.iter().collect();
        let draw =
            |config: &Config| LocateLabel::gold(config, &self.labels, &sentences, 5).examples;
        let own = draw(&self.config);
        let every = draw(&Config {
            extra_negatives: 10_000,
            ..self.config.clone()
        });
        assert_eq!(own.len(), self.gold.examples.len(), "{what}");
        for sentence in 0..self.sentences.len() {
            let of = |samples: &[Example], positive: bool| -> Vec<Example> {
                let own = |s: &&Example| s.span.sentence == sentence && s.positive == positive;
                samples.iter().filter(own).copied().collect()
            };
            let theirs = of(&self.gold.examples, true);
            assert_eq!(of(&own, true), theirs, "{what} {sentence}");
            let theirs = of(&self.gold.examples, false);
            assert_eq!(of(&own, false).len(), theirs.len(), "{what} {sentence}");
            for negative in theirs {
                assert!(of(&every, false).contains(&negative), "{what} {negative:?}");
            }
        }
    }

    fn check_scores(&self, what: &str) {
        let head = &self.model.head;
        let view = self.view();
        let real = "in.entity_sample_masks";
        let spans: Vec<BatchSpan> = self.gold.examples.iter().map(|s| s.span).collect();
        let verdicts = head.filter_logits(&view, &spans).unwrap();
        self.expect(what, verdicts, "out.train.filter_logits", real);
        let offsets = head.offsets(&view, &spans).unwrap();
        let lengths: Vec<f32> = spans
            .iter()
            .map(|span| view.lengths[span.sentence] as f32)
            .collect();
        let lengths = Tensor::<1>::from_floats(lengths.as_slice(), &offsets.device());
        let shares = offsets.clone() / lengths.reshape([spans.len(), 1]);
        self.expect(what, shares, "out.reg_raw", real);
        let offsets = floats(offsets.inner());
        let (pairs, _) = offsets.as_chunks::<2>();
        let moved: Vec<(BatchSpan, bool)> = spans
            .iter()
            .zip(pairs)
            .map(|(span, pair)| head.moved(*span, *pair, view.lengths[span.sentence]))
            .collect();
        let legal: Vec<f32> = moved.iter().map(|m| f32::from(u8::from(m.1))).collect();
        assert_eq!(
            legal,
            chosen(self.fixture, "out.train.legal", real),
            "{what}"
        );
        let moved: Vec<BatchSpan> = moved.into_iter().map(|(span, _)| span).collect();
        let classes = head.classes(&view, &moved);
        self.expect(what, classes, "out.train.cls_logits", real);

        let first = |spans: &[BatchSpan]| -> Vec<BatchSpan> {
            let own = spans.iter().filter(|span| span.sentence == 0);
            own.copied().collect()
        };
        for (spans, borders, name) in [
            (&spans, Borders::Inner, "out.filter_feat_first"),
            (&spans, Borders::Outer, "out.reg_feat_first"),
            (&moved, Borders::Inner, "out.cls_feat_first"),
        ] {
            let found = floats(head.features(&view, &first(spans), borders).inner());
            let expected = &self.fixture.floats(name)[..found.len()];
            assert_close(&format!("{what} {name}"), &found, expected);
        }
    }

    /// Every term and the gradients of the whole, as the program computes them and as its weights were meant.
    fn check_loss(&self, what: &str) {
        for (weighting, prefix) in [(Weighting::Batch, ""), (Weighting::Sample, "intended.")] {
            let what = format!("{what} {prefix}");
            let config = Config {
                weighting,
                averaging: Averaging::Terms,
                ..self.config.clone()
            };
            let head = self.with(&config);
            let states = self.model.states(&self.batch, false);
            let losses = head.loss(&states, &self.gold);
            let own = |name: &str| {
                let found = losses.terms.iter().find(|(term, _)| *term == name);
                floats(found.unwrap().1.clone().inner())
            };
            for (ours, theirs) in [
                ("filter", format!("loss.{prefix}filter")),
                ("classes", format!("loss.{prefix}entity")),
                ("offsets", "loss.offset_smoothl1".to_string()),
                ("overlap", "loss.giou".to_string()),
            ] {
                let expected = self.fixture.floats(&theirs);
                assert_close(&format!("{what} {theirs}"), &own(ours), &expected);
            }
            let total = floats(losses.total.clone().inner());
            let expected = self
                .fixture
                .floats(&format!("loss.{prefix}total_all_weights_1"));
            assert_close(&format!("{what} total"), &total, &expected);
            let model = Recognizer {
                encoder: self.model.encoder.clone(),
                head,
            };
            let gradients = GradientsParams::from_grads(losses.total.backward(), &model);
            self.check_gradients(&model, &gradients, prefix, &what);
        }
    }

    /// A head with the same weights and other settings.
    fn with(&self, config: &Config) -> LocateLabel {
        let device = self.model.device();
        let width = self.model.head.classifier.outer.weight.dims()[0];
        let mut head = LocateLabel::init(config, width, &self.labels, &device);
        let imported = LocateLabel::import(&self.fixture.under("w.")).unwrap();
        folder::load_weights_from_bytes(&mut head, imported.head).unwrap();
        head
    }

    fn check_gradients(
        &self,
        model: &Recognizer<LocateLabel>,
        gradients: &GradientsParams,
        prefix: &str,
        what: &str,
    ) {
        let mut names = Names::default();
        names.of(model, gradients);
        let frozen = "encoder.features.word_vectors";
        assert!(!names.found.contains_key(frozen), "{what}");
        let all = self.fixture.tensors();
        let names_of = |name: &'_ str| name.strip_prefix("grad.").map(String::from);
        let listed: Vec<String> = all
            .names()
            .into_iter()
            .filter_map(names_of)
            .filter_map(|name| match prefix {
                "" => (!name.starts_with("intended.")).then_some(name),
                _ => name.strip_prefix(prefix).map(String::from),
            })
            .collect();
        assert_eq!(listed.len(), 11, "{what}");
        for theirs in listed {
            let name = format!("grad.{prefix}{theirs}");
            let expected = self.fixture.floats(&name);
            let shape = self.fixture.shape(&name);
            let what = format!("{what} gradient of {theirs}");
            let heads = PARAMETERS.iter().map(|known| ("head", known));
            let features = FEATURES.iter();
            let features = features.map(|known| ("encoder.features", known));
            let known = heads
                .chain(features)
                .find(|(_, (name, _, _))| *name == theirs);
            let (ours, layout) = match (known, theirs.strip_prefix("bert.")) {
                (Some((part, (_, ours, layout))), _) => (format!("{part}.{ours}"), *layout),
                (None, Some(inside)) => (
                    format!("encoder.transformer.{}", renamed(inside)),
                    Layout::Transposed,
                ),
                (None, None) => {
                    check_gates(&names, &theirs, &expected, &shape, &what);
                    continue;
                }
            };
            let (own_shape, gradient) = &names.found[&ours];
            let expected = match layout {
                Layout::Same => expected,
                Layout::Transposed => transposed(&expected, own_shape),
            };
            assert_close(&what, gradient, &expected);
        }
    }

    fn check_mentions(&self, what: &str) {
        let config = Config {
            threshold: self.fixture.json["eval_delta"].as_f64().unwrap(),
            ..self.config.clone()
        };
        let head = Module::valid(&self.with(&config));
        let encoder = Module::valid(&self.model.encoder);
        let model = Recognizer { encoder, head };
        let states = model.states(&self.batch, false);
        let view = SpanContext::new(&states);
        let mut seeds = Vec::new();
        for (sentence, length) in view.lengths.iter().copied().enumerate() {
            let spans = prediction_seeds(&config, length).into_iter();
            seeds.extend(spans.map(|span| BatchSpan {
                sentence,
                start: span.start,
                end: span.end,
            }));
        }
        let real = "eval_in.entity_sample_masks";
        let expected: Vec<f32> = seeds
            .iter()
            .flat_map(|span| [span.start as f32, span.end as f32])
            .collect();
        let theirs = chosen(self.fixture, "eval_in.entity_spans_token", real);
        assert_eq!(theirs, expected, "{what} seeds");
        let verdicts = floats(softmax(model.head.filter_logits(&view, &seeds).unwrap(), 1));
        let keep: Vec<f32> = verdicts
            .chunks(2)
            .map(|pair| f32::from(u8::from(pair[0] < 5.0 * pair[1])))
            .collect();
        assert_eq!(
            keep,
            chosen(self.fixture, "out.eval.filter_keep", real),
            "{what}"
        );
        let offsets = floats(model.head.offsets(&view, &seeds).unwrap());
        let (pairs, _) = offsets.as_chunks::<2>();
        let mut moved = Vec::new();
        let (mut own, mut legal) = (Vec::new(), Vec::new());
        for (span, pair) in seeds.iter().zip(pairs) {
            let (span, may_be) = model.head.moved(*span, *pair, view.lengths[span.sentence]);
            moved.push(span);
            legal.push(f32::from(u8::from(may_be)));
            own.extend(if may_be { *pair } else { [0.0; 2] });
        }
        assert_eq!(
            legal,
            chosen(self.fixture, "out.eval.legal", real),
            "{what}"
        );
        let expected = chosen(self.fixture, "out.eval.offsets", real);
        assert_close(&format!("{what} offsets in prediction"), &own, &expected);
        let classes = floats(softmax(model.head.classes(&view, &moved), 1));
        let expected = chosen(self.fixture, "out.eval.cls_prob", real);
        assert_close(
            &format!("{what} classes in prediction"),
            &classes,
            &expected,
        );

        let found = model.head.decode(&states);
        let expected: Vec<Vec<[f64; 4]>> =
            serde_json::from_value(self.fixture.json["eval_pred_start_end_type_score"].clone())
                .unwrap();
        assert!(expected.iter().any(|list| !list.is_empty()));
        for (found, mut expected) in found.iter().zip(expected) {
            expected.sort_by(|one, other| one.partial_cmp(other).unwrap());
            assert_eq!(found.len(), expected.len(), "{what}");
            for (mention, [start, end, kind, score]) in found.iter().zip(expected) {
                let entity = Entity::new(
                    start as usize,
                    end as usize,
                    format!("{:03}", kind as usize - 1),
                );
                assert_eq!(mention.entity, entity, "{what}");
                let difference = (mention.score as f64 - score.min(1.0)).abs();
                assert!(difference < 1e-4, "{what} {difference}");
            }
        }
    }
}

/// The forward half of our gates.
fn check_gates(names: &Names<'_>, theirs: &str, expected: &[f32], shape: &[usize], what: &str) {
    let (ours, forward): (_, Vec<f32>) = match theirs {
        "lstm.weight_ih_l0" => {
            let (own_shape, gradient) = &names.found["encoder.features.lstm.0.input.weight"];
            let gates = shape[0];
            assert_eq!(own_shape[1], 2 * gates);
            let rows = gradient.chunks(2 * gates);
            let half = rows.flat_map(|row| row[..gates].to_vec()).collect();
            ([own_shape[0], gates], half)
        }
        _ => {
            assert_eq!(theirs, "char_lstm.weight_hh_l0", "{what}");
            let (own_shape, gradient) = &names.found["encoder.features.characters.lstm.recurrent"];
            let half = gradient[..gradient.len() / 2].to_vec();
            ([own_shape[1], own_shape[2]], half)
        }
    };
    assert_close(what, &forward, &transposed(expected, &ours));
}

/// The rows of a [sentences, rows, ...] tensor that a mask marks as real.
fn chosen(fixture: &Fixture, name: &str, mask: &str) -> Vec<f32> {
    let mask = fixture.integers(mask);
    let values = fixture.floats(name);
    let width = values.len() / mask.len();
    values
        .chunks(width)
        .zip(mask)
        .filter(|(_, real)| *real == 1)
        .flat_map(|(row, _)| row.to_vec())
        .collect()
}

fn config(fixture: &Fixture) -> Config {
    let settings = &fixture.json["config"];
    // Their windows are lengths less one.
    let windows: Vec<usize> = serde_json::from_value(fixture.json["window_sizes"].clone()).unwrap();
    Config {
        windows: windows.into_iter().map(|window| window + 1).collect(),
        positive_iou: fixture.json["iou_spn"].as_f64().unwrap(),
        match_iou: fixture.json["iou_classifier"].as_f64().unwrap(),
        negatives: fixture.json["neg_entity_count"].as_u64().unwrap() as usize,
        filter_ratio: settings["spn_filter"].as_f64().unwrap(),
        sentence_context: settings["use_entity_ctx"].as_bool().unwrap(),
        dropout: 0.0,
        ..Config::of(Preset::Released)
    }
}

fn features(fixture: &Fixture) -> FeatureConfig {
    let width = |name: &str| fixture.shape(name)[1];
    let mut words: Vec<(u64, String)> = fixture.json["word2inx"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(word, number)| (number.as_u64().unwrap(), word.clone()))
        .collect();
    words.sort();
    // The table has rows that no tag uses.
    let mut tags: Vec<String> = strings(&fixture.json["pos_map"])[1..]
        .iter()
        .map(|tag| tag.to_string())
        .collect();
    let rows = fixture.shape("w.pos_embedding.weight")[0];
    tags.extend((tags.len() + 1..rows).map(|row| format!("row {row}")));
    FeatureConfig {
        vocabulary: FeatureVocabulary {
            words: words.into_iter().skip(1).map(|(_, word)| word).collect(),
            tags,
        },
        vector_width: width("w.wordvec_embedding.weight"),
        pos_width: width("w.pos_embedding.weight"),
        character_width: 2 * width("w.char_embedding.weight"),
        dropout: 0.0,
        lstm_layers: 1,
        lstm_over: LstmInput::All,
        lstm_dropout: 0.0,
    }
}

fn sentences(fixture: &Fixture) -> Vec<Sentence> {
    let types = strings(&fixture.json["types"]);
    let list = |value: &Value| strings(value).into_iter().map(String::from).collect();
    let all = fixture.json["sentences"].as_array().unwrap();
    all.iter()
        .map(|item| {
            let mut sentence = sentence(&item["tokens"]);
            sentence.pos = Some(list(&item["pos"]));
            sentence.left = list(&item["ltokens"]);
            sentence.right = list(&item["rtokens"]);
            for entity in item["entities"].as_array().unwrap() {
                let index = |name: &str| entity[name].as_u64().unwrap() as usize;
                let kind = types.iter().position(|kind| entity["type"] == *kind);
                let label = format!("{:03}", kind.unwrap() - 1);
                let entity = Entity::new(index("start"), index("end"), label);
                sentence.entities.push(entity);
            }
            sentence
        })
        .collect()
}

/// The examples in the fixture.
fn samples(fixture: &Fixture) -> Gold {
    let spans = fixture.integers("in.entity_spans_token");
    let classes = fixture.integers("in.entity_types");
    let real = fixture.integers("in.entity_sample_masks");
    let weights = fixture.floats("in.ious");
    let offsets = [
        fixture.integers("in.l_offsets"),
        fixture.integers("in.r_offsets"),
    ];
    let [batch, rows] = fixture.shape("in.entity_types").try_into().unwrap();
    let sample = |row: usize| {
        let (start, end) = (spans[2 * row], spans[2 * row + 1]);
        Example {
            span: BatchSpan {
                sentence: row / rows,
                start: start as usize,
                end: end as usize,
            },
            positive: classes[row] > 0,
            pair: Some(PairedEntity {
                span: Span::new(
                    (start + offsets[0][row]) as usize,
                    (end + offsets[1][row]) as usize,
                ),
                class: classes[row] as i32,
            }),
            weight: weights[row],
        }
    };
    let padding = |sentence: usize| {
        let own = &real[sentence * rows..(sentence + 1) * rows];
        own.iter().filter(|real| **real == 0).count()
    };
    Gold {
        examples: (0..batch * rows)
            .filter(|row| real[*row] == 1)
            .map(sample)
            .collect(),
        padding: (0..batch).map(padding).collect(),
        rows: None,
    }
}

fn check_suppression_cases(fixture: &Fixture) {
    let cases = fixture.json["nms_cases"].as_array().unwrap();
    for (index, case) in cases.iter().enumerate() {
        let rows =
            |name: &str| -> Vec<[f64; 4]> { serde_json::from_value(case[name].clone()).unwrap() };
        let candidates = rows("candidates_type_start_end_score")
            .into_iter()
            .map(|[kind, start, end, score]| Proposal {
                class: kind as usize,
                span: Span::new(start as usize, end as usize),
                score,
            })
            .collect();
        let config = Config {
            threshold: case["delta"].as_f64().unwrap(),
            ..Config::of(Preset::Released)
        };
        let found = suppress(&config, candidates);
        let expected = rows("result_start_end_type_score");
        assert_eq!(found.len(), expected.len(), "case {index}: {found:?}");
        for (found, [start, end, kind, score]) in found.iter().zip(expected) {
            let span = Span::new(start as usize, end as usize);
            assert_eq!((found.span, found.class), (span, kind as usize), "{index}");
            assert!(
                (found.score - score).abs() < 1e-6,
                "case {index}: {found:?}"
            );
        }
    }
    assert!(!cases.is_empty(), "{}", fixture.name);
}

/// The entities of the authors' program from a model folder that was imported from their weights.
fn check_import(fixture: &Fixture) {
    let mut settings = fixture.json["config"].clone();
    for key in [
        "types",
        "iou_spn",
        "iou_classifier",
        "neg_entity_count",
        "pos_map",
        "word2inx",
    ] {
        settings[key] = fixture.json[key].clone();
    }
    settings["window_size"] = fixture.json["window_sizes"].clone();
    settings["nms"] = fixture.json["eval_delta"].clone();
    let found = tagged(fixture, "locate_label", &settings, &sentences(fixture));
    let types = strings(&fixture.json["types"]);
    let expected: Vec<Vec<[f64; 4]>> =
        serde_json::from_value(fixture.json["eval_pred_start_end_type_score"].clone()).unwrap();
    assert!(expected.iter().any(|list| !list.is_empty()));
    for (found, mut expected) in found.iter().zip(expected) {
        expected.sort_by(|one, other| one.partial_cmp(other).unwrap());
        let entities: Vec<&Entity> = found.iter().map(|mention| &mention.entity).collect();
        let theirs: Vec<Entity> = (expected.iter())
            .map(|[start, end, kind, _]| {
                Entity::new(*start as usize, *end as usize, types[*kind as usize])
            })
            .collect();
        assert_eq!(
            entities,
            theirs.iter().collect::<Vec<_>>(),
            "{}",
            fixture.name
        );
        for (mention, [.., score]) in found.iter().zip(expected) {
            assert!(
                (mention.score as f64 - score.min(1.0)).abs() < 1e-4,
                "{}",
                fixture.name
            );
        }
    }
}
