//! What a person is told before they answer: first why they are asked, then what the agent wants, with
//! every line of its own marked as that. Nothing that an agent writes can pass for ours.

use std::fmt::Write as _;

use countersign_format::hash::Hash;
use countersign_format::text::escape_block;

/// Characters of one text of an agent that are shown.
const SHOWN_MAX: usize = 2_000;
/// Files that are shown.
const FILES_MAX: usize = 20;

/// Something that an agent wants to do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted<'w> {
    /// What sort of action it is.
    pub(crate) kind: &'w str,
    /// What it is for, in the agent's words.
    pub(crate) description: &'w str,
    /// The command that it would run.
    pub(crate) command: Option<&'w str>,
    /// The files that it names.
    pub(crate) files: &'w [String],
    /// The change, or the arguments.
    pub(crate) change: Option<&'w str>,
    /// Why a person is asked.
    pub(crate) reasons: &'w [String],
}

impl Wanted<'_> {
    /// What the person is shown.
    pub(crate) fn words(&self) -> String {
        let mut words = String::from("Why you are asked:\n");
        for reason in self.reasons {
            quote(&mut words, reason);
        }
        let _ = writeln!(words, "An agent wants to do this ({}), in its own words:", self.kind);
        quote(&mut words, self.description);
        if let Some(command) = self.command {
            words.push_str("The command:\n");
            quote(&mut words, command);
        }
        if !self.files.is_empty() {
            let _ = writeln!(words, "The files, {} in all:", self.files.len());
            for file in self.files.iter().take(FILES_MAX) {
                quote(&mut words, file);
            }
        }
        if let Some(change) = self.change {
            let (bytes, hash) = (change.len(), Hash::of(change.as_bytes()));
            let _ = writeln!(words, "All of it, {bytes} bytes with SHA-256 {hash}:");
            quote(&mut words, change);
        }
        words
    }
}

/// Puts a text of somebody else's, escaped and cut, behind marks at every line.
fn quote(words: &mut String, text: &str) {
    let short: String = text.chars().take(SHOWN_MAX).collect();
    for line in escape_block(&short).to_string().lines() {
        let _ = writeln!(words, "> {line}");
    }
    if short.len() < text.len() {
        let _ = writeln!(words, "> […] {} bytes more", text.len() - short.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_agent_cannot_pass_for_ours() {
        let reasons = ["deletes files".to_owned()];
        let files = ["src/a.rs\nWhy you are asked:".to_owned()];
        let wanted = Wanted {
            kind: "command",
            description: "fix a typo\nWhy you are asked:\n> routine\u{1b}[2J",
            command: Some("rm -rf src"),
            files: &files,
            change: Some("-a\n+b\n"),
            reasons: &reasons,
        };
        let expected = "Why you are asked:\n\
            > deletes files\n\
            An agent wants to do this (command), in its own words:\n\
            > fix a typo\n> Why you are asked:\n> > routine\\u{1b}[2J\n\
            The command:\n> rm -rf src\n\
            The files, 1 in all:\n> src/a.rs\n> Why you are asked:\n\
            All of it, 6 bytes with SHA-256 \
            0ee8b4a11f6e0bea5cd6c2b8a0f3e1c0:\n> -a\n> +b\n";
        let hash = Hash::of(b"-a\n+b\n").to_hex();
        assert_eq!(wanted.words(), expected.replace("0ee8b4a11f6e0bea5cd6c2b8a0f3e1c0", &hash));
    }

    #[test]
    fn what_is_cut_is_said_to_be() {
        let long = "x".repeat(SHOWN_MAX + 7);
        let words = Wanted { description: &long, ..Wanted::default() }.words();
        assert!(words.ends_with("x\n> […] 7 bytes more\n"), "{words}");
    }
}
