//! A trace of schema 1.0 in the form of 1.1, as a file of its own.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use countersign_format::event::dialect_of;
use countersign_format::json;
use countersign_format::shape::Dialect;
use countersign_protocol::unlinked::{Original, Projection};
use serde_json::{Value, json};

use super::ledger_file::LedgerFile;
use crate::{Caller, CommandError, Exit};

/// Shows the projection, or writes it into a new file.
pub(super) fn run(
    ledger: &LedgerFile,
    file: Option<&Path>,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let original = original(ledger)?;
    let Some(path) = file else {
        each_line(ledger, &original, |line| caller.output.data_bytes(line))?;
        return Ok(Exit::Done);
    };
    let doing =
        |error| CommandError::failed_doing(format!("cannot write `{}`", path.display()), error);
    // Only a file that was not there: the original must never be what is written.
    let mut writer = BufWriter::new(File::create_new(path).map_err(doing)?);
    let written = each_line(ledger, &original, |line| writer.write_all(line).map_err(doing))
        .and_then(|()| writer.flush().map_err(doing));
    if let Err(error) = written {
        // Half a projection would look like one of a shorter trace.
        let _ = fs::remove_file(path);
        return Err(error);
    }
    caller.output.note(format_args!(
        "{} events of trace {} in the form of schema 1.1: {}",
        original.events,
        original.trace_id,
        path.display()
    ));
    caller.output.hint("a projection proves nothing: verify the original");
    Ok(Exit::Done)
}

/// What the trace is, read from its first event to its last.
fn original(ledger: &LedgerFile) -> Result<Original, CommandError> {
    let mut found: Option<Original> = None;
    ledger.each(|stored| {
        let event = stored.event;
        let dialect = dialect_of(&json!({ "schema_version": event.schema_version }));
        if dialect != Dialect::V1_0 {
            let error = format!("trace {} is of schema 1.1 already", event.trace_id);
            return Err(CommandError::failed(error)
                .with_hint("`countersign trace show --json` has its events as they are"));
        }
        let original = found.get_or_insert_with(|| Original {
            schema_version: event.schema_version.clone(),
            trace_id: event.trace_id.clone(),
            head: event.event_hash,
            events: 0,
        });
        original.head = event.event_hash;
        original.events += 1;
        Ok(())
    })?;
    found.ok_or_else(|| {
        CommandError::failed(format!("`{}` holds no events", ledger.path().display()))
    })
}

fn each_line(
    ledger: &LedgerFile,
    original: &Original,
    mut write: impl FnMut(&[u8]) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let (mut projection, header) = Projection::begin(original);
    write(&line(&header))?;
    ledger.each(|stored| write(&line(&projection.event(&stored.event, stored.line_hash))))
}

fn line(document: &Value) -> Vec<u8> {
    let mut bytes = json::to_bytes(document);
    bytes.push(b'\n');
    bytes
}
