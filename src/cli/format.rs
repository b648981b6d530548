//! Options of all commands that read corpus files.

use std::path::Path;

use clap::Args;

use crate::data::words::Segmentation;
use crate::data::{Format, ReadOptions, SentenceCutting, TagScheme};
use crate::model::folder::{self, ModelConfig};
use crate::recipe::Recipe;

/// How to read corpus files; what is not given is detected.
#[derive(Debug, Args)]
pub struct FormatArgs {
    /// The files' format, if it is not detected: columns, tokens_jsonl, text_jsonl, spert, w2ner, brat, doccano, gliner,
    /// spacy, doc_bin, prodigy, label_studio, webanno, conllu, pubtator, bioc, csv, parquet or text.
    #[arg(long)]
    format: Option<Format>,
    #[command(flatten)]
    reading: ReadArgs,
}

impl FormatArgs {
    /// The options as the readers take them.
    pub fn options(&self) -> ReadOptions {
        self.reading.options(self.format)
    }

    /// The options with which texts are read as in the training of a model, where none are given: they are split into the same
    /// words, and cut into sentences or not.
    pub fn options_as_trained(&self, model: &Path) -> crate::error::Result<ReadOptions> {
        let mut options = self.options();
        let folder = folder::folder_of(model);
        let config = ModelConfig::read(&folder)?;
        options.segmentation = options.segmentation.or(Some(config.segmentation));
        if let Ok(recipe) = Recipe::read(&folder.join("recipe.toml"), &[]) {
            let trained = recipe.data.options;
            options.sentences = options.sentences.or(trained.sentences);
            options.split_words = options.split_words.or(trained.split_words);
        }
        Ok(options)
    }
}

/// How to read corpus files of a known or detected format.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Column files: the word's column, from 0.
    #[arg(long, value_name = "N")]
    word_column: Option<usize>,
    /// Column files: the tags' column, from 0; several for nested layers.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    tag_column: Vec<usize>,
    /// Column files: the part of speech's column, from 0.
    #[arg(long, value_name = "N")]
    pos_column: Option<usize>,
    /// Column files: iob1, iob2, bioes or bmes.
    #[arg(long)]
    scheme: Option<TagScheme>,
    /// The names of tags that are given as numbers, in the order of the numbers, such as O,B-PER,I-PER.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    labels: Vec<String>,
    /// Whether texts are cut into sentences: auto (documents are, records that are sentences are not), cut or whole.
    #[arg(long, value_name = "auto|cut|whole")]
    sentences: Option<SentenceCutting>,
    /// How texts are split into words: words (runs of letters and digits), han (also every Chinese character is a word; the
    /// default) or cjk (every character of all scripts without spaces).
    #[arg(long, value_name = "words|han|cjk")]
    segmentation: Option<Segmentation>,
    /// Split texts into words by this rule even if the files have words of their own, which then no longer count.
    #[arg(long)]
    split_words: bool,
    /// Other names for entity types, such as person=PER,group=ORG; entities of a type with an empty name, such as MISC=, are
    /// left out.
    #[arg(long, value_name = "TYPE=NAME", value_delimiter = ',', value_parser = renaming)]
    rename: Vec<(String, String)>,
    #[command(flatten)]
    skip_bad: SkipBadArgs,
}

/// How many bad records are skipped.
#[derive(Debug, Args)]
pub struct SkipBadArgs {
    /// Skip records with an error, up to N in each file, instead of refusing the file; the first ten are listed. Without N
    /// any number up to half of the records.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "any",
        value_parser = skip_bad
    )]
    skip_bad: Option<usize>,
}

impl SkipBadArgs {
    /// The same as a value of a recipe.
    pub fn assignment(&self) -> Option<String> {
        let value = match self.skip_bad? {
            usize::MAX => "true".to_string(),
            most => most.to_string(),
        };
        Some(format!("data.options.skip_bad={value}"))
    }
}

fn skip_bad(text: &str) -> Result<usize, String> {
    match text {
        "any" => Ok(usize::MAX),
        text => text
            .parse()
            .map_err(|_| "expected a number, or nothing".to_string()),
    }
}

fn renaming(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((label, name)) if !label.is_empty() => Ok((label.into(), name.into())),
        _ => Err("expected TYPE=NAME".into()),
    }
}

impl ReadArgs {
    /// True when an option for column files is given.
    pub fn has_column_options(&self) -> bool {
        let columns = self.word_column.is_some() || self.pos_column.is_some();
        columns || !self.tag_column.is_empty() || self.scheme.is_some()
    }

    /// The options as the readers take them.
    pub fn options(&self, format: Option<Format>) -> ReadOptions {
        ReadOptions {
            format,
            word_column: self.word_column,
            tag_columns: (!self.tag_column.is_empty()).then(|| self.tag_column.clone()),
            pos_column: self.pos_column,
            scheme: self.scheme,
            labels: (!self.labels.is_empty()).then(|| self.labels.clone()),
            sentences: self.sentences,
            segmentation: self.segmentation,
            split_words: self.split_words.then_some(true),
            skip_bad: self.skip_bad.skip_bad,
            rename: self.rename.iter().cloned().collect(),
            ..ReadOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::{EncoderConfig, LayerPooling, Pooling, RowLayout, ScratchConfig};
    use crate::heads::seq_ner::{self, SeqNer};
    use crate::heads::settings::{Preset, Settings};
    use crate::text::Labels;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Reading {
        file: String,
        #[command(flatten)]
        format: FormatArgs,
    }

    fn parse(line: &str) -> Result<(String, ReadOptions), clap::Error> {
        let arguments = crate::cli::arguments(line.split(' ').map(Into::into));
        let parsed = Reading::try_parse_from(arguments)?;
        Ok((parsed.file, parsed.format.options()))
    }

    #[test]
    fn the_number_of_bad_records_is_optional() {
        for (line, expected) in [
            ("x --skip-bad a.jsonl", Some(usize::MAX)),
            ("x --skip-bad 5 a.jsonl", Some(5)),
            ("x --skip-bad=5 a.jsonl", Some(5)),
            ("x a.jsonl --skip-bad", Some(usize::MAX)),
            ("x a.jsonl --skip-bad 0", Some(0)),
            ("x a.jsonl", None),
        ] {
            let (file, options) = parse(line).unwrap();
            assert_eq!(
                (file.as_str(), options.skip_bad),
                ("a.jsonl", expected),
                "{line}"
            );
        }
        assert!(parse("x --skip-bad=many a.jsonl").is_err());
    }

    #[test]
    fn reading_options_are_passed_on() {
        let (_, options) =
            parse("x a.json --labels O,B-PER,I-PER --sentences whole --segmentation cjk").unwrap();
        let labels = ["O", "B-PER", "I-PER"].map(String::from);
        assert_eq!(options.labels, Some(labels.to_vec()));
        assert_eq!(options.sentences, Some(SentenceCutting::Whole));
        assert_eq!(options.segmentation, Some(Segmentation::Cjk));
        assert!(parse("x a.json --sentences no").is_err());
    }

    #[test]
    fn texts_are_read_as_in_training() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path();
        let options = |line: &str| {
            let parsed = Reading::try_parse_from(line.split(' ')).unwrap();
            parsed.format.options_as_trained(model)
        };
        assert!(options("x a.jsonl").is_err());
        let encoder = EncoderConfig {
            transformer: ScratchConfig::default().transformer(100),
            pooling: Pooling::Max,
            layers: LayerPooling::Last,
            overlap: 0,
            context: 0,
            rows: RowLayout::Standard,
            features: None,
        };
        let head = seq_ner::Config::of(Preset::Paper);
        let config = ModelConfig {
            segmentation: Segmentation::Cjk,
            ..ModelConfig::new::<SeqNer>(&head, &Labels::new(["A"]), &encoder)
        };
        let json = serde_json::to_string(&config).unwrap();
        std::fs::write(model.join("config.json"), json).unwrap();
        let found = |line: &str| {
            let options = options(line).unwrap();
            (options.segmentation, options.sentences)
        };
        assert_eq!(found("x a.jsonl"), (Some(Segmentation::Cjk), None));
        let recipe = "[data]\ntrain = [\"a.jsonl\"]\noptions = {sentences = \"cut\"}\n[head]\nname = \"seq_ner\"\n";
        std::fs::write(model.join("recipe.toml"), recipe).unwrap();
        let cut = Some(SentenceCutting::Cut);
        assert_eq!(found("x a.jsonl"), (Some(Segmentation::Cjk), cut));
        assert_eq!(
            found("x a.jsonl --segmentation words --sentences whole"),
            (Some(Segmentation::Words), Some(SentenceCutting::Whole))
        );
    }
}
