//! The table of the page on sessions, held against the code: every state, type and role.
#![cfg(test)]

mod session;

use std::collections::BTreeSet;

use countersign_format::event::{
    Draft, Event, EventRef, EventType, SignatureFaults, check_event, payload,
};
use countersign_format::hash::Hash;
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_format::shape::{Fields, Need, Shape};
use countersign_protocol::session::{
    ClaimKind, ClaimStatus, Lifecycle, Outcome, ProposalDecision, SessionCommand,
};
use countersign_protocol::{ReviewDecision, State as _};
use serde_json::{Map, Value, json};
use session::*;

const PAGE: &str = include_str!("../../../docs/formats/session.md");
const MARK: &str = "<!-- the table is read by a test: keep its form -->";

type Triple = (Lifecycle, EventType, Role);

/// What the table of `page` allows.
fn stated(page: &str) -> Result<BTreeSet<Triple>, String> {
    let (_, rest) = page.split_once(MARK).ok_or("the page has no table")?;
    let mut rows =
        rest.lines().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let cells = |row: &str| -> Vec<String> {
        row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let header = cells(rows.next().unwrap_or_default());
    let states = Lifecycle::ALL.map(Lifecycle::as_str);
    if header.first().map(String::as_str) != Some("type") || header[1..] != states {
        return Err(format!("the columns are {header:?}"));
    }
    let mut allowed = BTreeSet::new();
    let mut types = BTreeSet::new();
    for row in rows.skip(1) {
        let row = cells(row);
        let event = EventType::parse(row[0].trim_matches('`')).ok_or(format!("`{}`", row[0]))?;
        if row.len() != header.len() || !types.insert(event) {
            return Err(format!("the row of {}", row[0]));
        }
        for (state, cell) in Lifecycle::ALL.into_iter().zip(&row[1..]) {
            for letter in cell.split_whitespace() {
                allowed.insert((state, event, role(letter)?));
            }
        }
    }
    Ok(allowed)
}

fn role(letter: &str) -> Result<Role, String> {
    Role::ALL
        .into_iter()
        .find(|role| role.as_str()[..1].eq_ignore_ascii_case(letter))
        .ok_or_else(|| format!("`{letter}` is no role"))
}

/// What the code allows: some trace in this state admits some event of this type by this role. With
/// the number of triples that were tried.
fn observed() -> (BTreeSet<Triple>, usize) {
    let traces = representatives();
    let mut allowed = BTreeSet::new();
    let mut tried = 0;
    for state in Lifecycle::ALL {
        let here: Vec<_> = traces.iter().filter(|trace| trace.state.lifecycle() == state).collect();
        assert!(!here.is_empty(), "no trace is {}", state.as_str());
        for &event_type in EventType::ALL {
            let offers: Vec<_> =
                here.iter().map(|trace| (&trace.state, candidates(trace, event_type))).collect();
            for role in Role::ALL {
                tried += 1;
                let admitted = offers.iter().any(|(state, offered)| {
                    offered.iter().any(|event| {
                        let mut event = event.clone();
                        event.actor.role = role;
                        state.admit(&event).is_ok()
                    })
                });
                if admitted {
                    allowed.insert((state, event_type, role));
                }
            }
        }
    }
    (allowed, tried)
}

/// Traces in every state, several of each where there is more than one way to be in it.
fn representatives() -> Vec<Session> {
    use ProposalDecision::{Approved, Conditional, Rejected};
    let mut all = vec![Session::default()];
    let mut trace = Session::default();
    trace.run(open());
    all.push(trace.clone());
    let proposed = trace.run(propose(proposal()));
    all.push(trace.clone());

    let mut other = trace.clone();
    other.run(judge(&proposed, Rejected));
    all.push(other.clone());
    let revised = propose(countersign_protocol::session::Proposal {
        revises: Some(proposed.clone()),
        ..proposal()
    });
    other.run(revised);
    all.push(other);

    let mut other = trace.clone();
    other.run(judge(&proposed, Conditional));
    all.push(other.clone());
    other.run(judge(&proposed, Rejected));
    all.push(other);

    trace.run(judge(&proposed, Approved));
    all.push(trace.clone());
    let signed = trace.run(intend(intent(&proposed, RiskClass::Low, "input")));
    all.push(trace.clone());
    let started = trace.run(start(&signed, "input"));
    all.push(trace.clone());

    let mut other = trace.clone();
    other.run(end(&started, Outcome::Failed("it broke".into()), "output"));
    all.push(other);

    trace.run(end(&started, Outcome::Completed, "output"));
    all.push(trace.clone());
    let mut other = trace.clone();
    let signed = other.run(intend(intent(&proposed, RiskClass::Low, "input")));
    all.push(other.clone());
    other.run(start(&signed, "input"));
    all.push(other);

    let claimed = trace.run(issue(claim(1, &started, "output")));
    all.push(trace.clone());
    let mut other = trace.clone();
    other.run(challenge(&claimed, 1));
    all.push(other);
    all.extend(ends(trace));
    all
}

/// From the final statement on.
fn ends(mut trace: Session) -> Vec<Session> {
    let mut all = Vec::new();
    let mut ended = Vec::new();
    let mut planned = Session::default();
    planned.run(open());
    for command in [abort(), fail()] {
        let mut other = planned.clone();
        other.run(command);
        ended.push(other);
    }
    trace.run(conclude(&[]));
    all.push(trace.clone());
    trace.run(start_audit());
    all.push(trace.clone());
    for command in [
        complete_audit(VerificationStatus::Pass),
        complete_audit(VerificationStatus::PassWithWarnings),
        complete_audit(VerificationStatus::Fail),
        abort(),
        fail(),
    ] {
        let mut other = trace.clone();
        other.run(command);
        ended.push(other);
    }
    for mut trace in ended {
        all.push(trace.clone());
        trace.run(start_audit());
        all.push(trace);
    }
    all
}

/// Well-formed events of a type, of which one may follow `trace` if any of this type may.
fn candidates(trace: &Session, event_type: EventType) -> Vec<Event> {
    let offered: Vec<Event> = match commands(trace, event_type) {
        Some(commands) => commands.into_iter().map(|it| trace.offer(it).unwrap()).collect(),
        None => {
            let mut payload = sample(&Shape::Object(payload::fields(event_type)));
            if event_type == EventType::VerificationRunCompleted {
                payload["run"] = json!(last(trace, EventType::VerificationRunStarted));
            }
            vec![event(trace.seq(), Role::Recorder, Draft::new(event_type, payload))]
        }
    };
    for event in &offered {
        let value = serde_json::to_value(event).unwrap();
        assert_eq!(check_event(&value, SignatureFaults::LeftOut), [], "{}", event_type.as_str());
    }
    offered
}

/// The commands that bring events of a type, if there are any.
fn commands(trace: &Session, event_type: EventType) -> Option<Vec<SessionCommand>> {
    use EventType as T;
    let each = |of: T, command: &dyn Fn(EventRef) -> Vec<SessionCommand>| {
        places(trace, of).into_iter().flat_map(command).collect()
    };
    let reviews = [ReviewDecision::Approved, ReviewDecision::Blocked, ReviewDecision::Asked];
    Some(match event_type {
        T::SessionInitialized => vec![open()],
        T::ProposalCreated => vec![propose(proposal())],
        T::ProposalReviewed => {
            each(T::ProposalCreated, &|it| vec![judge(&it, ProposalDecision::Approved)])
        }
        T::ToolIntentSigned => each(T::ProposalCreated, &|it| {
            vec![intend(intent(&it, RiskClass::Low, "another input"))]
        }),
        T::ToolIntentReviewed => each(T::ToolIntentSigned, &|it| {
            reviews.map(|decision| review(Role::Critic, &it, decision)).to_vec()
        }),
        T::ToolExecutionStarted => each(T::ToolIntentSigned, &|it| vec![start(&it, "input")]),
        T::ToolExecutionCompleted => {
            each(T::ToolExecutionStarted, &|it| vec![end(&it, Outcome::Completed, "output")])
        }
        T::ToolExecutionFailed => each(T::ToolExecutionStarted, &|it| vec![lose(&it)]),
        T::ArtifactRecorded => vec![SessionCommand::RecordArtifact {
            by: Role::Executor,
            purpose: "to see".into(),
            artifacts: vec![artifact("evidence")],
        }],
        T::ClaimIssued => each(T::ToolExecutionStarted, &|it| {
            [ClaimKind::Result, ClaimKind::FailureAnalysis]
                .map(|kind| {
                    let claim = claim(2, &it, "output");
                    issue(countersign_protocol::session::Claim { kind, ..claim })
                })
                .to_vec()
        }),
        T::ClaimChallenged => each(T::ClaimIssued, &|it| vec![challenge(&it, 1)]),
        T::FinalStatementSigned => {
            vec![conclude(&[]), conclude(&[(1, ClaimStatus::Upheld)])]
        }
        T::VerificationRunStarted => vec![start_audit()],
        T::ArtifactRedacted => {
            vec![SessionCommand::Redact { artifact_hash: Hash::of(b"output"), reason: "so".into() }]
        }
        T::SessionAborted => vec![abort()],
        T::SessionFailed => vec![fail()],
        _ => return None,
    })
}

/// The events of a type; where there is none, a place where none can be.
fn places(trace: &Session, event_type: EventType) -> Vec<EventRef> {
    let of_type = trace.events.iter().filter(|event| event.event_type == event_type);
    let mut found: Vec<_> = of_type
        .map(|event| EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap() })
        .collect();
    if found.is_empty() {
        found.push(EventRef { event_id: context(99).next_id.to_string(), seq: 99 });
    }
    found
}

fn last(trace: &Session, event_type: EventType) -> EventRef {
    places(trace, event_type).pop().unwrap()
}

/// Some value of a shape, with the members that must be there.
fn sample(shape: &Shape) -> Value {
    match shape {
        Shape::Any | Shape::Text | Shape::NonEmptyText | Shape::Quoted | Shape::Name => {
            json!("text")
        }
        Shape::Bool => json!(true),
        Shape::Integer(from, _) => json!(from),
        Shape::Number => json!(0.5),
        Shape::Hash => json!(Hash::of(b"text")),
        Shape::Ulid => json!(context(0).next_id),
        Shape::ClaimId => json!(claim_id(1)),
        Shape::Time => json!(at(0)),
        Shape::Version => json!("1.1.0"),
        // That of a key must be a key.
        Shape::Base64(_) => json!("iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="),
        Shape::StorePath => json!("torn/0-0"),
        Shape::OneOf(names) => json!(names[0]),
        Shape::Nullable(_) => Value::Null,
        Shape::List(of) => json!([sample(of)]),
        Shape::MapOf(_) => json!({}),
        Shape::Object(Fields { fields, .. }) => {
            let needed = fields.iter().filter(|field| field.need != Need::Optional);
            let members: Map<_, _> =
                needed.map(|field| (field.name.to_owned(), sample(&field.shape))).collect();
            Value::Object(members)
        }
    }
}

/// Triples on which the two differ.
fn differences(one: &BTreeSet<Triple>, other: &BTreeSet<Triple>) -> Vec<String> {
    one.symmetric_difference(other)
        .map(|(state, event, role)| format!("{} {} {role}", state.as_str(), event.as_str()))
        .collect()
}

#[test]
fn every_state_type_and_role_is_as_the_page_says() {
    let (allowed, tried) = observed();
    assert_eq!(tried, 9 * 43 * 6);
    assert_eq!(differences(&stated(PAGE).unwrap(), &allowed), [""; 0]);
    assert_eq!(allowed.len(), 73);
}

/// The comparison bites: every letter that is put into the table, or taken from it, is noticed.
#[test]
fn a_table_with_one_letter_changed_is_refused() {
    let (allowed, _) = observed();
    let (before, table) = PAGE.split_once(MARK).unwrap();
    let mut altered = 0;
    for (number, row) in table.lines().enumerate() {
        let Some(name) = row.strip_prefix("| `").and_then(|row| row.split('`').next()) else {
            continue;
        };
        let Some(event) = EventType::parse(name).filter(|_| row.matches('|').count() == 11) else {
            continue;
        };
        for (column, state) in (2..).zip(Lifecycle::ALL) {
            for role in Role::ALL {
                let rows = table.lines().enumerate().map(|(at, row)| match at == number {
                    true => toggled(row, column, role),
                    false => row.to_owned(),
                });
                let page = format!("{before}{MARK}{}", rows.collect::<Vec<_>>().join("\n"));
                let found = differences(&stated(&page).unwrap(), &allowed);
                assert_eq!(found, [format!("{} {} {role}", state.as_str(), event.as_str())]);
                altered += 1;
            }
        }
    }
    assert_eq!(altered, 19 * 9 * 6);
}

/// The row with the letter of `role` in the cell at `column` if it was not there, else without.
fn toggled(row: &str, column: usize, role: Role) -> String {
    let letter = role.as_str()[..1].to_uppercase();
    let mut cells: Vec<String> = row.split('|').map(str::to_owned).collect();
    let cell = &cells[column];
    cells[column] = match cell.contains(&letter) {
        true => cell.replace(&letter, ""),
        false => format!("{cell} {letter} "),
    };
    cells.join("|")
}

#[test]
fn a_page_without_the_table_or_with_another_form_is_refused() {
    assert!(stated("no table").is_err());
    assert!(stated(&PAGE.replace("| planning | reviewing |", "| reviewing | planning |")).is_err());
    assert!(stated(&PAGE.replace("| `claim_issued` |", "| `claim_made` |")).is_err());
    assert!(stated(&PAGE.replace("| C O | C O |", "| C O | C X |")).is_err());
}
