//! What the layers of an encoder family have beyond BERT's.

use serde::{Deserialize, Serialize};

use super::Activation;

/// The structure of a transformer's layers, with the settings that only one family has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Layout {
    /// BERT's: position embeddings at the input, a norm after each sub-layer.
    #[default]
    Bert,
    /// ALBERT's: the weights of a group of layers are used several times.
    Albert(AlbertLayout),
    /// MPNet's: a learned bias of the attention scores for each distance between two pieces.
    Mpnet(MpnetLayout),
    /// DeBERTa's: scores between content and relative positions are added to the attention scores.
    Deberta(DebertaLayout),
    /// ModernBERT's: a norm before each sub-layer, rotary positions, gated feed-forward networks, local attention.
    Modernbert(ModernbertLayout),
}

impl Layout {
    /// Whether this is BERT's layout.
    pub fn is_bert(&self) -> bool {
        *self == Layout::Bert
    }

    /// Whether embeddings of positions are added to those of the pieces.
    pub fn has_position_embedding(&self) -> bool {
        match self {
            Layout::Bert | Layout::Albert(_) | Layout::Mpnet(_) => true,
            Layout::Deberta(layout) => layout.position_input,
            Layout::Modernbert(_) => false,
        }
    }

    /// Whether attention scores depend on a table of relative positions.
    pub(super) fn uses_relative_positions(&self) -> bool {
        match self {
            Layout::Mpnet(_) => true,
            Layout::Deberta(layout) => layout.relative && layout.score_terms() > 1,
            Layout::Bert | Layout::Albert(_) | Layout::Modernbert(_) => false,
        }
    }
}

/// Sharing of weights between ALBERT's layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlbertLayout {
    /// Number of groups; consecutive layers share the weights of one group.
    pub groups: usize,
    /// Number of layers in a group, which are run one after the other wherever the group is used.
    pub layers_per_group: usize,
}

impl AlbertLayout {
    /// Number of layers with weights of their own.
    pub fn distinct_layers(&self) -> usize {
        self.groups.saturating_mul(self.layers_per_group)
    }

    /// The order in which layers are applied if groups are applied `applications` times. The groups are numbered as in the
    /// reference implementation, which divides floating-point numbers.
    pub fn order(&self, applications: usize) -> Vec<usize> {
        if self.distinct_layers() == 0 {
            return Vec::new();
        }
        let share = applications as f64 / self.groups as f64;
        (0..applications)
            .map(|index| ((index as f64 / share) as usize).min(self.groups - 1))
            .flat_map(|group| {
                let first = group * self.layers_per_group;
                first..first + self.layers_per_group
            })
            .collect()
    }
}

/// Relative positions of MPNet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MpnetLayout {
    /// Number of rows of the table of biases. The first 32 are used: distances are told apart up to 7, and larger ones in
    /// ranges.
    pub buckets: usize,
}

/// Relative positions of DeBERTa (versions 2 and 3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebertaLayout {
    /// Whether relative positions are used. Without them, the two next settings only scale the scores.
    pub relative: bool,
    /// Add scores between the content of a piece and the position of another one relative to it.
    pub content_to_position: bool,
    /// Add scores between the position of a piece and the content of another one.
    pub position_to_content: bool,
    /// Number of distances that are told apart in each direction, the larger ones in ranges; 0 for every distance.
    pub buckets: usize,
    /// Largest distance that is told apart.
    pub longest: usize,
    /// Project relative positions with the query and key weights of the content.
    pub shared_key: bool,
    /// Normalise the relative position embeddings.
    pub normalised: bool,
    /// Add position embeddings to those of the pieces.
    pub position_input: bool,
    /// A convolution beside the first layer.
    pub convolution: Option<DebertaConvolution>,
}

/// The convolution over pieces beside the first layer of DeBERTa-v2-xlarge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebertaConvolution {
    /// Number of pieces under the kernel.
    pub kernel: usize,
    /// Number of groups of channels.
    pub groups: usize,
    /// Activation after the convolution.
    pub activation: Activation,
}

/// Positions, attention and biases of ModernBERT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModernbertLayout {
    /// Base of the rotary positions of layers with global attention.
    pub global_theta: f64,
    /// Base of the rotary positions of layers with local attention.
    pub local_theta: f64,
    /// Number of pieces in the window of local attention, half of them on each side.
    pub local_window: usize,
    /// For each layer, whether its attention is global.
    pub is_global: Vec<bool>,
    /// Whether the projections of the attention have biases.
    pub attention_bias: bool,
    /// Whether the feed-forward network has biases.
    pub feed_forward_bias: bool,
    /// Whether the norms have biases.
    pub norm_bias: bool,
    /// Dropout inside the feed-forward network.
    pub feed_forward_dropout: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_a_group_follow_each_other() {
        let order = |groups, layers_per_group, applications| {
            let layout = AlbertLayout {
                groups,
                layers_per_group,
            };
            layout.order(applications)
        };
        assert_eq!(order(1, 1, 4), [0, 0, 0, 0]);
        assert_eq!(order(3, 1, 3), [0, 1, 2]);
        assert_eq!(order(2, 2, 5), [0, 1, 0, 1, 0, 1, 2, 3, 2, 3]);
        assert_eq!(order(3, 1, 5), [0, 0, 1, 1, 2]);
        // Groups that are never used.
        assert_eq!(order(5, 1, 3), [0, 1, 3]);
        for [groups, layers_per_group] in [[0, 1], [1, 0], [0, 0]] {
            assert!(order(groups, layers_per_group, 3).is_empty());
        }
        for groups in 1..20 {
            for applications in 1..40 {
                let order = order(groups, 1, applications);
                assert!(order.is_sorted() && order.iter().all(|group| *group < groups));
            }
        }
    }
}
