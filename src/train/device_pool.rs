//! Who calculates the batches of a step: one device, or several at once through Burn's multi-device step.

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use burn::train::train::MultiDevicesTrainStep;
use burn::train::{Learner, TrainOutput};

use super::batches::{Batch, mix};
use super::step::Outcome;
use crate::heads::Head;
use crate::model::recognizer::Recognizer;

/// The devices of a run, the one that holds the weights first.
pub struct DevicePool<H: Head> {
    devices: Vec<Device>,
    several: Option<MultiDevicesTrainStep<Recognizer<H>>>,
}

impl<H: Head> DevicePool<H> {
    /// Starts a thread for each of several devices.
    pub fn new(devices: &[Device]) -> Self {
        Self {
            devices: devices.to_vec(),
            several: (devices.len() > 1).then(|| MultiDevicesTrainStep::new(devices)),
        }
    }

    /// How many batches are calculated at once.
    pub fn size(&self) -> usize {
        self.devices.len()
    }

    /// Losses and gradients of at most as many batches as there are devices, in their order, on the first device.
    /// `seed` and the number that comes with each batch decide its random numbers.
    pub fn calculate(
        &self,
        learner: &Learner<Recognizer<H>>,
        batches: Vec<(usize, Batch<H::Gold>)>,
        seed: u64,
    ) -> Result<Vec<TrainOutput<Outcome>>, String> {
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
        self.wait()?;
        let (outputs, _) = several
            .step(&mut loaders, &model)
            .map_err(|problem| problem.to_string())?;
        self.wait()?;
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
        // They come in the order in which the devices were done.
        outputs.sort_by_key(|output| output.item.batch);
        Ok(outputs)
    }

    /// Waits for all work. Burn's GPU backends queue it by thread, and a tensor handed to another thread may be read
    /// there before it is calculated: without this, two threads on one Vulkan device train on numbers of before.
    fn wait(&self) -> Result<(), String> {
        self.devices
            .iter()
            .try_for_each(|device| device.sync().map_err(|problem| problem.to_string()))
    }
}

/// What one device is handed for a step.
struct SingleBatch<G>(Option<Batch<G>>);

impl<G> Iterator for SingleBatch<G> {
    type Item = Result<Batch<G>, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl<G> DataLoaderIterator<Batch<G>> for SingleBatch<G> {
    fn progress(&self) -> Progress {
        Progress::new(0, 1, None)
    }
}
