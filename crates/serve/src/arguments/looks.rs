//! What a text looks like of which nobody says what it is.

use countersign_format::risk::RiskClass;
use countersign_gate::Decision;
use countersign_gate::guard::{Proposed, Strictness, judge};

/// Names that no sentence has as a part of a path.
const KEPT: &[&str] = &[
    ".countersign",
    ".capseal",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".mcp.json",
    ".git",
    ".env",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
];

/// What a text looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing that matters.
    Nothing,
    /// This file.
    File(String),
    /// A path that may lead anywhere.
    Elsewhere,
}

/// What a text of one line looks like.
pub(super) fn look_at(text: &str) -> Look {
    let spaced = text.contains(char::is_whitespace);
    if let Some(local) = local(text) {
        return Look::File(local);
    }
    if text.is_empty() || is_address(text) {
        return Look::Nothing;
    }
    let parts: Vec<String> = text.split(['/', '\\']).map(str::to_lowercase).collect();
    let kept = |part: &String| KEPT.contains(&&**part) || part.starts_with(".env.");
    if parts.iter().any(kept) {
        return if spaced { Look::Elsewhere } else { Look::File(text.to_owned()) };
    }
    let starts = |letter: Option<char>| {
        letter.is_some_and(|it| it.is_alphanumeric() || matches!(it, '.' | '_' | '-'))
    };
    let mut letters = text.chars();
    let elsewhere = match (letters.next(), letters.next()) {
        (Some('/'), Some('/')) => starts(letters.next()),
        (Some('/'), next) => starts(next) || next.is_none(),
        (Some('~'), next) => matches!(next, None | Some('/')) || text.contains('/'),
        (Some('\\'), Some('\\')) => starts(letters.next()),
        (Some(drive), Some(':')) => {
            drive.is_ascii_alphabetic() && matches!(letters.next(), Some('/' | '\\'))
        }
        _ => false,
    };
    let up = parts.iter().any(|part| part == "..") && (!spaced || text.starts_with(".."));
    if elsewhere || up { Look::Elsewhere } else { Look::Nothing }
}

/// Whether a text is an address on the network.
pub(super) fn is_address(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else { return false };
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '-' | '.');
    !scheme.is_empty() && scheme.chars().all(plain) && !scheme.eq_ignore_ascii_case("file")
}

/// The path in a `file:` address.
pub(super) fn local(text: &str) -> Option<String> {
    let scheme = text.get(..5).filter(|start| start.eq_ignore_ascii_case("file:"))?;
    let rest = text.get(scheme.len()..)?.replace('\\', "/");
    // A sentence goes on behind the colon.
    if rest.is_empty() || rest.starts_with(char::is_whitespace) {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        // The name of a machine stands before the path.
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
        None => &rest,
    };
    Some(decoded(path).unwrap_or_else(|| path.to_owned()))
}

/// A text whose letters may be written as numbers, as addresses have them; none if there are none.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    let mut found = false;
    while let Some((&byte, rest)) = left.split_first() {
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(meant)) => {
                found = true;
                bytes.push(meant);
                left = rest.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                left = rest;
            }
        }
    }
    found.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Why a guard objects to a text, if it is run as a command; `strictly` counts what it would only ask
/// about as well.
pub(super) fn objection(text: &str, strictly: bool) -> Option<String> {
    let action = Proposed {
        tool: "exec",
        argv: &[],
        shell: Some(text),
        paths: &[],
        content: None,
        stdin: None,
        env: None,
        risk: RiskClass::Standard,
        network_granted: true,
    };
    // Most texts are no commands, so what is not understood says nothing.
    let verdict = judge(&action, Strictness::Lenient);
    let least = if strictly { Decision::Ask } else { Decision::Deny };
    let mut reasons = verdict.deciding();
    reasons.next().filter(|_| verdict.decision() >= least).map(ToString::to_string)
}
