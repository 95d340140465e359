//! What the single fields of a signal may hold.

use super::error::ExitSignalError;
use super::{EXIT_SIGNAL_PROTOCOL, NOTES_BYTES_MAX, PROTOCOL_BYTES_MAX, REFERENCE_BYTES_MAX};
use crate::path::is_invisible;
use crate::text;

type Check = Result<(), ExitSignalError>;

/// Reported in this order, whatever their order in the URL.
const SHELL_CHARACTERS: [char; 4] = [';', '|', '`', '$'];
/// Not allowed in a URL by any standard, and obeyed by pages, terminals or lenient URL readers.
const QUOTING_CHARACTERS: [char; 5] = ['\\', '"', '\'', '<', '>'];

const PR_URL: &str = "pr_url";
const EVIDENCE: &str = "evidence_bundle_ref";
const NOTES: &str = "notes";

pub(super) fn length(field: &'static str, value: &str, max: usize) -> Check {
    let actual = value.len();
    if actual > max { Err(ExitSignalError::FieldTooLong { field, actual, max }) } else { Ok(()) }
}

/// The part that says whose message this is. Lengths first, so that nothing long is repeated; the
/// protocol before the version, which means nothing in another protocol.
pub(super) fn protocol(protocol: &str, version: Option<&str>) -> Check {
    length("protocol", protocol, PROTOCOL_BYTES_MAX)?;
    if let Some(version) = version {
        length("version", version, PROTOCOL_BYTES_MAX)?;
    }
    if protocol != EXIT_SIGNAL_PROTOCOL {
        return Err(ExitSignalError::unknown_protocol(protocol));
    }
    match version {
        Some(version) if !is_version_1(version) => {
            Err(ExitSignalError::unsupported_version(version))
        }
        _ => Ok(()),
    }
}

/// `1.`, a number, `.`, a number; ASCII digits without leading zeros.
fn is_version_1(version: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let rest = version.strip_prefix("1.").and_then(|rest| rest.split_once('.'));
    rest.is_some_and(|(minor, patch)| number(minor) && number(patch))
}

pub(super) fn pr_url(url: &str) -> Check {
    length(PR_URL, url, REFERENCE_BYTES_MAX)?;
    let Some(rest) = url.strip_prefix("https://") else {
        return Err(ExitSignalError::insecure_url(url));
    };
    let dangerous = SHELL_CHARACTERS
        .into_iter()
        .chain(QUOTING_CHARACTERS)
        .find(|&character| url.contains(character))
        .or_else(|| url.chars().find(|&c| c.is_whitespace() || is_invisible(c)));
    if let Some(character) = dangerous {
        let seen = !character.is_whitespace() && !is_invisible(character);
        return Err(ExitSignalError::UrlInjection(if seen {
            character.to_string()
        } else {
            format!("U+{:04X}", u32::from(character))
        }));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(ExitSignalError::UrlUserInfo);
    }
    if !is_host_and_port(authority) {
        return Err(ExitSignalError::UrlHost);
    }
    usable(PR_URL, url)
}

fn is_host_and_port(authority: &str) -> bool {
    if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        return address.parse::<std::net::Ipv6Addr>().is_ok()
            && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port_holds) = match authority.split_once(':') {
        Some((host, port)) => (host, is_port(port)),
        None => (authority, true),
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    port_holds
        && host.bytes().all(letter)
        && host.split('.').all(|label| !label.is_empty() && !label.starts_with('-'))
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

pub(super) fn evidence(reference: &str) -> Check {
    length(EVIDENCE, reference, REFERENCE_BYTES_MAX)?;
    // A backslash separates too: on Windows `a\..\b` is as much a traversal as `a/../b`.
    if reference.starts_with('/') || reference.split(['/', '\\']).any(|part| part == "..") {
        return Err(ExitSignalError::PathTraversal { field: EVIDENCE });
    }
    let mut start = reference.bytes();
    let drive =
        start.next().is_some_and(|byte| byte.is_ascii_alphabetic()) && start.next() == Some(b':');
    let reason = if reference.is_empty() {
        "path is empty".to_owned()
    } else if reference.starts_with('~') {
        "path starts with `~`".to_owned()
    } else if drive {
        "path names a drive".to_owned()
    } else if reference.contains("://") {
        "path is a URL".to_owned()
    } else if reference.contains('\\') {
        "path contains a backslash".to_owned()
    } else if let Some(character) = reference.chars().find(|&character| is_invisible(character)) {
        format!("path contains the invisible character U+{:04X}", u32::from(character))
    } else {
        return usable(EVIDENCE, reference);
    };
    Err(ExitSignalError::UnusableText { field: EVIDENCE, reason })
}

pub(super) fn notes(notes: &str) -> Check {
    length(NOTES, notes, NOTES_BYTES_MAX)?;
    // Notes are normalised when the event is made; everything else must already fit into it.
    usable(NOTES, &text::to_nfc(notes))
}

fn usable(field: &'static str, value: &str) -> Check {
    text::check(value)
        .map_err(|fault| ExitSignalError::UnusableText { field, reason: fault.to_string() })
}
