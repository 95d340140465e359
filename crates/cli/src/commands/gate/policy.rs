//! `countersign gate policy`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use countersign_gate::Policy;
use countersign_gate::policy::POLICY_BYTES_MAX;
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, DocumentSource, Exit, Format};

/// Print the policy in force, or look at one that is not
///
/// The policy is `gate/policy.cedar` of the workspace's store; without that file the built-in one is
/// in force. To change it, write what this prints to that file and edit it. Exits with 3 if the
/// policy cannot be used; the gate then asks about everything.
#[derive(Debug, clap::Args)]
pub(super) struct PolicyArgs {
    /// Check this file instead: its syntax, that it fits the schema, and every rule's examples
    #[arg(long, value_name = "FILE|-")]
    check: Option<PathBuf>,
}

pub(super) fn run(args: &PolicyArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.check {
        Some(file) => {
            let source = DocumentSource::from_argument(Some(file));
            let document = source.read(POLICY_BYTES_MAX)?;
            tell(&source.to_string(), &document.bytes, Print::Nothing, caller)
        }
        None => in_force(caller),
    }
}

fn in_force(caller: &mut Caller) -> Result<Exit, CommandError> {
    if caller.home.is_none() && caller.home().is_err() {
        let built_in = Policy::built_in().as_bytes();
        return tell("the built-in policy", built_in, Print::Text, caller);
    }
    let loaded = caller.workspace()?.gate().map_err(explain)?;
    let origin = match &loaded.policy_file {
        // A shell that was told to write this answer there has emptied it already.
        Some(path) if loaded.policy_bytes.is_empty() && is_our_output(path) => {
            let built_in = Policy::built_in().as_bytes();
            return tell("the built-in policy", built_in, Print::Text, caller);
        }
        Some(path) => format!("`{}`", path.display()),
        None => "the built-in policy".to_owned(),
    };
    tell(&origin, &loaded.policy_bytes, Print::Text, caller)
}

/// Whether what this prints goes to that file.
fn is_our_output(path: &Path) -> bool {
    let ours = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let found = ours.and_then(|ours| ours.metadata()).and_then(|ours| Ok((ours, path.metadata()?)));
    found.is_ok_and(|(ours, it)| (ours.dev(), ours.ino()) == (it.dev(), it.ino()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Print {
    Text,
    Nothing,
}

fn tell(
    origin: &str,
    bytes: &[u8],
    print: Print,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let output = &mut caller.output;
    let policy = Policy::from_bytes(bytes);
    if output.format() == Format::Json {
        let rules = policy.as_ref().map(|policy| {
            let rule = |rule: &countersign_gate::policy::PolicyRule| {
                json!({ "id": rule.id, "line": rule.line, "decision": rule.decision,
                    "justification": rule.justification })
            };
            policy.rules().iter().map(rule).collect::<Vec<_>>()
        });
        let fault = policy.as_ref().err().map(ToString::to_string);
        let text = (print == Print::Text).then(|| String::from_utf8_lossy(bytes));
        output.json(&json!({
            "origin": origin, "valid": fault.is_none(), "fault": fault,
            "rules": rules.unwrap_or_default(), "text": text,
        }))?;
        return Ok(if policy.is_ok() { Exit::Done } else { Exit::No });
    }
    if print == Print::Text {
        output.data_bytes(bytes)?;
    }
    match policy {
        Ok(policy) => {
            let rules = policy.rules().len();
            output.success(format_args!("{origin}: {rules} rules hold to their examples"));
            Ok(Exit::Done)
        }
        Err(fault) => {
            Err(CommandError::no(format!("{origin} cannot be used"))
                .with_details([fault.to_string()]))
        }
    }
}
