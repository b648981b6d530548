//! Predictions as a self-contained HTML page: every text with its entities underlined, and a table of them.
//!
//! The page of `nerzoo serve` draws texts in the same way and with the same style sheet.

mod drawing;

use std::collections::HashMap;
use std::io::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::annotated::{Annotated, rounded};
use super::documents::{Document, DocumentEntity};
use super::summary::Summary;
use super::write_error;
use crate::error::Result;
use crate::text::visible;
use drawing::{Mark, draw};

/// The style of drawn texts.
pub const ENTITY_STYLE: &str = include_str!("entities.css");

/// The style of the rest of the page.
const PAGE_STYLE: &str = include_str!("page.css");

/// Number of colours in the style sheet.
const COLOURS: usize = 10;

/// Writes a page of texts with predicted mentions, record by record.
///
/// ```
/// use nerzoo::data::write::{Annotated, HtmlWriter};
/// use nerzoo::text::{Entity, Mention, Sentence};
///
/// # fn main() -> nerzoo::error::Result<()> {
/// let sentence = Sentence::from_words(["Ada", "<wrote>"]);
/// let mentions = [Mention { entity: Entity::new(0, 1, "PER"), score: 0.93 }];
/// let mut writer = HtmlWriter::begin(Vec::new(), "Found by a model")?;
/// writer.record(&[Annotated::predicted(&sentence, &mentions)])?;
/// let (page, summary) = writer.finish()?;
/// let page = String::from_utf8(page).unwrap();
/// assert!(page.contains("&lt;wrote&gt;") && page.contains("PER"));
/// assert_eq!(summary.entities, 1);
/// # Ok(())
/// # }
/// ```
pub struct HtmlWriter<W: Write> {
    out: W,
    /// The colour of each type, in the order in which they occur.
    colours: HashMap<String, usize>,
    records: usize,
    summary: Summary,
}

impl<W: Write> HtmlWriter<W> {
    /// Writes what comes before the first record.
    pub fn begin(mut out: W, title: &str) -> Result<Self> {
        let head = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    style { (PreEscaped(PAGE_STYLE)) (PreEscaped(ENTITY_STYLE)) }
                }
            }
        };
        let head = visible(&head.into_string()).into_owned();
        // The rest of the page follows; `finish` ends it.
        let head = head.strip_suffix("</html>").unwrap_or(&head);
        let title = visible(&html! { h1 dir="auto" { (title) } }.into_string()).into_owned();
        write!(out, "{head}<body><main>{title}").map_err(write_error)?;
        Ok(Self {
            out,
            colours: HashMap::new(),
            records: 0,
            summary: Summary::default(),
        })
    }

    /// Writes a text that was cut into these sentences.
    pub fn record(&mut self, items: &[Annotated<'_>]) -> Result<()> {
        for item in items {
            self.summary.sentences += 1;
            item.check(self.summary.sentences)?;
        }
        self.records += 1;
        self.summary.documents += 1;
        let document = Document::join(items);
        self.summary.entities += document.entities.len();
        let title = match document.name {
            Some(name) => format!("{}: {name}", self.records),
            None => self.records.to_string(),
        };
        let content = self.content(&document);
        self.article(&title, &content)
    }

    /// Writes why a record could not be read.
    pub fn unreadable(&mut self, number: usize, problem: &str) -> Result<()> {
        self.records += 1;
        let title = self.records.to_string();
        self.article(
            &title,
            &html! { p.problem { "Line " (number) ": " (problem) } },
        )
    }

    /// Writes the end, and returns the stream and the counts.
    pub fn finish(mut self) -> Result<(W, Summary)> {
        writeln!(self.out, "</main></body></html>").map_err(write_error)?;
        self.out.flush().map_err(write_error)?;
        Ok((self.out, self.summary))
    }

    fn article(&mut self, title: &str, content: &Markup) -> Result<()> {
        let article = html! { article { h2 dir="auto" { (title) } (content) } };
        let article = visible(&article.into_string()).into_owned();
        writeln!(self.out, "{article}").map_err(write_error)
    }

    fn content(&mut self, document: &Document<'_>) -> Markup {
        let marks: Vec<Mark<'_>> = (document.entities.iter())
            .filter_map(|entity| {
                let (start, end) = entity.span()?;
                Some(Mark {
                    start,
                    end,
                    label: entity.label,
                    colour: self.colour(entity.label),
                    info: info(entity, start, end),
                })
            })
            .collect();
        html! {
            (draw(&document.text, &marks))
            @if document.entities.is_empty() {
                p.remark { "No entities." }
            } @else {
                details {
                    summary { (document.entities.len()) @if document.entities.len() == 1 { " entity" } @else { " entities" } }
                    div.scroll tabindex="0" role="region" aria-label="Entities" { (self.table(document)) }
                }
            }
        }
    }

    fn table(&mut self, document: &Document<'_>) -> Markup {
        html! {
            table {
                thead {
                    tr {
                        th scope="col" { "Entity" } th scope="col" { "Type" }
                        th scope="col" { "Start" } th scope="col" { "End" } th scope="col" { "Score" }
                    }
                }
                tbody {
                    @for entity in &document.entities {
                        @let (start, end) = entity.span().unwrap_or_default();
                        tr {
                            td dir="auto" { (entity.texts.join(" … ")) }
                            td { span class={ "chip colour-" (self.colour(entity.label)) } { bdi { (entity.label) } } }
                            td.number { (start) } td.number { (end) }
                            td.number { @if let Some(score) = entity.score { (format!("{:.4}", rounded(score))) } }
                        }
                    }
                }
            }
        }
    }

    fn colour(&mut self, label: &str) -> usize {
        let next = self.colours.len() % COLOURS;
        match self.colours.get(label) {
            Some(colour) => *colour,
            None => {
                self.colours.insert(label.to_string(), next);
                next
            }
        }
    }
}

/// What is shown about an entity when the pointer or the focus is on it.
fn info(entity: &DocumentEntity<'_>, start: usize, end: usize) -> String {
    let score = entity.score.map_or(String::new(), |score| {
        format!(" · score {:.4}", rounded(score))
    });
    format!("{} · characters {start} to {end}{score}", entity.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::words;
    use crate::text::{Entity, Mention};

    #[test]
    fn nothing_of_a_text_or_label_is_markup() {
        let evil = "</style><script>alert('&')</script>\u{0}";
        let mut sentence = words::sentence(&format!("{evil} x"), Default::default());
        sentence.document = Some(evil.to_string());
        let mentions = [Mention {
            entity: Entity::new(0, sentence.len(), "\"><b>"),
            score: f32::NAN,
        }];
        let mut writer = HtmlWriter::begin(Vec::new(), evil).unwrap();
        writer
            .record(&[Annotated::predicted(&sentence, &mentions)])
            .unwrap();
        writer.unreadable(7, evil).unwrap();
        writer
            .record(&[Annotated::predicted(&Default::default(), &[])])
            .unwrap();
        let page = String::from_utf8(writer.finish().unwrap().0).unwrap();
        assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains('\u{0}'));
        assert_eq!(page.matches("</style>").count(), 1);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(page.contains("No entities.") && page.contains("Line 7: "));
        for part in ["http:", "https:", "<link", "<img", "url(", "@import"] {
            assert!(!page.contains(part), "{part}");
        }
    }
}
