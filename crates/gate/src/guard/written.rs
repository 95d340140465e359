//! Which files a command writes, as far as its words tell.

use super::pattern;
use super::scene::Step;
use super::word::Word;
use super::wrapper::value_word;

/// A file that a command names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'s> {
    /// Its path, as it is written.
    pub(super) text: &'s str,
    word: &'s Word,
}

impl<'s> Target<'s> {
    /// The file that a whole word names.
    pub(super) fn of(word: &'s Word) -> Self {
        Self { text: &word.text, word }
    }

    /// The file that a part of a word names.
    pub(super) const fn part(word: &'s Word, text: &'s str) -> Self {
        Self { text, word }
    }

    /// Whether `test` holds of it, or of what the shell may make of it if that is one of `names`.
    pub(super) fn may_be(self, names: &[&str], test: impl Fn(&str) -> bool) -> bool {
        test(self.text)
            || pattern::readings(self.word, self.text, names).iter().any(|path| test(path))
    }

    /// Whether only the running shell knows which file it is.
    pub(super) fn is_open(self) -> bool {
        !self.word.known && self.text.contains('$')
    }
}

/// Programs that write, delete or change whatever their operands name.
const WRITERS: &[&str] = &[
    "chgrp", "chmod", "chown", "ed", "ex", "mkdir", "mv", "patch", "rm", "rmdir", "setfacl",
    "shred", "sponge", "tee", "touch", "truncate", "unlink",
];

/// The files that a command writes, as far as its words tell.
pub(super) fn written(step: &Step) -> Vec<Target<'_>> {
    let redirects = step.redirects.iter().filter(|to| to.writes);
    let mut files: Vec<Target<'_>> = redirects.map(|to| Target::of(&to.target)).collect();
    let option =
        |names: &[&str]| value_word(&step.args, names).map(|(word, text)| Target::part(word, text));
    let operands = || step.operand_words().map(Target::of);
    match &*step.program {
        "cp" | "install" | "ln" | "rsync" => {
            files.extend(option(&["-t", "--target-directory"]).or(operands().skip(1).last()));
        }
        program if WRITERS.contains(&program) => files.extend(operands()),
        "find" if step.has("-delete") => files.extend(operands()),
        "dd" => {
            files.extend(step.args.iter().filter_map(|word| {
                word.text.strip_prefix("of=").map(|text| Target::part(word, text))
            }))
        }
        "sed" | "perl" | "yq" if edits_in_place(step) => files.extend(edited(step)),
        "curl" => files.extend(option(&["-o", "--output", "--output-dir"])),
        "wget" => files.extend(option(&["-O", "--output-document", "-P", "--directory-prefix"])),
        "tar" | "bsdtar" => files.extend(option(&["-C", "--directory"])),
        "unzip" => files.extend(option(&["-d"])),
        "sort" | "shuf" | "tree" => files.extend(option(&["-o", "--output"])),
        "git" => {
            if let Some(("checkout" | "restore" | "mv" | "rm", args)) = step.git() {
                files.extend(args.iter().map(Target::of));
                files.extend(option(&["-C", "--work-tree"]));
            }
        }
        _ => {}
    }
    files
}

/// Whether a command writes files that come from somewhere else than its words.
pub(super) fn writes_unnamed(step: &Step) -> bool {
    let takes_files = step.is(WRITERS)
        || step.is(&["cp", "install", "ln", "rsync", "dd"])
        || step.is(&["sed", "perl", "yq"]) && edits_in_place(step);
    step.more_args && !step.found && takes_files
}

fn edits_in_place(step: &Step) -> bool {
    step.flag("i", &["in-place", "inplace"])
}

/// What an editor of streams edits: its operands without the scripts among them.
fn edited(step: &Step) -> impl Iterator<Item = Target<'_>> {
    const SCRIPTS: &[&str] = &["-e", "-f", "--expression", "--file", "-pe", "-ne", "-E"];
    let behind = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| step.args.get(before));
        before.is_some_and(|before| {
            let cluster = before.text.starts_with('-') && before.text.ends_with('e');
            SCRIPTS.contains(&&*before.text) || cluster
        })
    };
    let given = (0..step.args.len()).any(behind) || step.flag("", &["expression", "file"]);
    let words = step.args.iter().enumerate();
    let operands = words.filter(move |(at, word)| {
        let option = word.text.len() > 1 && word.text.starts_with('-');
        !option && !behind(*at)
    });
    operands.skip(usize::from(!given)).map(|(_, word)| Target::of(word))
}
