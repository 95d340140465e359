//! `countersign verify` of a sealed file.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use countersign_format::cap::CAP_MAGIC;
use countersign_runtime::inspect::first_event;
use countersign_verify::cap::{CapOwner, OpenedCap, cap_origin, verify_cap};
use countersign_verify::{FileSource, exit_status, open_regular, render_cap};
use serde_json::Value;

use super::logs::add_log;
use super::{VerifyArgs, exit, milliseconds, options};
use crate::{Caller, CommandError, Exit, Format};

/// Whether `name` is a file that is called like a sealed one, or begins like one. Nothing that could
/// block is opened.
pub(super) fn is_cap(name: &str) -> bool {
    let path = Path::new(name);
    if !fs::metadata(path).is_ok_and(|data| data.is_file()) {
        return false;
    }
    let mut beginning = [0; CAP_MAGIC.len()];
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("cap"))
        || File::open(path).and_then(|mut file| file.read_exact(&mut beginning)).is_ok()
            && beginning == CAP_MAGIC
}

pub(super) fn run(
    name: &str,
    args: &VerifyArgs,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    if args.keys.is_some() || args.artifacts.is_some() {
        let error = "a sealed file brings its keys and artifacts along: `--keys` and `--artifacts` \
                     say nothing of it";
        return Err(CommandError::usage(error));
    }
    let path = Path::new(name);
    let open = || open_regular(path).map(|file| Box::new(file) as OpenedCap);
    let failed =
        |error| CommandError::failed_doing(format!("cannot read `{}`", path.display()), error);
    let mut kept = own_log(cap_origin(&open).map_err(failed)?.as_deref(), caller);
    for log in &args.log {
        add_log(&mut kept, log)?;
    }
    let options = options(args, caller)?;
    let started = Instant::now();
    let mut verdict = verify_cap(&open, &kept, &options).map_err(failed)?;
    verdict.report.metrics.elapsed_ms = milliseconds(started);
    let expects = args.expect_head.is_some() || args.expect_count.is_some();
    if expects && matches!(verdict.owner, CapOwner::CapSeal { .. }) {
        let error = "a file of CapSeal's has no events: `--expect-head` and `--expect-count` say \
                     nothing of it";
        return Err(CommandError::usage(error));
    }
    match caller.output.format() {
        Format::Json => caller.output.json(&verdict.report)?,
        Format::Text => caller.output.block(render_cap(&verdict))?,
    }
    Ok(exit(exit_status(&verdict.report, args.open())))
}

/// The log of the workspace that we are in, if it is the one that the file speaks of.
fn own_log(origin: Option<&str>, caller: &Caller) -> FileSource {
    let nothing =
        FileSource { events: PathBuf::new(), log: None, checkpoints: Vec::new(), store: None };
    let (Some(origin), Ok(home)) = (origin, caller.home()) else { return nothing };
    let first = first_event(&home.join("log/events.jsonl")).ok().flatten();
    let own = first.as_ref().and_then(|event| event.payload.get("origin")).and_then(Value::as_str);
    if own == Some(origin) { FileSource::in_home(&home, PathBuf::new()) } else { nothing }
}
