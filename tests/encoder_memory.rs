//! Memory of ModernBERT's layers: in proportion to the length of a row, not to its square.

#[path = "common/counting.rs"]
mod counting;

use burn::tensor::Device;
use nerzoo::encoder::batching::PackedRows;
use nerzoo::encoder::transformer::{
    Activation, EncoderFamily, Layout, ModernbertLayout, TransformerConfig,
};
use nerzoo::nn::fused;

/// A transformer with two layers and four heads that are two values wide: attention scores take most of the memory.
fn config(is_global: bool) -> TransformerConfig {
    TransformerConfig {
        family: EncoderFamily::Modernbert,
        vocabulary: 20,
        embedding_width: 8,
        width: 8,
        layers: 2,
        heads: 4,
        feed_forward: 8,
        positions: 8192,
        token_types: 0,
        padding: 0,
        norm_epsilon: 1e-5,
        dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layout: Layout::Modernbert(ModernbertLayout {
            global_theta: 1000.0,
            local_theta: 100.0,
            local_window: 32,
            is_global: vec![is_global; 2],
            attention_bias: false,
            feed_forward_bias: false,
            norm_bias: false,
            feed_forward_dropout: 0.0,
        }),
    }
}

/// The peak of allocated bytes while a row of so many pieces is encoded, in training with its backward pass.
fn peak(is_global: bool, pieces: usize, training: bool) -> usize {
    let device = Device::flex();
    let device = if training { device.autodiff() } else { device };
    let model = config(is_global).init(&device);
    let rows = PackedRows {
        ids: (0..pieces).map(|piece| (piece % 20) as u32).collect(),
        lengths: vec![pieces],
        padding_id: 0,
        least_width: 0,
    };
    let run = || {
        let states = model.forward(&rows, None, 1).states;
        if training {
            let gradients = states.powi_scalar(2).sum().backward();
            drop(gradients);
        }
    };
    run(); // allocates what is kept between calls
    counting::peak(run)
}

#[test]
fn memory_is_linear_in_the_length_of_a_row() {
    for kernels in [true, false] {
        fused::set_enabled(kernels);
        for training in [false, true] {
            let (short, long) = (peak(false, 512, training), peak(false, 2048, training));
            println!("local, kernels {kernels}, training {training}: {short} {long}");
            // Four times the pieces may take four times the memory; a square would take 16 times.
            assert!(long < short * 4 * 13 / 10, "{short} bytes grow to {long}");
        }
    }
    fused::set_enabled(true);
    for training in [false, true] {
        let found = peak(true, 2048, training);
        println!("global, training {training}: {found}");
        // One head's scores of all pieces take 17 MB.
        assert!(found < 10_000_000, "{found}");
    }
}
