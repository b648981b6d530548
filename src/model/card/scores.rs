//! The scores of a model card: splits, types and lengths, the interval, settings chosen on dev, and calibration.

use std::fmt::{Result, Write};

use serde_json::Value;

use super::escape::{code, markdown};
use super::{CardFacts, PUBLICATION, QUANTIZATION, number};

/// Writes the section.
pub(super) fn write(text: &mut String, facts: &CardFacts<'_>) -> Result {
    writeln!(
        text,
        "## Scores\n\n| split | view | precision | recall | F1 | entities |\n|---|---|---|---|---|---|"
    )?;
    for split in ["dev", "test"] {
        let report = &facts.metrics[split];
        let rows = [
            ("all entities", report),
            ("outermost only", &report["flat_view"]),
        ];
        for (view, row) in rows.into_iter().filter(|(_, row)| row.is_object()) {
            writeln!(text, "| {split} | {view} | {} |", cells(row))?;
        }
    }
    writeln!(text)?;
    quantization(text, &facts.metrics[QUANTIZATION])?;
    let published = &facts.metrics[PUBLICATION];
    if published.is_object() {
        interval(text, facts)?;
        if let Some(split) = facts.split() {
            groups(
                text,
                &format!("type on {split}"),
                &facts.metrics[split]["per_type"],
            )?;
            groups(
                text,
                &format!("words of an entity on {split}"),
                &facts.metrics[split]["lengths"],
            )?;
        }
    }
    tuning(text, &facts.metrics["tuning"])?;
    calibration(text, &facts.metrics["calibration"])
}

fn cells(scores: &Value) -> String {
    let percent = |key: &str| format!("{:.2}", 100.0 * number(&scores[key]));
    format!(
        "{} | {} | {} | {}",
        percent("precision"),
        percent("recall"),
        percent("f1"),
        scores["support"].as_u64().unwrap_or(0)
    )
}

/// The bootstrap interval, and F1 before the weights were stored in fewer bits.
fn interval(text: &mut String, facts: &CardFacts<'_>) -> Result {
    let published = &facts.metrics[PUBLICATION];
    let interval = &published["f1_interval"];
    if let (Some(low), Some(high), Some(split)) = (
        interval["low"].as_f64(),
        interval["high"].as_f64(),
        facts.split(),
    ) {
        writeln!(
            text,
            "95 % interval of F1 on {split}: {:.2} to {:.2} ({} bootstrap resamples of the sentences).\n",
            100.0 * low,
            100.0 * high,
            interval["resamples"].as_u64().unwrap_or(0)
        )?;
    }
    if let (Some(before), Some(precision)) = (
        published["f1_before"].as_f64(),
        published["weights"]["precision"].as_str(),
    ) {
        writeln!(
            text,
            "The weights are stored as {}; as trained, F1 was {:.2}.\n",
            markdown(precision),
            100.0 * before
        )?;
    }
    Ok(())
}

/// The size and F1 of quantised weights, and of those they were made from.
fn quantization(text: &mut String, facts: &Value) -> Result {
    let Some(kind) = facts["kind"].as_str() else {
        return Ok(());
    };
    let megabytes = |key: &str| number(&facts[key]) / 1e6;
    write!(
        text,
        "The weights of the encoder are stored in eight bits ({}): {:.1} MB instead of {:.1} MB.",
        markdown(kind),
        megabytes("bytes"),
        megabytes("bytes_before")
    )?;
    let scores = [&facts["f1"], &facts["f1_before"]].map(Value::as_f64);
    if let ([Some(f1), Some(before)], Some(what)) = (scores, facts["checked_on"].as_str()) {
        write!(
            text,
            " F1 on {} is {:.2}; before, it was {:.2}.",
            markdown(what),
            100.0 * f1,
            100.0 * before
        )?;
    }
    writeln!(
        text,
        " Decoding settings and the calibration of scores were chosen before.\n"
    )
}

/// A table of the scores of groups of entities.
fn groups(text: &mut String, what: &str, groups: &Value) -> Result {
    let Some(groups) = groups.as_object().filter(|groups| !groups.is_empty()) else {
        return Ok(());
    };
    writeln!(
        text,
        "| {what} | precision | recall | F1 | entities |\n|---|---|---|---|---|"
    )?;
    for (name, scores) in groups {
        writeln!(text, "| {} | {} |", markdown(name), cells(scores))?;
    }
    writeln!(text)
}

/// The decoding settings chosen on dev, with the scores before and after.
fn tuning(text: &mut String, tuning: &Value) -> Result {
    let changes = tuning["changes"].as_array().map_or(&[][..], Vec::as_slice);
    if !tuning.is_object() {
        return Ok(());
    }
    if changes.is_empty() {
        return writeln!(
            text,
            "Decoding settings were tried on dev; none was better than the ones it was trained with.\n"
        );
    }
    writeln!(
        text,
        "These decoding settings were chosen on dev after training; the scores above are with them.\n"
    )?;
    writeln!(text, "| setting | as trained | as chosen |\n|---|---|---|")?;
    for change in changes {
        let value = |key: &str| match &change[key] {
            Value::Number(number) => number.to_string(),
            other => markdown(&other.to_string()),
        };
        writeln!(
            text,
            "| {} | {} | {} |",
            code(&format!(
                "head.{}",
                change["setting"].as_str().unwrap_or_default()
            )),
            value("trained"),
            value("chosen")
        )?;
    }
    let trained = &tuning["as_trained"];
    for split in ["dev", "test"]
        .into_iter()
        .filter(|split| trained[split].is_object())
    {
        writeln!(
            text,
            "| {split} F1 | {:.2} | see above |",
            100.0 * number(&trained[split]["f1"])
        )?;
    }
    writeln!(
        text,
        "\nDev F1 with settings chosen on other dev sentences: {:.2} (as trained {:.2}).\n",
        100.0 * number(&tuning["dev_f1_cross_fitted"]),
        100.0 * number(&tuning["dev_f1_as_trained"])
    )
}

/// A line on what the scores of mentions mean.
fn calibration(text: &mut String, metrics: &Value) -> Result {
    let method = metrics["method"].as_str().unwrap_or("none");
    if method == "none" {
        return writeln!(text, "The scores of mentions are not calibrated.\n");
    }
    write!(
        text,
        "The scores of mentions are calibrated on dev ({}): each is the probability that the mention is correct.",
        markdown(method)
    )?;
    let errors = ["test_ece_after", "test_ece_before"].map(|key| metrics[key].as_f64());
    if let [Some(after), Some(before)] = errors {
        write!(
            text,
            " Expected calibration error on test: {:.2} %, without calibration {:.2} %.",
            100.0 * after,
            100.0 * before
        )?;
    }
    writeln!(text, "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_card_says_what_scores_mean() {
        let line = |metrics: Value| {
            let mut text = String::new();
            calibration(&mut text, &metrics).unwrap();
            text
        };
        let none = "The scores of mentions are not calibrated.\n\n";
        assert_eq!(line(Value::Null), none);
        assert_eq!(line(json!({"method": "none"})), none);
        let errors =
            json!({"method": "platt", "test_ece_before": 0.0812, "test_ece_after": 0.0105});
        assert_eq!(
            line(errors),
            "The scores of mentions are calibrated on dev (platt): each is the probability that the mention is correct. \
             Expected calibration error on test: 1.05 %, without calibration 8.12 %.\n\n"
        );
        let without_test = line(json!({"method": "platt", "test_ece_before": null}));
        assert!(without_test.ends_with("is correct.\n\n"), "{without_test}");
    }
}
