//! Parity with the reference implementations, one test case per fixture file, device and check, such as
//! `bundling/crf_pooling/cpu/losses`. The fixtures are those in `tests/fixtures/parity`, or those in the folder that
//! `NERZOO_GOLDEN` names; all sizes are read from the files. The largest difference allowed is 1e-4, relative.

#[path = "parity/bopn.rs"]
mod bopn;
mod common;
#[path = "parity/diffusion_ner.rs"]
mod diffusion_ner;
#[path = "parity/import.rs"]
mod import;
#[path = "parity/locate_label.rs"]
mod locate_label;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use common::{Fixture, assert_close};
use libtest_mimic::{Arguments, Failed, Trial};
use nerzoo::encoder::batching::PieceBatch;
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::transformer::TransformerConfig;
use nerzoo::encoder::{
    EncodedSentence, Encoder, EncoderConfig, LayerPooling, Pooling, RowLayout, WordStates, load,
};
use nerzoo::heads::bundle::{Bundle, OutputHead};
use nerzoo::heads::seq_ner::{self, Combiner, Config, Decoder, SeqNer, TagSet, combine};
use nerzoo::heads::span_ner::{self, SpanNer};
use nerzoo::heads::{Head, Overlaps, Preset, Settings};
use nerzoo::nn::host::floats;
use nerzoo::nn::spans::BatchSpan;
use nerzoo::text::{Entity, Labels, Sentence};

/// Makes the test cases of a fixture file.
type FamilyTrials = fn(&Path) -> Vec<Trial>;

/// Folders with fixtures and the cases made from each of their files.
const FAMILIES: [(&str, FamilyTrials); 5] = [
    ("encoders", encoder_cases),
    ("bundling", bundling_cases),
    ("bopn", bopn::cases),
    ("locate_label", locate_label::cases),
    ("diffusion", diffusion_ner::cases),
];

/// The folder of the encoder that all families share.
const COMMON: &str = "common";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("fixtures/every_folder_is_tested", every_folder_is_tested),
        Trial::test(
            "diffusion/schedules_differ",
            diffusion_ner::schedules_differ,
        ),
    ];
    for (family, cases) in FAMILIES {
        let files = fixture_files(family);
        trials.extend(files.iter().flat_map(|path| cases(path)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Every folder with fixtures has cases, and every family has fixtures.
fn every_folder_is_tested() -> Result<(), Failed> {
    let folder = common::parity_fixtures();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let known = FAMILIES.iter().any(|(family, _)| *family == name) || name == COMMON;
        let is_tested = known || !path.is_dir();
        assert!(
            is_tested,
            "no test reads the fixtures in {}",
            path.display()
        );
    }
    for (family, _) in FAMILIES {
        // Another folder than the repository's may hold fixtures of some families only.
        let is_optional = std::env::var_os("NERZOO_GOLDEN").is_some();
        let is_absent = !folder.join(family).is_dir();
        if is_absent && is_optional {
            common::print_skipped(&format!("{family}: no fixtures in {}", folder.display()));
            continue;
        }
        let files = fixture_files(family);
        assert!(
            !files.is_empty(),
            "no fixtures of {family} in {}",
            folder.display()
        );
        for file in files {
            let tensors = file.with_extension("safetensors");
            assert!(tensors.is_file(), "{} is missing", tensors.display());
        }
    }
    Ok(())
}

/// The JSON files of a family, sorted.
fn fixture_files(family: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(common::parity_fixtures().join(family)) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    files
}

/// The name of a fixture in test names: its family and the name of its file.
fn fixture_name(path: &Path) -> String {
    let family = path.parent().and_then(Path::file_name).unwrap();
    let stem = path.file_stem().unwrap();
    format!("{}/{}", family.to_string_lossy(), stem.to_string_lossy())
}

/// The folder of the encoder that all families share.
fn common_encoder() -> PathBuf {
    common::parity_fixtures().join(COMMON).join("encoder")
}

/// A check of one fixture.
type FixtureCheck = fn(&Fixture);

/// A case for each check of a fixture that needs no device.
fn cases(path: &Path, checks: &[(&str, FixtureCheck)]) -> Vec<Trial> {
    let make = |(name, check): &(&str, FixtureCheck)| {
        let (path, check) = (path.to_path_buf(), *check);
        Trial::test(format!("{}/{name}", fixture_name(&path)), move || {
            check(&Fixture::read(&path));
            Ok(())
        })
    };
    checks.iter().map(make).collect()
}

/// A check of a fixture on a device. The last argument names both in messages.
type DeviceCheck = fn(&Fixture, &Device, &str);

/// A case for each check of a fixture on each device.
fn device_cases(path: &Path, checks: &[(&str, DeviceCheck)]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (device_name, device) in common::devices() {
        for (name, check) in checks {
            let (path, check, device) = (path.to_path_buf(), *check, device.clone());
            let what = format!("{}/{device_name}", fixture_name(&path));
            trials.push(Trial::test(format!("{what}/{name}"), move || {
                check(&Fixture::read(&path), &device, &what);
                Ok(())
            }));
        }
    }
    trials
}

fn encoder(transformer: TransformerConfig, layers: LayerPooling, device: &Device) -> Encoder {
    EncoderConfig {
        transformer,
        pooling: Pooling::Max,
        layers,
        overlap: 0,
        context: 0,
        rows: RowLayout::Standard,
        features: None,
    }
    .init(device)
}

fn encoder_cases(path: &Path) -> Vec<Trial> {
    let name = fixture_name(path);
    let folder = common::pretrained_encoders(&name)
        .map(|folders| folders.join(pretrained_name(&Fixture::read(path))));
    let is_present = folder.as_ref().is_some_and(|folder| folder.is_dir());
    if let Some(folder) = folder.filter(|_| !is_present) {
        common::print_skipped(&format!("{name}: there is no folder {}", folder.display()));
    }
    let trials = device_cases(
        path,
        &[
            ("last_layer", |fixture, device, what| {
                check_layers(
                    fixture,
                    LayerPooling::Last,
                    "last_hidden_state",
                    device,
                    what,
                );
            }),
            ("mean_of_last_four_layers", |fixture, device, what| {
                let layers = LayerPooling::MeanOfLastFour;
                check_layers(fixture, layers, "mean_last_four", device, what);
            }),
        ],
    );
    let trials = trials.into_iter();
    trials
        .map(|trial| trial.with_ignored_flag(!is_present))
        .collect()
}

fn pretrained_name(fixture: &Fixture) -> String {
    fixture.json["encoder"].as_str().unwrap().to_string()
}

fn check_layers(
    fixture: &Fixture,
    layers: LayerPooling,
    output: &str,
    device: &Device,
    what: &str,
) {
    let folders = common::pretrained_encoders(what).expect("the folder of pretrained encoders");
    let folder = folders.join(pretrained_name(fixture));
    let pieces = WordTokenizer::from_folder(&folder).unwrap();
    let mut encoder = encoder(load::config(&folder).unwrap(), layers, device);
    load::weights(&mut encoder.transformer, &folder).unwrap();
    for index in 0..fixture.json["sentences"].as_array().unwrap().len() {
        let what = format!("{what} {index}.{output}");
        check_encoder(fixture, index, output, &pieces, &encoder, &what);
    }
}

fn check_encoder(
    fixture: &Fixture,
    index: usize,
    output: &str,
    pieces: &WordTokenizer,
    encoder: &Encoder,
    what: &str,
) {
    let expected = &fixture.json["sentences"][index];
    let batch = batch(pieces, &[sentence(&expected["words"])], 512);
    let names: Vec<String> = (batch.rows.ids)
        .iter()
        .map(|id| pieces.piece(*id).unwrap())
        .collect();
    let expected_names: Vec<&str> = strings(&expected["pieces"]);
    assert_eq!(names, expected_names, "{what}");
    assert_eq!(
        padded_ids(&batch),
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
    let states = floats(encoder.piece_states(&batch));
    assert_close(what, &states, &fixture.floats(&format!("{index}.{output}")));
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

fn batch(pieces: &WordTokenizer, sentences: &[Sentence], window: usize) -> PieceBatch {
    let encoded = pieces.encode(sentences);
    PieceBatch::new(
        &encoded.iter().collect::<Vec<&EncodedSentence>>(),
        pieces,
        window,
        0,
    )
}

/// Piece ids of a batch, all rows padded to the longest, as in the fixtures.
fn padded_ids(batch: &PieceBatch) -> Vec<i64> {
    let ids = batch.rows.padded_ids();
    ids.into_iter().map(i64::from).collect()
}

fn bundling_cases(path: &Path) -> Vec<Trial> {
    device_cases(
        path,
        &[
            ("states", |f, d, what| {
                Bundling::new(f, d).check_states(f, what)
            }),
            ("losses", |f, d, what| {
                Bundling::new(f, d).check_losses(f, what)
            }),
            ("tags", |f, d, what| Bundling::new(f, d).check_tags(f, what)),
            ("spans", |f, d, what| {
                Bundling::new(f, d).check_spans(f, what)
            }),
            ("bundle", |f, d, what| {
                Bundling::new(f, d).check_bundle(f, what)
            }),
        ],
    )
}

/// A bundling fixture's model with its weights.
struct Bundling {
    encoder: Encoder,
    batch: PieceBatch,
    states: WordStates,
    softmax: SeqNer,
    crf: SeqNer,
    span: SpanNer,
    gold: seq_ner::Gold,
    span_gold: span_ner::Gold,
}

impl Bundling {
    fn new(fixture: &Fixture, device: &Device) -> Self {
        let encoder_folder = &common_encoder();
        let device = device.clone().autodiff();
        let pieces = WordTokenizer::from_folder(encoder_folder).unwrap();
        let config = load::config(encoder_folder).unwrap();
        let mut encoder = encoder(no_dropout(config.clone()), LayerPooling::Last, &device);
        load::weights_from_bytes(&mut encoder.transformer, fixture.under("w.bert.")).unwrap();
        // The fixture numbers its types in the order of its list, we in alphabetical order: names that sort in that order.
        let count = fixture.json["types"].as_array().unwrap().len();
        let labels = Labels::new((0..count).map(|index| format!("{index:03}")));
        let sentences = sentences(&fixture.json["sentences"]);
        let batch = batch(&pieces, &sentences, config.positions);
        assert_eq!(padded_ids(&batch), fixture.integers("in.ids"), "pieces");
        let states = encoder.valid().forward(&batch);
        let states = WordStates {
            words: Tensor::from_inner(states.words),
            sentence: Tensor::from_inner(states.sentence),
            prompts: None,
            lengths: states.lengths,
        };
        let head = |decoder| {
            let config = Config {
                decoder,
                dropout: 0.0,
                ..Config::of(Preset::Paper)
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
            span: span_head(fixture, &labels, &device),
            span_gold: span_gold(fixture),
            encoder,
            batch,
            softmax: head(Decoder::Softmax),
            crf: head(Decoder::Crf),
            gold: seq_ner::Gold::new(TagSet::Bio, &labels, &references),
            states,
        }
    }

    fn check_states(&self, fixture: &Fixture, what: &str) {
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
        assert_close(
            &format!("{what} words"),
            &real(&floats(self.states.words.clone()), &mask, width),
            &real(&fixture.floats("out.words"), &mask, width),
        );
        assert_close(
            &format!("{what} e0"),
            &floats(self.states.sentence.clone()),
            &fixture.floats("out.e0"),
        );
        let kinds = fixture.shape("out.emissions")[2];
        assert_close(
            &format!("{what} emissions"),
            &real(&floats(self.crf.emissions(&self.states)), &mask, kinds),
            &real(&fixture.floats("out.emissions"), &mask, kinds),
        );
    }

    fn check_losses(&self, fixture: &Fixture, what: &str) {
        let crf = self.crf.crf.as_ref().unwrap();
        let emissions = self.crf.emissions(&self.states);
        let likelihood = crf.log_likelihood(emissions, &self.states.lengths, &self.gold.tags);
        assert_close(
            &format!("{what} log-likelihoods"),
            &floats(likelihood),
            &fixture.floats("out.crf_llh_per_sentence"),
        );
        let is_crf = fixture.json["tagger"] == "crf";
        let head = if is_crf { &self.crf } else { &self.softmax };
        let loss = head.loss(&self.states, &self.gold).total;
        assert_close(
            &format!("{what} loss"),
            &floats(loss.clone()),
            &fixture.floats("loss.seq"),
        );
        // The fixture's gradients are those of alpha · seq + (1 - alpha) · span.
        let alpha = fixture.json["alpha"].as_f64().unwrap() as f32;
        let gradients = (loss * alpha).backward();
        let weight = head.emission.weight.grad(&gradients).unwrap().transpose();
        assert_close(
            &format!("{what} gradient of the tagger"),
            &floats(weight),
            &fixture.floats("grad.seq_ffn.weight"),
        );
        if is_crf {
            for (name, parameter) in [("start", &crf.start), ("end", &crf.end)] {
                let gradient = floats(parameter.grad(&gradients).unwrap());
                let expected = fixture.floats(&format!("grad.crf.{name}_transitions"));
                assert_close(&format!("{what} gradient of {name}"), &gradient, &expected);
            }
            let gradient = floats(crf.transitions.grad(&gradients).unwrap());
            assert_close(
                &format!("{what} gradient of transitions"),
                &gradient,
                &fixture.floats("grad.crf.transitions"),
            );
        }
    }

    fn check_spans(&self, fixture: &Fixture, what: &str) {
        let classes = fixture.shape("out.span_logits")[2];
        let mask = fixture.integers("in.span_mask");
        let scores = self.span.scores(&self.states, &self.span_gold.spans);
        let expected = real(&fixture.floats("out.span_logits"), &mask, classes);
        assert_close(&format!("{what} span scores"), &floats(scores), &expected);
        let loss = self.span.loss(&self.states, &self.span_gold).total;
        assert_close(
            &format!("{what} span loss"),
            &floats(loss),
            &fixture.floats("loss.span"),
        );

        let all = Tensor::cat(self.span.valid().all_scores(&plain(&self.states)), 1);
        let [_, count, _] = all.dims();
        let found = floats(softmax(all, 2));
        let expected = fixture.floats("out.all_span_prob");
        let listed = fixture.shape("out.all_span_prob")[1];
        let words = self.batch.words;
        for (sentence, length) in self.states.lengths.iter().enumerate() {
            let longest = fixture.json["max_span_len"].as_u64().unwrap() as usize;
            // Both list short spans first; our list also has spans beyond the end of this sentence.
            let mut index = 0;
            let (mut own, mut theirs) = (Vec::new(), Vec::new());
            for span_words in 1..=longest.min(words) {
                for start in 0..=words - span_words {
                    if start + span_words <= *length {
                        let at = (sentence * count + index) * classes;
                        own.extend_from_slice(&found[at..at + classes]);
                        let at = sentence * listed * classes + theirs.len();
                        theirs.extend_from_slice(&expected[at..at + classes]);
                    }
                    index += 1;
                }
            }
            assert_close(
                &format!("{what} all spans of sentence {sentence}"),
                &own,
                &theirs,
            );
        }

        let decoded: Vec<Vec<[i64; 3]>> = self
            .span
            .valid()
            .decode(&plain(&self.states))
            .iter()
            .map(|mentions| {
                mentions
                    .iter()
                    .map(|mention| {
                        let label: i64 = mention.entity.label.parse().unwrap();
                        let span = mention.entity.span;
                        [label, span.start as i64, span.end as i64 - 1]
                    })
                    .collect()
            })
            .collect();
        let expected: Vec<Vec<[i64; 3]>> =
            serde_json::from_value(fixture.json["span_entities_greedy"].clone()).unwrap();
        assert_eq!(decoded, expected, "{what} greedy entities");
    }

    /// The loss of the whole model and its gradients down into the encoder.
    fn check_bundle(&self, fixture: &Fixture, what: &str) {
        let states = self.encoder.forward(&self.batch);
        let seq = if fixture.json["tagger"] == "crf" {
            &self.crf
        } else {
            &self.softmax
        };
        let alpha = fixture.json["alpha"].as_f64().unwrap();
        let bundle = Bundle::from_parts(seq.clone(), self.span.clone(), alpha, OutputHead::Span);
        let gold = (self.gold.clone(), self.span_gold.clone());
        let total = bundle.loss(&states, &gold).total;
        assert_close(
            &format!("{what} total"),
            &floats(total.clone()),
            &fixture.floats("loss.total"),
        );
        let gradients = GradientsParams::from_grads(total.backward(), &self.encoder);
        let mut names = Names {
            prefix: "grad.bert.",
            ..Names::default()
        };
        names.of(&self.encoder.transformer, &gradients);
        let mut checked = 0;
        for (name, (shape, gradient)) in &names.found {
            let Some(theirs) = fixture
                .tensors()
                .names()
                .iter()
                .find(|key| renamed(key) == *name)
                .map(|key| key.to_string())
            else {
                continue;
            };
            let expected = fixture.floats(&theirs);
            let expected = if shape.len() == 2 {
                transposed(&expected, shape)
            } else {
                expected
            };
            assert_close(&format!("{what} gradient of {name}"), gradient, &expected);
            checked += 1;
        }
        let listed = fixture
            .tensors()
            .names()
            .iter()
            .filter(|key| key.starts_with("grad.bert."))
            .count();
        assert_eq!(
            checked, listed,
            "{what}: every gradient of the encoder is compared"
        );
    }

    fn check_tags(&self, fixture: &Fixture, what: &str) {
        let emissions = self.crf.emissions(&self.states).inner();
        let [_, words, kinds] = emissions.dims();
        let emissions = floats(emissions);
        let crf = self.crf.valid().crf.unwrap().scores();
        let rows = (emissions.chunks(words * kinds).zip(&self.states.lengths))
            .map(|(rows, length)| &rows[..length * kinds]);
        let best: Vec<Vec<usize>> = rows.clone().map(|rows| crf.viterbi(rows)).collect();
        assert_eq!(best, tags(&fixture.json["viterbi_tags"]), "{what} Viterbi");
        let argmax = rows.map(|rows| rows.chunks(kinds).map(nerzoo::nn::host::argmax).collect());
        let argmax: Vec<Vec<usize>> = argmax.collect();
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
                    combine(tags, TagSet::Bio, combiner)
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

fn tags(value: &serde_json::Value) -> Vec<Vec<usize>> {
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

/// The rows that a mask marks as real words.
fn real(values: &[f32], mask: &[i64], width: usize) -> Vec<f32> {
    values
        .chunks(width)
        .zip(mask)
        .filter(|(_, real)| **real == 1)
        .flat_map(|(row, _)| row.to_vec())
        .collect()
}

fn no_dropout(config: TransformerConfig) -> TransformerConfig {
    TransformerConfig {
        dropout: 0.0,
        attention_dropout: 0.0,
        ..config
    }
}

/// States without an autodiff graph.
fn plain(states: &WordStates) -> WordStates {
    WordStates {
        words: states.words.clone().inner(),
        sentence: states.sentence.clone().inner(),
        prompts: states.prompts.clone().map(Tensor::inner),
        lengths: states.lengths.clone(),
    }
}

fn span_head(fixture: &Fixture, labels: &Labels, device: &Device) -> SpanNer {
    let config = span_ner::Config {
        longest: fixture.json["max_span_len"].as_u64().unwrap() as usize,
        representation: serde_json::from_value(fixture.json["span_repr"].clone()).unwrap(),
        length_width: fixture.shape("w.len_emb.weight")[1],
        dropout: 0.0,
        overlaps: Overlaps::Flat,
        ..Settings::of(Preset::Paper)
    };
    let mut head = SpanNer::init(&config, encoder_width(fixture), labels, device);
    let weight = fixture.tensor::<2>("w.span_ffn.weight", device).transpose();
    head.classifier.weight = Param::from_tensor(weight);
    head.classifier.bias = Some(Param::from_tensor(
        fixture.tensor("w.span_ffn.bias", device),
    ));
    head.length_embedding.weight = Param::from_tensor(fixture.tensor("w.len_emb.weight", device));
    head
}

/// The spans that the fixture samples; their ends are inclusive.
fn span_gold(fixture: &Fixture) -> span_ner::Gold {
    let per_sentence = fixture.shape("in.spans")[1];
    let spans = fixture.integers("in.spans");
    let mask = fixture.integers("in.span_mask");
    let real = |index: &usize| mask[*index] == 1;
    span_ner::Gold {
        spans: (0..mask.len())
            .filter(real)
            .map(|index| BatchSpan {
                sentence: index / per_sentence,
                start: spans[2 * index] as usize,
                end: spans[2 * index + 1] as usize + 1,
            })
            .collect(),
        classes: (0..mask.len())
            .filter(real)
            .map(|index| fixture.integers("in.span_labels")[index] as i32)
            .collect(),
    }
}

/// Gradients by our parameter names.
#[derive(Default)]
struct Names<'a> {
    prefix: &'static str,
    path: Vec<String>,
    gradients: Option<&'a GradientsParams>,
    found: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl<'a> Names<'a> {
    fn of<M: Module>(&mut self, module: &M, gradients: &'a GradientsParams) {
        self.gradients = Some(gradients);
        module.visit(self);
    }
}

impl ModuleVisitor for Names<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.and_then(|all| all.get::<D>(param.id)) {
            let entry = (gradient.dims().to_vec(), floats(gradient));
            self.found
                .insert(format!("{}{}", self.prefix, self.path.join(".")), entry);
        }
    }
}

/// Our name of a parameter of the fixtures.
fn renamed(name: &str) -> String {
    name.replace("encoder.layer.", "layers.")
        .replace("attention.output.dense", "attention_output")
        .replace("output.dense", "feed_forward_outer")
        .replace("intermediate.dense", "feed_forward_inner")
}

/// The [out, in] weights of a PyTorch linear layer in our order, [in, out].
fn transposed(values: &[f32], shape: &[usize]) -> Vec<f32> {
    let [rows, columns] = [shape[0], shape[1]];
    (0..rows * columns)
        .map(|index| values[(index % columns) * rows + index / columns])
        .collect()
}
