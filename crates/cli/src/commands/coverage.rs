//! `countersign coverage`.

use std::env;
use std::path::PathBuf;

use countersign_format::id::Ulid;
use countersign_runtime::Workspace;
use countersign_runtime::coverage::{
    CallResult, ComparedWith, CoverageError, CoverageGap, CoverageReport, Listed, NotedCall,
    SnapshotLimits, Transcript,
};
use countersign_runtime::secrets::Redactor;
use serde_json::json;

use crate::place::{explain, find_trace};
use crate::{Caller, CommandError, Exit, Format, Output};

/// Compare what an agent did with what was recorded, and name what bypassed the recorder
///
/// A gap is a call that the agent's transcript has and no trace does; a call that was reported when it
/// was done, and that nobody asked about before; one that was refused and done all the same; a line of
/// the transcript that cannot be read; and a file that changed although nothing that was recorded can
/// have changed it. The report is recorded in the trace, so that whoever gets it sees the gaps.
///
/// Exit status: 0 no gap was found; 3 there are gaps. That none was found does not prove that there is
/// none: the report says what it cannot see.
#[derive(Debug, clap::Args)]
pub(crate) struct CoverageArgs {
    /// The trace's id, or the beginning of it
    trace: String,
    /// A transcript that the agent's own program wrote: JSON lines of Claude Code. May be given
    /// several times
    #[arg(long, value_name = "FILE")]
    transcript: Vec<PathBuf>,
    /// Compare the files of the workspace as well, with the snapshot that the trace holds
    #[arg(long)]
    workspace: bool,
    /// Record how the files are now, and compare nothing: for a later `--workspace`
    #[arg(long, conflicts_with_all = ["transcript", "workspace", "no_write"])]
    snapshot: bool,
    /// Show the report, and record nothing
    #[arg(long)]
    no_write: bool,
}

/// Lines of each sort that are shown to people.
const SHOWN_MAX: usize = 100;

pub(crate) fn run(args: &CoverageArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let id = find_trace(&workspace, &args.trace)?;
    if args.snapshot {
        return take_snapshot(&workspace, id, caller);
    }
    let redactor = Redactor::new(env::vars_os());
    let mut with = ComparedWith { workspace: args.workspace, ..ComparedWith::default() };
    for path in &args.transcript {
        let doing = || format!("cannot read the transcript `{}`", path.display());
        let read = Transcript::read(path, &redactor);
        with.transcripts.push(read.map_err(|error| CommandError::failed_doing(doing(), error))?);
    }
    let report =
        workspace.coverage(id, &with, &redactor).map_err(|error| why(error, id, &workspace))?;
    let event = match args.no_write {
        true => None,
        false => workspace.report_coverage(&report).map_err(explain)?.events.pop(),
    };
    let event = event.map(|event| event.event_id);
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({ "event_id": event, "report": report }))?,
        Format::Text => {
            tell(&report, output)?;
            match &event {
                Some(event) => output.note(format_args!("recorded as event {event}")),
                None => output.note("nothing was recorded"),
            }
            advise(args, output);
        }
    }
    Ok(if report.gaps == 0 { Exit::Done } else { Exit::No })
}

fn take_snapshot(
    workspace: &Workspace,
    id: Ulid,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let recorded = workspace.record_snapshot(id, SnapshotLimits::default());
    let recorded = recorded.map_err(|error| why(error, id, workspace))?;
    let event = recorded.events.first().map(|event| event.event_id.clone());
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({ "trace_id": id.to_string(), "event_id": event }))?,
        Format::Text => {
            output.success(format_args!("recorded how the files of {id} are now"));
            output
                .hint(format_args!("`countersign coverage {id} --workspace` compares them later"));
        }
    }
    Ok(Exit::Done)
}

/// What can be done about it.
fn why(error: CoverageError, id: Ulid, workspace: &Workspace) -> CommandError {
    match error {
        CoverageError::Workspace(error) => explain(error),
        CoverageError::NoSnapshot { .. } => {
            let error = CommandError::failed(error)
                .with_hint("recordings of `countersign hook claude-code` begin with one");
            let summary = workspace.summary(id).ok().flatten();
            // What has ended takes no snapshot any more.
            match summary.is_some_and(|summary| summary.ended_at.is_some()) {
                true => error,
                false => error.with_hint(format!(
                    "run `countersign coverage {id} --snapshot` when an agent begins, for its open \
                     recording"
                )),
            }
        }
        CoverageError::Damaged { .. } => CommandError::failed(error)
            .with_hint(format!("run `countersign verify {id}` to see everything that is wrong")),
        error => CommandError::failed(error),
    }
}

fn tell(report: &CoverageReport, output: &mut Output) -> Result<(), CommandError> {
    output.line(format_args!("trace       {}, {} events", report.trace_id, report.events))?;
    for related in &report.related {
        output.line(format_args!("with        {related}"))?;
    }
    for source in &report.transcripts {
        output.line(format_args!(
            "transcript  {}: {} calls, {} recorded here, {} to the recorder itself",
            source.name, source.calls, source.recorded, source.to_recorder
        ))?;
    }
    if let Some(source) = &report.workspace {
        output.line(format_args!(
            "files       {} changed since {}, {} by recorded writes",
            source.changed, source.taken_at, source.recorded
        ))?;
    }
    section(output, "gaps", &report.gap_list, gap_line)?;
    section(output, "recorded in another trace", &report.recorded_elsewhere, |it| {
        format!("{}  {}  event {} of {}", it.call_id, it.tool, it.event.seq, it.trace_id)
    })?;
    section(
        output,
        "files that a recorded command may have changed",
        &report.unattributed,
        |it| {
            let by = it.maybe_by.join("; ");
            format!("{} ({})  maybe by {by}", it.path, it.how)
        },
    )?;
    section(output, "told differently", &report.told_differently, noted_line)?;
    section(output, "recorded, but in no transcript", &report.not_in_transcript, noted_line)?;
    section(output, "outcome unknown", &report.unknown, noted_line)?;
    output.line("")?;
    output.line("this cannot see:")?;
    for spot in &report.cannot_see {
        output.line(format_args!("  - {spot}"))?;
    }
    output.line("")?;
    match report.gaps {
        0 => output.line("no gap was found"),
        1 => output.line("1 gap"),
        gaps => output.line(format_args!("{gaps} gaps")),
    }
}

fn section<T>(
    output: &mut Output,
    title: &str,
    listed: &Listed<T>,
    line: impl Fn(&T) -> String,
) -> Result<(), CommandError> {
    if listed.count == 0 {
        return Ok(());
    }
    output.line("")?;
    output.line(format_args!("{title}: {}", listed.count))?;
    for one in listed.first.iter().take(SHOWN_MAX) {
        output.line(format_args!("  {}", line(one)))?;
    }
    let shown = listed.first.len().min(SHOWN_MAX) as u64;
    match listed.count - shown {
        0 => Ok(()),
        more => output.line(format_args!("  … and {more} more")),
    }
}

fn gap_line(gap: &CoverageGap) -> String {
    let mut words = vec![gap.kind.meaning().to_owned()];
    words.extend(gap.event.as_ref().map(|event| format!("event {}", event.seq)));
    words.extend(gap.call_id.clone());
    words.extend(gap.tool.clone());
    words.extend(gap.at.map(|at| at.to_string()));
    words.push(gap.what.clone());
    words.extend(gap.result.map(|result| match result {
        CallResult::Ran => "it ran".to_owned(),
        CallResult::Error => "it gave an error".to_owned(),
        CallResult::Unknown => "no result".to_owned(),
    }));
    words.extend(gap.by_sub_agent.then(|| "by a sub-agent".to_owned()));
    words.join("  ")
}

fn noted_line(call: &NotedCall) -> String {
    let id = call.call_id.as_deref().unwrap_or("-");
    format!("event {}  {id}  {}  {}  {}", call.event.seq, call.tool, call.at, call.why)
}

/// What else could be compared.
fn advise(args: &CoverageArgs, output: &mut Output) {
    if args.transcript.is_empty() {
        output
            .hint("`--transcript FILE` compares the calls that the agent's own program wrote down");
    }
}
