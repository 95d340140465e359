//! Parts of a text that are to be replaced.

use super::Counts;

/// Bytes that a rule takes for a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rule: &'static str,
}

const OPENS: &[u8] = b"[redacted:";

/// What stands in the place of a secret.
pub(super) fn marker(rule: &str) -> String {
    format!("[redacted:{rule}]")
}

/// The parts of `text` between replacements that were made before, by their places.
///
/// Nothing is looked for across a replacement: it would take the replacement for a part of a secret
/// and redact once more what is redacted.
pub(super) fn segments(text: &[u8]) -> Vec<(usize, usize)> {
    let (mut segments, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(opens) = rest.iter().position(|&byte| byte == b'[') else { break };
        at += opens;
        match marker_length(text.get(at..).unwrap_or_default()) {
            Some(length) => {
                segments.push((from, at));
                at += length;
                from = at;
            }
            None => at += 1,
        }
    }
    segments.push((from, text.len()));
    segments
}

/// How long the replacement is with which `text` starts.
fn marker_length(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(OPENS)?;
    let rule = super::RULES.iter().find(|rule| {
        rest.strip_prefix(rule.as_bytes()).is_some_and(|rest| rest.first() == Some(&b']'))
    })?;
    Some(OPENS.len() + rule.len() + 1)
}

/// Regions in the order of their places, those that overlap made one. The rule that is first in
/// the list of rules gives its name.
pub(super) fn merged(mut regions: Vec<Region>) -> Vec<Region> {
    let rank = |rule: &str| super::RULES.iter().position(|known| *known == rule);
    regions.retain(|region| region.start < region.end);
    regions.sort_by_key(|region| (region.start, region.end));
    let mut merged: Vec<Region> = Vec::new();
    for region in regions {
        match merged.last_mut() {
            Some(last) if region.start < last.end => {
                last.end = last.end.max(region.end);
                if rank(region.rule) < rank(last.rule) {
                    last.rule = region.rule;
                }
            }
            _ => merged.push(region),
        }
    }
    merged
}

/// `text` with every region replaced, each of which is counted.
pub(super) fn replaced(text: &[u8], regions: &[Region], counts: &mut Counts) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for region in regions {
        out.extend_from_slice(text.get(from..region.start).unwrap_or_default());
        out.extend_from_slice(marker(region.rule).as_bytes());
        from = region.end;
        *counts.entry(region.rule).or_default() += 1;
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    out
}
