//! Programs that run others: which words, or which text, they run.

use super::scene::{Step, base_name};
use super::shell::DEPTH_MAX;
use super::word::Word;

/// What a program runs in turn.
#[derive(Debug)]
pub(super) enum Inner {
    /// A program with arguments, and perhaps others that are read from somewhere.
    Words {
        /// The program and its arguments.
        words: Vec<Word>,
        /// Whether more arguments come.
        more_args: bool,
    },
    /// A shell text.
    Script(Word),
    /// Something that cannot be told.
    Unknown(String),
}

/// Shells, which run the text after `-c`, a file, or what they read.
pub(super) const SHELLS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash"];

/// A program that runs the words after its own options.
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Words of its own between its options and the command.
    operands: usize,
}

const fn wrapper(name: &'static str, valued: &'static [&'static str], operands: usize) -> Wrapper {
    Wrapper { name, valued, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", &[], 0),
    wrapper("busybox", &[], 0),
    wrapper("caffeinate", &["-t", "-w"], 0),
    wrapper("chronic", &[], 0),
    wrapper("chroot", &["--userspec", "--groups"], 1),
    wrapper("chrt", &[], 1),
    wrapper("command", &[], 0),
    wrapper("dbus-run-session", &["--config-file"], 0),
    wrapper("doas", &["-u", "-C"], 0),
    wrapper("env", &["-u", "--unset", "-C", "--chdir", "-S", "--split-string"], 0),
    wrapper("exec", &["-a"], 0),
    wrapper("faketime", &[], 1),
    wrapper("fakeroot", &["-l", "-s", "-i", "-b"], 0),
    wrapper("flock", &["-w", "--timeout", "-E", "-c", "--command"], 1),
    wrapper("ionice", &["-c", "-n", "-p", "--class", "--classdata"], 0),
    wrapper("ltrace", &["-e", "-o", "-p", "-s", "-u"], 0),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("nohup", &[], 0),
    wrapper("nsenter", &["-t", "--target", "-S", "-G"], 0),
    wrapper("numactl", &["-C", "-m", "-N", "-p"], 0),
    wrapper("parallel", &["-j", "--jobs", "-a", "-N", "-n", "-L"], 0),
    wrapper("pkexec", &["--user"], 0),
    wrapper("proxychains", &["-f"], 0),
    wrapper("runuser", &["-u", "-g", "-G", "-c", "--command"], 0),
    wrapper("setarch", &[], 1),
    wrapper("setsid", &[], 0),
    wrapper("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    wrapper("strace", &["-e", "-o", "-p", "-s", "-u", "-P", "-E"], 0),
    wrapper(
        "sudo",
        &["-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t", "--user", "--group"],
        0,
    ),
    wrapper("systemd-run", &["-p", "--property", "-u", "--unit", "-M"], 0),
    wrapper("taskset", &["-p"], 1),
    wrapper("time", &["-f", "-o", "--format", "--output"], 0),
    wrapper("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    wrapper("toybox", &[], 0),
    wrapper("unbuffer", &[], 0),
    wrapper("unshare", &["-S", "-G", "-R", "-w"], 0),
    wrapper("watch", &["-n", "--interval"], 0),
    wrapper(
        "xargs",
        &["-I", "-n", "-P", "-L", "-s", "-d", "-E", "-a", "--replace", "--max-args", "--delimiter"],
        0,
    ),
    wrapper("xvfb-run", &["-n", "-s", "-f", "-w", "-e"], 0),
];

/// Programs that run what follows their first operand, if that is this word.
const RUNNERS: &[(&str, &str)] = &[
    ("bundle", "exec"),
    ("hatch", "run"),
    ("npm", "exec"),
    ("pdm", "run"),
    ("pipenv", "run"),
    ("poetry", "run"),
    ("rye", "run"),
    ("uv", "run"),
];

/// What `step` runs in turn; `earlier` are the steps before it.
pub(super) fn inner<'a>(step: &Step, earlier: impl Fn(usize) -> Option<&'a Step>) -> Vec<Inner> {
    if step.is(SHELLS) {
        return shell(step, earlier);
    }
    match &*step.program {
        "eval" => step.args.first().map(|_| joined(&step.args)).into_iter().collect(),
        "find" => find(&step.args),
        "fd" | "fdfind" => fd(&step.args),
        "su" | "script" => text_of(&step.args, &["-c", "--command"]),
        "ssh" => ssh(&step.args).into_iter().collect(),
        "trap" => step.args.first().cloned().map(Inner::Script).into_iter().collect(),
        "git" => aliases(&step.args),
        "alias" => step.args.iter().filter_map(alias).collect(),
        "command" if step.flag("vV", &[]) => Vec::new(),
        program => {
            if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == program) {
                return wrapped(wrapper, &step.args);
            }
            let runs = RUNNERS.iter().any(|(name, word)| {
                *name == program && step.args.first().is_some_and(|first| first.text == *word)
            });
            if runs { words(step.args.get(1..).unwrap_or_default(), false) } else { Vec::new() }
        }
    }
}

/// The words after the options and operands of a wrapper, and texts that its options hold.
fn wrapped(wrapper: &Wrapper, args: &[Word]) -> Vec<Inner> {
    let takes_text: &[&str] = match wrapper.name {
        "env" => &["-S", "--split-string"],
        "flock" | "runuser" => &["-c", "--command"],
        _ => &[],
    };
    let mut found = text_of(args, takes_text);
    let mut rest = after_options(args, wrapper.valued);
    if wrapper.name == "env" {
        let assigned = rest.iter().take_while(|word| word.text.contains('=')).count();
        rest = rest.get(assigned..).unwrap_or_default();
    }
    rest = rest.get(wrapper.operands..).unwrap_or_default();
    if matches!(wrapper.name, "watch" | "parallel") && rest.len() == 1 {
        found.push(joined(rest));
        return found;
    }
    let more_args = matches!(wrapper.name, "xargs" | "parallel");
    found.extend(words(rest, more_args));
    found
}

fn words(words: &[Word], more_args: bool) -> Vec<Inner> {
    let words = after_options(words, &[]);
    if words.is_empty() {
        Vec::new()
    } else {
        vec![Inner::Words { words: words.to_vec(), more_args }]
    }
}

/// The arguments after the options.
fn after_options<'a>(args: &'a [Word], valued: &[&str]) -> &'a [Word] {
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
        at += if valued.contains(&&*word.text) { 2 } else { 1 };
        if word.text == "--" {
            break;
        }
    }
    args.get(at..).unwrap_or_default()
}

/// The value of an option: the next word, or what is attached to it.
pub(super) fn value_of<'a>(args: &'a [Word], names: &[&str]) -> Option<&'a str> {
    value_word(args, names).map(|(_, value)| value)
}

/// The same, with the word that it stands in.
pub(super) fn value_word<'a>(args: &'a [Word], names: &[&str]) -> Option<(&'a Word, &'a str)> {
    args.iter().enumerate().find_map(|(at, word)| {
        if names.contains(&&*word.text) {
            return args.get(at + 1).map(|value| (value, &*value.text));
        }
        names.iter().find_map(|name| {
            let rest = word.text.strip_prefix(name)?;
            let value = if name.starts_with("--") { rest.strip_prefix('=') } else { Some(rest) };
            value.map(|value| (word, value))
        })
    })
}

/// The shell text that an option holds.
fn text_of(args: &[Word], names: &[&str]) -> Vec<Inner> {
    let known = args.iter().all(|word| word.known);
    let text = value_of(args, names);
    text.map(|text| Inner::Script(Word { known, ..Word::literal(text) })).into_iter().collect()
}

/// Several words as one text, as `eval` reads them.
fn joined(words: &[Word]) -> Inner {
    let texts: Vec<&str> = words.iter().map(|word| &*word.text).collect();
    let known = words.iter().all(|word| word.known);
    Inner::Script(Word { known, ..Word::literal(&texts.join(" ")) })
}

/// What a shell is given to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShellSource {
    /// The text after `-c`.
    Text(Word),
    /// A file.
    File(String),
    /// What it reads.
    Input,
}

/// Where a shell takes its commands from.
pub(super) fn shell_source(args: &[Word]) -> ShellSource {
    let (mut at, mut text, mut input) = (0, false, false);
    while let Some(word) = args.get(at).map(|word| &*word.text) {
        if word == "--" || word == "-" {
            at += 1;
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            text |= long == "command";
            at += if matches!(long, "rcfile" | "init-file") { 2 } else { 1 };
        } else if let Some(letters) = word.strip_prefix(['-', '+']) {
            text |= word.starts_with('-') && letters.contains('c');
            input |= letters.contains('s');
            at += if letters.contains(['o', 'O']) { 2 } else { 1 };
        } else {
            break;
        }
    }
    match args.get(at) {
        Some(word) if text => ShellSource::Text(word.clone()),
        Some(word) if !input && word.text != "/dev/stdin" => ShellSource::File(word.text.clone()),
        _ => ShellSource::Input,
    }
}

fn shell<'a>(step: &Step, earlier: impl Fn(usize) -> Option<&'a Step>) -> Vec<Inner> {
    match shell_source(&step.args) {
        ShellSource::Text(word) => vec![Inner::Script(word)],
        ShellSource::File(_) => Vec::new(),
        ShellSource::Input => {
            if let Some(input) = &step.input {
                return vec![Inner::Script(input.clone())];
            }
            let feeding = step.fed_by.iter().rev().take(DEPTH_MAX).filter_map(|&at| earlier(at));
            let printed: Option<Vec<Inner>> = feeding.map(printed_by).collect();
            match printed {
                Some(printed) if !printed.is_empty() => printed,
                _ => vec![Inner::Unknown(format!("{} without commands", step.program))],
            }
        }
    }
}

/// What a command prints, where its words say it.
fn printed_by(step: &Step) -> Option<Inner> {
    match &*step.program {
        "echo" | "printf" => Some(joined(after_options(&step.args, &[]))),
        "cat" => step.input.clone().map(Inner::Script),
        _ => None,
    }
}

/// What `find` runs on what it finds.
fn find(args: &[Word]) -> Vec<Inner> {
    let mut found = Vec::new();
    let mut rest = args;
    let starts = |word: &Word| matches!(&*word.text, "-exec" | "-execdir" | "-ok" | "-okdir");
    while let Some(at) = rest.iter().position(starts) {
        let command = rest.get(at + 1..).unwrap_or_default();
        let ends = |word: &Word| matches!(&*word.text, ";" | "+");
        let length = command.iter().position(ends).unwrap_or(command.len());
        found.extend(words(command.get(..length).unwrap_or_default(), true));
        rest = command.get(length..).unwrap_or_default();
    }
    found
}

/// What `fd` runs on what it finds.
fn fd(args: &[Word]) -> Vec<Inner> {
    const RUNS: [&str; 4] = ["-x", "-X", "--exec", "--exec-batch"];
    let at = args.iter().position(|word| RUNS.contains(&&*word.text));
    let command = at.and_then(|at| args.get(at + 1..)).unwrap_or_default();
    words(command, true)
}

/// What runs on the other machine.
fn ssh(args: &[Word]) -> Option<Inner> {
    let valued = [
        "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
        "-Q", "-R", "-S", "-W", "-w",
    ];
    let command = after_options(args, &valued).get(1..)?;
    if command.is_empty() { None } else { Some(joined(command)) }
}

/// The text that a word is made to stand for.
fn alias(word: &Word) -> Option<Inner> {
    let (_, text) = word.text.split_once('=')?;
    Some(Inner::Script(Word { text: text.to_owned(), ..word.clone() }))
}

/// Aliases that `git` is given on its command line; those that start with `!` are shell text.
fn aliases(args: &[Word]) -> Vec<Inner> {
    let pairs = args.windows(2).filter_map(|pair| match pair {
        [option, value] if option.text == "-c" => Some(value),
        _ => None,
    });
    let texts = pairs.filter_map(|word| {
        let (_, text) = word.text.split_once("=!")?;
        Some(Inner::Script(Word { text: text.to_owned(), ..word.clone() }))
    });
    texts.collect()
}

/// Whether a program is an interpreter, whatever version its name carries.
pub(super) fn is_interpreter(program: &str) -> bool {
    let name = base_name(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    ["python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", "deno", "bun", "tclsh"]
        .contains(&name)
}
