//! What can be counted in a unified diff.
//!
//! A removed line that begins with two dashes looks like the name of a file; so lines are counted
//! off against what the header of their hunk announces. A diff without headers is read by the first
//! character of each line.

use std::collections::BTreeSet;

/// The counts of a diff.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts<'d> {
    /// Lines added and removed.
    pub(super) lines: u64,
    /// Words in added lines that branch.
    pub(super) branches: u64,
    /// The files that it names.
    pub(super) files: BTreeSet<&'d str>,
    /// Files of which the diff has a section, named or not.
    pub(super) sections: u64,
    /// The lines that it adds, without their sign.
    pub(super) added: Vec<&'d str>,
}

/// Words that make code branch, as the reference counts them.
const BRANCHING: [&str; 12] =
    ["if", "elif", "else", "for", "while", "try", "except", "with", "and", "or", "case", "match"];

impl<'d> Counts<'d> {
    /// Counts `diff`.
    pub(super) fn of(diff: &'d str) -> Self {
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
        counts
    }

    fn add(&mut self, line: &'d str) {
        self.lines += 1;
        let words = line.split(|it: char| !it.is_alphanumeric() && it != '_');
        self.branches += words.filter(|word| BRANCHING.contains(word)).count() as u64;
        self.added.push(line);
    }

    /// Takes a line between hunks, if it is a header.
    fn header(&mut self, line: &'d str, due: &mut (u64, u64)) -> bool {
        if let Some(ranges) = line.strip_prefix("@@ -") {
            *due = announced(ranges).unwrap_or_default();
        } else if line.starts_with("diff --git ") {
            self.sections += 1;
        } else if let Some(name) = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ ")) {
            self.files.extend(file_name(name));
        } else {
            return false;
        }
        true
    }
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
fn file_name(name: &str) -> Option<&str> {
    let name = name.split('\t').next().unwrap_or_default().trim_matches('"');
    if name.is_empty() || name == "/dev/null" {
        return None;
    }
    Some(name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name))
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
    fn a_fragment_without_headers_is_read_by_its_signs() {
        assert_eq!(figures("+while a\n-b\n c\n\\ No newline at end of file\n"), (2, 1, 0, 0));
        assert_eq!(figures(""), (0, 0, 0, 0));
    }
}
