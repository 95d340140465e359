//! Guards: rules that judge an action by what it would do.
//!
//! They read commands, paths and contents before anything runs, and object to what is known to do
//! harm. They are a net with holes: a script that is run, a program that does something else than
//! its name says, an encoding that nobody thought of all pass. The wall is the sandbox.

mod outside;
mod pattern;
mod place;
mod rule;
mod rules;
mod scene;
mod shell;
mod word;
mod wrapper;
mod written;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::risk::RiskClass;
use serde::{Deserialize, Serialize};

use crate::{Decision, Reason, Verdict};
pub(crate) use outside::names_outside;
pub use rule::{Rule, RuleFault, check_rules};
use scene::{Murk, Scene, shorten};

/// Under which name the guards speak where none of them objects.
const GUARDS: &str = "guards";
/// Under which name they say that they do not understand.
const UNREADABLE: &str = "unreadable";
/// Under which name they speak of an action's own class.
const RISK: &str = "risk";

/// An action that somebody wants to take.
#[derive(Debug, Clone, Copy)]
pub struct Proposed<'a> {
    /// The tool's name in intents.
    pub tool: &'a str,
    /// The program to run and its arguments.
    pub argv: &'a [String],
    /// The shell text to run.
    pub shell: Option<&'a str>,
    /// Files that it names, relative to the workspace root.
    pub paths: &'a [String],
    /// What it would write into them.
    pub content: Option<&'a str>,
    /// What the program reads from standard input.
    pub stdin: Option<&'a str>,
    /// What is added to its environment.
    pub env: Option<&'a BTreeMap<String, String>>,
    /// The class that was declared for it.
    pub risk: RiskClass,
    /// Whether it may use the network.
    pub network_granted: bool,
}

impl<'a> Proposed<'a> {
    /// A shell text, and nothing else.
    const fn of_shell(shell: &'a str) -> Self {
        Self {
            tool: "exec",
            argv: &[],
            shell: Some(shell),
            paths: &[],
            content: None,
            stdin: None,
            env: None,
            risk: RiskClass::Low,
            network_granted: true,
        }
    }
}

/// How much the guards put up with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// What is not understood is asked about, and so is everything above the class `standard`.
    Strict,
    /// What is not understood is asked about where not even the program can be told.
    #[default]
    Default,
    /// What is not understood passes.
    Lenient,
}

/// What the guards say of `action`. The reasons quote what it would run: like the action itself
/// they are to be redacted before they are stored.
#[must_use]
pub fn judge(action: &Proposed<'_>, strictness: Strictness) -> Verdict {
    weigh(action, strictness).0
}

/// What the guards say of `action`, and how dangerous it is: as declared, or as the rules say that
/// object to it if that is more.
#[must_use]
pub fn weigh(action: &Proposed<'_>, strictness: Strictness) -> (Verdict, RiskClass) {
    let (verdict, risk) = judge_words(action, strictness);
    let mut verdicts = vec![verdict];
    verdicts.extend(environment(action).map(Verdict::from));
    if let Some((argv, shell)) = input_as_code(action) {
        let code = Proposed { argv: &argv, shell, stdin: None, env: None, ..*action };
        verdicts.push(judge_words(&code, strictness).0);
    }
    // That no guard objects is said once, and not beside one that does.
    let objecting = verdicts.iter().any(|verdict| verdict.decision() > Decision::Allow);
    verdicts.retain(|verdict| !objecting || verdict.decision() > Decision::Allow);
    verdicts.truncate(if objecting { usize::MAX } else { 1 });
    (Verdict::strictest(verdicts), risk)
}

/// Variables that decide which code a program runs.
const CODE_VARIABLES: [&str; 14] = [
    "BASH_ENV",
    "ENV",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "IFS",
    "NODE_OPTIONS",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SHELLOPTS",
];

/// What is said of an environment that decides which code runs.
fn environment(action: &Proposed<'_>) -> Option<Reason> {
    let decides = |name: &&String| {
        CODE_VARIABLES.contains(&name.as_str())
            || name.starts_with("LD_")
            || name.starts_with("DYLD_")
            || name.starts_with("GIT_CONFIG")
    };
    let name = action.env?.keys().find(decides)?;
    let because = format!("its environment decides which code runs: {name}");
    Some(Reason::answered("code-environment", Decision::Ask, because))
}

/// Programs that run what they read: shells, and those that take code after an option.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
const INTERPRETERS: [(&str, &str); 5] =
    [("python", "-c"), ("perl", "-e"), ("ruby", "-e"), ("node", "-e"), ("php", "-r")];

/// What a program is given to run on its standard input, as if it stood on its command line.
fn input_as_code<'a>(action: &Proposed<'a>) -> Option<(Vec<String>, Option<&'a str>)> {
    let text = action.stdin?;
    let program = action.argv.first()?.rsplit('/').next()?;
    if SHELLS.contains(&program) {
        return Some((Vec::new(), Some(text)));
    }
    let (_, option) = INTERPRETERS.iter().find(|(name, _)| program.starts_with(name))?;
    Some((vec![program.to_owned(), (*option).to_owned(), text.to_owned()], None))
}

fn judge_words(action: &Proposed<'_>, strictness: Strictness) -> (Verdict, RiskClass) {
    let scene = Scene::of(action);
    let mut risk = action.risk;
    let mut reasons: Vec<Reason> = rules::all()
        .filter_map(|rule| {
            let found = rule.finds(&scene)?;
            risk = risk.max(rule.risk());
            Some(Reason::answered(rule.id, rule.decision, format!("{}: {found}", rule.because)))
        })
        .collect();
    let not_understood = scene.murk.iter().filter_map(|murk| not_understood(murk, strictness));
    reasons.extend(
        not_understood.take(1).map(|what| Reason::answered(UNREADABLE, Decision::Ask, what)),
    );
    if reasons.is_empty() && strictness == Strictness::Strict && action.risk.needs_approval() {
        let because = format!("actions of this class need an approval: {}", action.risk.as_str());
        reasons.push(Reason::answered(RISK, Decision::Ask, because));
    }
    if reasons.is_empty() {
        reasons.push(Reason::answered(GUARDS, Decision::Allow, "no guard objects"));
    }
    (Verdict::strictest(reasons), risk)
}

/// How dangerous `action` is: as declared, or as the rules say that object to it if that is more.
#[must_use]
pub fn risk(action: &Proposed<'_>) -> RiskClass {
    let scene = Scene::of(action);
    let objecting = rules::all().filter(|rule| rule.finds(&scene).is_some());
    objecting.map(Rule::risk).fold(action.risk, RiskClass::max)
}

/// The programs that a shell text would run, as far as they can be told, in order of their names.
/// Wrappers such as `env` and what they run are both in it. A program that cannot be told is in it
/// as its text, so that no list of known names covers it.
#[must_use]
pub fn programs(shell: &str) -> Vec<String> {
    let action = Proposed::of_shell(shell);
    let scene = Scene::of(&action);
    let steps = scene.steps.iter().map(|step| step.program.clone());
    let murky = scene.murk.iter().filter_map(|murk| match murk {
        Murk::Syntax(what) => Some(format!("? {what}")),
        Murk::Program(what) => Some(format!("? {}", shorten(what))),
        Murk::File(_) | Murk::Arguments(_) => None,
    });
    let all: BTreeSet<String> = steps.chain(murky).filter(|name| !name.is_empty()).collect();
    all.into_iter().collect()
}

/// Names of files that usually hold secrets and that a glob, as searching tools take it, may mean.
#[must_use]
pub fn secrets_like(glob: &str) -> Vec<&'static str> {
    // What is left out, and what means everything, means nothing in particular.
    let means = |name: &str| !name.chars().all(|letter| matches!(letter, '*' | '.'));
    let globs = pattern::alternatives(glob.trim());
    let names = globs.iter().filter(|glob| !glob.starts_with('!'));
    let names = names.map(|glob| glob.rsplit('/').next().unwrap_or(glob));
    let found: BTreeSet<&str> =
        names.filter(|name| means(name)).flat_map(rules::secrets_like).collect();
    found.into_iter().collect()
}

/// All rules, for those who want to know what is guarded against.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    rules::all()
}

/// What is said about something that was not understood, if anything is.
fn not_understood(murk: &Murk, strictness: Strictness) -> Option<String> {
    match (murk, strictness) {
        (_, Strictness::Lenient) | (Murk::Arguments(_), Strictness::Default) => None,
        (Murk::Syntax(what), _) => Some(format!("the shell text cannot be followed: {what}")),
        (Murk::Program(what), _) => {
            Some(format!("which program runs cannot be told: {}", shorten(what)))
        }
        (Murk::File(what), _) => Some(format!("which file is written cannot be told: {what}")),
        (Murk::Arguments(what), _) => {
            Some(format!("what the program is told to do cannot be told: {what}"))
        }
    }
}
