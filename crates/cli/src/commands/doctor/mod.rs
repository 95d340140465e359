//! `countersign doctor`. Whatever cannot be looked at is a finding, and does not end the visit.

mod hooks;
mod index;
mod keys;
mod policy;
mod traces;

use std::error::Error;

use countersign_runtime::known_roots::{KnownRoots, KnownRootsError};
use countersign_runtime::{Environment, Workspace, WorkspaceError};
use countersign_verify::{FileSource, Options, Profile, Source as _, verify_log};
use serde::Serialize;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Is everything in order? Says what is not, and with `--repair` mends what can be mended
///
/// Checks the private keys and their permissions, the gate's policy, the workspace log and its checkpoint, that every
/// trace that the log names is there and as long as the log says, and that each of its events has the
/// hash that it states and follows the one before; and makes the index of lookups anew from the
/// traces, if there is one. Never changes an event, and without `--repair` nothing else. Whether the
/// signatures of a trace hold and its rules were kept is for `countersign verify` to say.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Tell the log what writers that died did not, and remove what they left behind
    #[arg(long)]
    repair: bool,
}

#[derive(Debug, Serialize)]
struct Finding {
    area: &'static str,
    state: State,
    what: String,
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Mended,
    Warning,
    Wrong,
}

struct Visit {
    findings: Vec<Finding>,
}

impl Visit {
    fn say(&mut self, area: &'static str, state: State, what: impl Into<String>) {
        self.findings.push(Finding { area, state, what: what.into(), hint: None });
    }

    /// Says what can be done about the last finding.
    fn hint(&mut self, hint: impl Into<String>) {
        if let Some(finding) = self.findings.last_mut() {
            finding.hint = Some(hint.into());
        }
    }

    fn is_in_order(&self, area: &str) -> bool {
        let bad = |state| matches!(state, State::Warning | State::Wrong);
        !self.findings.iter().any(|finding| finding.area == area && bad(finding.state))
    }
}

/// What went wrong and why, on one line.
fn why(error: impl Into<Box<dyn Error + Send + Sync>>) -> String {
    CommandError::failed_doing("", error).causes().join(": ")
}

pub(crate) fn run(args: &DoctorArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let (config, home) = (caller.config()?, caller.home()?);
    let mut visit = Visit { findings: Vec::new() };
    match Workspace::open(&config, &home, Environment::system()) {
        Ok(workspace) => {
            visit.say("store", State::Ok, workspace.home().display().to_string());
            keys::look(&workspace, &mut visit);
            keys::look_at_place(&workspace, &mut visit);
            roots(&workspace, &mut visit);
            hooks::look(workspace.home(), &mut visit);
            policy::look(&workspace, &mut visit);
            log(&workspace, &mut visit)?;
            traces::look(&workspace, args.repair, &mut visit);
            index::look(&workspace, &mut visit);
            if args.repair {
                remove_leftovers(&workspace, &mut visit);
            }
        }
        // Other commands send people here when they meet this.
        Err(error @ WorkspaceError::BadLog { .. }) => {
            visit.say("log", State::Wrong, why(error));
            visit.hint("compare it with a copy kept elsewhere: nothing can be read without it");
        }
        Err(error) => return Err(explain(error)),
    }
    report(&visit.findings, caller)
}

fn roots(workspace: &Workspace, visit: &mut Visit) {
    let root = workspace.root();
    match KnownRoots::new(workspace.config()).contains(&root) {
        Ok(true) => visit.say("root", State::Ok, format!("{root} is trusted")),
        Ok(false) => {
            let what = format!("{root} is not trusted: traces are unpinned");
            visit.say("root", State::Warning, what);
            visit.hint(
                "compare the fingerprint with the one that you got from the workspace's owner, \
                 then run `countersign keys trust FINGERPRINT`",
            );
        }
        Err(error) => {
            let by_hand = matches!(error, KnownRootsError::Line { .. });
            let what = format!("the roots that you trust cannot be read: {}", why(error));
            visit.say("root", State::Wrong, what);
            if by_hand {
                visit.hint("correct or remove that line; one that starts with `#` is a comment");
            }
        }
    }
}

fn log(workspace: &Workspace, visit: &mut Visit) -> Result<(), CommandError> {
    let events = workspace.home().join("log/events.jsonl");
    let mut source = FileSource::in_home(workspace.home(), events);
    if let Err(error) = source.checkpoints() {
        visit.say("log", State::Wrong, format!("its checkpoint cannot be used: {}", why(error)));
        visit.hint("move it away: the next writer makes a new one");
        source.checkpoints.clear();
    }
    let options = Options {
        trusted_roots: [workspace.root()].into(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: None,
        expect_head: None,
        expect_count: None,
        report_id: workspace.new_id().map_err(explain)?.to_string(),
        now: workspace.now(),
    };
    let report = match verify_log(&source, &options) {
        Ok(report) => report,
        Err(error) => {
            visit.say("log", State::Wrong, format!("it cannot be verified: {}", why(error)));
            return Ok(());
        }
    };
    for failure in &report.failures {
        let what = format!("{}: {}", failure.failure_code, failure.message);
        visit.say("log", State::Wrong, what);
        visit.hint(&failure.suggested_action);
    }
    for warning in &report.warnings {
        visit.say("log", State::Warning, format!("{}: {}", warning.warning_code, warning.message));
    }
    if report.failures.is_empty() {
        let entries = report.metrics.events;
        visit.say("log", State::Ok, format!("{entries} entries, chain and signatures hold"));
    }
    Ok(())
}

fn remove_leftovers(workspace: &Workspace, visit: &mut Visit) {
    match workspace.store().remove_leftovers() {
        Ok(0) => {}
        Ok(removed) => {
            visit.say("store", State::Mended, format!("{removed} unfinished files removed"));
        }
        Err(error) => {
            let what = format!("unfinished files cannot be removed: {}", why(error));
            visit.say("store", State::Wrong, what);
        }
    }
}

fn report(findings: &[Finding], caller: &mut Caller) -> Result<Exit, CommandError> {
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&findings)?,
        Format::Text => {
            for finding in findings {
                let mark = match finding.state {
                    State::Ok => "ok",
                    State::Mended => "mended",
                    State::Warning => "warning",
                    State::Wrong => "WRONG",
                };
                output.line(format_args!("{mark:<8} {:<7} {}", finding.area, finding.what))?;
                if let Some(hint) = &finding.hint {
                    // Beside its finding, also where only the answer is read.
                    output.line(format_args!("{:<8} {:<7} hint: {hint}", "", ""))?;
                }
            }
        }
    }
    let wrong = findings.iter().any(|finding| finding.state == State::Wrong);
    Ok(if wrong { Exit::No } else { Exit::Done })
}
