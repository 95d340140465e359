//! `countersign work …`.

mod claim;
mod dispatch;
mod exit;
mod item;
mod list;
mod open;
mod run;
mod show;
mod stats;
mod told;
mod unblock;

use countersign_format::exit::{AGENT_EXIT_PROTOCOL_ENABLED, ExitFlag, ExitSignalError};

use crate::{Caller, CommandError, Exit};

/// Work items: who holds one, in which phase, until when; and agents that take them on
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    #[command(subcommand)]
    command: WorkCommand,
}

#[derive(Debug, clap::Subcommand)]
enum WorkCommand {
    Open(open::OpenArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Claim(claim::ClaimArgs),
    Renew(claim::RenewArgs),
    Release(claim::ReleaseArgs),
    Exit(exit::ExitArgs),
    Unblock(unblock::UnblockArgs),
    ConfirmClock(unblock::ConfirmClockArgs),
    Run(run::RunItemArgs),
    Dispatch(dispatch::DispatchArgs),
    Stats(stats::WorkStatsArgs),
}

pub(crate) fn run(args: &WorkArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        WorkCommand::Open(args) => open::run(args, caller),
        WorkCommand::List(args) => list::run(args, caller),
        WorkCommand::Show(args) => show::run(args, caller),
        WorkCommand::Claim(args) => claim::claim(args, caller),
        WorkCommand::Renew(args) => claim::renew(args, caller),
        WorkCommand::Release(args) => claim::release(args, caller),
        WorkCommand::Exit(args) => exit::run(args, caller),
        WorkCommand::Unblock(args) => unblock::run(args, caller),
        WorkCommand::ConfirmClock(args) => unblock::confirm_clock(args, caller),
        WorkCommand::Run(args) => run::run(args, caller),
        WorkCommand::Dispatch(args) => dispatch::run(args, caller),
        WorkCommand::Stats(args) => stats::run(args, caller),
    }
}

/// Refuses, before anything is claimed, where exit signals are switched off.
fn require_exit_protocol() -> Result<(), CommandError> {
    let value = std::env::var_os(AGENT_EXIT_PROTOCOL_ENABLED);
    match ExitFlag::from_env_value(value.as_deref().and_then(std::ffi::OsStr::to_str)) {
        ExitFlag::Enabled => Ok(()),
        ExitFlag::Disabled => Err(CommandError::no(ExitSignalError::ValidationDisabled)
            .with_hint(format!("set `{AGENT_EXIT_PROTOCOL_ENABLED}=true` to have signals taken"))),
    }
}

/// A length of time: a number with `ms`, `s`, `m` or `h`; without a unit, seconds.
fn length_of_time(text: &str) -> Result<std::time::Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("must be a number with `ms`, `s`, `m` or `h`".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "must begin with a number".to_owned())?;
    let millis = number.checked_mul(factor).ok_or("is longer than anybody can wait")?;
    Ok(std::time::Duration::from_millis(millis))
}

/// Who holds or does something, where nobody says: the user.
fn usual_holder() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.:@-".contains(c);
    let name: String = user.to_lowercase().chars().filter(|&c| usual(c)).take(128).collect();
    match name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) {
        true => name,
        false => "operator".to_owned(),
    }
}

/// The name of a holder: a lowercase identifier.
fn holder(name: &str) -> Result<String, String> {
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.:@-".contains(c);
    let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.len() <= 128 && name.starts_with(first) && name.chars().all(usual) {
        Ok(name.to_owned())
    } else {
        Err("must be a lowercase identifier: letters, digits and `_.:@-`".to_owned())
    }
}
