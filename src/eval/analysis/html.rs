//! The analysis as one HTML page that needs nothing else: no script, no network, no colour to be understood.

use super::brackets::{self, Bracket};
use super::cells::{Cell, Group, Kind, Table};
use super::judge::{Fate, Judgement, Verdict};
use super::markup::Markup;
use super::{Analysis, Worst};

const STYLE: &str = include_str!("report.css");

/// How to read the tables of labels.
const CONFUSION: &str = "Rows are gold labels, columns predicted ones on the same span; right ones are bold. (none): nothing was predicted on exactly that span, or nothing is gold there.";

/// How to read the worst sentences.
const WORST: &str = "The sentences with the most wrong predictions and missed entities of all models together. A box is an entity, its label below; boxes nest as entities do, and one that crosses another stands on a copy of the sentence. Dashed boxes with ✗ are wrong: borders (overlaps a missed entity), type (with the gold label) or spurious. What a model did not find stands below its sentence.";

impl Analysis {
    /// The page.
    pub fn to_html(&self) -> String {
        let names: Vec<&str> = self
            .models
            .iter()
            .map(|model| model.name.as_str())
            .collect();
        let title = format!("Analysis of {}", names.join(", "));
        let mut markup = Markup::default();
        markup.trusted("<!DOCTYPE html>\n");
        markup.element("html", &[("lang", "en")], |markup| {
            markup.element("head", &[], |markup| {
                markup.void("meta", &[("charset", "utf-8")]);
                let viewport = [
                    ("name", "viewport"),
                    ("content", "width=device-width, initial-scale=1"),
                ];
                markup.void("meta", &viewport);
                markup.void(
                    "meta",
                    &[("name", "color-scheme"), ("content", "light dark")],
                );
                markup.leaf("title", &[], &title);
                markup.element("style", &[], |markup| markup.trusted(STYLE));
            });
            markup.element("body", &[], |markup| self.body(markup, &title));
        });
        markup.finish()
    }

    fn body(&self, markup: &mut Markup, title: &str) {
        let sections = self.sections();
        markup.element("header", &[], |markup| {
            markup.leaf("h1", &[("dir", "auto")], title);
            markup.leaf("p", &[], &self.facts());
            markup.element("p", &[], |markup| {
                markup.text("Differences are to the standard, ");
                markup.leaf("bdi", &[], &self.standard().name);
                markup.text(".");
            });
        });
        markup.element("nav", &[("aria-label", "ModelFiles")], |markup| {
            markup.element("ul", &[], |markup| {
                for section in &sections {
                    let link = format!("#{}", section.id);
                    markup.element("li", &[], |markup| {
                        markup.leaf("a", &[("href", &link)], section.title);
                    });
                }
            });
        });
        markup.element("main", &[], |markup| {
            for section in &sections {
                markup.element("section", &[("id", section.id)], |markup| {
                    markup.leaf("h2", &[], section.title);
                    (section.content)(self, markup);
                });
            }
        });
    }

    fn sections(&self) -> Vec<Section> {
        let mut sections = vec![
            Section::new("overall", "All entities", |analysis, markup| {
                table(markup, &analysis.overall_table());
            }),
            Section::new("attributes", "By attribute", |analysis, markup| {
                table(markup, &analysis.bucket_table());
            }),
            Section::new("errors", "Kinds of errors", |analysis, markup| {
                table(markup, &analysis.error_table());
            }),
            Section::new("types", "By type", |analysis, markup| {
                table(markup, &analysis.type_table());
            }),
            Section::new("lengths", "By length", |analysis, markup| {
                table(markup, &analysis.length_table());
            }),
            Section::new(
                "confusion",
                "Labels taken for others",
                |analysis, markup| {
                    markup.leaf("p", &[("class", "caption")], CONFUSION);
                    for model in &analysis.models {
                        let confusion = analysis.confusion_table(model);
                        markup.leaf("h3", &[("dir", "auto")], &confusion.title);
                        table(markup, &confusion);
                    }
                },
            ),
        ];
        if self.nesting_table().is_some() {
            let nesting = Section::new("nesting", "Flat and nested", |analysis, markup| {
                analysis
                    .nesting_table()
                    .iter()
                    .for_each(|nesting| table(markup, nesting));
            });
            sections.insert(5, nesting);
        }
        if !self.worst.is_empty() {
            sections.push(Section::new(
                "worst",
                "Worst sentences",
                Self::worst_sentences,
            ));
        }
        sections
    }

    fn worst_sentences(&self, markup: &mut Markup) {
        markup.leaf("p", &[("class", "caption")], WORST);
        for worst in &self.worst {
            markup.element("article", &[], |markup| self.worst_sentence(markup, worst));
        }
    }

    fn worst_sentence(&self, markup: &mut Markup, worst: &Worst) {
        let title = match worst.mistakes {
            1 => format!("Sentence {}: 1 mistake", worst.index + 1),
            count => format!("Sentence {}: {count} mistakes", worst.index + 1),
        };
        markup.leaf("h3", &[], &title);
        let sentence = &worst.sentence;
        markup.element("dl", &[], |markup| {
            let gold = worst
                .judgements
                .first()
                .map_or(&[][..], |first| &first.gold);
            let gold = gold.iter().map(|(entity, _)| bracket(entity, None));
            markup.leaf("dt", &[], "gold");
            markup.element("dd", &[], |markup| {
                brackets::draw(markup, sentence, gold.collect());
            });
            for (model, judgement) in self.models.iter().zip(&worst.judgements) {
                markup.leaf("dt", &[("dir", "auto")], &model.name);
                markup.element("dd", &[], |markup| {
                    let predicted = judgement.predicted.iter();
                    let predicted =
                        predicted.map(|(entity, verdict)| bracket(entity, mistake(verdict)));
                    brackets::draw(markup, sentence, predicted.collect());
                    not_found(markup, worst, judgement);
                });
            }
        });
    }
}

/// A part of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    content: fn(&Analysis, &mut Markup),
}

impl Section {
    fn new(id: &'static str, title: &'static str, content: fn(&Analysis, &mut Markup)) -> Self {
        Self { id, title, content }
    }
}

fn bracket(entity: &crate::text::Entity, mistake: Option<String>) -> Bracket {
    Bracket {
        span: entity.span,
        label: entity.label.clone(),
        mistake,
    }
}

fn mistake(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Right => None,
        Verdict::WrongType(gold) => Some(format!("type, gold: {gold}")),
        Verdict::WrongBorders => Some("borders".to_owned()),
        Verdict::Spurious => Some("spurious".to_owned()),
    }
}

/// What the model did not find, below its sentence.
fn not_found(markup: &mut Markup, worst: &Worst, judgement: &Judgement) {
    let gold = judgement.gold.iter();
    let missed: Vec<_> = gold.filter(|(_, fate)| *fate != Fate::Found).collect();
    if missed.is_empty() {
        return;
    }
    markup.element("div", &[("class", "missed")], |markup| {
        markup.text("✗ not found: ");
        for (index, (entity, _)) in missed.into_iter().enumerate() {
            if index > 0 {
                markup.text("; ");
            }
            markup.leaf("bdi", &[], worst.sentence.surface(entity.span));
            markup.element("sub", &[], |markup| markup.leaf("bdi", &[], &entity.label));
        }
    });
}

fn table(markup: &mut Markup, table: &Table) {
    // A region that scrolls must be reachable by keyboard, and then it needs a name.
    let attributes = [
        ("class", "scroll"),
        ("tabindex", "0"),
        ("role", "region"),
        ("aria-label", table.title.as_str()),
    ];
    markup.element("figure", &[], |markup| {
        if !table.caption.is_empty() {
            markup.leaf("figcaption", &[], &table.caption);
        }
        markup.element("div", &attributes, |markup| {
            markup.element("table", &[], |markup| {
                markup.element("thead", &[], |markup| head(markup, table));
                for group in &table.groups {
                    markup.element("tbody", &[], |markup| rows(markup, group));
                }
            });
        });
    });
}

fn head(markup: &mut Markup, table: &Table) {
    markup.element("tr", &[], |markup| {
        for (column, head) in table.head.iter().enumerate() {
            let class = if table.is_name(column) {
                "name"
            } else {
                "number"
            };
            let attributes = [("scope", "col"), ("class", class), ("dir", "auto")];
            markup.leaf("th", &attributes, head);
        }
    });
}

fn rows(markup: &mut Markup, group: &Group) {
    let span = group.rows.len().to_string();
    for (index, row) in group.rows.iter().enumerate() {
        markup.element("tr", &[], |markup| {
            if let Some(name) = group.name.as_ref().filter(|_| index == 0) {
                let attributes = [
                    ("scope", "rowgroup"),
                    ("rowspan", span.as_str()),
                    ("dir", "auto"),
                ];
                markup.leaf("th", &attributes, name);
            }
            for cell in row {
                data(markup, cell);
            }
        });
    }
}

fn data(markup: &mut Markup, cell: &Cell) {
    let class = match cell.kind {
        Kind::Name => return markup.leaf("th", &[("scope", "row"), ("dir", "auto")], &cell.text),
        Kind::Number => "number".to_owned(),
        Kind::Remark => "number remark".to_owned(),
        Kind::Diagonal => "number diagonal".to_owned(),
        Kind::Better(strength) => format!("number better-{strength}"),
        Kind::Worse(strength) => format!("number worse-{strength}"),
    };
    markup.element("td", &[("class", &class)], |markup| {
        if let Some(detail) = &cell.detail {
            markup.leaf("small", &[], detail);
            markup.text(" ");
        }
        markup.text(&cell.text);
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::super::{Analysis, Options};
    use crate::text::{Entity, Mention, Sentence};

    /// Fails unless every element is closed in the right order; our pages quote all attributes.
    fn assert_well_formed(html: &str) {
        let body = html
            .strip_prefix("<!DOCTYPE html>\n")
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
    fn page_is_well_formed_and_needs_nothing_else() {
        let html = example().to_html();
        assert_well_formed(&html);
        for part in [
            "<html lang=\"en\">",
            "name=\"viewport\"",
            "<h1 ",
            "✗ <bdi>type, gold: LOC</bdi>",
            "✗ <bdi>borders</bdi>",
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
    fn nothing_from_the_user_is_markup() {
        let evil = "</td><script>alert('&')</script>";
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
        let analysis = Analysis::new(&gold, &gold, models, None, Options::default());
        let html = analysis.expect("sound input").to_html();
        assert_well_formed(&html);
        assert!(!html.contains("<script") && !html.contains("<!--"));
        assert!(html.contains("&lt;/td&gt;&lt;script&gt;"));
    }

    #[test]
    fn one_perfect_model_is_enough() {
        let gold = [Sentence::from_words(["a"])];
        let models = vec![("one".to_owned(), vec![Vec::new()])];
        let analysis = Analysis::new(&[], &gold, models, None, Options::default());
        let analysis = analysis.expect("sound input");
        let html = analysis.to_html();
        assert_well_formed(&html);
        assert!(!html.contains("Worst sentences") && !html.contains("Flat and nested"));
        assert!(analysis.to_string().contains("one"));
    }
}
