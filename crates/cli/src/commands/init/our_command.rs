//! By what a command in the settings of others is known as ours.

/// What stands in it behind the program and the store.
const OUR_WORDS: &str = " hook claude-code";

/// By what our hooks are known: a command begins with the program's name, wherever that lies, and the
/// store, both quoted for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OurCommand {
    pub(super) program: String,
    pub(super) home: String,
}

impl OurCommand {
    /// Whether a line runs it, with whatever options.
    pub(super) fn begins(&self, command: &str) -> bool {
        let Some((program, rest)) = first_word(command) else { return false };
        let name = |path: &str| path.trim_matches('\'').rsplit('/').next().map(str::to_owned);
        let rest = rest.strip_prefix(" --home ").and_then(|rest| rest.strip_prefix(&*self.home));
        let rest = rest.and_then(|rest| rest.strip_prefix(OUR_WORDS));
        name(program) == name(&self.program)
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// The first word of a shell's line, with its quotes, and the rest.
fn first_word(line: &str) -> Option<(&str, &str)> {
    let (mut quoted, mut escaped) = (false, false);
    let end = line.find(|it: char| {
        let was_escaped = std::mem::take(&mut escaped);
        escaped = !quoted && !was_escaped && it == '\\';
        quoted ^= it == '\'' && !was_escaped;
        !quoted && !was_escaped && it == ' '
    })?;
    line.split_at_checked(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_paths_are_a_part_of_their_word() {
        let line = r"'/it'\''s a/countersign' --home '/w' hook claude-code";
        let rest = " --home '/w' hook claude-code";
        assert_eq!(first_word(line), Some((r"'/it'\''s a/countersign'", rest)));
        assert_eq!(first_word("one"), None);
    }
}
