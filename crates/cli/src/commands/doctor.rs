//! `countersign doctor`.

use std::collections::BTreeSet;

use countersign_format::key::KeyStatus;
use countersign_runtime::known_roots::KnownRoots;
use countersign_runtime::{Reconciled, Workspace};
use countersign_verify::{FileSource, Options, Profile, verify_log};
use serde::Serialize;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Is everything in order? Says what is not, and with `--repair` mends what can be mended
///
/// Checks the private keys and their permissions, the workspace log and its checkpoint, and that
/// every trace that the log names is there. Never changes an event.
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

    fn hint(&mut self, hint: impl Into<String>) {
        if let Some(finding) = self.findings.last_mut() {
            finding.hint = Some(hint.into());
        }
    }
}

pub(crate) fn run(args: &DoctorArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let mut visit = Visit { findings: Vec::new() };
    visit.say("store", State::Ok, workspace.home().display().to_string());
    keys(&workspace, &mut visit)?;
    roots(&workspace, &mut visit)?;
    log(&workspace, &mut visit)?;
    traces(&workspace, args.repair, &mut visit)?;
    leftovers(&workspace, args.repair, &mut visit)?;
    report(&visit.findings, caller)
}

fn keys(workspace: &Workspace, visit: &mut Visit) -> Result<(), CommandError> {
    let mut usable = 0;
    for key in workspace.keys().map_err(explain)? {
        if key.status != KeyStatus::Active {
            continue;
        }
        let entry = key.key_id.parse().map(|id| workspace.keyring().entry(id));
        match entry {
            Ok(Ok(_)) => usable += 1,
            Ok(Err(error)) => {
                let what = format!("the key of `{}` cannot be used: {error}", key.agent_id);
                visit.say("keys", State::Wrong, what);
            }
            Err(error) => visit.say("keys", State::Wrong, error.to_string()),
        }
    }
    visit.say("keys", State::Ok, format!("{usable} active keys can be used"));
    Ok(())
}

fn roots(workspace: &Workspace, visit: &mut Visit) -> Result<(), CommandError> {
    let known = KnownRoots::new(workspace.config());
    let root = workspace.root();
    if known.contains(&root).map_err(CommandError::failed)? {
        visit.say("root", State::Ok, format!("{root} is trusted"));
    } else {
        visit.say("root", State::Warning, format!("{root} is not trusted: traces are unpinned"));
        visit.hint(format!("run `countersign keys trust {root}`"));
    }
    Ok(())
}

fn log(workspace: &Workspace, visit: &mut Visit) -> Result<(), CommandError> {
    let events = workspace.home().join("log/events.jsonl");
    let source = FileSource::in_home(workspace.home(), events);
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
    let report = verify_log(&source, &options).map_err(CommandError::failed)?;
    for failure in &report.failures {
        let what = format!("{}: {}", failure.failure_code, failure.message);
        visit.say("log", State::Wrong, what);
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

fn traces(workspace: &Workspace, repair: bool, visit: &mut Visit) -> Result<(), CommandError> {
    if repair {
        for done in workspace.reconcile_all().map_err(explain)? {
            match done {
                Reconciled::Opened(id) => {
                    visit.say("traces", State::Mended, format!("the log now has {id} as opened"));
                }
                Reconciled::Closed(id) => {
                    visit.say("traces", State::Mended, format!("the log now has {id} as closed"));
                }
                Reconciled::Stillborn(id) => {
                    let what = format!("{id} was never acknowledged and cannot be opened any more");
                    visit.say("traces", State::Warning, what);
                }
            }
        }
    }
    let entries = workspace.log_entries().map_err(explain)?;
    let ids = workspace.trace_ids().map_err(explain)?;
    let here: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
    for (trace_id, entry) in &entries {
        if !here.contains(trace_id) {
            let what = format!("{trace_id} is gone; the log knows {} of its events", entry.size);
            visit.say("traces", State::Wrong, what);
        }
    }
    for id in ids {
        let summary = workspace.summary(id).map_err(explain)?;
        let Some(summary) = summary else { continue };
        let entry = entries.get(&id.to_string());
        if summary.unknown.contains_key("unreadable_at") {
            visit.say("traces", State::Wrong, format!("{id} cannot be read to its end"));
            visit.hint(format!("run `countersign verify {id}`"));
        } else if entry.is_none() {
            visit.say("traces", State::Warning, format!("the log does not know {id}"));
            visit.hint("run `countersign doctor --repair`");
        } else if let Some(entry) = entry {
            if entry.size > summary.event_count {
                let (size, count) = (entry.size, summary.event_count);
                let what = format!("{id} has {count} events, the log knows {size}");
                visit.say("traces", State::Wrong, what);
                visit.hint(format!("run `countersign verify {id}`"));
            } else if summary.ended_at.is_some() && !entry.closed {
                visit.say(
                    "traces",
                    State::Warning,
                    format!("the log does not have {id} as closed"),
                );
                visit.hint("run `countersign doctor --repair`");
            }
        }
    }
    visit.say("traces", State::Ok, format!("{} traces in the store", here.len()));
    Ok(())
}

fn leftovers(workspace: &Workspace, repair: bool, visit: &mut Visit) -> Result<(), CommandError> {
    if repair {
        let removed = workspace.store().remove_leftovers().map_err(CommandError::failed)?;
        if removed > 0 {
            visit.say("store", State::Mended, format!("{removed} unfinished files removed"));
        }
    }
    Ok(())
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
                    output.hint(hint);
                }
            }
        }
    }
    let wrong = findings.iter().any(|finding| finding.state == State::Wrong);
    Ok(if wrong { Exit::No } else { Exit::Done })
}
