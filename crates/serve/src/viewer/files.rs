//! Raw bytes: ledgers, checkpoints and artifacts, whole or in part.
//!
//! Whatever an agent left is sent so that no browser takes it for a page: as bytes to be saved, in a
//! sandbox, and never guessed at.

use std::fs::File;
use std::io;
use std::path::Path;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use countersign_format::event::artifact::{new_uri, storage_uri};
use countersign_runtime::store::LedgerId;
use countersign_verify::open_regular;

use super::answer::ApiFailure;
use super::asked::Asked;
use super::body::of_file;
use super::desk::Desk;
use super::range::{Wanted, wanted};

/// What the bytes are, for whoever saves them.
const BYTES: &str = "application/octet-stream";

pub(super) fn artifact(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let hash = asked.hash()?;
    let home = desk.workspace.home();
    let [place, new] = [storage_uri(&hash), new_uri(&hash)].map(|uri| home.join(uri));
    // In its place last, too: it may be taken there between the first look and the second.
    let first = [&place, &new].into_iter().find(|path| path.symlink_metadata().is_ok());
    let absent = || format!("no artifact {hash} is stored here");
    let file = first.and_then(|path| opened(path, absent).ok());
    let file = file.map_or_else(|| opened(&place, absent), Ok)?;
    send(asked, file, BYTES, &format!("{hash}.bin"))
}

pub(super) fn ledger(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = asked.id()?;
    let file = opened(&desk.workspace.trace_file(id), || format!("there is no trace {id}"))?;
    send(asked, file, "application/jsonl", &format!("{id}.events.jsonl"))
}

pub(super) fn log_ledger(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let path = desk.workspace.store().ledger_dir(LedgerId::Log).join("events.jsonl");
    let file = opened(&path, || "there is no log".to_owned())?;
    send(asked, file, "application/jsonl", "log.events.jsonl")
}

pub(super) fn checkpoint(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let path = desk.workspace.store().ledger_dir(LedgerId::Log).join("checkpoint");
    let file = opened(&path, || "the log has no checkpoint yet".to_owned())?;
    send(asked, file, "text/plain; charset=utf-8", "checkpoint.txt")
}

/// Opens a plain file; no link is followed in its last step.
fn opened(path: &Path, absent: impl FnOnce() -> String) -> Result<File, ApiFailure> {
    let found = path.symlink_metadata().and_then(|found| match found.is_file() {
        true => open_regular(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    });
    found.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ApiFailure::missing(absent()),
        _ => ApiFailure::unusable(format!("it cannot be read: {error}")),
    })
}

fn send(
    asked: &Asked,
    file: File,
    media_type: &'static str,
    name: &str,
) -> Result<Response, ApiFailure> {
    let length = file.metadata().map_err(|error| ApiFailure::failed(&error))?.len();
    let (status, from, to) = match wanted(&asked.headers, length) {
        Wanted::Whole => (StatusCode::OK, 0, length),
        Wanted::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        Wanted::Nothing => {
            let message = format!("there are {length} bytes");
            let failure = ApiFailure::new(StatusCode::RANGE_NOT_SATISFIABLE, "range", message);
            let mut response = axum::response::IntoResponse::into_response(failure);
            put(&mut response, CONTENT_RANGE, &format!("bytes */{length}"));
            return Ok(response);
        }
    };
    let body = if from == to { Body::empty() } else { of_file(file, from, to) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    put(&mut response, CONTENT_TYPE, media_type);
    put(&mut response, CONTENT_LENGTH, &(to - from).to_string());
    put(&mut response, ACCEPT_RANGES, "bytes");
    put(&mut response, CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\""));
    if status == StatusCode::PARTIAL_CONTENT {
        put(&mut response, CONTENT_RANGE, &format!("bytes {from}-{}/{length}", to - 1));
    }
    Ok(response)
}

fn put(response: &mut Response, name: axum::http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
