//! `countersign keys trust`: the roots that the user trusts.

use std::path::Path;

use countersign_format::hash::Hash;
use countersign_runtime::known_roots::KnownRoots;
use countersign_verify::read_regular;
use serde_json::json;

use crate::{Caller, CommandError, Exit, Format};

pub(super) fn list(caller: &mut Caller) -> Result<Exit, CommandError> {
    let roots = KnownRoots::new(&caller.config()?).list().map_err(CommandError::failed)?;
    let output = &mut caller.output;
    if output.format() == Format::Json {
        let roots: Vec<_> = roots
            .iter()
            .map(|root| json!({ "fingerprint": root.fingerprint, "label": root.label }))
            .collect();
        output.json(&roots)?;
        return Ok(Exit::Done);
    }
    for root in &roots {
        output.line(format_args!("{}  {}", root.fingerprint, root.label))?;
    }
    Ok(Exit::Done)
}

pub(super) fn add(root: &str, label: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    let known = KnownRoots::new(&caller.config()?);
    let roots = fingerprints(root)?;
    for fingerprint in &roots {
        known.add(fingerprint, label).map_err(CommandError::failed)?;
    }
    let output = &mut caller.output;
    if output.format() == Format::Json {
        output.json(&json!({ "trusted": roots }))?;
        return Ok(Exit::Done);
    }
    for fingerprint in &roots {
        output.line(format_args!("{fingerprint}: trusted"))?;
    }
    Ok(Exit::Done)
}

/// Roots that were not trusted are a no, after the others are removed.
pub(super) fn remove(root: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    let known = KnownRoots::new(&caller.config()?);
    let (mut removed, mut unknown) = (Vec::new(), Vec::new());
    for fingerprint in fingerprints(root)? {
        let there = known.remove(&fingerprint).map_err(CommandError::failed)?;
        if there { removed.push(fingerprint) } else { unknown.push(fingerprint) }
    }
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({ "removed": removed, "not_trusted": unknown }))?,
        Format::Text => {
            for fingerprint in &removed {
                output.line(format_args!("{fingerprint}: no longer trusted"))?;
            }
            for fingerprint in &unknown {
                output.line(format_args!("{fingerprint}: was not trusted"))?;
            }
            if !unknown.is_empty() {
                output.hint("run `countersign keys trust` to see which roots you trust");
            }
        }
    }
    Ok(if unknown.is_empty() { Exit::Done } else { Exit::No })
}

/// Bytes that a file of fingerprints may have.
const FINGERPRINTS_BYTES_MAX: u64 = 1 << 20;

/// The fingerprints that `text` means: one, or the first word of each line of a file.
pub(crate) fn fingerprints(text: &str) -> Result<Vec<Hash>, CommandError> {
    if let Ok(fingerprint) = text.parse() {
        return Ok(vec![fingerprint]);
    }
    let path = Path::new(text);
    if !path.exists() {
        let error = format!("`{text}` is neither a fingerprint nor a file");
        return Err(CommandError::usage(error).with_hint(
            "a fingerprint is 64 lowercase hexadecimal digits; `countersign keys list` shows yours",
        ));
    }
    let doing = || format!("cannot read `{}`", path.display());
    let content = read_regular(path, FINGERPRINTS_BYTES_MAX)
        .and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
    let content = content.map_err(|error| CommandError::failed_doing(doing(), error))?;
    let lines = content.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let first = line.split_whitespace().next().unwrap_or_default();
            first.parse().map_err(|error| {
                CommandError::failed_doing(
                    format!("cannot use a line of `{}`", path.display()),
                    error,
                )
            })
        })
        .collect()
}
