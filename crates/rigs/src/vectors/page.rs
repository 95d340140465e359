//! The tables of `event.md`, written from the tables that the checkers use.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use countersign_format::event::payload;
use countersign_format::event::{EventType, Since, TraceKind};
use countersign_format::shape::{Fields, Need, Shape};
use countersign_protocol::roles;

/// A table begins after a line with this and its name, and ends before [`END`].
const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end of generated part -->";

/// `page` with its generated parts written anew.
pub(super) fn with_tables(page: &str) -> Result<String, String> {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    let mut met = 0;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, body) = after.split_once(" -->\n").ok_or("a generated part without a name")?;
        let (_, tail) = body.split_once(END).ok_or("a generated part without an end")?;
        let table = match name {
            "event types" => event_types(),
            "payloads" => payloads(),
            other => return Err(format!("no table is called `{other}`")),
        };
        let _ = write!(out, "{before}{BEGIN}{name} -->\n{table}{END}");
        rest = tail;
        met += 1;
    }
    out.push_str(rest);
    if met == 2 { Ok(out) } else { Err(format!("event.md has {met} generated parts, expected 2")) }
}

/// One row per type: where it may stand and whose it is.
fn event_types() -> String {
    let mut out = String::from(
        "| type | since | signature | may stand in, and who records it |\n|---|---|---|---|\n",
    );
    for &event_type in EventType::ALL {
        let since = match event_type.since() {
            Since::V1_0 => "1.0",
            Since::V1_1 => "1.1",
        };
        let signature = if event_type.signature_is_mandatory() { "mandatory" } else { "" };
        let mut places: Vec<(Vec<&str>, String)> = Vec::new();
        for kind in TraceKind::ALL {
            let allowed = roles::allowed(kind, event_type);
            if allowed.is_empty() {
                continue;
            }
            let names: Vec<&str> = allowed.iter().map(|role| role.as_str()).collect();
            let who = names.join(" or ");
            let first = if event_type.opens().contains(&kind) { ", first event" } else { "" };
            let who = format!("{who}{first}");
            match places.iter_mut().find(|(_, same)| *same == who) {
                Some((kinds, _)) => kinds.push(kind.as_str()),
                None => places.push((vec![kind.as_str()], who)),
            }
        }
        let places: Vec<String> =
            places.iter().map(|(kinds, who)| format!("{}: {who}", kinds.join(", "))).collect();
        let _ = writeln!(
            out,
            "| `{}` | {since} | {signature} | {} |",
            event_type.as_str(),
            places.join("; ")
        );
    }
    out
}

/// The members of every payload, and of the objects inside them.
fn payloads() -> String {
    let mut out = String::new();
    let mut inner = BTreeMap::new();
    for &event_type in EventType::ALL {
        let fields = payload::fields(event_type);
        let _ = writeln!(out, "\n#### `{}`\n\n{}\n", event_type.as_str(), fields.doc);
        members(fields, &mut out);
        collect(fields, &mut inner);
    }
    out.push_str("\n### Objects inside payloads\n");
    for (name, fields) in inner {
        let _ = writeln!(out, "\n#### {name}\n\n{}\n", fields.doc);
        members(fields, &mut out);
    }
    out.push('\n');
    out
}

fn members(fields: &Fields, out: &mut String) {
    out.push_str("| member | required | value |\n|---|---|---|\n");
    for field in fields.fields {
        let need = match field.need {
            Need::Required => "yes",
            Need::RequiredSince1_1 => "since 1.1",
            Need::Optional => "no",
        };
        let _ = writeln!(out, "| `{}` | {need} | {} |", field.name, describe(&field.shape));
    }
}

fn collect(fields: &'static Fields, inner: &mut BTreeMap<&'static str, &'static Fields>) {
    for field in fields.fields {
        let mut shape = &field.shape;
        while let Shape::List(element) | Shape::Nullable(element) | Shape::MapOf(element) = shape {
            shape = element;
        }
        if let Shape::Object(object) = shape
            && inner.insert(object.name, object).is_none()
        {
            collect(object, inner);
        }
    }
}

fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Any => "any value".to_owned(),
        Shape::Bool => "boolean".to_owned(),
        Shape::Text => "text".to_owned(),
        Shape::NonEmptyText | Shape::Quoted => "text, not empty".to_owned(),
        Shape::Integer(min, max) if *max == countersign_format::json::INTEGER_MAX => {
            format!("integer from {min}")
        }
        Shape::Integer(min, max) => format!("integer from {min} to {max}"),
        Shape::Number => "number".to_owned(),
        Shape::Hash => "hash".to_owned(),
        Shape::Ulid => "ULID".to_owned(),
        Shape::ClaimId => "claim id".to_owned(),
        Shape::Name => "name".to_owned(),
        Shape::Time => "time".to_owned(),
        Shape::Version => "version".to_owned(),
        Shape::Base64(length) => format!("base64 of {length} bytes"),
        Shape::StorePath => "store path".to_owned(),
        Shape::OneOf(values) => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            values.join(", ")
        }
        Shape::Nullable(inner) => format!("null or {}", describe(inner)),
        Shape::List(inner) => format!("list of {}", describe(inner)),
        Shape::MapOf(inner) => format!("object with values: {}", describe(inner)),
        Shape::Object(fields) => {
            format!("[{}](#{})", fields.name, fields.name.to_ascii_lowercase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_what_is_not_generated() {
        let page = "a\n<!-- generated: event types -->\nSTALE\n<!-- end of generated part -->\nb\n\
                    <!-- generated: payloads -->\n<!-- end of generated part -->\nc\n";
        let written = with_tables(page).unwrap();
        assert!(written.starts_with("a\n<!-- generated: event types -->\n| type |"));
        assert!(written.ends_with("<!-- end of generated part -->\nc\n"));
        assert!(!written.contains("STALE"));
        assert_eq!(with_tables(&written).unwrap(), written);
        assert!(with_tables("no markers").is_err());
    }

    #[test]
    fn every_type_stands_in_some_kind_of_trace() {
        for line in event_types().lines().skip(2) {
            assert!(!line.ends_with("|  |"), "{line}");
        }
    }
}
