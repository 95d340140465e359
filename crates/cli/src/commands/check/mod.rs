//! `check`: is this document valid?

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
/// canonical bytes, `receipt` the hash, `exit-signal` the next phase, `task` a summary. Exit signals
/// are looked at only where the environment says `AGENT_EXIT_PROTOCOL_ENABLED=true`.
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
}

/// The phase that a session holds, if it holds one.
#[derive(Debug, Clone, Copy)]
struct HeldPhase(Option<WorkPhase>);

impl HeldPhase {
    fn parse(name: &str) -> Result<Self, NotAWorkPhase> {
        if name == "none" { Ok(Self(None)) } else { WorkPhase::parse(name).map(|p| Self(Some(p))) }
    }
}

/// Reads the document and says whether it is valid.
pub(crate) fn run(args: &CheckArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    if args.phase.is_some() && args.kind != Kind::ExitSignal {
        return Err(CommandError::usage("`--phase` is about exit signals")
            .with_hint("write `countersign check exit-signal --phase PHASE`"));
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
        Kind::InputEnvelope => kind::input_envelope(&document),
        Kind::OutputEnvelope => kind::output_envelope(&document),
        Kind::Task => task::task(&document),
    };
    verdict.tell(args.kind, &mut caller.output)
}
