//! Words of a shell text: quotes, variables and substitutions.

use super::{Close, EXPANSION_BYTES_MAX, Parser, Simple};
use crate::guard::word::{Word, is_name};

impl Parser<'_> {
    /// One word, up to white space or an operator.
    pub(super) fn word(&mut self, made_of: &mut Vec<usize>) -> Word {
        let mut word = Word::empty();
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '`' if self.in_backticks => break,
                '\\' => {
                    self.at += 1;
                    word.quoted = true;
                    // An escaped line break is nothing.
                    if let Some(escaped) = self.bump().filter(|c| *c != '\n') {
                        word.text.push(escaped);
                    }
                }
                '\'' => self.single_quoted(&mut word),
                '"' => self.double_quoted(&mut word, made_of),
                '`' => self.backticks(&mut word, made_of),
                '$' => {
                    self.at += 1;
                    self.dollar(&mut word, made_of, false);
                }
                _ => {
                    self.at += next.len_utf8();
                    word.globs |= matches!(next, '*' | '?' | '[');
                    word.braces |= next == ',' && word.text.contains('{');
                    word.brace |= next == '{';
                    word.text.push(next);
                }
            }
        }
        word
    }

    fn single_quoted(&mut self, word: &mut Word) {
        self.at += 1;
        word.quoted = true;
        match self.rest().find('\'') {
            Some(end) => {
                word.text.push_str(self.rest().get(..end).unwrap_or_default());
                self.at += end + 1;
            }
            None => self.unclosed(),
        }
    }

    fn double_quoted(&mut self, word: &mut Word, made_of: &mut Vec<usize>) {
        self.at += 1;
        word.quoted = true;
        loop {
            match self.bump() {
                None => break self.unclosed(),
                Some('"') => break,
                Some('\\') => match self.bump() {
                    None | Some('\n') => {}
                    Some(escaped) => {
                        if !matches!(escaped, '$' | '`' | '"' | '\\') {
                            word.text.push('\\');
                        }
                        word.text.push(escaped);
                    }
                },
                Some('`') => {
                    self.at -= 1;
                    self.backticks(word, made_of);
                }
                Some('$') => self.dollar(word, made_of, true),
                Some(other) => word.text.push(other),
            }
        }
    }

    fn unclosed(&mut self) {
        self.script.murk.push("a quote is not closed");
        self.at = self.text.len();
    }

    fn backticks(&mut self, word: &mut Word, made_of: &mut Vec<usize>) {
        self.at += 1;
        let found = self.list(Close::Backtick);
        self.substituted(word, made_of, found);
    }

    fn substituted(&self, word: &mut Word, made_of: &mut Vec<usize>, found: Vec<usize>) {
        let only = found.iter().map(|&at| self.script.commands.get(at)).collect::<Vec<_>>();
        let printed = match only.as_slice() {
            [Some(Simple { words, input, .. })] => match (words.as_slice(), input) {
                ([pwd], _) if pwd.text == "pwd" => Some("."),
                ([cat], Some(input)) if cat.text == "cat" && input.known => Some(&*input.text),
                _ => None,
            },
            _ => None,
        };
        word.known &= printed.is_some();
        word.text.push_str(printed.map_or("$()", |text| text.trim_end_matches('\n')));
        made_of.extend(found);
    }

    /// What follows a `$`.
    pub(super) fn dollar(&mut self, word: &mut Word, made_of: &mut Vec<usize>, quoted: bool) {
        if self.eat("((") {
            let length = self.rest().find("))").map_or(self.rest().len(), |end| end + 2);
            self.at += length;
            word.known = false;
            word.text.push_str("$(())");
        } else if self.eat("(") {
            let found = self.list(Close::Paren);
            self.substituted(word, made_of, found);
        } else if self.eat("{") {
            self.parameter(word, made_of, quoted);
        } else if !quoted && self.eat("'") {
            self.escaped_quote(word);
        } else {
            let length = self.rest().find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let length = length.unwrap_or(self.rest().len());
            let name = self.rest().get(..length).unwrap_or_default().to_owned();
            if is_name(&name) {
                self.at += length;
                self.variable(&name, word, quoted);
            } else if let Some(special) =
                self.peek().filter(|c| c.is_ascii_digit() || "?$@*#!-".contains(*c))
            {
                self.at += 1;
                word.known = false;
                word.text.extend(['$', special]);
            } else {
                word.text.push('$');
            }
        }
    }

    fn parameter(&mut self, word: &mut Word, made_of: &mut Vec<usize>, quoted: bool) {
        let mut open = 1;
        let length = self.rest().find(|c: char| {
            open += i32::from(c == '{') - i32::from(c == '}');
            open == 0
        });
        let Some(length) = length else { return self.unclosed() };
        let inner = self.rest().get(..length).unwrap_or_default().to_owned();
        self.at += length + 1;
        if is_name(&inner) {
            self.variable(&inner, word, quoted);
            return;
        }
        let found = self.substitutions(&inner);
        made_of.extend(found);
        word.known = false;
        word.text.push_str(&format!("${{{inner}}}"));
    }

    fn variable(&mut self, name: &str, word: &mut Word, quoted: bool) {
        let value = self.variables.get(name).filter(|value| {
            self.expanded += value.text.len();
            // A few variables that double each other would fill any memory.
            self.expanded <= EXPANSION_BYTES_MAX
        });
        match (name, value) {
            (_, Some(value)) => {
                word.splits |= !quoted && value.text.contains(char::is_whitespace);
                word.globs |= (value.found || !quoted) && value.text.contains(['*', '?', '[']);
                word.brace |= value.found && value.text.contains('{');
                word.text.push_str(&value.text);
            }
            ("HOME", None) => word.text.push('~'),
            ("PWD", None) => word.text.push('.'),
            (_, None) => {
                word.known = false;
                word.text.push('$');
                word.text.push_str(name);
            }
        }
    }

    /// `$'…'`, in which characters may be written as numbers.
    fn escaped_quote(&mut self, word: &mut Word) {
        word.quoted = true;
        loop {
            match self.bump() {
                None => break self.unclosed(),
                Some('\'') => break,
                Some('\\') => {
                    let escaped = match self.bump() {
                        Some('x') => self.number(16, 2),
                        Some('u') => self.number(16, 4),
                        Some('n') => Some('\n'),
                        Some('t') => Some('\t'),
                        Some(digit) if digit.is_digit(8) => {
                            self.at -= 1;
                            self.number(8, 3)
                        }
                        other => other,
                    };
                    word.text.extend(escaped);
                }
                Some(other) => word.text.push(other),
            }
        }
    }

    fn number(&mut self, radix: u32, digits: usize) -> Option<char> {
        let mut value = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            self.at += 1;
            value = value * radix + digit;
        }
        char::from_u32(value)
    }
}
