//! `check`: is this document valid?

mod agent;
mod flow;
mod kind;
mod task;
mod verdict;

use std::path::PathBuf;

use countersign_format::exit::{NotAWorkPhase, WorkPhase};

use crate::{Caller, CommandError, DocumentSource, Exit};
use kind::Kind;

/// Is this document valid?
///
/// Exits with 0 if it is, and with 3 and the reason if it is not. `json` prints exactly the
/// canonical bytes, `receipt` the hash, `exit-signal` the next phase, `task` and `flow` a summary.
/// `agent` runs a program. Exit signals are looked at only where the environment says `AGENT_EXIT_PROTOCOL_ENABLED=true`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// What the document should be
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// The document; without it, or with `-`, standard input is read
    #[arg(value_name = "FILE|-")]
    file: Option<PathBuf>,
    /// With `exit-signal`: the phase that the session holds, or `none`
    #[arg(long, value_name = "PHASE", value_parser = HeldPhase::parse)]
    phase: Option<HeldPhase>,
    /// With an envelope: print it in the present form, and say what was changed
    #[arg(long)]
    migrate: bool,
    /// With `agent`: what it is asked to do
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// With `agent`: what it needs for that, a JSON object
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// With `agent`: a file that it is given, by its name in `paths`
    #[arg(long, value_name = "NAME=PATH", value_parser = named_path)]
    path: Vec<(String, String)>,
    /// With `agent`: the seconds that each answer may take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// With `agent`: its command, after `--`
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The phase that a session holds, if it holds one.
#[derive(Debug, Clone, Copy)]
struct HeldPhase(Option<WorkPhase>);

impl HeldPhase {
    fn parse(name: &str) -> Result<Self, NotAWorkPhase> {
        if name == "none" { Ok(Self(None)) } else { WorkPhase::parse(name).map(|p| Self(Some(p))) }
    }
}

fn named_path(text: &str) -> Result<(String, String), String> {
    let (name, path) = text.split_once('=').ok_or("must be NAME=PATH")?;
    match countersign_format::path::check_readable(path) {
        Ok(()) => Ok((name.to_owned(), path.to_owned())),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Reads the document and says whether it is valid.
pub(crate) fn run(args: &CheckArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    if args.phase.is_some() && args.kind != Kind::ExitSignal {
        return Err(CommandError::usage("`--phase` is about exit signals")
            .with_hint("write `countersign check exit-signal --phase PHASE`"));
    }
    if args.migrate && !matches!(args.kind, Kind::InputEnvelope | Kind::OutputEnvelope) {
        return Err(CommandError::usage("`--migrate` is about envelopes").with_hint(
            "write `countersign check output-envelope --migrate`, or `input-envelope`",
        ));
    }
    let about_agents = [
        args.action.is_some(),
        args.params.is_some(),
        !args.path.is_empty(),
        args.seconds.is_some(),
        !args.command.is_empty(),
    ];
    if args.kind == Kind::Agent {
        return agent::run(args, caller);
    }
    if about_agents.contains(&true) {
        return Err(CommandError::usage(
            "`--action`, `--params`, `--path`, `--seconds` and a command are about agents",
        )
        .with_hint("write `countersign check agent -- CMD…`"));
    }
    // Switched off means unread: nothing about the document may show.
    if args.kind == Kind::ExitSignal
        && let Some(disabled) = kind::exit_signals_disabled()
    {
        return disabled.tell(args.kind, &mut caller.output);
    }
    let document = DocumentSource::from_argument(args.file.as_ref()).read(args.kind.bytes_max())?;
    let verdict = match args.kind {
        Kind::Json => kind::json(&document),
        Kind::LedgerLine => kind::ledger_line(&document),
        Kind::Event => kind::event(&document),
        Kind::Receipt => kind::receipt(&document),
        Kind::ExitSignal => kind::exit_signal(&document, args.phase),
        Kind::InputEnvelope if args.migrate => kind::migrated_input(&document),
        Kind::OutputEnvelope if args.migrate => kind::migrated_output(&document),
        Kind::InputEnvelope => kind::input_envelope(&document),
        Kind::OutputEnvelope => kind::output_envelope(&document),
        Kind::Task => task::task(&document),
        Kind::Flow | Kind::Agent => flow::flow(&document),
    };
    verdict.tell(args.kind, &mut caller.output)
}
