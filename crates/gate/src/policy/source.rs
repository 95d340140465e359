//! The text of a policy, taken apart into its rules before Cedar reads them one by one.
//!
//! Decides where a rule begins and ends and that none is so large or so nested that reading it
//! would need more than a little stack. What a rule means is Cedar's to say.

use super::PolicyFault;

/// Bytes of a policy.
pub const POLICY_BYTES_MAX: usize = 256 << 10;
/// Rules of a policy.
pub const RULES_MAX: usize = 500;
/// Bytes of one rule, its examples included.
pub const RULE_BYTES_MAX: usize = 16 << 10;
/// Brackets that may be open at one place.
const NESTING_MAX: usize = 24;

/// One rule as it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleSource<'t> {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    /// Its text, up to its semicolon.
    pub(super) text: &'t str,
}

/// The rules of `text`, in order.
pub(super) fn split(text: &str) -> Result<Vec<RuleSource<'_>>, PolicyFault> {
    if text.len() > POLICY_BYTES_MAX {
        return Err(PolicyFault::TooLong { bytes: text.len() });
    }
    let mut splitter = Splitter { text, rules: Vec::new(), line: 1, begun: None, nesting: 0 };
    let mut state = State::Plain;
    for (at, character) in text.char_indices() {
        state = splitter.step(state, at, character)?;
        splitter.line += usize::from(character == '\n');
    }
    // What follows the last semicolon is a rule that lacks one, which Cedar will say.
    splitter.end(text.len())?;
    Ok(splitter.rules)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Quoted,
    Escaped,
    Comment,
}

struct Splitter<'t> {
    text: &'t str,
    rules: Vec<RuleSource<'t>>,
    line: usize,
    begun: Option<(usize, usize)>,
    nesting: usize,
}

impl Splitter<'_> {
    fn step(&mut self, state: State, at: usize, character: char) -> Result<State, PolicyFault> {
        match (state, character) {
            (State::Comment, '\n') | (State::Quoted, '"') => return Ok(State::Plain),
            (State::Comment, _) => return Ok(State::Comment),
            (State::Quoted, '\\') => return Ok(State::Escaped),
            (State::Quoted | State::Escaped, _) => return Ok(State::Quoted),
            (State::Plain, '/') if self.text.get(at..).is_some_and(|it| it.starts_with("//")) => {
                return Ok(State::Comment);
            }
            _ => {}
        }
        if !character.is_whitespace() && self.begun.is_none() {
            self.begun = Some((at, self.line));
        }
        match character {
            '"' => return Ok(State::Quoted),
            '(' | '[' | '{' => self.nesting += 1,
            ')' | ']' | '}' => self.nesting = self.nesting.saturating_sub(1),
            ';' => self.end(at + 1)?,
            _ => {}
        }
        if self.nesting > NESTING_MAX {
            let line = self.begun.map_or(self.line, |(_, line)| line);
            return Err(PolicyFault::TooNested { line, limit: NESTING_MAX });
        }
        Ok(State::Plain)
    }

    fn end(&mut self, end: usize) -> Result<(), PolicyFault> {
        let Some((start, line)) = self.begun.take() else { return Ok(()) };
        self.nesting = 0;
        let text = self.text.get(start..end).unwrap_or_default();
        if text.len() > RULE_BYTES_MAX {
            return Err(PolicyFault::RuleTooLong { line, bytes: text.len() });
        }
        if self.rules.len() == RULES_MAX {
            return Err(PolicyFault::TooMany { limit: RULES_MAX });
        }
        self.rules.push(RuleSource { line, text });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_end_at_semicolons_that_are_neither_quoted_nor_commented_out() {
        let text = "// a; b\n\n@id(\"x;\\\"y\")\npermit (principal); // more;\n  forbid ();\nrest";
        let rules = split(text).unwrap();
        let expected = [
            RuleSource { line: 3, text: "@id(\"x;\\\"y\")\npermit (principal);" },
            RuleSource { line: 5, text: "forbid ();" },
            RuleSource { line: 6, text: "rest" },
        ];
        assert_eq!(rules, expected);
    }

    #[test]
    fn what_would_need_much_stack_is_refused() {
        let nested = format!("permit {};", "(".repeat(NESTING_MAX + 1));
        let expected = PolicyFault::TooNested { line: 1, limit: NESTING_MAX };
        assert_eq!(split(&nested), Err(expected));
        let long = format!("\nx{};", "a".repeat(RULE_BYTES_MAX));
        let expected = PolicyFault::RuleTooLong { line: 2, bytes: RULE_BYTES_MAX + 2 };
        assert_eq!(split(&long), Err(expected));
        assert_eq!(
            split(&"x;".repeat(RULES_MAX + 1)),
            Err(PolicyFault::TooMany { limit: RULES_MAX })
        );
        let bytes = POLICY_BYTES_MAX + 1;
        assert_eq!(split(&" ".repeat(bytes)), Err(PolicyFault::TooLong { bytes }));
    }
}
