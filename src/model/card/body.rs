//! The text of a model card.

use std::fmt::{Result, Write};

use serde_json::Value;

use super::escape::{code, markdown, shell_block, with_code};
use super::{CardFacts, PUBLICATION, RUN, number, scores};

/// Writes the text after the metadata.
pub(super) fn write(text: &mut String, facts: &CardFacts<'_>) -> Result {
    let recipe = facts.recipe;
    let published = &facts.metrics[PUBLICATION];
    match published["name"].as_str() {
        Some(name) => writeln!(text, "# {}\n", markdown(name))?,
        None => writeln!(
            text,
            "# {} on {}\n",
            markdown(recipe.head_name()),
            markdown(&facts.corpus_name())
        )?,
    }
    if !recipe.about.is_empty() {
        writeln!(text, "{}\n", markdown(&recipe.about))?;
    }
    let kind = if facts.nested {
        "flat and nested"
    } else {
        "flat (outermost)"
    };
    let types: Vec<String> = facts
        .labels
        .names()
        .iter()
        .map(|name| markdown(name))
        .collect();
    writeln!(
        text,
        "Finds {kind} entities of {} types: {}.\n",
        types.len(),
        types.join(", ")
    )?;
    scores::write(text, facts)?;
    usage(text, facts)?;
    training(text, facts)?;
    if published.is_object() {
        limits(text, facts)?;
    }
    licences(text, facts)
}

fn usage(text: &mut String, facts: &CardFacts<'_>) -> Result {
    let published = facts.metrics[PUBLICATION]["name"].as_str();
    writeln!(text, "## Use\n")?;
    let command = format!(
        "echo 'A text of yours.' | nerzoo predict --model {} -",
        published.unwrap_or("FOLDER")
    );
    writeln!(text, "{}", shell_block(&command))?;
    if published.is_some() {
        writeln!(
            text,
            "The name works after `nerzoo zoo pull hf:OWNER/NAME`; the folder with these files, or `hf:OWNER/NAME` itself, \
             work as well. `nerzoo zoo verify` checks the files against `manifest.json`.\n"
        )?;
    }
    match facts.metrics[RUN]["segmentation"].as_str() {
        Some(segmentation) => writeln!(
            text,
            "Texts are cut into sentences first; {}.\n",
            with_code(segmentation)
        ),
        None => writeln!(text, "Texts are cut into sentences first.\n"),
    }
}

fn training(text: &mut String, facts: &CardFacts<'_>) -> Result {
    let run = &facts.metrics[RUN];
    writeln!(text, "## Training\n")?;
    if let Some(command) = run["command"].as_str() {
        writeln!(text, "{}", shell_block(command))?;
    }
    if let Some(splits) = run["splits"].as_object() {
        writeln!(text, "| split | sentences | entities |\n|---|---|---|")?;
        for (name, counts) in splits {
            writeln!(
                text,
                "| {} | {} | {} |",
                markdown(name),
                counts["sentences"],
                counts["entities"]
            )?;
        }
        writeln!(text)?;
    }
    let mut facts_of_run = Vec::new();
    if let Some(steps) = facts.metrics["steps"].as_u64() {
        facts_of_run.push(format!("{steps} steps"));
    }
    if let Some(seconds) = facts.metrics["seconds"].as_f64() {
        facts_of_run.push(format!("{} of wall time", duration(seconds)));
    }
    if let Some(seconds) = run["cpu_seconds"].as_f64() {
        facts_of_run.push(format!("{} of CPU time", duration(seconds)));
    }
    if let Some(cpu) = run["hardware"]["cpu"].as_str() {
        let threads = run["hardware"]["threads"].as_u64();
        let threads = threads.map_or(String::new(), |count| format!(", {count} threads"));
        let devices: Vec<String> = (run["hardware"]["devices"].as_array().into_iter().flatten())
            .filter_map(|device| device.as_str().map(markdown))
            .collect();
        let devices = if devices.is_empty() {
            String::new()
        } else {
            format!(", device {}", devices.join(", "))
        };
        facts_of_run.push(format!("{}{threads}{devices}", markdown(cpu)));
    }
    if !facts_of_run.is_empty() {
        writeln!(text, "{}.\n", facts_of_run.join("; "))?;
    }
    writeln!(
        text,
        "All settings are in `recipe.toml`, the hashes of all files in `manifest.json`.\n"
    )
}

/// A number of seconds for people.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{}.{} h", seconds / 3600, seconds % 3600 / 360),
    }
}

/// What the model cannot do, and where it failed on the scored split.
fn limits(text: &mut String, facts: &CardFacts<'_>) -> Result {
    writeln!(text, "## Limits and known failures\n")?;
    if let Some(corpus) = &facts.corpus {
        writeln!(
            text,
            "- It was trained on {} (language {}). Texts of another kind or language give lower scores than those above.",
            markdown(&corpus.title),
            markdown(&corpus.language)
        )?;
    }
    writeln!(
        text,
        "- It knows only the types above, and no mention crosses the end of a sentence{}.",
        if facts.nested {
            ""
        } else {
            "; entities inside others are not found"
        }
    )?;
    let Some(split) = facts.split() else {
        return writeln!(text);
    };
    let scored = &facts.metrics[split];
    let worst = |groups: &Value, what: &dyn Fn(&str) -> String| {
        let mut groups: Vec<(&String, f64, u64)> = (groups.as_object().into_iter().flatten())
            .map(|(name, scores)| {
                (
                    name,
                    number(&scores["f1"]),
                    scores["support"].as_u64().unwrap_or(0),
                )
            })
            .filter(|(_, _, support)| *support >= FEW)
            .collect();
        groups.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
        let shown = groups.len().saturating_sub(1).min(3);
        let each = groups[..shown].iter().map(|(name, f1, support)| {
            format!("{} (F1 {:.2}, {support} entities)", what(name), 100.0 * f1)
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let types = worst(&scored["per_type"], &|name| markdown(name));
    if !types.is_empty() {
        writeln!(text, "- Weakest types on {split}: {types}.")?;
    }
    let lengths = worst(&scored["lengths"], &|name| {
        let plural = if name == "1" { "" } else { "s" };
        format!("{} word{plural}", markdown(name))
    });
    if !lengths.is_empty() {
        writeln!(text, "- Weakest lengths on {split}: {lengths}.")?;
    }
    let rare: Vec<String> = (scored["per_type"].as_object().into_iter().flatten())
        .filter(|(_, scores)| scores["support"].as_u64().unwrap_or(0) < FEW)
        .map(|(name, scores)| format!("{} ({})", markdown(name), scores["support"]))
        .collect();
    if !rare.is_empty() {
        writeln!(
            text,
            "- Too few entities on {split} for a score that means much: {}.",
            rare.join(", ")
        )?;
    }
    errors(text, &facts.metrics[PUBLICATION]["errors"], split)?;
    writeln!(text)
}

/// Groups with fewer entities are not compared.
const FEW: u64 = 10;

fn errors(text: &mut String, errors: &Value, split: &str) -> Result {
    let count = |kind: &str| errors[kind].as_u64();
    let kinds = [
        ("boundary", "a wrong boundary"),
        ("type", "a wrong type"),
        ("spurious", "no entity there"),
        ("missed", "an entity missed"),
    ];
    let known: Vec<String> = (kinds.iter())
        .filter_map(|(kind, meaning)| Some(format!("{meaning} {}", count(kind)?)))
        .collect();
    if known.is_empty() {
        return Ok(());
    }
    writeln!(text, "- Errors on {split} by kind: {}.", known.join(", "))
}

fn licences(text: &mut String, facts: &CardFacts<'_>) -> Result {
    writeln!(text, "## Licences\n")?;
    match &facts.corpus {
        Some(corpus) => writeln!(
            text,
            "- Corpus: {}. {} Licence: {}",
            markdown(&corpus.title),
            with_code(&corpus.source),
            with_code(&corpus.licence)
        )?,
        None => writeln!(
            text,
            "- Corpus: files of the user; their licence is not known to this card."
        )?,
    }
    let commit = facts.encoder_origin.map(|origin| &origin.commit);
    let commit = commit.map_or(String::new(), |commit| {
        format!(", commit {}", markdown(commit))
    });
    let published = facts.metrics[PUBLICATION]["encoder_licence"].as_str();
    let licence = published.or(facts.recipe.encoder.licence.as_deref());
    match (facts.encoder(), licence) {
        (Some(name), Some(licence)) => writeln!(
            text,
            "- Encoder: {}{commit}. Licence: {}",
            markdown(&name),
            markdown(licence)
        ),
        (Some(name), None) => writeln!(
            text,
            "- Encoder: {}{commit}; see its own model card for the licence ({} in the recipe puts it here).",
            markdown(&name),
            code("encoder.licence")
        ),
        (None, _) => writeln!(text, "- Encoder: trained from scratch on the corpus above."),
    }
}
