//! What an action would run, command by command, whatever it is wrapped in.
//!
//! Decides which commands there are: `env`, `timeout`, `xargs`, `find -exec` and shells are looked
//! through, and both the wrapper and what it runs become a step. What a program does with its
//! arguments is the rules' business.

use super::Proposed;
use super::place::{Place, place};
use super::shell::{self, DEPTH_MAX, Simple};
use super::word::{Redirect, Word};
use super::wrapper::{self, Inner};
use super::written::{Target, writes_unnamed, written};

/// How much of a command is quoted in a reason.
const QUOTED_CHARACTERS: usize = 120;

/// Something that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Murk {
    /// The text as such.
    Syntax(&'static str),
    /// Which program runs.
    Program(String),
    /// Which file is written.
    File(String),
    /// What a program that a rule looks at is told to do.
    Arguments(String),
}

/// One command that would run.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The program, without its directory.
    pub(super) program: String,
    /// Its arguments.
    pub(super) args: Vec<Word>,
    /// Files that the shell opens for it.
    pub(super) redirects: Vec<Redirect>,
    /// What it reads, where the text says so.
    pub(super) input: Option<Word>,
    /// Steps whose output it reads.
    pub(super) fed_by: Vec<usize>,
    /// Steps whose output stands among its words.
    pub(super) made_of: Vec<usize>,
    /// The function in whose body it stands.
    pub(super) function: Option<String>,
    /// Whether arguments come that nobody knows.
    pub(super) more_args: bool,
    /// Whether these are the files that a search finds.
    pub(super) found: bool,
}

/// Everything that an action would do, as far as it can be told.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    /// The action.
    pub(super) action: &'a Proposed<'a>,
    /// Its commands; inner ones may come before or after those that hold them.
    pub(super) steps: Vec<Step>,
    /// What was not understood.
    pub(super) murk: Vec<Murk>,
}

impl<'a> Scene<'a> {
    /// The scene of `action`.
    pub(super) fn of(action: &'a Proposed<'a>) -> Self {
        let mut scene = Self { action, steps: Vec::new(), murk: Vec::new() };
        if !action.argv.is_empty() {
            let words = action.argv.iter().map(|word| Word::literal(word)).collect();
            scene.command(&Simple { words, ..Simple::default() }, false, 0);
        }
        if let Some(text) = action.shell {
            scene.script(text, 0);
        }
        scene.note_arguments();
        scene
    }

    /// Adds the commands of a shell text.
    fn script(&mut self, text: &str, depth: usize) {
        if depth >= DEPTH_MAX {
            self.murk.push(Murk::Syntax("commands are nested too deep"));
            return;
        }
        let script = shell::parse(text);
        self.murk.extend(script.murk.into_iter().map(Murk::Syntax));
        // The steps that each command of the text became, so that pipelines can be told again.
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for mut simple in script.commands {
            let steps = |places: &[usize]| -> Vec<usize> {
                let spans = places.iter().filter_map(|&at| spans.get(at));
                spans.flat_map(|&(from, to)| from..to).collect()
            };
            (simple.fed_by, simple.made_of) = (steps(&simple.fed_by), steps(&simple.made_of));
            let from = self.steps.len();
            self.command(&simple, false, depth);
            spans.push((from, self.steps.len()));
        }
    }

    /// Adds one command, and what it runs in turn. Its places are those of steps already.
    fn command(&mut self, simple: &Simple, more_args: bool, depth: usize) {
        if depth >= DEPTH_MAX {
            self.murk.push(Murk::Syntax("commands are nested too deep"));
            return;
        }
        let (program, args) = match simple.words.split_first() {
            Some((program, args)) => (program.clone(), args.to_vec()),
            None => (Word::empty(), Vec::new()),
        };
        let is_test = matches!(&*program.text, "[" | "[[");
        if !program.known || program.globs && !is_test {
            self.murk.push(Murk::Program(program.text.clone()));
        }
        let step = Step {
            program: base_name(&program.text).to_lowercase(),
            args,
            redirects: simple.redirects.clone(),
            input: simple.input.clone(),
            fed_by: simple.fed_by.clone(),
            made_of: simple.made_of.clone(),
            function: simple.function.clone(),
            more_args,
            found: false,
        };
        let searches = step.is(&["find", "fd", "fdfind"]);
        let inner = wrapper::inner(&step, |at| self.steps.get(at));
        self.steps.push(step);
        for inner in inner {
            match inner {
                Inner::Words { words, more_args: more } => {
                    let simple = Simple { words, ..simple.clone() };
                    let first = self.steps.len();
                    self.command(&simple, more_args || more, depth + 1);
                    if let Some(run) = self.steps.get_mut(first) {
                        run.found = searches;
                    }
                }
                Inner::Script(word) => {
                    if !word.known {
                        self.murk.push(Murk::Program(word.text.clone()));
                    }
                    self.script(&word.text, depth + 1);
                }
                Inner::Unknown(what) => self.murk.push(Murk::Program(what)),
            }
        }
    }

    /// Notes where arguments that matter are not known.
    fn note_arguments(&mut self) {
        let unknown = self.steps.iter().filter(|step| {
            let written = step.redirects.iter().any(|to| to.writes && !to.target.known);
            let args = step.more_args || step.args.iter().any(|word| !word.known);
            written || args && WATCHED.contains(&&*step.program)
        });
        let murk: Vec<_> = unknown.map(|step| Murk::Arguments(step.quote())).collect();
        self.murk.extend(murk);
        // From where a name counts may be as unknown as the name.
        let mut astray = false;
        let unknown = self.steps.iter().filter(|step| {
            let targets = written(step);
            let open = targets.iter().any(|to| to.is_open());
            let from_there = astray && targets.iter().any(|to| !to.text.starts_with(['/', '~']));
            astray |= step.goes_to().any(Target::is_open);
            open || from_there || writes_unnamed(step)
        });
        let murk: Vec<_> = unknown.map(|step| Murk::File(step.quote())).collect();
        self.murk.extend(murk);
    }

    /// The first step of which `test` holds, as a reason quotes it.
    pub(super) fn find(&self, test: impl Fn(&Step) -> bool) -> Option<String> {
        self.steps.iter().find(|step| test(step)).map(Step::quote)
    }

    /// Steps at these places.
    pub(super) fn at<'s>(&'s self, places: &'s [usize]) -> impl Iterator<Item = &'s Step> {
        places.iter().filter_map(|&at| self.steps.get(at))
    }
}

/// Programs of which rules judge the arguments: for these it matters if some are not known.
const WATCHED: &[&str] = &[
    "rm",
    "dd",
    "chmod",
    "chown",
    "kill",
    "pkill",
    "killall",
    "git",
    "mv",
    "cp",
    "ln",
    "tee",
    "install",
    "truncate",
    "find",
    "sed",
    "crontab",
    "systemctl",
    "tar",
    "rsync",
];

impl Step {
    /// Whether it is one of these programs.
    pub(super) fn is(&self, programs: &[&str]) -> bool {
        programs.contains(&&*self.program)
    }

    /// Whether an option is given: a letter of `-rf`, or a long one or the beginning of it.
    pub(super) fn flag(&self, letters: &str, longs: &[&str]) -> bool {
        self.options().any(|option| match option.strip_prefix("--") {
            Some(long) => {
                let long = long.split('=').next().unwrap_or_default();
                !long.is_empty() && longs.iter().any(|name| name.starts_with(long))
            }
            None => option.chars().skip(1).any(|letter| letters.contains(letter)),
        })
    }

    /// Whether exactly this word is among its arguments.
    pub(super) fn has(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg.text == word)
    }

    fn options(&self) -> impl Iterator<Item = &str> {
        let words = self.args.iter().map(|word| &*word.text).take_while(|word| *word != "--");
        words.filter(|word| word.len() > 1 && word.starts_with('-'))
    }

    /// Its arguments that are no options.
    pub(super) fn operands(&self) -> impl Iterator<Item = &str> {
        self.operand_words().map(|word| &*word.text)
    }

    /// The same, as words.
    pub(super) fn operand_words(&self) -> impl Iterator<Item = &Word> {
        let mut options = true;
        self.args.iter().filter(move |word| {
            let option = options && word.text.len() > 1 && word.text.starts_with('-');
            options &= word.text != "--";
            !option
        })
    }

    /// Directories from which what follows counts, or what it runs itself.
    pub(super) fn goes_to(&self) -> impl Iterator<Item = Target<'_>> {
        let goes = self.is(&["cd", "pushd"]);
        let there = self.operand_words().filter(move |_| goes).map(Target::of);
        let names: &[&str] = if self.is(&["env"]) { &["-C", "--chdir"] } else { &[] };
        let given = wrapper::value_word(&self.args, names);
        there.chain(given.map(|(word, text)| Target::part(word, text)))
    }

    /// The subcommand of `git` and its arguments, behind options such as `-C dir`.
    pub(super) fn git(&self) -> Option<(&str, &[Word])> {
        const VALUED: &[&str] =
            &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"];
        if !self.is(&["git"]) {
            return None;
        }
        let mut at = 0;
        while let Some(word) = self.args.get(at).filter(|word| word.text.starts_with('-')) {
            at += if VALUED.contains(&&*word.text) { 2 } else { 1 };
        }
        let (subcommand, args) = self.args.get(at..)?.split_first()?;
        Some((&subcommand.text, args))
    }

    /// Its first operand, and the one after it: `npm install`, `docker compose pull`.
    pub(super) fn subcommand(&self) -> (&str, &str) {
        let mut operands = self.operands();
        (operands.next().unwrap_or_default(), operands.next().unwrap_or_default())
    }

    /// The files that it is made to write by the shell.
    pub(super) fn written(&self) -> impl Iterator<Item = &str> {
        self.redirects.iter().filter(|to| to.writes).map(|to| &*to.target.text)
    }

    /// Whether an operand leads to one of these places.
    pub(super) fn names_place(&self, places: &[Place]) -> bool {
        self.operands().any(|operand| places.contains(&place(operand)))
    }

    /// The command as a person would type it, cut to a readable length.
    pub(super) fn quote(&self) -> String {
        let mut text = self.program.clone();
        for word in self.args.iter().map(|word| &*word.text).take(QUOTED_CHARACTERS) {
            text.push(' ');
            text.push_str(word);
        }
        for target in self.written() {
            text.push_str(" > ");
            text.push_str(target);
        }
        shorten(text.trim_start())
    }
}

/// The beginning of a text, with a mark if there is more.
pub(super) fn shorten(text: &str) -> String {
    let short: String = text.chars().take(QUOTED_CHARACTERS).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// A program's name without its directory.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
