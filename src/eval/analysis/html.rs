//! The analysis as one self-contained HTML page: no scripts, no network, and readable without colours.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::entity_boxes::{EntityBox, draw_sentence};
use super::errors::{PredictionOutcome, SentenceOutcomes};
use super::report_table::{CellKind, ReportTable, RowGroup, TableCell};
use super::{Analysis, WorstSentence};
use crate::text::{Entity, visible};

const STYLE: &str = include_str!("report.css");

/// Explains the confusion matrices.
const CONFUSION: &str = "Rows are gold labels, columns predicted labels on the same span; correct ones are bold. (none): nothing was predicted on exactly that span, or nothing is gold there.";

/// Explains the worst sentences.
const WORST: &str = "The sentences with the most wrong predictions and missed entities of all models together. A box is an entity with its label below; boxes nest as entities do, and an entity that crosses another is drawn on a copy of the sentence. Dashed boxes with ✗ are wrong: boundary (overlaps an entity that was not found), type (with the gold label) or spurious. Entities that a model did not find are listed below its sentence.";

impl Analysis {
    /// The page.
    pub fn to_html(&self) -> String {
        let names: Vec<&str> = self
            .models
            .iter()
            .map(|model| model.name.as_str())
            .collect();
        let title = format!("Analysis of {}", names.join(", "));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body { (self.body(&title)) }
            }
        };
        visible(&page.into_string()).into_owned()
    }

    fn body(&self, title: &str) -> Markup {
        let sections = self.sections();
        html! {
            header {
                h1 dir="auto" { (title) }
                p { (self.summary()) }
                p { "Differences are to the baseline, " bdi { (self.baseline().name) } "." }
            }
            nav aria-label="Contents" {
                ul {
                    @for section in &sections {
                        li { a href={ "#" (section.id) } { (section.title) } }
                    }
                }
            }
            main {
                @for section in &sections {
                    section id=(section.id) {
                        h2 { (section.title) }
                        (section.content)
                    }
                }
            }
        }
    }

    fn sections(&self) -> Vec<Section> {
        let table = |id, table: ReportTable| Section {
            id,
            content: draw_table(&table),
            title: table.title,
        };
        let mut sections = vec![
            table("overall", self.overall_table()),
            table("attributes", self.bucket_table()),
            table("errors", self.error_table()),
            table("types", self.type_table()),
            table("lengths", self.length_table()),
        ];
        sections.extend(
            self.nesting_table()
                .map(|nesting| table("nesting", nesting)),
        );
        sections.push(Section {
            id: "confusion",
            title: "Confusion matrices".to_owned(),
            content: self.confusion_matrices(),
        });
        if !self.worst.is_empty() {
            sections.push(Section {
                id: "worst",
                title: "Worst sentences".to_owned(),
                content: self.worst_sentences(),
            });
        }
        sections
    }

    fn confusion_matrices(&self) -> Markup {
        html! {
            p.caption { (CONFUSION) }
            @for model in &self.models {
                h3 dir="auto" { (model.name) }
                (draw_table(&self.confusion_table(model)))
            }
        }
    }

    fn worst_sentences(&self) -> Markup {
        html! {
            p.caption { (WORST) }
            @for worst in &self.worst {
                article { (self.worst_sentence(worst)) }
            }
        }
    }

    fn worst_sentence(&self, worst: &WorstSentence) -> Markup {
        let mistakes = if worst.mistakes == 1 {
            "mistake"
        } else {
            "mistakes"
        };
        let gold = worst.gold().map(|entity| entity_box(entity, None));
        html! {
            h3 { "Sentence " (worst.index + 1) ": " (worst.mistakes) " " (mistakes) }
            dl {
                dt { "gold" }
                dd { (draw_sentence(&worst.sentence, gold.collect())) }
                @for (model, outcomes) in self.models.iter().zip(&worst.outcomes) {
                    dt dir="auto" { (model.name) }
                    dd {
                        (draw_sentence(&worst.sentence, predicted_boxes(outcomes)))
                        (not_found(worst, outcomes))
                    }
                }
            }
        }
    }
}

/// A section of the page.
struct Section {
    id: &'static str,
    title: String,
    content: Markup,
}

fn predicted_boxes(outcomes: &SentenceOutcomes) -> Vec<EntityBox> {
    outcomes
        .predicted
        .iter()
        .map(|(entity, outcome)| entity_box(entity, mistake(outcome)))
        .collect()
}

fn entity_box(entity: &Entity, mistake: Option<String>) -> EntityBox {
    EntityBox {
        span: entity.span,
        label: entity.label.clone(),
        mistake,
    }
}

fn mistake(outcome: &PredictionOutcome) -> Option<String> {
    match outcome {
        PredictionOutcome::Correct => None,
        PredictionOutcome::WrongType(gold) => Some(format!("type, gold: {gold}")),
        PredictionOutcome::WrongBoundary => Some("boundary".to_owned()),
        PredictionOutcome::Spurious => Some("spurious".to_owned()),
    }
}

/// The gold entities that a model did not find; empty when it found all.
fn not_found(worst: &WorstSentence, outcomes: &SentenceOutcomes) -> Markup {
    let entities: Vec<&Entity> = outcomes.not_found().collect();
    html! {
        @if !entities.is_empty() {
            div.missed {
                "✗ not found: "
                @for (index, entity) in entities.iter().enumerate() {
                    @if index > 0 { "; " }
                    bdi { (worst.sentence.surface(entity.span)) }
                    sub { bdi { (entity.label) } }
                }
            }
        }
    }
}

fn draw_table(table: &ReportTable) -> Markup {
    html! {
        figure {
            @if !table.caption.is_empty() {
                figcaption { (table.caption) }
            }
            // A region that scrolls must be reachable by keyboard, and then it needs a name.
            div.scroll tabindex="0" role="region" aria-label=(table.title) {
                table {
                    thead { (draw_header(table)) }
                    @for group in &table.groups {
                        tbody { (draw_rows(group)) }
                    }
                }
            }
        }
    }
}

fn draw_header(table: &ReportTable) -> Markup {
    html! {
        tr {
            @for (column, heading) in table.header.iter().enumerate() {
                @let class = if table.is_name_column(column) { "name" } else { "number" };
                th scope="col" class=(class) dir="auto" { (heading) }
            }
        }
    }
}

fn draw_rows(group: &RowGroup) -> Markup {
    html! {
        @for (index, row) in group.rows.iter().enumerate() {
            tr {
                @if let Some(name) = group.name.as_ref().filter(|_| index == 0) {
                    th scope="rowgroup" rowspan=(group.rows.len()) dir="auto" { (name) }
                }
                @for cell in row { (draw_cell(cell)) }
            }
        }
    }
}

fn draw_cell(cell: &TableCell) -> Markup {
    let class = match cell.kind {
        CellKind::Name => return html! { th scope="row" dir="auto" { (cell.text) } },
        CellKind::Number => "number".to_owned(),
        CellKind::Remark => "number remark".to_owned(),
        CellKind::Diagonal => "number diagonal".to_owned(),
        CellKind::Better(strength) => format!("number better-{strength}"),
        CellKind::Worse(strength) => format!("number worse-{strength}"),
    };
    html! {
        td class=(class) {
            @if let Some(detail) = &cell.detail { small { (detail) } " " }
            (cell.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::super::{Analysis, AnalysisOptions};
    use crate::text::{Entity, Mention, Sentence};

    /// Fails unless every element is closed in the right order; our pages quote all attributes.
    fn assert_well_formed(html: &str) {
        let body = html
            .strip_prefix("<!DOCTYPE html>")
            .expect("a document type");
        let mut open: Vec<&str> = Vec::new();
        for (index, piece) in body.split('<').enumerate().skip(1) {
            let (tag, text) = piece.split_once('>').expect("a tag that ends");
            assert!(
                !text.contains('>') || open.last() == Some(&"style"),
                "stray > in piece {index}"
            );
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None => {
                    let name = tag.split(' ').next().unwrap_or(tag);
                    assert!(tag.matches('"').count() % 2 == 0, "{tag}");
                    if name != "meta" {
                        open.push(name);
                    }
                }
            }
        }
        assert!(open.is_empty(), "{open:?} stay open");
    }

    #[test]
    fn page_is_well_formed_and_self_contained() {
        let html = example().to_html();
        assert_well_formed(&html);
        for part in [
            "<html lang=\"en\">",
            "name=\"viewport\"",
            "<h1 ",
            "✗ <bdi>type, gold: LOC</bdi>",
            "✗ <bdi>boundary</bdi>",
            "✗ not found: ",
            "▼",
        ] {
            assert!(html.contains(part), "{part}");
        }
        for part in [
            "<script", "http:", "https:", "<link", "<img", "url(", "@import",
        ] {
            assert!(!html.contains(part), "{part}");
        }
    }

    #[test]
    fn text_from_the_user_is_escaped() {
        let evil = "</td><script>alert('&')</script>\u{0}";
        let mut sentence = Sentence::from_words([evil, "نص", "👩‍🔬"]);
        sentence.entities = vec![Entity::new(0, 1, evil)];
        let mention = |start, end, label: &str| Mention {
            entity: Entity::new(start, end, label),
            score: 1.0,
        };
        // Wrong type, and two that cross.
        let found = vec![vec![
            mention(0, 1, "\"x\""),
            mention(0, 2, evil),
            mention(1, 3, "<!--"),
        ]];
        let gold = [sentence];
        let models = vec![(evil.to_owned(), found), ("b".to_owned(), vec![Vec::new()])];
        let analysis = Analysis::new(&gold, &gold, models, None, AnalysisOptions::default());
        let html = analysis.expect("valid input").to_html();
        assert_well_formed(&html);
        assert!(!html.contains("<script") && !html.contains("<!--"));
        assert!(html.contains("&lt;/td&gt;&lt;script&gt;"));
        assert!(html.contains("&lt;/script&gt;\\u{0}") && !html.contains('\u{0}'));
    }

    #[test]
    fn one_model_without_mistakes_gives_a_short_page() {
        let gold = [Sentence::from_words(["a"])];
        let models = vec![("one".to_owned(), vec![Vec::new()])];
        let analysis = Analysis::new(&[], &gold, models, None, AnalysisOptions::default());
        let analysis = analysis.expect("valid input");
        let html = analysis.to_html();
        assert_well_formed(&html);
        assert!(!html.contains("Worst sentences") && !html.contains("Flat and nested"));
        assert!(analysis.to_string().contains("one"));
    }
}
