//! Column files: one word per line, its tags in columns, blank lines between sentences.
//!
//! Covers CoNLL-2003 and similar formats, GermEval (several tag columns are layers), Universal NER (`# text` gives the
//! text), WNUT (words that start with `#`), WeiboNER (a number after every character), CoNLL-2012 (entities as brackets),
//! Few-NERD (types without marks), WikiANN (the language before every word), the MIT corpora (the tag before the word), and
//! files with a sentence per line and the tag after each word.

mod conll_2012;
pub(super) mod header;
mod inline;
pub(super) mod layout;
mod names;
mod tag_columns;
mod unmarked;
mod word_column;

use std::collections::HashSet;

use super::source::{Collector, Source};
use super::{ReadOptions, tags, words};
use crate::text::{Entity, Sentence};
use layout::{ColumnLayout, DOCUMENT_START, is_comment};
use word_column::{is_range, split_position};

/// Reads a column file.
///
/// An `I-X` without a `B-X` starts an entity, with a warning unless the scheme is IOB1. WeiboNER's published counts
/// assume this.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let layout = match ColumnLayout::detect(source, options) {
        Ok(Some(layout)) => layout,
        Ok(None) => return corpus.warn(0, "the file has no words"),
        Err(error) => return corpus.error(0, error.to_string()),
    };
    for column in &layout.ignored {
        corpus.warn(0, format!(
            "column {column} (counted from 0) also looks like tags but is ignored; if it is a layer of entities, name \
             all layers with --tag-column (`tag_columns` in a recipe)"
        ));
    }
    if let Some(column) = layout.predicted {
        corpus.warn(0, format!(
            "column {column} (counted from 0) repeats most tags of the one before, like predictions beside gold tags; it is ignored. If it \
             is a layer of entities, name both with --tag-column (`tag_columns` in a recipe)"
        ));
    }
    if let Some(prefix) = &layout.prefix {
        corpus.warn(
            0,
            format!("every word begins with `{prefix}`, which is removed"),
        );
    }
    if let Some(note) = layout.style.note() {
        corpus.warn(0, note);
    }
    let mut reader = Reader {
        layout: &layout,
        corpus,
        document: None,
        documents: 0,
        text: None,
        rows: Vec::new(),
        invalid: false,
        names: layout.names.clone(),
    };
    for line in source.lines() {
        match reader.corpus.line_text(&line) {
            Some(text) => reader.line(line.number, text),
            None => reader.invalid = true,
        }
    }
    reader.end_sentence();
}

/// The state of reading a column file line by line.
struct Reader<'a, 'b> {
    layout: &'b ColumnLayout,
    corpus: &'b mut Collector,
    document: Option<String>,
    documents: usize,
    /// The text of the next sentence, from a `# text = ` comment.
    text: Option<&'a str>,
    /// The rows of the current sentence with their line numbers.
    rows: Vec<(usize, Vec<&'a str>)>,
    /// A row of the current sentence is invalid.
    invalid: bool,
    /// The row that names the columns, until it has been read.
    names: Option<String>,
}

impl<'a> Reader<'a, '_> {
    fn line(&mut self, number: usize, line: &'a str) {
        if line.trim().is_empty() {
            return self.end_sentence();
        }
        if let Some(inline) = self.layout.inline {
            for row in inline.rows(line) {
                self.row(number, row);
            }
            return self.end_sentence();
        }
        let row = self.layout.fields(line);
        if row[0].starts_with(DOCUMENT_START) {
            return self.begin_document(None);
        }
        if self
            .names
            .as_ref()
            .is_some_and(|names| *names == row.join("\t"))
        {
            self.names = None;
            return;
        }
        if is_comment(line) && !self.layout.fits(&row) {
            return self.comment(line);
        }
        self.row(number, row);
    }

    fn comment(&mut self, line: &'a str) {
        let comment = line.trim_start_matches('#').trim_start();
        let value = |key: &str| {
            let rest = comment.strip_prefix(key)?.trim_start();
            rest.strip_prefix('=').map(str::trim)
        };
        if let Some(name) = value("newdoc id") {
            self.begin_document(Some(name));
        } else if comment == "newdoc" {
            self.begin_document(None);
        } else if let Some(name) = comment.strip_prefix("begin document") {
            self.begin_document(Some(name.trim()));
        } else if let Some(number) = comment.strip_prefix("MEDLINE:") {
            // JNLPBA: `###MEDLINE:95369245` before the sentences of an abstract.
            self.begin_document(Some(number.trim()));
        } else if let Some(text) = value("text") {
            self.text = Some(text);
        }
    }

    fn begin_document(&mut self, name: Option<&str>) {
        if !self.rows.is_empty() {
            self.end_sentence();
        }
        self.documents += 1;
        self.document = Some(match name {
            Some(name) if !name.is_empty() => name.to_string(),
            _ => format!("{}#{}", self.corpus.stem(), self.documents),
        });
    }

    fn row(&mut self, number: usize, row: Vec<&'a str>) {
        let layout = self.layout;
        if row.len() != layout.width {
            let separator = if layout.tabs { "tabs" } else { "white space" };
            let columns = if row.len() == 1 { "column" } else { "columns" };
            self.corpus.error(number, format!(
                "{} {columns} where the other rows have {}, separated by {separator}: `{}`; correct the row, or put a blank line between sentences",
                row.len(), layout.width, row.join(" ")
            ));
            self.invalid = true;
        } else if layout.id.is_some_and(|column| is_range(row[column])) {
            // A multiword token of CoNLL-U; its words follow in their own rows.
        } else if self.token(&row).is_empty() {
            self.corpus.error(
                number,
                "the word is empty; delete the row, or put a word in it",
            );
            self.invalid = true;
        } else {
            self.rows.push((number, row));
        }
    }

    fn end_sentence(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let text = self.text.take();
        let invalid = std::mem::take(&mut self.invalid);
        let Some((first, _)) = rows.first() else {
            return;
        };
        let first = *first;
        let tokens: Vec<&str> = rows.iter().map(|(_, row)| self.token(row)).collect();
        let mut sentence = text
            .and_then(|text| words::align(text, &tokens))
            .unwrap_or_else(|| Sentence::from_words(tokens));
        sentence.document = self.document.clone();
        sentence.pos = self.layout.pos.map(|column| {
            rows.iter()
                .map(|(_, row)| row[column].to_string())
                .collect()
        });
        let valid = self.entities(&rows, &mut sentence);
        if valid && !invalid {
            self.corpus.push(first, sentence);
        }
    }

    fn token<'r>(&self, row: &[&'r str]) -> &'r str {
        let mut word = row[self.layout.word];
        if let Some(prefix) = &self.layout.prefix {
            word = word.strip_prefix(prefix.as_str()).unwrap_or(word);
        }
        match split_position(word) {
            Some((character, _)) if self.layout.strip_digit => character,
            _ => word,
        }
    }

    /// Decodes the tag columns; false when one of them contains text that is not a tag.
    fn entities(&mut self, rows: &[(usize, Vec<&str>)], sentence: &mut Sentence) -> bool {
        let mut valid = true;
        let mut seen: HashSet<Entity> = HashSet::new();
        for column in &self.layout.tags {
            let cells: Vec<&str> = rows.iter().map(|(_, row)| row[*column]).collect();
            let (entities, problems) = self.layout.decode(&cells);
            let line = |word: usize| rows[word].0;
            valid &= tags::report(problems, line, self.corpus);
            tags::add_layer(sentence, entities, &mut seen, line, self.corpus);
        }
        if self.layout.tags.len() > 1 {
            sentence.entities.sort();
        }
        valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{found, scan_content};
    use crate::data::{Format, Problem, Severity, TagScheme};

    fn with(content: impl AsRef<[u8]>, options: ReadOptions) -> (Vec<Sentence>, Vec<Problem>) {
        scan_content("file.conll", content, &options)
    }

    fn columns(content: impl AsRef<[u8]>) -> (Vec<Sentence>, Vec<Problem>) {
        with(content, ReadOptions::of(Format::Columns))
    }

    #[test]
    fn conll_2003_has_iob1_tags_and_documents() {
        let text = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\nSwiss JJ I-NP B-MISC\n\n\
                    -DOCSTART- -X- O O\r\n\r\nPeter NNP I-NP I-PER\r\nBlackburn NNP I-NP I-PER";
        let (sentences, problems) = columns(text);
        assert_eq!(problems, []);
        assert_eq!(sentences.len(), 2);
        assert_eq!(
            found(&sentences[0]),
            [("EU", "ORG"), ("German", "MISC"), ("Swiss", "MISC")]
        );
        assert_eq!(found(&sentences[1]), [("Peter Blackburn", "PER")]);
        assert_eq!(sentences[0].document.as_deref(), Some("file#1"));
        assert_eq!(sentences[1].document.as_deref(), Some("file#2"));
        assert_eq!(sentences[1].pos.as_deref().unwrap(), ["NNP", "NNP"]);
    }

    #[test]
    fn hashtags_are_words_and_comments_are_not() {
        let text = "#NLP\tB-topic\nis\tO\n#\tO\n\t\n# a comment\nfun\tO\n#end\tO\n";
        let (sentences, problems) = columns(text);
        assert_eq!(problems, []);
        assert_eq!(sentences[0].text, "#NLP is #");
        assert_eq!(sentences[1].text, "fun #end");
        let (sentences, problems) = columns("fun\tO\n#tag\nand\tO\n");
        assert!(sentences.is_empty());
        assert_eq!(problems[0].location.line, 2);
    }

    #[test]
    fn germeval_columns_are_layers() {
        let text = "#\thttp://de.wikipedia.org [2009-10-17]\n1\tReal\tB-ORG\tO\n2\tMadrid\tI-ORG\tB-LOC\n3\tsiegt\tO\tO\n\n\
                    #\tn-tv.de [2005]\n1\tOho\tO\tO\n";
        let (sentences, problems) = columns(text);
        assert_eq!(problems, []);
        assert_eq!(
            found(&sentences[0]),
            [("Real Madrid", "ORG"), ("Madrid", "LOC")]
        );
        assert_eq!(sentences.len(), 2);
        let same_types = "a B-X O\nb I-X B-X\nc O O\n";
        assert_eq!(columns(same_types).0[0].entities.len(), 2);
    }

    #[test]
    fn universal_ner_gives_the_text() {
        let text = "# newdoc id = n01\n# sent_id = 1\n# text = Das ist Köln.\n1\tDas\tO\t-\tme\n2\tist\tO\t-\tme\n\
                    3\tKöln\tB-LOC\t-\tme\n4\t.\tO\t-\tme\n\n# text = im Haus\n1-2\tim\t_\t-\tme\n1\tin\tO\t-\tme\n2\tdem\tO\t-\tme\n3\tHaus\tO\t-\tme\n";
        let (sentences, problems) = columns(text);
        assert_eq!(problems, []);
        assert_eq!(sentences[0].text, "Das ist Köln.");
        assert_eq!(found(&sentences[0]), [("Köln", "LOC")]);
        assert_eq!(sentences[0].document.as_deref(), Some("n01"));
        assert_eq!(sentences[1].text, "in dem Haus");
    }

    #[test]
    fn weibo_positions_are_removed() {
        let text = "科0\tB-PER.NOM\n技1\tI-PER.NOM\n\u{fffd}\u{fffd}0\tO\n90\tO\n911\tO\n";
        let (sentences, _) = columns(text);
        assert_eq!(sentences[0].text, "科 技 \u{fffd}\u{fffd} 9 9");
        let keep = ReadOptions {
            strip_digit: Some(false),
            ..ReadOptions::of(Format::Columns)
        };
        assert!(with(text, keep).0[0].text.starts_with("科0 技1"));
        let (sentences, _) = columns("B2\tO\nvitamins\tO\n");
        assert_eq!(sentences[0].text, "B2 vitamins");
    }

    #[test]
    fn stray_inside_tags_are_read_with_a_warning() {
        let (sentences, problems) = columns("a O\nb I-PER\nc I-PER\nd B-PER\n");
        assert_eq!(sentences[0].entities.len(), 2);
        assert!(problems.is_empty(), "iob1: {problems:?}");
        let (sentences, problems) = columns("a B-LOC\nx O\nb I-PER\nc I-PER\n");
        assert_eq!(found(&sentences[0]), [("a", "LOC"), ("b c", "PER")]);
        assert_eq!(problems.len(), 1);
        assert_eq!(
            (problems[0].severity, problems[0].location.line),
            (Severity::Warning, 3)
        );
    }

    #[test]
    fn every_invalid_row_is_reported_and_its_sentence_skipped() {
        let text: &[u8] = b"a O\nb\nc O\n\nd X-PER\ne O\nf O\n\ng\xff O\n\nh B-LOC\ni I-LOC\n";
        let (sentences, problems) = columns(text);
        assert_eq!(sentences.len(), 1);
        assert_eq!(sentences[0].text, "h i");
        let lines: Vec<usize> = problems
            .iter()
            .map(|problem| problem.location.line)
            .collect();
        assert_eq!(lines, [2, 5, 9]);
        assert!(
            problems[0]
                .message
                .contains("1 column where the other rows have 2")
        );
    }

    #[test]
    fn several_tags_in_one_column_are_nested_entities() {
        let text = include_str!("../../../tests/fixtures/formats/columns/multi_tags.conll");
        let (sentences, problems) = columns(text);
        assert_eq!(
            found(&sentences[0]),
            [("University of Oxford", "ORG"), ("Oxford", "LOC")]
        );
        assert_eq!(found(&sentences[1]), [("Paul", "PER")]);
        assert_eq!((problems.len(), problems[0].location.line), (1, 0));
        assert!(problems[0].message.contains("`I-ORG|B-LOC`"));
        // In most rows a list that begins with `O` is not a tag by itself.
        let (sentences, _) = columns("a B-X|O\nb O|B-Y\nc O|O\n");
        assert_eq!(found(&sentences[0]), [("a", "X"), ("b", "Y")]);
        let (sentences, problems) = columns("a B-PER|person\nb I-PER|person\n");
        assert_eq!(found(&sentences[0]), [("a b", "PER|person")]);
        assert!(problems[0].message.contains("one tag"), "{problems:?}");
        let (sentences, problems) = columns("a B-X\nb I-X|B-Y\nc I-X|Y\nd I-X|B-Y\n\ne O\n");
        assert_eq!(sentences.len(), 1);
        assert_eq!(
            (problems[1].severity, problems[1].location.line),
            (Severity::Error, 3)
        );
    }

    #[test]
    fn jnlpba_lines_name_the_documents() {
        let text = "###MEDLINE:95369245\n\nIL-2\tB-DNA\ngene\tI-DNA\n\nIt\tO\n\n###MEDLINE:95333264\nNF\tB-protein\n";
        let (sentences, problems) = columns(text);
        assert_eq!(problems, []);
        let documents: Vec<_> = sentences.iter().map(|s| s.document.as_deref()).collect();
        assert_eq!(
            documents,
            [Some("95369245"), Some("95369245"), Some("95333264")]
        );
        let (sentences, _) = columns("-DOCSTART- (1 EU)\tO\na\tO\n-DOCSTART-\tO\nb\tB-X\n");
        assert_eq!(sentences.len(), 2);
        assert_eq!(sentences[0].document.as_deref(), Some("file#1"));
        assert_eq!(sentences[1].document.as_deref(), Some("file#2"));
    }

    const CONLL_2012: &str = "#begin document (bc/cctv/00/cctv_0000); part 000\n\
        bc/cctv/00/cctv_0000   0   0   In    IN   (TOP(S(PP*   -   -   -   Speaker#1   *        *   (ARGM-LOC*   -\n\
        bc/cctv/00/cctv_0000   0   1   the   DT   (NP*         -   -   -   Speaker#1   (DATE*   *   *            (3\n\
        bc/cctv/00/cctv_0000   0   2   2000s NNS  *)))         -   -   -   Speaker#1   *)       *   *)           3)\n\
        bc/cctv/00/cctv_0000   0   3   (     -LRB- *))         -   -   -   Speaker#1   *        *   *            -\n\n\
        bc/cctv/00/cctv_0000   0   0   China NNP  (TOP(NP*))   -   -   -   -           (ORG(GPE)) (ARG0*) -\n\n\
        #end document\n#begin document (b); part 001\nb   1   0   Yes   UH   (TOP*)   -   -   -   -   *   -\n\n#end document\n";

    /// A file of the CoNLL-2012 shared task; the number of columns differs between its sentences.
    #[test]
    fn conll_2012_has_brackets() {
        let tabs: Vec<String> = CONLL_2012
            .lines()
            .map(|line| {
                if line.starts_with('#') {
                    line.to_string()
                } else {
                    line.split_whitespace().collect::<Vec<_>>().join("\t")
                }
            })
            .collect();
        for text in [CONLL_2012, &tabs.join("\r\n")] {
            for (name, options) in [
                ("file.txt", ReadOptions::default()),
                ("file.v4_gold_conll", ReadOptions::default()),
                ("file", ReadOptions::of(Format::Columns)),
            ] {
                let (sentences, problems) = scan_content(name, text, &options);
                assert_eq!(problems, []);
                assert_eq!(sentences.len(), 3);
                assert_eq!(sentences[0].text, "In the 2000s (");
                assert_eq!(found(&sentences[0]), [("the 2000s", "DATE")]);
                assert_eq!(found(&sentences[1]), [("China", "GPE"), ("China", "ORG")]);
                assert_eq!(sentences[0].pos.as_deref().unwrap()[1], "DT");
                assert_eq!(sentences[2].document.as_deref(), Some("(b); part 001"));
            }
        }
        let broken = CONLL_2012.replace("*)       *   *)  ", "*        *   *)  ");
        let (sentences, problems) = columns(&broken);
        assert_eq!((sentences.len(), problems.len()), (2, 1));
        assert_eq!(problems[0].location.line, 3);
        let without = "b 1 0 Yes UH (TOP*) - - - - * -\n";
        let (sentences, problems) = scan_content("a.txt", without, &ReadOptions::default());
        assert_eq!((sentences[0].text.as_str(), problems.len()), ("Yes", 0));
    }

    /// Few-NERD's files, other spellings of tags, the tag before the word (MIT), and tags in the line (WikiNER, spaCy).
    #[test]
    fn other_spellings_of_tags_are_read() {
        let expected = [("Ada King", "PER"), ("Rio", "LOC")];
        for text in [
            "Ada\tPER\nKing\tPER\nsaw\tO\nRio\tLOC\n.\tO\n",
            "Ada PER\nKing PER\nsaw O\nRio LOC\n. O\n",
            "Ada\tPER-B\nKing\tPER-I\nsaw\tO\nRio\tLOC-B\n.\tO\n",
            "Ada B_PER\nKing I_PER\nsaw O\nRio B_LOC\n. O\n",
            "Ada (PER*\nKing *)\nsaw *\nRio (LOC*)\n. *\n",
            "B-PER\tAda\nI-PER\tKing\nO\tsaw\nB-LOC\tRio\nO\t.\n",
            "O\tsaw\nO\t.\nB-PER\tAda\nI-PER\tKing\nB-LOC\tRio\n",
            "en:Ada\tB-PER\nen:King\tI-PER\nen:saw\tO\nen:Rio\tB-LOC\nen:.\tO\n",
            "Ada|B-PER King|I-PER saw|O Rio|B-LOC .|O\n",
            "Ada|NNP|I-PER King|NNP|I-PER saw|VBD|O Rio|NNP|I-LOC .|.|O\n",
            "Ada/PER King/PER saw/O Rio/LOC ./O\n",
            "Ada###B-PER King###I-PER saw###O Rio###B-LOC .###O\n",
            "Ada,B-PER\nKing,I-PER\nsaw,O\nRio,B-LOC\n.,O\n",
        ] {
            let (sentences, problems) = scan_content("a.txt", text, &ReadOptions::default());
            assert_eq!(sentences.len(), 1, "{text}: {problems:?}");
            assert_eq!(found(&sentences[0]), expected, "{text}");
            assert_eq!(sentences[0].len(), 5, "{text}");
            assert!(
                problems.iter().all(|p| p.severity == Severity::Warning),
                "{problems:?}"
            );
        }
        let text = "a\tB\nb\tI\nc\tO\nd\tB\n";
        let (sentences, problems) = columns(text);
        assert_eq!(found(&sentences[0]), [("a b", "ENTITY"), ("d", "ENTITY")]);
        assert!(problems[0].message.contains("no types"));
        let text =
            "Paul\tperson-artist/author\nFord\tperson-artist/author\n.\tO\n\nYork\tlocation-GPE\n";
        let (sentences, problems) = scan_content("train.txt", text, &ReadOptions::default());
        assert_eq!(
            found(&sentences[0]),
            [("Paul Ford", "person-artist/author")]
        );
        assert_eq!(found(&sentences[1]), [("York", "location-GPE")]);
        assert!(problems[0].message.contains("one entity"), "{problems:?}");
    }

    /// The layered files of Ju et al. (2018), with columns for deeper layers than the file has, and WebAnno's TSV 2.
    #[test]
    fn layers_and_numbers_of_other_tools_are_read() {
        let text = "in\tO\tO\tO\nIL-2\tB-DNA\tB-protein\tO\ngene\tI-DNA\tO\tO\n";
        let (sentences, problems) = columns(text);
        assert_eq!(problems, []);
        assert_eq!(
            found(&sentences[0]),
            [("IL-2", "protein"), ("IL-2 gene", "DNA")]
        );
        let text = "# webanno.custom.NE | value\n#id=1\n#text=Ada sings\n1-1\tAda\tB-PER\n1-2\tsings\tO\n\n\
                    #id=2\n2-1\tRio\tB-LOC\n";
        let (sentences, problems) = columns(text);
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("Ada", "PER")]);
        assert_eq!(sentences[1].text, "Rio");
        // HIPE 2022 and KPWr.
        let text = "TOKEN\tNE-COARSE-LIT\tNE-COARSE-METO\tNE-FINE-LIT\tNE-NESTED\tNEL-LIT\tMISC\n# language = fr\n\
                    Marie\tB-pers\tO\tB-pers.ind\tO\tQ1\t_\nCurie\tI-pers\tO\tI-pers.ind\tO\tQ1\t_\nsang\tO\tO\tO\tO\t_\t_\n";
        let (sentences, problems) = scan_content("a.tsv", text, &ReadOptions::default());
        assert_eq!(
            (sentences[0].len(), found(&sentences[0])),
            (3, vec![("Marie Curie", "pers")])
        );
        assert!(
            problems.iter().any(|p| p.message.contains("column 3")),
            "{problems:?}"
        );
        let text = "-DOCSTART CONFIG FEATURES orth ctag\n-DOCSTART FILE x\nAda\tsubst\tB-nam\nsang\tverb\tO\n";
        let (sentences, problems) = columns(text);
        assert_eq!(
            (problems.len(), found(&sentences[0])),
            (0, vec![("Ada", "nam")])
        );
        // CoreNLP's CoNLL output: types without marks; the first row is not a header.
        let text = "1\tAda\tAda\tNNP\tPERSON\t2\tnsubj\n2\tsings\tsing\tVBZ\tO\t0\tROOT\n3\t.\t.\t.\tO\t2\tpunct\n";
        let (sentences, _) = scan_content("a.conll", text, &ReadOptions::default());
        assert_eq!(
            (sentences[0].len(), found(&sentences[0])),
            (3, vec![("Ada", "PERSON")])
        );
    }

    #[test]
    fn numbers_are_named_by_the_options() {
        let text = "Ada\t1\nKing\t2\nsaw\t0\nRio\t3\n";
        let labels = |names: &str| ReadOptions {
            labels: Some(names.split(',').map(str::to_string).collect()),
            ..ReadOptions::default()
        };
        let (sentences, _) = scan_content("a.tsv", text, &labels("O,B-PER,I-PER,B-LOC"));
        assert_eq!(found(&sentences[0]), [("Ada King", "PER"), ("Rio", "LOC")]);
        let options = ReadOptions {
            format: Some(Format::Columns),
            tag_columns: Some(vec![1]),
            ..labels("O,B-PER")
        };
        let (_, problems) = with(text, options);
        assert!(problems[0].message.contains("names only 2"), "{problems:?}");
    }

    #[test]
    fn predictions_beside_gold_tags_are_ignored() {
        let text = "EU B-ORG B-ORG\nsays O O\nPaul B-PER B-LOC\nRio B-LOC B-LOC\n";
        let (sentences, problems) = columns(text);
        assert_eq!(
            found(&sentences[0]),
            [("EU", "ORG"), ("Paul", "PER"), ("Rio", "LOC")]
        );
        assert!(problems[0].message.contains("predictions"), "{problems:?}");
    }

    #[test]
    fn plain_texts_are_not_columns() {
        for text in [
            "Maria sings\nOrvane pays\n",
            "yes/no and/or\n",
            "a|b c|d\n",
            "O Captain\nmy Captain\n",
            "Maria\tKeller\nJohn\tOrvane\n",
            "1 2\n3 4\n",
            "He said (twice)\nand (again)\n",
            "* one\n* two\n",
            "en: one\nen: two\n",
            "Group O\nGroup A\nGroup B\nGroup AB\nGroup O.\n",
        ] {
            let (sentences, _) = scan_content("a.txt", text, &ReadOptions::default());
            assert_eq!(sentences.len(), text.lines().count(), "{text}");
            assert!(
                sentences
                    .iter()
                    .all(|sentence| sentence.entities.is_empty()),
                "{text}"
            );
        }
        let (_, problems) = scan_content("a.txt", "a\t1\nb\t0\nc\t0\n", &ReadOptions::default());
        assert!(problems[0].message.contains("--tag-column"), "{problems:?}");
    }

    #[test]
    fn options_choose_the_columns() {
        let text = "B-A x B-B N\nO y O V\n";
        let options = ReadOptions {
            word_column: Some(1),
            tag_columns: Some(vec![0, 2]),
            pos_column: Some(3),
            scheme: Some(TagScheme::Iob2),
            ..ReadOptions::of(Format::Columns)
        };
        let (sentences, problems) = with(text, options.clone());
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("x", "A"), ("x", "B")]);
        assert_eq!(sentences[0].pos.as_deref().unwrap(), ["N", "V"]);
        let beyond = ReadOptions {
            tag_columns: Some(vec![7]),
            ..options
        };
        let (_, problems) = with(text, beyond);
        assert!(problems[0].message.contains("no column 7"));
    }

    #[test]
    fn unusual_files_are_read() {
        assert!(columns("").0.is_empty());
        assert!(columns("\n \n\t\n").0.is_empty());
        assert_eq!(columns("#x\tO\n").0.len(), 1);
        assert_eq!(columns("\u{feff}a\tO").0[0].text, "a");
        assert_eq!(columns("a\u{a0}b\tO\n\u{3000}\tO\n").0[0].len(), 2);
        let (_, problems) = columns("no tags here\nat all either\n");
        assert!(problems[0].message.contains("tag_columns"));
    }
}
