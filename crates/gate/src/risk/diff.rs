//! What can be counted in a unified diff.
//!
//! A removed line that begins with two dashes looks like the name of a file; so lines are counted
//! off against what the header of their hunk announces. A diff without headers is read by the first
//! character of each line.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// The counts of a diff.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts<'d> {
    /// Lines added and removed.
    pub(super) lines: u64,
    /// Words in added lines that branch.
    pub(super) branches: u64,
    /// The files that it names.
    pub(super) files: BTreeSet<Cow<'d, str>>,
    /// Those, and what it moves, copies or gives another mode: everything that it may write.
    pub(crate) written: BTreeSet<Cow<'d, str>>,
    /// Whether a hunk is shorter than its header says: what follows may be taken for a part of it by
    /// one reader, and for another file by the next.
    pub(crate) unfinished: bool,
    /// Files of which the diff has a section, named or not.
    pub(super) sections: u64,
    /// The lines that it adds, without their sign.
    pub(super) added: Vec<&'d str>,
}

/// Words that make code branch, as the reference counts them.
const BRANCHING: [&str; 12] =
    ["if", "elif", "else", "for", "while", "try", "except", "with", "and", "or", "case", "match"];

/// Bytes of the longest of them.
const BRANCHING_BYTES_MAX: usize = 6;

impl<'d> Counts<'d> {
    /// Counts `diff`.
    pub(crate) fn of(diff: &'d str) -> Self {
        let mut counts = Self::default();
        // Lines of the hunk that are still to come: old and new.
        let mut due = (0_u64, 0_u64);
        for line in diff.lines() {
            let inside = due.0 > 0 || due.1 > 0;
            if !inside && counts.header(line, &mut due) {
                continue;
            }
            match line.as_bytes().first() {
                Some(b'+') => {
                    due.1 = due.1.saturating_sub(1);
                    counts.add(line.get(1..).unwrap_or_default());
                }
                Some(b'-') => {
                    due.0 = due.0.saturating_sub(1);
                    counts.lines += 1;
                }
                Some(b'\\') => {}
                _ => due = (due.0.saturating_sub(1), due.1.saturating_sub(1)),
            }
        }
        counts.unfinished = due != (0, 0);
        counts
    }

    fn add(&mut self, line: &'d str) {
        self.lines += 1;
        let words = line.split(|it: char| !it.is_alphanumeric() && it != '_');
        // Most words are too long or too short to be one of them.
        let words = words.filter(|word| (2..=BRANCHING_BYTES_MAX).contains(&word.len()));
        self.branches += words.filter(|word| BRANCHING.contains(word)).count() as u64;
        self.added.push(line);
    }

    /// Takes a line between hunks, if it is a header.
    fn header(&mut self, line: &'d str, due: &mut (u64, u64)) -> bool {
        if let Some(ranges) = line.strip_prefix("@@ -") {
            *due = announced(ranges).unwrap_or_default();
        } else if let Some(names) = line.strip_prefix("diff --git ") {
            self.sections += 1;
            self.written.extend(both_names(names));
        } else if let Some(name) = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ ")) {
            self.files.extend(file_name(name));
            self.written.extend(file_name(name));
        } else if let Some(name) = NAMING.iter().find_map(|before| line.strip_prefix(before)) {
            self.written.extend(file_name(name));
        } else {
            return false;
        }
        true
    }
}

/// What the name of a file follows between hunks; a change of name or mode has nothing else.
const NAMING: [&str; 9] = [
    "Index: ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
];

/// The names behind `diff --git`. Where they are not quoted, nothing says where the first one ends;
/// but mostly they are the same.
fn both_names(names: &str) -> Vec<Cow<'_, str>> {
    let quoted = names.starts_with('"') || names.ends_with('"');
    let halves = match quoted {
        true => names.split_once("\" ").or_else(|| names.split_once(" \"")),
        false => {
            let middle = names.len() / 2;
            names.split_at_checked(middle).map(|(old, new)| (old, new.trim_start()))
        }
    };
    let same = |(old, new): &(&str, &str)| {
        quoted || old.strip_prefix("a/").is_some_and(|old| new.strip_prefix("b/") == Some(old))
    };
    let halves = halves.filter(same).or_else(|| names.split_once(" b/"));
    halves.into_iter().flat_map(|(old, new)| [old, new]).filter_map(file_name).collect()
}

/// The lines that `1,7 +1,9 @@` announces, old and new.
fn announced(ranges: &str) -> Option<(u64, u64)> {
    let (old, rest) = ranges.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let lines = |range: &str| match range.split_once(',') {
        Some((_, lines)) => lines.parse().ok(),
        None => Some(1),
    };
    Some((lines(old)?, lines(new)?))
}

/// The file that a line of names means: without the side and without a time behind a tab.
fn file_name(name: &str) -> Option<Cow<'_, str>> {
    let name = name.split('\t').next().unwrap_or_default();
    let quoted = name.starts_with('"') || name.ends_with('"');
    let name = name.trim_matches('"');
    if name.is_empty() || name == "/dev/null" {
        return None;
    }
    let name = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name);
    Some(if quoted && name.contains('\\') { Cow::Owned(unquoted(name)) } else { name.into() })
}

/// A name without the escapes that git writes in quotes: `\"`, `\\`, and bytes as octal numbers.
fn unquoted(name: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.iter().take(3).take_while(|it| (b'0'..=b'7').contains(it)).count();
        let (escape, behind) = rest.split_at(digits.max(1).min(rest.len()));
        rest = behind;
        let octal = escape.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit & 7));
        bytes.push(match (digits, escape) {
            (1.., _) => u8::try_from(octal).unwrap_or(b'?'),
            (0, [b'n']) => b'\n',
            (0, [b't']) => b'\t',
            (0, [other]) => *other,
            (0, _) => b'\\',
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(diff: &str) -> (u64, u64, usize, u64) {
        let counts = Counts::of(diff);
        (counts.lines, counts.branches, counts.files.len(), counts.sections)
    }

    #[test]
    fn lines_branches_and_files_are_counted() {
        let diff = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-subprocess.call(x, shell=True)\n\
                    +subprocess.run(x)\n";
        assert_eq!(figures(diff), (2, 0, 1, 0));
        let diff = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -0,0 +1,2 @@\n\
                    +if a and b:  # if_only\n+    for c in d: pass\n\
                    diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n\
                    @@ -0,0 +1 @@\n+fortune = elsewhere\n";
        assert_eq!(figures(diff), (3, 3, 2, 2));
    }

    #[test]
    fn a_removed_comment_of_dashes_is_a_line_and_not_a_file() {
        let diff =
            "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new comment\n x\n";
        assert_eq!(figures(diff), (2, 0, 1, 0));
    }

    #[test]
    fn branching_words_count_in_added_lines_only() {
        assert_eq!(figures("@@ -1,1 +1,1 @@\n-if x or y\n+x\n"), (2, 0, 0, 0));
    }

    #[test]
    fn every_way_to_name_a_file_names_it() {
        let files = |diff: &str| {
            let counts = Counts::of(diff);
            counts.written.into_iter().map(Cow::into_owned).collect::<Vec<_>>().join(" ")
        };
        let table = [
            ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "x"),
            ("diff --git a/a b/c b/a b/c\nGIT binary patch\n", "a b/c"),
            (
                "diff --git a/x b/.git/hooks/y\nrename from x\nrename to .git/hooks/y\n",
                ".git/hooks/y x",
            ),
            ("copy to .mcp.json\n", ".mcp.json"),
            ("Index: .claude/x\n", ".claude/x"),
            ("+++ \"b/.g\\151t/co\\\"nfig\"\n", ".git/co\"nfig"),
            ("diff --git \"a/\\303\\251\" \"b/\\303\\251\"\n", "\u{e9}"),
            ("*** Begin Patch\n*** Update File: src/x\n@@\n-a\n+b\n*** End Patch\n", "src/x"),
        ];
        for (diff, expected) in table {
            assert_eq!(files(diff), expected, "{diff}");
        }
    }

    #[test]
    fn a_hunk_that_promises_more_than_there_is_is_noticed() {
        let hidden =
            "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n+b\n--- a/.git/config\n+++ b/.git/config\n";
        assert!(Counts::of(hidden).unfinished);
        assert!(!Counts::of("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n").unfinished);
    }

    #[test]
    fn a_fragment_without_headers_is_read_by_its_signs() {
        assert_eq!(figures("+while a\n-b\n c\n\\ No newline at end of file\n"), (2, 1, 0, 0));
        assert_eq!(figures(""), (0, 0, 0, 0));
    }
}
