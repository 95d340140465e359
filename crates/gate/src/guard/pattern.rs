//! Words that the shell turns into names that nobody can read in them: globs, braces, expansions.
//!
//! Decides which of some known names a word may become. A word that says nothing of a name, such as
//! `*` or `$x`, becomes none of them here: what then follows from not knowing is for others.

use super::word::Word;

/// How many readings of one word are looked at.
const READINGS_MAX: usize = 64;
/// Components of a word from which on only its first reading is looked at.
const COMPONENTS_MAX: usize = 32;

/// A part of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// This letter, in lower case.
    Letter(char),
    /// Any one letter, but no point at the beginning.
    One,
    /// Any letters; `dot` says whether a point at the beginning is one of them.
    Many { dot: bool },
}

/// The paths that `text`, which is a part of `word`, may become: each component that is not plain
/// text is one of `names` that it can be. Without such components it is the text itself.
pub(super) fn readings(word: &Word, text: &str, names: &[&str]) -> Vec<String> {
    if !is_wild(word) {
        return vec![text.to_owned()];
    }
    let tokens = tokens(word, text);
    let components = tokens.iter().filter(|token| **token == Token::Letter('/')).count();
    let most = if components > COMPONENTS_MAX { 1 } else { READINGS_MAX };
    let mut paths = vec![String::new()];
    for (at, component) in tokens.split(|token| *token == Token::Letter('/')).enumerate() {
        let choices = choices(component, names);
        let Some((first, others)) = choices.split_first() else { continue };
        let room = most.saturating_sub(paths.len());
        let slash = if at == 0 { "" } else { "/" };
        let more = paths
            .iter()
            .flat_map(|path| others.iter().map(move |other| format!("{path}{slash}{other}")));
        let more: Vec<String> = more.take(room).collect();
        for path in &mut paths {
            path.push_str(slash);
            path.push_str(first);
        }
        paths.extend(more);
    }
    paths
}

/// Those of `names` that a glob for files, as searching tools take it, may stand for. Other than in a
/// shell, its stars match points at the beginning too.
pub(super) fn matched<'n>(glob: &str, names: &[&'n str]) -> Vec<&'n str> {
    let word = Word { globs: true, brace: true, ..Word::literal(glob) };
    let mut tokens = tokens(&word, glob);
    for token in &mut tokens {
        if let Token::Many { dot } = token {
            *dot = true;
        }
    }
    let found = names.iter().filter(|name| matches(&tokens, &name.to_lowercase()));
    found.copied().collect()
}

/// A glob once for each choice in its braces. What has too many keeps some of them.
pub(super) fn alternatives(glob: &str) -> Vec<String> {
    let (mut found, mut left) = (Vec::new(), vec![glob.to_owned()]);
    while let Some(text) = left.pop() {
        let parts = text.split_once('}').and_then(|(before, behind)| {
            let (before, choices) = before.rsplit_once('{')?;
            Some((before, choices, behind))
        });
        match parts {
            Some((before, choices, behind)) if found.len() + left.len() < READINGS_MAX => {
                left.extend(choices.split(',').map(|choice| format!("{before}{choice}{behind}")));
            }
            _ => found.push(text),
        }
    }
    found
}

/// Whether the shell may make something else of the word.
fn is_wild(word: &Word) -> bool {
    !word.known || word.globs || word.brace
}

/// What a component may be.
fn choices(component: &[Token], names: &[&str]) -> Vec<String> {
    let plain: Option<String> = component
        .iter()
        .map(|token| match token {
            Token::Letter(letter) => Some(*letter),
            _ => None,
        })
        .collect();
    if let Some(plain) = plain {
        return vec![plain];
    }
    let mut found: Vec<String> = Vec::new();
    if says_something(component) {
        let names = names.iter().filter(|name| matches(component, name));
        found.extend(names.map(|name| (*name).to_owned()));
    }
    // It may be none of them as well.
    found.push("*".to_owned());
    found
}

/// Whether anything but the extension of a name is told.
fn says_something(component: &[Token]) -> bool {
    let wild = |token: &Token| !matches!(token, Token::Letter(_));
    let last = component.iter().rposition(wild).map_or(0, |at| at + 1);
    let (before, behind) = component.split_at(last);
    let extension = behind.first() == Some(&Token::Letter('.'));
    before.iter().any(|token| !wild(token)) || !behind.is_empty() && !extension
}

/// The tokens of a part of a word.
fn tokens(word: &Word, text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let behind = rest.get(next.len_utf8()..).unwrap_or_default();
        let (token, behind) = match next {
            '$' if !word.known => (Token::Many { dot: true }, behind_expansion(behind)),
            '*' if word.globs => (Token::Many { dot: false }, behind),
            '?' if word.globs => (Token::One, behind),
            '[' if word.globs => match behind.char_indices().skip(1).find(|(_, c)| *c == ']') {
                Some((end, _)) => (Token::One, behind.get(end + 1..).unwrap_or_default()),
                None => (Token::Letter('['), behind),
            },
            '{' if word.brace => {
                let end = behind.find('}').map(|end| end + 1);
                let behind = end.and_then(|end| behind.get(end..)).unwrap_or(behind);
                (Token::Many { dot: true }, behind)
            }
            '}' if word.brace => (Token::Many { dot: true }, behind),
            letter => (Token::Letter(letter.to_lowercase().next().unwrap_or(letter)), behind),
        };
        rest = behind;
        match (tokens.last_mut(), token) {
            // Several in a row are one; a row of thousands would only take time.
            (Some(Token::Many { dot }), Token::Many { dot: more }) => *dot |= more,
            _ => tokens.push(token),
        }
    }
    tokens
}

/// What follows an expansion whose `$` was read, as an unknown word has it.
fn behind_expansion(text: &str) -> &str {
    for whole in ["(())", "()"] {
        if let Some(behind) = text.strip_prefix(whole) {
            return behind;
        }
    }
    if let Some(inner) = text.strip_prefix('{') {
        return inner.split_once('}').map_or("", |(_, behind)| behind);
    }
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.chars().next() {
        Some(first) if name(first) => text.trim_start_matches(name),
        Some(special) => text.get(special.len_utf8()..).unwrap_or_default(),
        None => text,
    }
}

/// Whether the tokens may stand for `name`.
fn matches(tokens: &[Token], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // Where to go on if what was tried fails: behind the last star, one letter later.
    let (mut at, mut letter, mut back) = (0, 0, None);
    while let Some(&found) = name.get(letter) {
        let hidden = letter == 0 && found == '.';
        match tokens.get(at) {
            Some(Token::Letter(wanted)) if *wanted == found => (at, letter) = (at + 1, letter + 1),
            Some(Token::One) if !hidden => (at, letter) = (at + 1, letter + 1),
            Some(Token::Many { dot }) => {
                if *dot || !hidden {
                    back = Some((at + 1, letter + 1));
                }
                at += 1;
            }
            _ => match back {
                Some((after, from)) => {
                    (at, letter) = (after, from);
                    back = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    let rest = tokens.get(at..).unwrap_or_default();
    rest.iter().all(|token| matches!(token, Token::Many { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &[".claude", ".mcp.json", "settings.json", ".env"];

    fn glob(text: &str) -> Vec<String> {
        let word = Word { globs: true, ..Word::literal(text) };
        readings(&word, text, NAMES).into_iter().filter(|path| !path.contains('*')).collect()
    }

    fn unknown(text: &str) -> Vec<String> {
        let paths = readings(&Word::unknown(text), text, NAMES);
        paths.into_iter().filter(|path| !path.contains('*')).collect()
    }

    #[test]
    fn a_glob_is_every_name_that_it_can_be() {
        assert_eq!(glob(".cl*"), [".claude"]);
        assert_eq!(glob(".c?a?de/x"), [".claude/x"]);
        assert_eq!(glob(".[b-d]laude"), [".claude"]);
        assert_eq!(glob(".*"), [".claude", ".mcp.json", ".env"]);
        assert_eq!(glob("./.CL*/set*"), ["./.claude/settings.json"]);
        assert_eq!(glob(".e*"), [".env"]);
    }

    #[test]
    fn what_says_nothing_of_a_name_is_none_of_them() {
        for text in ["*", "src/*", "*.json", "?claude", "[.]claude", "*laude", ".clx*", "a/*/b*"] {
            assert_eq!(glob(text), [""; 0], "{text}");
        }
        for text in ["$x", "$x/y", "$x.json", "${a}/b", "src/$1"] {
            assert_eq!(unknown(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_expansion_may_be_anything_beside_what_is_told() {
        assert_eq!(unknown("$()ude/x"), [".claude/x"]);
        assert_eq!(unknown(".c$x"), [".claude"]);
        assert_eq!(unknown("${d:-a}ude"), [".claude"]);
        let word = Word { brace: true, ..Word::literal(".cl{a..b}ude/x") };
        assert_eq!(readings(&word, &word.text, NAMES)[0], ".claude/x");
    }

    #[test]
    fn the_globs_of_searching_tools_match_points_too() {
        assert_eq!(matched("*.json", NAMES), [".mcp.json", "settings.json"]);
        assert_eq!(matched(".env", NAMES), [".env"]);
        assert_eq!(matched("*.rs", NAMES), [""; 0]);
    }

    #[test]
    fn braces_are_taken_apart() {
        assert_eq!(alternatives("a"), ["a"]);
        let found: std::collections::BTreeSet<_> =
            alternatives("{a,b{c,d}}.{e}").into_iter().collect();
        assert_eq!(Vec::from_iter(found), ["a.e", "bc.e", "bd.e"]);
        assert!(alternatives(&"{a,b}".repeat(100)).len() <= 2 * READINGS_MAX);
    }

    #[test]
    fn long_patterns_take_no_long_time() {
        assert_eq!(glob(&".c*?".repeat(20_000)), [""; 0]);
        assert_eq!(glob(&".c*/".repeat(2_000)).len(), 1);
    }
}
