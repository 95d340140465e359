//! Commands that leave files alone, whatever they are given.
//!
//! What is not known for sure counts as able to change anything: then a file that changed is nobody's,
//! and no gap.

use countersign_gate::guard;

/// Programs that only look.
const PROGRAMS: [&str; 37] = [
    "[",
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "git",
    "grep",
    "head",
    "hostname",
    "id",
    "ls",
    "md5sum",
    "nl",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "sha256sum",
    "stat",
    "tail",
    "test",
    "true",
    "uname",
    "wc",
    "whoami",
];
/// What git does without changing a file of the workspace.
const GIT: [&str; 9] =
    ["blame", "cat-file", "diff", "log", "ls-files", "ls-tree", "rev-parse", "show", "status"];

/// Whether a shell text leaves every file as it is.
pub(super) fn only_looks(shell: &str) -> bool {
    // Redirections, assignments, functions, and whatever else could make a known word another.
    let plain =
        |letter: char| letter.is_alphanumeric() || " \n\t\"\'/._-,:@%+*?|;&^~[]#!".contains(letter);
    if !shell.chars().all(plain) {
        return false;
    }
    let programs = guard::programs(shell);
    if programs.is_empty() || !programs.iter().all(|it| PROGRAMS.contains(&it.as_str())) {
        return false;
    }
    let words: Vec<&str> =
        shell.split(|it: char| it.is_whitespace() || "|;&".contains(it)).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    // A program of the same name elsewhere is another one.
    let elsewhere = |word: &str| {
        word.rsplit_once('/')
            .is_some_and(|(_, name)| PROGRAMS.contains(&name.trim_matches(['"', '\''])))
    };
    let mut gits = words.iter().zip(words.iter().skip(1).chain(["\0"].iter()));
    let git_looks = gits.all(|(word, next)| *word != "git" || GIT.contains(next));
    let writes = |word: &str| {
        word.starts_with("--output")
            || word.starts_with("--ext-diff")
            || word.contains("git\"")
            || word.contains("git'")
    };
    git_looks && !words.iter().any(|word| elsewhere(word) || writes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_is_told_from_what_may_write() {
        for shell in [
            "ls -la src",
            "cat README.md | head -n 5 && git status",
            "cd src; grep -rn 'fn main' . | wc -l",
            "git log --oneline",
            "git diff HEAD~1 -- src/a.rs",
        ] {
            assert!(only_looks(shell), "{shell}");
        }
        for shell in [
            "",
            "make",
            "ls > a",
            "cat a | tee b",
            "./ls",
            "/tmp/evil/cat a",
            "PATH=. ls",
            "ls() { rm a; }; ls",
            "ls $(touch a)",
            "ls `touch a`",
            "$X a",
            "git checkout .",
            "git diff --output a",
            "git -C . status",
            "\"git\" stash",
            "sort -o a b",
            "find . -delete",
            "ls\u{1b}; touch a",
            "ls; sed -i s/a/b/ c",
        ] {
            assert!(!only_looks(shell), "{shell}");
        }
    }
}
