//! Writing HTML that is well formed by construction: every element closes itself, every text is escaped.

use std::fmt::Write;

/// HTML on its way.
#[derive(Default)]
pub(super) struct Markup {
    out: String,
}

impl Markup {
    /// An element with its content.
    pub fn element(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        content: impl FnOnce(&mut Self),
    ) {
        self.tag(name, attributes);
        content(self);
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.out, "</{name}>");
        if !INLINE.contains(&name) {
            self.out.push('\n');
        }
    }

    /// An element with nothing but text in it.
    pub fn leaf(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        self.element(name, attributes, |markup| markup.text(text));
    }

    /// An element that has no content, such as `meta`.
    pub fn void(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.out.push('\n');
    }

    /// Text, escaped.
    pub fn text(&mut self, text: &str) {
        escape(text, &mut self.out);
    }

    /// What we wrote ourselves and must not be escaped, such as the style sheet.
    pub fn trusted(&mut self, text: &'static str) {
        self.out.push_str(text);
    }

    /// The HTML written so far.
    pub fn finish(self) -> String {
        self.out
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        let _ = write!(self.out, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.out, " {key}=\"");
            escape(value, &mut self.out);
            self.out.push('"');
        }
        self.out.push('>');
    }
}

/// Elements after which a line break would show as a space.
const INLINE: [&str; 8] = ["a", "b", "bdi", "code", "small", "span", "sub", "mark"];

/// Appends a text so that HTML reads it as text, in elements and in quoted attributes.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in HTML, not even escaped.
            '\t' | '\n' => out.push(character),
            _ if character.is_control() => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut markup = Markup::default();
        markup.element("p", &[("title", "\"><script>")], |markup| {
            markup.text("a<b & 'c'\u{0}");
            markup.leaf("b", &[], "نص 👩‍🔬");
        });
        assert_eq!(
            markup.finish(),
            "<p title=\"&quot;&gt;&lt;script&gt;\">a&lt;b &amp; &#39;c&#39;\u{fffd}<b>نص 👩‍🔬</b></p>\n"
        );
    }
}
