//! A bias on the class "none": the trade-off between precision and recall of a trained classifier.

/// Biases that are tried on the dev sentences are within ± this.
pub const RANGE: f64 = 3.0;

/// The probability of a type after `bias` was added to the score of the class none; `None` when none is more probable.
pub fn biased(of_type: f32, of_none: f32, bias: f64) -> Option<f32> {
    if bias == 0.0 {
        return (of_type > of_none).then_some(of_type);
    }
    let none = of_none * bias.exp() as f32;
    (of_type > none).then(|| of_type / (1.0 - of_none + none))
}

/// True when some bias that is tried, or the given one, can make the type more probable than none. Other candidates
/// need not be kept.
pub fn can_win(of_type: f32, of_none: f32, bias: f64) -> bool {
    of_type > of_none * (-RANGE).min(bias).exp() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_shifts_probability_between_none_and_the_types() {
        assert_eq!(biased(0.5, 0.3, 0.0), Some(0.5));
        assert_eq!(biased(0.3, 0.5, 0.0), None);
        assert_eq!(biased(0.3, 0.3, 0.0), None, "none wins a tie");
        // e^ln 2 doubles the weight of none: 0.5 / (0.7 + 0.6).
        let found = biased(0.5, 0.3, 2f64.ln());
        assert_eq!(found, None, "0.5 < 0.6");
        let found = biased(0.4, 0.5, -2f64.ln()).unwrap();
        assert!((found - 0.4 / 0.75).abs() < 1e-6, "{found}");
    }

    #[test]
    fn hopeless_candidates_are_recognised() {
        assert!(can_win(0.06, 0.94, 0.0), "0.06 > 0.94 / e³");
        assert!(!can_win(0.04, 0.96, 0.0));
        assert!(can_win(0.04, 0.96, -4.0));
        assert!(can_win(0.06, 0.94, 5.0), "lower biases are tried as well");
    }
}
