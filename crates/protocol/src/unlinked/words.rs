//! What payloads of schema 1.0 say, by whichever name.
//!
//! The schema names few members. What others use for the rest is read where it is there.

use std::collections::BTreeSet;

use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::role::Role;
use serde_json::Value;

use crate::session::ProposalDecision;

/// The first of these members that is a text.
pub(super) fn text<'e>(event: &'e Event, names: &[&str]) -> Option<&'e str> {
    names.iter().find_map(|name| event.payload.get(name).and_then(Value::as_str))
}

/// The event that the first of these members names: by its id, or as an object with its id.
pub(super) fn named<'e>(event: &'e Event, names: &[&str]) -> Option<&'e str> {
    names.iter().find_map(|name| event.payload.get(name).and_then(id))
}

/// The events that the first of these members names, one or several.
pub(super) fn several<'e>(event: &'e Event, names: &[&str]) -> Option<Vec<&'e str>> {
    names.iter().find_map(|name| match event.payload.get(name)? {
        Value::Array(elements) => {
            let ids: Vec<&str> = elements.iter().filter_map(id).collect();
            (!ids.is_empty()).then_some(ids)
        }
        one => id(one).map(|id| vec![id]),
    })
}

fn id(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("event_id")?.as_str())
}

/// What a review decides, if it says so.
pub(super) fn decision(event: &Event) -> Option<ProposalDecision> {
    match text(event, &["decision", "proposal_status", "review_status", "status"])? {
        "approved" => Some(ProposalDecision::Approved),
        "conditional" | "conditionally_approved" => Some(ProposalDecision::Conditional),
        "rejected" | "blocked" => Some(ProposalDecision::Rejected),
        _ => None,
    }
}

/// The conditions of a review, each by its id or as it is worded.
pub(super) fn conditions(event: &Event) -> BTreeSet<String> {
    let listed = event.payload.get("conditions").and_then(Value::as_array);
    let name = |condition: &Value| {
        condition.as_str().or_else(|| condition.get("id")?.as_str()).map(str::to_owned)
    };
    listed.into_iter().flatten().filter_map(name).collect()
}

/// The conditions that an intent accepts.
pub(super) fn acknowledged(event: &Event) -> BTreeSet<String> {
    let listed = event.payload.get("acknowledged_conditions").and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// The hash of an input.
pub(super) fn input(event: &Event) -> Option<Hash> {
    text(event, &["normalized_input_hash", "input_hash"])?.parse().ok()
}

/// The hashes that a member lists.
pub(super) fn hashes(event: &Event, name: &str) -> BTreeSet<Hash> {
    let listed = event.payload.get(name).and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(|it| it.as_str()?.parse().ok()).collect()
}

/// The ids of the claims that a final statement stands by.
pub(super) fn consolidated(event: &Event) -> Vec<&str> {
    let listed = event.payload.get("consolidated_claim_ids").and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether a final statement takes a claim back.
pub(super) fn retracts(event: &Event, claim_id: &str) -> bool {
    let listed = event.payload.get("claim_resolutions").and_then(Value::as_array);
    listed.into_iter().flatten().any(|resolution| {
        let is =
            |name: &str, wanted: &str| resolution.get(name).and_then(Value::as_str) == Some(wanted);
        is("claim_id", claim_id) && (is("status", "retracted") || is("status", "superseded"))
    })
}

/// The id of a claim: the payload's, else the first that the event lists.
pub(super) fn claim_id(event: &Event) -> Option<&str> {
    text(event, &["claim_id"]).or_else(|| event.claims.first().map(String::as_str))
}

/// The roles that a member of the first event names.
pub(super) fn roles(event: &Event, name: &str) -> BTreeSet<Role> {
    let mut found = BTreeSet::new();
    if let Some(named) = event.payload.get(name) {
        collect_roles(named, &mut found);
    }
    found
}

fn collect_roles(value: &Value, found: &mut BTreeSet<Role>) {
    match value {
        Value::String(name) => found.extend(name.parse::<Role>()),
        Value::Array(elements) => elements.iter().for_each(|it| collect_roles(it, found)),
        Value::Object(members) => {
            let named = ["role", "roles"].into_iter().filter_map(|name| members.get(name));
            named.for_each(|it| collect_roles(it, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
