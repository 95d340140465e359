//! `countersign init --mcp`: an MCP client is told of the recorder, or no longer.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::client_file::{with_entry, without_entry};
use super::make;
use crate::{Caller, CommandError, Exit, Format};

/// The configuration that clients look for in a workspace.
const CLIENT_FILE: &str = ".mcp.json";

/// What was done to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Nothing,
    Written,
    Removed,
}

pub(super) fn run(
    client: Option<&Path>,
    undo: bool,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let home = store(undo, caller)?;
    let file = edited_file(client, &home);
    let failed =
        |error| CommandError::failed_doing(format!("cannot edit `{}`", file.display()), error);
    let text = match fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let old = text.as_deref().unwrap_or_default();
    let entry = entry(&home)?;
    let new = match undo {
        true => without_entry(old),
        false => with_entry(old, &entry).map(Some),
    };
    let new = new.map_err(|fault| {
        CommandError::failed_doing(format!("left `{}` as it is", file.display()), fault)
    })?;
    let done = match new {
        Some(new) if new == old => Done::Nothing,
        Some(new) => replace(&file, &new).map(|()| Done::Written).map_err(failed)?,
        None => fs::remove_file(&file).map(|()| Done::Removed).map_err(failed)?,
    };
    tell(caller, &file, &entry, done, undo)
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
fn entry(home: &Path) -> Result<Value, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed_doing("cannot tell where this program is", error))?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            let error = format!("`{}` cannot be written in JSON: it is not UTF-8", path.display());
            CommandError::failed(error)
        })
    };
    Ok(json!({ "args": ["--home", text(home)?, "mcp"], "command": text(&program)? }))
}

/// Puts the new text in the old one's place at once: a client may be reading it.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let draft = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let mut made = fs::OpenOptions::new().write(true).create_new(true).open(&draft)?;
    let written = made
        .write_all(text.as_bytes())
        .and_then(|()| match fs::metadata(file) {
            Ok(old) => made.set_permissions(old.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| made.sync_all())
        .and_then(|()| fs::rename(&draft, file));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn tell(
    caller: &mut Caller,
    file: &Path,
    entry: &Value,
    done: Done,
    undo: bool,
) -> Result<Exit, CommandError> {
    let (output, file) = (&mut caller.output, file.display().to_string());
    if output.format() == Format::Json {
        let entry = if undo { &Value::Null } else { entry };
        output
            .json(&json!({ "client": file, "entry": entry, "changed": done != Done::Nothing }))?;
        return Ok(Exit::Done);
    }
    output.line(format_args!("client  {file}"))?;
    match (undo, done) {
        (_, Done::Nothing) => output.note("nothing to change"),
        (true, Done::Removed) => output.note("removed: nothing but our entry was in it"),
        (true, Done::Written) => output.note("our entry was taken out"),
        (false, _) => {
            output.note("start your client anew; it then has the tools capseal_gate and others");
        }
    }
    Ok(Exit::Done)
}
