//! The devices that compute the batches of a step: one, or several at once through Burn's multi-device step.

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use burn::train::train::MultiDevicesTrainStep;
use burn::train::{Learner, TrainOutput};

use super::batches::{Batch, mix};
use super::step::Outcome;
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::model::recognizer::Recognizer;

/// The devices of a run; the first holds the weights.
pub struct DevicePool<H: Head> {
    devices: Vec<Device>,
    several: Option<MultiDevicesTrainStep<Recognizer<H>>>,
}

impl<H: Head> DevicePool<H> {
    /// A pool; with several devices, each gets a thread.
    pub fn new(devices: &[Device]) -> Self {
        Self {
            devices: devices.to_vec(),
            several: (devices.len() > 1).then(|| MultiDevicesTrainStep::new(devices)),
        }
    }

    /// How many batches are computed at once.
    pub fn size(&self) -> usize {
        self.devices.len()
    }

    /// Losses and gradients of at most [`size`](Self::size) batches, in their order, on the first device. The random
    /// numbers of a batch depend on `seed` and on the number that comes with the batch.
    pub fn compute(
        &self,
        learner: &Learner<Recognizer<H>>,
        batches: Vec<(usize, Batch<H::Gold>)>,
        seed: u64,
    ) -> Result<Vec<TrainOutput<Outcome>>> {
        for (device, (number, _)) in self.devices.iter().zip(&batches) {
            device.seed(mix(seed, *number as u64));
        }
        let mut batches = batches.into_iter().map(|(_, batch)| batch);
        let Some(several) = &self.several else {
            let outputs = batches.map(|batch| learner.train_step(batch));
            return Ok(outputs.collect());
        };
        let mut loaders: Vec<Box<dyn DataLoaderIterator<Batch<H::Gold>>>> = Vec::new();
        for _ in &self.devices {
            loaders.push(Box::new(SingleBatch(batches.next())));
        }
        let model = learner.model();
        self.synchronise()?;
        let (outputs, _) = several
            .step(&mut loaders, &model)
            .map_err(|problem| Error::Device(problem.to_string()))?;
        self.synchronise()?;
        let mut outputs: Vec<TrainOutput<Outcome>> = outputs
            .into_iter()
            .map(|found| {
                let mut output = found.output;
                output.grads = output.grads.to_device(&self.devices[0], &model);
                let main = self.devices[0].clone().inner();
                output.item.unread = output.item.unread.map(|loss| loss.to_device(&main));
                output
            })
            .collect();
        // They arrive in the order in which the devices finished.
        outputs.sort_by_key(|output| output.item.batch);
        Ok(outputs)
    }

    /// Waits for all queued work. Burn's GPU backends queue it by thread, and a tensor passed to another thread may be
    /// read there before it is computed: without this, two threads on one Vulkan device train on stale values.
    fn synchronise(&self) -> Result<()> {
        self.devices.iter().try_for_each(|device| {
            device
                .sync()
                .map_err(|problem| Error::Device(problem.to_string()))
        })
    }
}

/// A data loader of one batch, for one device and one step.
struct SingleBatch<G>(Option<Batch<G>>);

impl<G> Iterator for SingleBatch<G> {
    type Item = std::result::Result<Batch<G>, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl<G> DataLoaderIterator<Batch<G>> for SingleBatch<G> {
    fn progress(&self) -> Progress {
        Progress::new(0, 1, None)
    }
}
