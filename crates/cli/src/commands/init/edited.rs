//! Files of others in which something of ours is written, replaced or taken away.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::{Caller, CommandError, Exit, Format};

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Nothing,
    Written,
    Removed,
}

/// The text of a file; nothing if there is none.
pub(super) fn text_of(file: &Path) -> Result<String, CommandError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(not_edited(file, error)),
    }
}

/// Gives a file its new text, or takes it away; `old` is what it has now.
pub(super) fn edit<E: std::error::Error + Send + Sync + 'static>(
    file: &Path,
    old: &str,
    new: Result<Option<String>, E>,
) -> Result<Done, CommandError> {
    let new = new.map_err(|fault| {
        CommandError::failed_doing(format!("left `{}` as it is", file.display()), fault)
    })?;
    let done = match new {
        Some(new) if new == old => Ok(Done::Nothing),
        Some(new) => {
            let dir = file.parent().map_or(Ok(()), fs::create_dir_all);
            dir.and_then(|()| replace(file, &new, None)).map(|()| Done::Written)
        }
        None => fs::remove_file(file).map(|()| Done::Removed),
    };
    done.map_err(|error| not_edited(file, error))
}

pub(super) fn not_edited(file: &Path, error: io::Error) -> CommandError {
    CommandError::failed_doing(format!("cannot edit `{}`", file.display()), error)
}

/// Puts the new text in the old one's place at once: a program may be reading it. The file keeps its
/// mode unless it is to have another.
pub(super) fn replace(file: &Path, text: &str, mode: Option<u32>) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let draft = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let mut made = fs::OpenOptions::new().write(true).create_new(true).open(&draft)?;
    let old = fs::metadata(file).ok().map(|old| old.permissions());
    let written = made
        .write_all(text.as_bytes())
        .and_then(|()| match mode.map(fs::Permissions::from_mode).or(old) {
            Some(mode) => made.set_permissions(mode),
            None => Ok(()),
        })
        .and_then(|()| made.sync_all())
        .and_then(|()| fs::rename(&draft, file));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Says what was done: to which file, which is a `kind`, with `facts` for programs and `notes` for
/// people.
pub(super) fn tell(
    caller: &mut Caller,
    (kind, file): (&str, &Path),
    done: Done,
    mut facts: Value,
    notes: &[&str],
) -> Result<Exit, CommandError> {
    let (output, file) = (&mut caller.output, file.display().to_string());
    if output.format() == Format::Json {
        if let Some(facts) = facts.as_object_mut() {
            facts.insert(kind.to_owned(), json!(file));
            facts.insert("changed".to_owned(), json!(done != Done::Nothing));
        }
        output.json(&facts)?;
        return Ok(Exit::Done);
    }
    output.line(format_args!("{kind}  {file}"))?;
    match done {
        Done::Nothing => output.note("nothing to change"),
        Done::Written | Done::Removed => notes.iter().for_each(|note| output.note(note)),
    }
    Ok(Exit::Done)
}
