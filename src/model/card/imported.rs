//! The card of an imported model.

use std::fmt::{Result, Write};

use super::escape::{code, markdown, shell_block, yaml};
use crate::model::import::ImportFacts;
use crate::text::Labels;

/// The contents of the card of an imported model.
pub struct ImportedCard<'a> {
    /// Where the model comes from.
    pub facts: &'a ImportFacts,
    /// The head's name.
    pub head: &'a str,
    /// The entity types.
    pub labels: &'a Labels,
    /// True when it finds nested entities.
    pub nested: bool,
}

/// The card as Markdown, with the metadata that model hubs read.
pub fn imported_card(card: &ImportedCard<'_>) -> String {
    let mut text = String::new();
    write(&mut text, card).expect("writing to a string");
    text
}

fn write(text: &mut String, card: &ImportedCard<'_>) -> Result {
    let facts = card.facts;
    writeln!(
        text,
        "---\nlibrary_name: nerzoo\npipeline_tag: token-classification"
    )?;
    let licence = facts.licence.as_deref().unwrap_or("other");
    writeln!(text, "license: {}", yaml(licence))?;
    let mut tags = vec!["nerzoo", "named-entity-recognition", card.head];
    if card.nested {
        tags.push("nested-ner");
    }
    let tags: Vec<String> = tags.into_iter().map(yaml).collect();
    writeln!(text, "tags: [{}]", tags.join(", "))?;
    if let Some(language) = &facts.language {
        writeln!(text, "language: {}", yaml(language))?;
    }
    if let Some(corpus) = &facts.corpus {
        writeln!(text, "datasets: [{}]", yaml(corpus))?;
    }
    let origin = facts.origin.as_ref().map(|origin| &origin.repository);
    if let Some(base) = origin.or(facts.base_model.as_ref()) {
        writeln!(text, "base_model: {}", yaml(base))?;
    }
    writeln!(text, "---\n\n# {}\n", markdown(&facts.name))?;
    let commit = facts.origin.as_ref().map(|origin| &origin.commit);
    let commit = commit.map_or(String::new(), |commit| {
        format!(", commit {}", markdown(commit))
    });
    writeln!(
        text,
        "Imported from {}{commit}: a {} of {}. The weights are the same; they were not trained by this program.\n",
        markdown(&facts.name),
        code(&facts.architecture),
        markdown(&facts.program),
    )?;
    let kind = if card.nested {
        "flat and nested"
    } else {
        "flat"
    };
    let types = card.labels.names().iter();
    let types: Vec<String> = types.map(|name| markdown(name)).collect();
    writeln!(
        text,
        "Finds {kind} entities of {} types: {}.\n",
        types.len(),
        types.join(", ")
    )?;
    let command = "echo 'A text of yours.' | nerzoo predict --model FOLDER -";
    writeln!(text, "## Use\n\n{}", shell_block(command))?;
    writeln!(text, "## Licences\n")?;
    match &facts.licence {
        Some(licence) => writeln!(
            text,
            "The original model's card gives the licence {}. It applies to this copy as well.",
            code(licence)
        )?,
        None => writeln!(
            text,
            "The files of the original model do not name its licence; see its page before you publish this copy."
        )?,
    }
    if let Some(base) = &facts.base_model {
        writeln!(text, "It was trained from {}.", markdown(base))?;
    }
    Ok(())
}
