//! HTML that is put together so that no text can become markup.
//!
//! Tags and classes are of this program alone. Everything else is a text: its characters are
//! escaped, and those that nobody would see are written out. Whatever was opened is closed.

use countersign_format::text::has_unseen;

/// Elements that stand within a sentence.
const INLINE: [&str; 3] = ["a", "code", "span"];

/// A page in the making.
#[derive(Debug, Default)]
pub(super) struct Markup {
    out: String,
    open: Vec<&'static str>,
}

impl Markup {
    /// The page, with everything closed.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.end();
        }
        self.out
    }

    /// Markup of this program, as it is.
    pub(super) fn fixed(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// Opens an element.
    pub(super) fn begin(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.tag(tag, attributes);
        self.open.push(tag);
    }

    /// Closes the element that was opened last.
    pub(super) fn end(&mut self) {
        if let Some(tag) = self.open.pop() {
            self.out.push_str("</");
            self.out.push_str(tag);
            // Within a sentence a line break would be a space.
            self.out.push_str(if INLINE.contains(&tag) { ">" } else { ">\n" });
        }
    }

    /// An element without contents and without an end.
    pub(super) fn tag(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.out.push('<');
        self.out.push_str(tag);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            escaped(&mut self.out, value, Unseen::Numbers);
            self.out.push('"');
        }
        self.out.push('>');
    }

    /// Words of this program.
    pub(super) fn words(&mut self, words: &str) {
        escaped(&mut self.out, words, Unseen::Marked);
    }

    /// Text of others, which cannot turn the words around it.
    pub(super) fn text(&mut self, text: &str) {
        self.out.push_str("<bdi>");
        escaped(&mut self.out, text, Unseen::Marked);
        self.out.push_str("</bdi>");
    }

    /// Text of others where no element can stand.
    pub(super) fn plain(&mut self, text: &str) {
        escaped(&mut self.out, text, Unseen::Numbers);
    }

    /// Text of others in its lines.
    pub(super) fn block(&mut self, text: &str) {
        self.out.push_str("<pre><bdi>");
        escaped(&mut self.out, text, Unseen::MarkedInLines);
        self.out.push_str("</bdi></pre>\n");
    }

    /// An element with words of this program.
    pub(super) fn said(&mut self, tag: &'static str, class: &str, words: &str) {
        self.classed(tag, class);
        self.words(words);
        self.end();
    }

    /// An element with text of others.
    pub(super) fn quoted(&mut self, tag: &'static str, class: &str, text: &str) {
        self.classed(tag, class);
        self.text(text);
        self.end();
    }

    fn classed(&mut self, tag: &'static str, class: &str) {
        match class {
            "" => self.begin(tag, &[]),
            class => self.begin(tag, &[("class", class)]),
        }
    }
}

/// What becomes of characters that nobody would see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unseen {
    /// They are written out and marked.
    Marked,
    /// The same, but line breaks and tabs stay.
    MarkedInLines,
    /// They are written out without a mark: in an attribute nothing can be marked.
    Numbers,
}

fn escaped(out: &mut String, text: &str, unseen: Unseen) {
    let mut utf8 = [0; 4];
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' if unseen == Unseen::MarkedInLines => out.push(character),
            _ if has_unseen(character.encode_utf8(&mut utf8)) => {
                let code = format!("U+{:04X}", u32::from(character));
                match unseen {
                    Unseen::Numbers => out.push_str(&code),
                    Unseen::Marked | Unseen::MarkedInLines => {
                        out.push_str("<span class=\"odd\">");
                        out.push_str(&code);
                        out.push_str("</span>");
                    }
                }
            }
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an attribute, as a text and in lines.
    fn shown(text: &str) -> String {
        let mut markup = Markup::default();
        markup.begin("p", &[("id", text)]);
        markup.text(text);
        markup.block(text);
        markup.finish()
    }

    #[test]
    fn no_text_becomes_markup() {
        let page = shown("</p><script>alert(\"1\")</script>' onload='x'&amp;");
        let safe = "&lt;/p&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39; \
                    onload=&#39;x&#39;&amp;amp;";
        assert_eq!(
            page,
            format!("<p id=\"{safe}\"><bdi>{safe}</bdi><pre><bdi>{safe}</bdi></pre>\n</p>\n")
        );
    }

    #[test]
    fn what_nobody_would_see_is_written_out() {
        let odd = |code: &str| format!("<span class=\"odd\">{code}</span>");
        let page = shown("a\u{202e}b\u{200b}\n\u{1b}");
        let (bidi, nothing, escape) = (odd("U+202E"), odd("U+200B"), odd("U+001B"));
        let line = odd("U+000A");
        assert_eq!(
            page,
            format!(
                "<p id=\"aU+202EbU+200BU+000AU+001B\"><bdi>a{bidi}b{nothing}{line}{escape}</bdi>\
                 <pre><bdi>a{bidi}b{nothing}\n{escape}</bdi></pre>\n</p>\n"
            )
        );
    }
}
