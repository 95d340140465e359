//! `countersign init --mcp`: an MCP client is told of the recorder, or no longer.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::client_file::{ListName, with_entry, without_entry};
use super::edited::{Done, edit, tell, text_of};
use super::make;
use crate::{Caller, CommandError, Exit};

/// The configuration that clients look for in a workspace.
const CLIENT_FILE: &str = ".mcp.json";
/// Where VS Code looks for it; it calls the list of servers otherwise.
const VS_CODE_FILE: &str = ".vscode/mcp.json";

pub(super) fn run(
    client: Option<&Path>,
    undo: bool,
    shadow: bool,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let home = store(undo, caller)?;
    let file = edited_file(client, &home);
    let old = text_of(&file)?;
    let entry = entry(&home, shadow)?;
    let list = if file.ends_with(VS_CODE_FILE) { ListName::Other } else { ListName::Usual };
    let new = match undo {
        true => without_entry(&old),
        false => with_entry(&old, &entry, list).map(Some),
    };
    let done = edit(&file, &old, new)?;
    let notes = match (undo, done) {
        (true, Done::Removed) => "removed: nothing but our entry was in it",
        (true, _) => "our entry was taken out",
        (false, _) => "start your client anew; it then has the tools capseal_gate and others",
    };
    let entry = if undo { Value::Null } else { entry };
    tell(caller, ("client", &file), done, json!({ "entry": entry }), &[notes])
}

/// The configuration that is edited.
pub(super) fn edited_file(client: Option<&Path>, home: &Path) -> PathBuf {
    let beside = home.parent().unwrap_or(home).join(CLIENT_FILE);
    // A link leads to the file that the client reads.
    let named = client.map_or(beside, Path::to_owned);
    named.canonicalize().unwrap_or(named)
}

/// The store that the entry names; made if there is none, unless the entry is to go.
pub(super) fn store(undo: bool, caller: &mut Caller) -> Result<PathBuf, CommandError> {
    let home = match caller.home() {
        Ok(home) if home.is_dir() || undo => home,
        _ if undo => caller.new_home()?,
        _ => {
            make(caller)?;
            caller.new_home()?
        }
    };
    Ok(home.canonicalize().unwrap_or(home))
}

/// How the client starts the server: this program, and this store, wherever the client stands.
fn entry(home: &Path, shadow: bool) -> Result<Value, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed_doing("cannot tell where this program is", error))?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            let error = format!("`{}` cannot be written in JSON: it is not UTF-8", path.display());
            CommandError::failed(error)
        })
    };
    let mut args = vec!["--home".to_owned(), text(home)?, "mcp".to_owned()];
    args.extend(shadow.then(|| "--shadow".to_owned()));
    Ok(json!({ "args": args, "command": text(&program)? }))
}
