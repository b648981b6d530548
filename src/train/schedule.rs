//! The learning rate over the steps of a run: linear warm-up and decay, optionally with its own peak for the head and for
//! each layer of the transformer.

use std::collections::BTreeMap;

use burn::module::ParamGroup;
use burn::optim::LearningRate;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::optim::lr_scheduler::{LrScheduler, LrSchedulerRecord};

use crate::recipe::TrainConfig;

/// Linear warm-up to a peak, then linear decay to 0 over the steps of a run.
#[derive(Debug, Clone)]
pub struct WarmUp {
    peak: f64,
    rising: usize,
    total: usize,
    step: usize,
}

impl LrScheduler for WarmUp {
    fn step(&mut self) -> LearningRate {
        let step = self.step as f64;
        self.step += 1;
        if self.step <= self.rising {
            self.peak * (step / self.rising as f64)
        } else {
            let left = self.total.saturating_sub(self.step - 1) as f64;
            self.peak * left / (self.total.saturating_sub(self.rising).max(1)) as f64
        }
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar("step", self.step)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        if let Some(step) = record.scalar("step") {
            self.step = step;
        }
    }
}

/// Two schedules, one after the other; the first may have no steps.
#[derive(Debug, Clone)]
struct Stages {
    first: WarmUp,
    /// Factor for the first schedule's rate after its warm-up.
    boost: f64,
    second: WarmUp,
}

impl LrScheduler for Stages {
    fn step(&mut self) -> LearningRate {
        if self.first.step >= self.first.total {
            return self.second.step();
        }
        let risen = self.first.step >= self.first.rising;
        self.first.step() * if risen { self.boost } else { 1.0 }
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar("step", self.first.step + self.second.step)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        if let Some(step) = record.scalar::<usize>("step") {
            self.first.step = step.min(self.first.total);
            self.second.step = step - self.first.step;
        }
    }
}

/// The learning-rate schedule of a run of `total` steps, with groups of parameters of their own for the layers of the
/// transformer if their rates differ, and for the head if it has its own rate. `order` lists the transformer's layers in the
/// order in which they are applied.
pub fn scheduler(train: &TrainConfig, total: usize, order: &[usize]) -> ModuleLrScheduler {
    let stage = |peak, total: usize| WarmUp {
        peak,
        rising: (train.warm_up * total as f64) as usize,
        total,
        step: 0,
    };
    let frozen = match train.freeze_rate {
        Some(_) => total * train.freeze_encoder.min(train.epochs) / train.epochs.max(1),
        None => 0,
    };
    let warm_up = |peak| Stages {
        first: stage(peak, frozen),
        boost: train.freeze_rate.unwrap_or(1.0),
        second: stage(peak, total - frozen),
    };
    let mut scheduler = ModuleLrScheduler::new(warm_up(train.learning_rate));
    for (pattern, factor) in layer_factors(train.layer_decay, order) {
        let group = ParamGroup::from_regex(pattern).expect("a valid pattern");
        scheduler = scheduler.with_group(group, warm_up(train.learning_rate * factor));
    }
    match train.head_learning_rate {
        Some(rate) => scheduler.with_group(
            ParamGroup::from_regex(r"^(head|encoder\.features)\.").expect("a valid pattern"),
            warm_up(rate),
        ),
        None => scheduler,
    }
}

/// Patterns of parameter paths, each with its factor for the encoder's learning rate; none without decay. A layer that is
/// applied several times has the rate of its last application. What is after the layers, or is used by all of them, has the
/// full rate.
fn layer_factors(decay: f64, order: &[usize]) -> Vec<(String, f64)> {
    if decay == 1.0 {
        return Vec::new();
    }
    let embeddings = r"^encoder\.transformer\.((?:word|position|token_type)_embeddings|embedding_norm|projection)\.";
    let below_top = |application| order.len() - 1 - application;
    let last: BTreeMap<usize, usize> = (order.iter().enumerate())
        .map(|(application, layer)| (*layer, application))
        .collect();
    let layers = last.into_iter().map(|(layer, application)| {
        let pattern = format!(r"^encoder\.transformer\.layers\.{layer}\.");
        (pattern, below_top(application))
    });
    std::iter::once((embeddings.to_string(), order.len()))
        .chain(layers)
        .map(|(pattern, below_top)| (pattern, decay.powi(below_top as i32)))
        .collect()
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, ModuleVisitor, Param, ParamId};
    use burn::tensor::Tensor;

    use super::*;
    use crate::encoder::transformer::TransformerConfig;
    use crate::encoder::{Encoder, EncoderConfig, LayerPooling, Pooling, RowLayout, ScratchConfig};

    #[test]
    fn the_rate_rises_and_falls() {
        let mut schedule = WarmUp {
            peak: 1.0,
            rising: 2,
            total: 6,
            step: 0,
        };
        let rates: Vec<f64> = (0..7).map(|_| schedule.step()).collect();
        assert_eq!(rates, [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]);
        let mut resumed = WarmUp {
            step: 0,
            ..schedule.clone()
        };
        resumed.load_record(
            WarmUp {
                step: 3,
                ..schedule
            }
            .to_record(),
        );
        assert_eq!(resumed.step(), 0.75);
    }

    #[test]
    fn a_stage_can_come_before_and_be_resumed_in() {
        let stage = |rising, total| WarmUp {
            peak: 1.0,
            rising,
            total,
            step: 0,
        };
        let fresh = Stages {
            first: stage(1, 3),
            boost: 2.0,
            second: stage(2, 4),
        };
        let mut schedule = fresh.clone();
        let mut records = vec![schedule.to_record()];
        let mut rates = Vec::new();
        for _ in 0..8 {
            rates.push(schedule.step());
            records.push(schedule.to_record());
        }
        assert_eq!(rates, [0.0, 2.0, 1.0, 0.0, 0.5, 1.0, 0.5, 0.0]);
        for (done, record) in records.into_iter().enumerate().take(8) {
            let mut resumed = fresh.clone();
            resumed.load_record(record);
            assert_eq!(resumed.step(), rates[done], "after {done}");
        }
    }

    #[derive(Module, Debug)]
    struct Model {
        encoder: Encoder,
        head: burn::nn::Linear,
    }

    /// The paths of all parameters.
    #[derive(Default)]
    struct Paths {
        path: Vec<String>,
        found: Vec<String>,
    }

    impl ModuleVisitor for Paths {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
            self.found.push(self.path.join("."));
        }
    }

    /// The rates of all parameters of a model with three layers in the first step, without warm-up.
    fn rates(train: &TrainConfig) -> Vec<(String, f64)> {
        let scratch = ScratchConfig {
            layers: 3,
            width: 4,
            heads: 1,
            feed_forward: 4,
            ..ScratchConfig::default()
        };
        let encoder = EncoderConfig {
            // With every parameter that some family has.
            transformer: TransformerConfig {
                token_types: 2,
                embedding_width: 2,
                ..scratch.transformer(20)
            },
            pooling: Pooling::Mean,
            layers: LayerPooling::Last,
            overlap: 4,
            context: 0,
            rows: RowLayout::Standard,
            features: None,
        };
        let device = crate::device::cpu();
        let model = Model {
            encoder: encoder.init(&device),
            head: burn::nn::LinearConfig::new(4, 2).init(&device),
        };
        let mut paths = Paths::default();
        model.visit(&mut paths);
        let rates = scheduler(train, 10, &encoder.transformer.order()).step();
        let rate = |path: &String| rates.lr_from_param(ParamId::new(), Some(path));
        (paths.found.iter())
            .map(|path| (path.clone(), rate(path)))
            .collect()
    }

    /// The rate of all parameters whose paths start like this; it is the same for all of them.
    fn rate_of(rates: &[(String, f64)], start: &str) -> f64 {
        let mut of_part = (rates.iter())
            .filter(|(path, _)| path.starts_with(start))
            .map(|(_, rate)| *rate);
        let rate = of_part.next().expect("there are such parameters");
        assert!(of_part.all(|other| other == rate), "{start}: {rates:?}");
        rate
    }

    const PARTS: [&str; 9] = [
        "encoder.transformer.word_embeddings.",
        "encoder.transformer.position_embeddings.",
        "encoder.transformer.token_type_embeddings.",
        "encoder.transformer.embedding_norm.",
        "encoder.transformer.projection.",
        "encoder.transformer.layers.0.",
        "encoder.transformer.layers.1.",
        "encoder.transformer.layers.2.",
        "head.",
    ];

    #[test]
    fn every_layer_has_the_rate_of_the_one_above_times_the_decay() {
        let train = TrainConfig {
            learning_rate: 0.5,
            layer_decay: 0.5,
            warm_up: 0.0,
            ..TrainConfig::default()
        };
        let found = rates(&train);
        let expected = [
            0.0625, 0.0625, 0.0625, 0.0625, 0.0625, 0.125, 0.25, 0.5, 0.5,
        ];
        assert_eq!(PARTS.map(|part| rate_of(&found, part)), expected);
        let found = rates(&TrainConfig {
            head_learning_rate: Some(0.75),
            ..train
        });
        let expected = [
            0.0625, 0.0625, 0.0625, 0.0625, 0.0625, 0.125, 0.25, 0.5, 0.75,
        ];
        assert_eq!(PARTS.map(|part| rate_of(&found, part)), expected);
    }

    #[test]
    fn a_layer_that_is_used_several_times_has_the_rate_of_its_last_use() {
        let factors = layer_factors(0.5, &[0, 1, 0, 1, 2, 2]);
        assert_eq!(factors.len(), 4);
        let factor = |path: &str| {
            let is_match = |pattern: &str| regex::Regex::new(pattern).unwrap().is_match(path);
            let mut matching = factors.iter().filter(|(pattern, _)| is_match(pattern));
            let factor = matching.next().map_or(1.0, |(_, factor)| *factor);
            assert!(matching.next().is_none(), "{path}");
            factor
        };
        let expected = [
            ("layers.0.query.weight", 0.125),
            ("layers.1.query.weight", 0.25),
            ("layers.2.query.weight", 1.0),
            ("final_norm.gamma", 1.0),
            ("projection.weight", 1.0 / 64.0),
            ("embedding_norm.gamma", 1.0 / 64.0),
            ("token_type_embeddings.weight", 1.0 / 64.0),
        ];
        for (path, expected) in expected {
            assert_eq!(
                factor(&format!("encoder.transformer.{path}")),
                expected,
                "{path}"
            );
        }
    }

    /// Without decay, the record has the groups it had before the setting existed.
    #[test]
    fn without_decay_there_are_no_groups_of_layers() {
        assert!(layer_factors(1.0, &[0, 1, 2]).is_empty());
        let train = TrainConfig {
            warm_up: 0.0,
            ..TrainConfig::default()
        };
        let found = rates(&train);
        assert_eq!(PARTS.map(|part| rate_of(&found, part)), [5e-5; 9]);
    }

    #[test]
    fn the_decay_of_layers_keeps_warm_up_and_resumes() {
        let train = TrainConfig {
            learning_rate: 1.0,
            layer_decay: 0.5,
            warm_up: 0.5,
            ..TrainConfig::default()
        };
        let mut schedule = scheduler(&train, 4, &[0, 1]);
        let path = Some("encoder.transformer.layers.0.norm.gamma");
        let mut rate = || schedule.step().lr_from_param(ParamId::new(), path);
        assert_eq!([rate(), rate(), rate()], [0.0, 0.25, 0.5]);
        let mut resumed = scheduler(&train, 4, &[0, 1]).load_record(schedule.to_record());
        let rate = resumed.step().lr_from_param(ParamId::new(), path);
        assert_eq!(rate, 0.25);
    }
}
