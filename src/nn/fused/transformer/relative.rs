//! The kernel of a transformer layer with relative positions in its attention.

use burn::tensor::{Device, Tensor};

use super::positions::{DistanceRows, POSITION_INPUTS, PositionInputs, PositionValues};
use super::{INPUTS, SavedLayer, TransformerLayer};
use crate::nn::fused::{Kernel, KernelInput};

const ALL_INPUTS: usize = INPUTS + POSITION_INPUTS;

/// A [`TransformerLayer`] whose position inputs follow its other inputs. A layer without relative positions is a kernel of
/// its own, which has fewer inputs.
#[derive(Debug, Clone)]
pub(super) struct RelativeLayer {
    layer: TransformerLayer,
    rows: DistanceRows,
    /// Which position inputs there are.
    has: [bool; POSITION_INPUTS],
}

impl RelativeLayer {
    /// The kernel and its inputs, with a placeholder for each position input that is missing.
    pub(super) fn new(
        layer: TransformerLayer,
        rows: DistanceRows,
        inputs: [KernelInput; INPUTS],
        positions: PositionInputs<Tensor<2>>,
        device: &Device,
    ) -> (Self, [KernelInput; ALL_INPUTS]) {
        let positions = positions.into_array();
        let has = positions.each_ref().map(Option::is_some);
        let placeholder = || Tensor::zeros([1, 1], device);
        let positions = positions.map(|input| input.unwrap_or_else(placeholder).into());
        (Self { layer, rows, has }, join(inputs, positions))
    }

    /// The values of the inputs, without placeholders.
    fn values<'a>(
        &'a self,
        inputs: [&'a [f32]; ALL_INPUTS],
    ) -> ([&'a [f32]; INPUTS], PositionValues<'a>) {
        let position = |index: usize| self.has[index].then_some(inputs[INPUTS + index]);
        let positions = PositionValues {
            rows: &self.rows,
            inputs: PositionInputs::from_array(std::array::from_fn(position)),
        };
        (std::array::from_fn(|index| inputs[index]), positions)
    }
}

/// What belongs to the inputs of a layer, followed by what belongs to its position inputs.
fn join<T>(of_layer: [T; INPUTS], of_positions: [T; POSITION_INPUTS]) -> [T; ALL_INPUTS] {
    let mut all = of_layer.into_iter().chain(of_positions);
    std::array::from_fn(|_| all.next().expect("as many as both arrays have"))
}

impl Kernel<ALL_INPUTS> for RelativeLayer {
    type Saved = SavedLayer;

    fn recomputes(&self) -> bool {
        self.layer.recompute
    }

    fn forward(&self, inputs: [&[f32]; ALL_INPUTS], save: bool) -> (Vec<f32>, Option<SavedLayer>) {
        let (inputs, positions) = self.values(inputs);
        self.layer.run(inputs, Some(&positions), save)
    }

    fn backward(
        &self,
        inputs: [&[f32]; ALL_INPUTS],
        saved: &SavedLayer,
        grad_output: &[f32],
        _needed: [bool; ALL_INPUTS],
    ) -> [Option<Vec<f32>>; ALL_INPUTS] {
        let (inputs, positions) = self.values(inputs);
        let layer = &self.layer;
        let (of_layer, of_positions) =
            layer.run_backward(inputs, Some(&positions), saved, grad_output);
        let none = [const { None }; POSITION_INPUTS];
        let of_positions = of_positions.map_or(none, PositionInputs::into_array);
        join(of_layer.map(Some), of_positions)
    }
}
