//! `countersign work claim`, `renew` and `release`.

use std::time::Duration;

use countersign_format::event::TraceKind;
use countersign_protocol::kind_of;
use countersign_protocol::work::{Bearer, Claimant, Lease, Releaser, SignalChannel};
use countersign_runtime::Workspace;
use countersign_runtime::inspect::first_event;
use serde_json::json;

use super::item::{explain_work, find};
use super::{holder, length_of_time, usual_holder};
use crate::place::find_trace;
use crate::questions::without_secrets;
use crate::{Caller, CommandError, Exit, Format};

/// Hold an item for a time; prints the number of the lease, which later commands need
#[derive(Debug, clap::Args)]
pub(super) struct ClaimArgs {
    /// The item: its id, the beginning of it, or its label
    item: String,
    /// Who holds it; you, if nobody is named
    #[arg(long = "as", value_name = "NAME", value_parser = holder)]
    holder: Option<String>,
    /// The session or recording of this workspace that works on it: its id, or the beginning of it
    #[arg(long, value_name = "TRACE")]
    session: Option<String>,
    /// For how long, such as `90s`, `10m` or `2h`
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = length_of_time)]
    length: Duration,
}

/// Which lease, as its holder presents it.
#[derive(Debug, clap::Args)]
pub(super) struct PresentedLease {
    /// The number of the lease; an agent that `work run` started need not name it
    #[arg(long, value_name = "NUMBER")]
    lease: Option<u64>,
    /// The session that holds it
    #[arg(long, value_name = "ID", conflicts_with = "holder")]
    session: Option<String>,
    /// Who holds it; you, if nobody is named
    #[arg(long = "as", value_name = "NAME", value_parser = holder)]
    holder: Option<String>,
}

/// The variables that an agent is started with.
const LEASE_VARIABLE: &str = "COUNTERSIGN_LEASE";
const SESSION_VARIABLE: &str = "COUNTERSIGN_SESSION";

impl PresentedLease {
    /// The number of the lease: the one that was named, else the one that this process was given.
    pub(super) fn epoch(&self) -> Result<u64, CommandError> {
        lease_number(self.lease)?.ok_or_else(|| {
            CommandError::usage("no lease was named")
                .with_hint("name it with `--lease NUMBER`; `countersign work claim` prints it")
        })
    }

    /// Who presents it.
    pub(super) fn bearer(&self) -> Bearer {
        let own = own_session(self.lease);
        bearer(self.session.as_deref(), self.holder.as_deref(), own)
    }
}

fn lease_number(named: Option<u64>) -> Result<Option<u64>, CommandError> {
    match (named, std::env::var(LEASE_VARIABLE)) {
        (Some(epoch), _) => Ok(Some(epoch)),
        (None, Ok(given)) => given.parse().map(Some).map_err(|_| {
            CommandError::usage(format!("`{LEASE_VARIABLE}` is `{given}`, which is no number"))
        }),
        (None, Err(_)) => Ok(None),
    }
}

/// Hold an item longer
#[derive(Debug, clap::Args)]
pub(super) struct RenewArgs {
    /// The item: its id, the beginning of it, or its label
    item: String,
    #[command(flatten)]
    presented: PresentedLease,
    /// For how long from now, such as `90s`, `10m` or `2h`
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = length_of_time)]
    length: Duration,
}

/// Let an item go
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// The item: its id, the beginning of it, or its label
    item: String,
    /// The number of the lease; an agent that `work run` started need not name it
    #[arg(long, value_name = "NUMBER")]
    lease: Option<u64>,
    /// Who holds it; you, if nobody is named
    #[arg(long = "as", value_name = "NAME", value_parser = holder, conflicts_with = "force")]
    holder: Option<String>,
    /// Take it away from whoever holds it, as an operator
    #[arg(long, requires = "reason", conflicts_with = "lease")]
    force: bool,
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
}

pub(super) fn claim(args: &ClaimArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let item = find(&workspace, &args.item)?;
    let holder = args.holder.clone().unwrap_or_else(usual_holder);
    let session =
        args.session.as_deref().map(|name| session_named(&workspace, name)).transpose()?;
    let millis = millis(args.length);
    let claimed = item.claim(&holder, session.as_deref(), millis, Claimant::ByHand);
    let lease = claimed.map_err(explain_work)?.lease;
    match caller.output.format() {
        Format::Json => caller.output.json(&lease_json(&item.id().to_string(), &lease))?,
        Format::Text => {
            caller.output.line(lease.epoch)?;
            caller.output.note(format_args!(
                "{} holds {} with lease {} until {} (session {})",
                lease.holder, lease.phase, lease.epoch, lease.expires_at, lease.session_id
            ));
        }
    }
    Ok(Exit::Done)
}

pub(super) fn renew(args: &RenewArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let item = find(&workspace, &args.item)?;
    let epoch = args.presented.epoch()?;
    let by = args.presented.bearer();
    let until = item.renew(epoch, by, millis(args.length)).map_err(explain_work)?;
    match caller.output.format() {
        Format::Json => caller.output.json(&json!({ "epoch": epoch, "expires_at": until }))?,
        Format::Text => caller.output.line(until)?,
    }
    Ok(Exit::Done)
}

pub(super) fn release(args: &ReleaseArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let item = find(&workspace, &args.item)?;
    let reason = args.reason.as_deref().map(without_secrets);
    let epoch = match (args.force, lease_number(args.lease)?) {
        (false, Some(epoch)) => epoch,
        (false, None) => {
            return Err(CommandError::usage("no lease was named").with_hint(
                "name it with `--lease NUMBER`, or take it away with `--force --reason …`",
            ));
        }
        (true, _) => {
            let held = item.look(|state| state.lease.as_ref().map(|lease| lease.epoch));
            let held = held.map_err(|error| explain_work(error.into()))?;
            held.ok_or_else(|| CommandError::no("nobody holds it"))?
        }
    };
    let by = match (args.force, &args.holder) {
        (true, _) => Releaser::Operator("operator".to_owned()),
        (false, holder) => {
            Releaser::Bearer(bearer(None, holder.as_deref(), own_session(args.lease)))
        }
    };
    let reason = reason.unwrap_or_else(|| "released by hand".to_owned());
    item.release(epoch, by, &reason).map_err(explain_work)?;
    match caller.output.format() {
        Format::Json => caller.output.json(&json!({ "epoch": epoch, "released": true }))?,
        Format::Text => caller.output.success(format_args!("lease {epoch} is released")),
    }
    Ok(Exit::Done)
}

/// The session that this process was started in, unless it is about another lease.
fn own_session(named: Option<u64>) -> Option<String> {
    match named {
        Some(_) => None,
        None => std::env::var(SESSION_VARIABLE).ok(),
    }
}

/// How a signal came that was given by a command: from an agent, or a tool of it, if this process was
/// started by what runs an agent, whichever lease it is about.
pub(super) fn channel_of_command() -> SignalChannel {
    match std::env::var_os(SESSION_VARIABLE) {
        Some(_) => SignalChannel::Agent,
        None => SignalChannel::Operator,
    }
}

/// Who presents a lease: the session that was named; whoever was named; the session that this process
/// was started in; else the user.
fn bearer(session: Option<&str>, holder: Option<&str>, own: Option<String>) -> Bearer {
    match (session, holder, own) {
        (Some(session), ..) => Bearer::Session(session.to_owned()),
        (None, Some(holder), _) => Bearer::Holder(holder.to_owned()),
        (None, None, Some(own)) => Bearer::Session(own),
        (None, None, None) => Bearer::Holder(usual_holder()),
    }
}

/// The id of the session or recording that a name means.
fn session_named(workspace: &Workspace, name: &str) -> Result<String, CommandError> {
    let id = find_trace(workspace, name)?;
    let first = first_event(&workspace.trace_file(id));
    let first =
        first.map_err(|error| CommandError::failed_doing("cannot read the session", error))?;
    match first.as_ref().and_then(kind_of) {
        Some(TraceKind::Session | TraceKind::Recording) => Ok(id.to_string()),
        kind => {
            let kind = kind.map_or("nothing that can be read", TraceKind::as_str);
            Err(CommandError::no(format!("trace {id} is no session or recording: it is {kind}"))
                .with_hint("without `--session` the claim stands for itself"))
        }
    }
}

fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

fn lease_json(item: &str, lease: &Lease) -> serde_json::Value {
    json!({
        "item": item,
        "holder": lease.holder,
        "session_id": lease.session_id,
        "epoch": lease.epoch,
        "phase": lease.phase,
        "expires_at": lease.expires_at,
    })
}
