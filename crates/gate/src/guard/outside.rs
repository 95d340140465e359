//! Words of a command that lead out of the workspace, told from their text.
//!
//! Decides for commands what the policy decides for paths. A word counts if it begins like a path
//! that leads elsewhere; what a program finds by itself, and where links lead, is not seen.

use super::Proposed;
use super::place::{Place, levels_up, place};
use super::scene::{Scene, Step};
use super::word::Word;
use crate::path::relative_to;

/// Programs whose words are texts and not files.
const WORDS: &[&str] = &[
    "[", "[[", "basename", "cut", "date", "dirname", "echo", "expr", "printf", "seq", "test", "tr",
];
/// Programs whose first operand is a pattern, and after which options another one stands.
const SEARCHERS: &[&str] =
    &["ag", "awk", "egrep", "fgrep", "gawk", "grep", "jq", "rg", "sed", "yq"];
const PATTERNS: &[&str] = &["-e", "--expression", "--regexp", "-F", "--arg", "--argjson"];

/// The first command that names something outside of the workspace, which lies in `directory` where
/// that is known.
pub(crate) fn names_outside(shell: &str, directory: Option<&str>) -> Option<String> {
    let action = Proposed::of_shell(shell);
    let scene = Scene::of(&action);
    // How far down the commands have gone: from there a way up may still stay inside.
    let mut depth = 0;
    for step in &scene.steps {
        if words(step).any(|word| leads_out(word, directory, depth)) {
            return Some(step.quote());
        }
        if step.is(&["cd", "pushd"])
            && let Some(to) = step.operands().next()
            && place(to) == Place::Inside
        {
            depth += to.split('/').filter(|part| !matches!(*part, "" | "." | "..")).count();
        }
    }
    None
}

/// Where the values of these options stand.
fn value_places(args: &[Word], names: &[&str]) -> Vec<usize> {
    let options = args.iter().enumerate().filter(|(_, word)| names.contains(&&*word.text));
    options.map(|(at, _)| at + 1).collect()
}

fn words(step: &Step) -> impl Iterator<Item = &str> {
    let texts = step.is(WORDS);
    let searches = step.is(SEARCHERS);
    let given = value_places(&step.args, PATTERNS);
    let pattern = step.operands().next().filter(|_| searches && given.is_empty());
    let args = step.args.iter().enumerate().filter(move |(at, word)| {
        !(texts || searches && given.contains(at)) && Some(&*word.text) != pattern
    });
    let read = step.redirects.iter().filter(|to| !to.writes).map(|to| &*to.target.text);
    args.map(|(_, word)| &*word.text).chain(read).flat_map(pieces)
}

/// What may be a path in a word: all of it, or what stands behind `=` and between `:` and `,`.
fn pieces(word: &str) -> Box<dyn Iterator<Item = &str> + '_> {
    let file = word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    if word.contains(char::is_whitespace) || file {
        return Box::new(std::iter::once(word));
    }
    if word.contains("://") {
        return Box::new(std::iter::empty());
    }
    // Options that take a directory are often written together with it.
    let glued = ["-I", "-L", "-C"].iter().find_map(|option| word.strip_prefix(option));
    Box::new(word.split(['=', '@', ':', ',']).chain(glued))
}

fn leads_out(word: &str, directory: Option<&str>, depth: usize) -> bool {
    if word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        return true;
    }
    if word.starts_with("$HOME") || word.starts_with("${HOME") {
        return true;
    }
    if let Some(directory) = directory.filter(|_| word.starts_with('/')) {
        let below = relative_to(directory, word);
        if below != word || word.trim_end_matches('/') == directory {
            return below != word && levels_up(below) > 0;
        }
    }
    match place(word) {
        Place::Inside | Place::Workspace => false,
        Place::Above | Place::Outside if !word.starts_with('/') => levels_up(word) > depth,
        // A device that takes or gives anything.
        Place::Outside => !word.starts_with("/dev/"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_read_elsewhere_are_told_from_everyday_ones() {
        let out = [
            "cat ../../etc/passwd",
            "cat /etc/passwd",
            "head -n 1 < /etc/shadow",
            "grep -r key ~/.config",
            "ls ..",
            "cd .. && cat x",
            "cd src && cat ../../x",
            "cat \"$HOME/.netrc\"",
            "diff src/a.rs /srv/other/a.rs",
            "git -C ../other log",
            "find / -name id_rsa",
            "cat file:///etc/hosts",
            "gcc -I/opt/x/include a.c",
            "cargo test --manifest-path=../x/Cargo.toml",
            "env cat /etc/hosts",
            "cat '/etc/my file'",
        ];
        for command in out {
            assert!(names_outside(command, None).is_some(), "{command}");
        }
        let inside = [
            "cargo test --workspace -- --nocapture",
            "cargo test path::to::test",
            "npm test",
            "pytest tests/test_a.py::test_b -q",
            "git status && git diff main..topic && git log --oneline -5",
            "git commit -m 'fix /etc parsing'",
            "cd build && cmake .. && make",
            "cd app/web && cat ../README.md ../../Cargo.toml",
            "sed -n '/begin/,/end/p' src/a.rs",
            "sed -e '/x/d' -e '/y/d' a",
            "awk -F/ '/x/ {print $2}' a",
            "grep -rn '../x' src 2>/dev/null",
            "echo /etc/passwd",
            "ls | tr / _",
            "curl -s http://localhost:8000/health",
            "cat /dev/null src/a.rs",
            "rg needle ./src",
            "python -c 'import os; print(1)'",
        ];
        for command in inside {
            assert_eq!(names_outside(command, None), None, "{command}");
        }
        let known = |command| names_outside(command, Some("/w/app"));
        assert_eq!(known("cat /w/app/src/a.rs && cd /w/app"), None);
        assert!(known("cat /w/app/../b").is_some());
        assert!(known("cat /w/apple").is_some());
    }
}
