//! Checks of a transformer's sizes, before anything is allocated.

use super::relative::MPNET_BUCKETS;
use super::{DebertaLayout, Layout, TransformerConfig};

/// A size of a transformer and its largest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Name of the size in a model's `config.json` and in recipes.
    pub name: &'static str,
    /// Name of the size in the `config.json` of most published encoders.
    pub published: &'static str,
    /// Largest value.
    pub most: usize,
}

const fn limit(name: &'static str, published: &'static str, most: usize) -> Limit {
    Limit {
        name,
        published,
        most,
    }
}

/// Limits of all sizes. Published encoders are far below all of them.
pub const LIMITS: [Limit; 8] = [
    limit("vocabulary", "vocab_size", 10_000_000),
    limit("embedding_width", "embedding_size", 65_536),
    limit("width", "hidden_size", 65_536),
    limit("layers", "num_hidden_layers", MOST_LAYERS),
    limit("heads", "num_attention_heads", 1_000),
    limit("feed_forward", "intermediate_size", 262_144),
    limit("positions", "max_position_embeddings", 1_000_000),
    limit("token_types", "type_vocab_size", 1_000),
];

/// Largest number of layers.
const MOST_LAYERS: usize = 1_000;

/// Largest number of rows of a table of relative positions.
const LARGEST_TABLE: usize = 1_000_000;

/// Largest number of pieces under the kernel of a convolution.
const LARGEST_KERNEL: usize = 1_023;

/// Why a transformer cannot have the given sizes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SizeError {
    /// A size is 0 or beyond its limit.
    #[error("{name} ({published}) = {value} must be between {least} and {most}")]
    OutOfRange {
        /// Name of the size.
        name: &'static str,
        /// Its name in published files.
        published: &'static str,
        /// Its value.
        value: usize,
        /// The smallest value.
        least: usize,
        /// The largest value.
        most: usize,
    },
    /// A probability or epsilon is out of range.
    #[error("{name} = {value} must be {range}")]
    NotWithin {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The range.
        range: &'static str,
    },
    /// A setting of one family has a value that is not possible.
    #[error("{name} = {value} must be {range}")]
    Family {
        /// Name of the setting in published files.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The range.
        range: &'static str,
    },
    /// The attention heads do not divide the width.
    #[error("the width {width} is not a multiple of the {heads} attention heads")]
    Heads {
        /// Width of the states.
        width: usize,
        /// Number of attention heads.
        heads: usize,
    },
    /// The width of an attention head is odd, but rotary positions rotate pairs of values.
    #[error("the width of an attention head has to be even for rotary positions, and is {0}")]
    OddHeads(usize),
    /// There are too few positions for a word between the special pieces.
    #[error("{0} positions (max_position_embeddings) leave no room for a word")]
    TooShort(usize),
}

impl TransformerConfig {
    /// Fails unless all sizes are within their [`LIMITS`] and fit each other.
    pub fn check(&self) -> Result<(), SizeError> {
        let sizes = [
            (self.vocabulary, 1),
            (self.embedding_width, 1),
            (self.width, 1),
            (self.layers, 1),
            (self.heads, 1),
            (self.feed_forward, 1),
            (self.positions, 1),
            (self.token_types, 0),
        ];
        for (limit, (value, least)) in LIMITS.into_iter().zip(sizes) {
            let Limit {
                name,
                published,
                most,
            } = limit;
            if value < least || value > most {
                return Err(SizeError::OutOfRange {
                    name,
                    published,
                    value,
                    least,
                    most,
                });
            }
        }
        let dropouts = [
            ("dropout", self.dropout),
            ("attention_dropout", self.attention_dropout),
        ];
        for (name, value) in dropouts {
            if !(0.0..1.0).contains(&value) {
                let range = "at least 0 and below 1";
                return Err(SizeError::NotWithin { name, value, range });
            }
        }
        // Epsilon is added to a variance.
        let value = self.norm_epsilon;
        if !(value > 0.0 && value < 1.0) {
            let (name, range) = ("norm_epsilon", "above 0 and below 1");
            return Err(SizeError::NotWithin { name, value, range });
        }
        if let Layout::Albert(layout) = &self.layout {
            let value = layout.distinct_layers();
            if value == 0 || value > MOST_LAYERS {
                return Err(SizeError::OutOfRange {
                    name: "layers with weights of their own",
                    published: "num_hidden_groups · inner_group_num",
                    value,
                    least: 1,
                    most: MOST_LAYERS,
                });
            }
        }
        match &self.layout {
            Layout::Deberta(layout) => self.check_deberta(layout)?,
            // The reference implementation uses the first 32, however many there are.
            Layout::Mpnet(layout) => within(
                (MPNET_BUCKETS..=LARGEST_TABLE).contains(&layout.buckets),
                "relative_attention_num_buckets",
                layout.buckets,
                "at least 32, the number of buckets that MPNet uses",
            )?,
            Layout::Bert | Layout::Albert(_) | Layout::Modernbert(_) => {}
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(SizeError::Heads {
                width: self.width,
                heads: self.heads,
            });
        }
        let head_width = self.width / self.heads;
        if matches!(self.layout, Layout::Modernbert(_)) && !head_width.is_multiple_of(2) {
            return Err(SizeError::OddHeads(head_width));
        }
        if self.padding >= self.vocabulary {
            return Err(SizeError::OutOfRange {
                name: "padding",
                published: "pad_token_id",
                value: self.padding,
                least: 0,
                most: self.vocabulary - 1,
            });
        }
        // [CLS], one piece of a word, [SEP].
        if self.window() < 3 {
            return Err(SizeError::TooShort(self.positions));
        }
        Ok(())
    }

    /// Checks that the table of relative positions has a sensible size, that buckets are defined for all distances, and that
    /// the convolution keeps the number of pieces.
    fn check_deberta(&self, layout: &DebertaLayout) -> Result<(), SizeError> {
        let (buckets, longest) = (layout.buckets, layout.longest);
        if layout.relative {
            let middle = buckets / 2;
            let has_far = self.positions > middle.saturating_add(1);
            let is_defined = buckets == 0 || !has_far || longest > middle + 1;
            within(
                buckets != 1 && buckets <= LARGEST_TABLE && is_defined,
                "position_buckets",
                buckets,
                "negative for none, or from 2 to less than twice max_relative_positions",
            )?;
            within(
                longest <= LARGEST_TABLE,
                "max_relative_positions",
                longest,
                "at most 1000000",
            )?;
        }
        let Some(convolution) = &layout.convolution else {
            return Ok(());
        };
        let (kernel, groups) = (convolution.kernel, convolution.groups);
        within(
            kernel % 2 == 1 && kernel <= LARGEST_KERNEL,
            "conv_kernel_size",
            kernel,
            "odd and at most 1023",
        )?;
        within(
            groups > 0 && self.width.is_multiple_of(groups),
            "conv_groups",
            groups,
            "a divisor of hidden_size",
        )
    }
}

fn within(
    is_within: bool,
    name: &'static str,
    value: usize,
    range: &'static str,
) -> Result<(), SizeError> {
    if is_within {
        Ok(())
    } else {
        Err(SizeError::Family { name, value, range })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::ScratchConfig;

    #[test]
    fn sizes_out_of_range_are_named() {
        let valid = ScratchConfig::default().transformer(100);
        valid.check().unwrap();
        let refused = |change: fn(&mut TransformerConfig), name: &str| {
            let mut config = valid.clone();
            change(&mut config);
            let problem = config.check().unwrap_err().to_string();
            assert!(problem.contains(name), "{problem}");
        };
        refused(|config| config.heads = 0, "heads (num_attention_heads) = 0");
        refused(|config| config.heads = usize::MAX, "= 18446744073709551615");
        refused(|config| config.heads = 7, "7 attention heads");
        refused(|config| config.layers = 10_000_000, "layers");
        refused(|config| config.width = 1 << 40, "width");
        refused(|config| config.vocabulary = 0, "vocabulary");
        refused(
            |config| config.padding = 100,
            "padding (pad_token_id) = 100",
        );
        refused(|config| config.positions = 2, "no room");
        refused(|config| config.dropout = 7.0, "dropout = 7");
        refused(
            |config| config.attention_dropout = f64::NAN,
            "attention_dropout",
        );
        refused(|config| config.norm_epsilon = -1.0, "norm_epsilon");
    }
}
