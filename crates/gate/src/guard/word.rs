//! Words of a command, as far as they can be told before it runs.

/// One word of a command, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// What it says. What only the running shell could tell stands there unexpanded.
    pub(super) text: String,
    /// Whether it says the same when it runs.
    pub(super) known: bool,
    /// Whether any part of it was quoted: quoted words are no keywords.
    pub(super) quoted: bool,
    /// Whether the shell may make other words of it: `*`, `?`, `[`.
    pub(super) globs: bool,
    /// Whether it has unquoted braces with a comma: `{a,b}`.
    pub(super) braces: bool,
    /// Whether it has an unquoted brace at all: `{a..b}`.
    pub(super) brace: bool,
    /// Whether it came unquoted from a variable that holds white space, so that it is several words.
    pub(super) splits: bool,
}

impl Word {
    /// A word of nothing yet.
    pub(super) const fn empty() -> Self {
        Self {
            text: String::new(),
            known: true,
            quoted: false,
            globs: false,
            braces: false,
            brace: false,
            splits: false,
        }
    }

    /// A word that is what it is: an argument that no shell sees.
    pub(super) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::empty() }
    }

    /// A word that stands for what only the running shell can tell.
    pub(super) fn unknown(text: &str) -> Self {
        Self { known: false, ..Self::literal(text) }
    }

    /// The words that the shell makes of it: variables split at white space, `a{b,c}` made `ab ac`.
    pub(super) fn expanded(self) -> Vec<Self> {
        if self.splits {
            let part = |text| Self { known: self.known, globs: self.globs, ..Self::literal(text) };
            return self.text.split_whitespace().map(part).collect();
        }
        let parts = self.text.split_once('{').and_then(|(before, rest)| {
            let (choices, after) = rest.split_once('}')?;
            Some((before, choices, after))
        });
        match parts {
            Some((before, choices, after)) if self.braces => choices
                .split(',')
                .map(|choice| Self { text: format!("{before}{choice}{after}"), ..self.clone() })
                .collect(),
            _ => vec![self],
        }
    }

    /// Name and value of an assignment such as `PATH=/bin`.
    pub(super) fn assignment(&self) -> Option<(&str, &str)> {
        let (name, value) = self.text.split_once('=')?;
        let name = name.strip_suffix('+').unwrap_or(name);
        is_name(name).then_some((name, value))
    }
}

/// Where a command's output goes, or where it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// Whether the file is written.
    pub(super) writes: bool,
    /// Which file.
    pub(super) target: Word,
}

/// Whether this is the name of a variable or a function.
pub(super) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
