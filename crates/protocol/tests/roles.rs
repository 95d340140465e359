//! The role table, held against the table of the design: all kinds, types and roles.
#![cfg(test)]

use countersign_format::event::{EventType, TraceKind};
use countersign_format::role::Role;
use countersign_protocol::roles::allowed;

/// Kind, types, roles. Whatever is not listed is not allowed.
const TABLE: &[(&str, &str, &str)] = &[
    ("log", "log_opened key_added key_rotated key_revoked", "recorder"),
    ("log", "trace_opened trace_checkpointed trace_closed artifact_redacted", "recorder"),
    ("session", "session_initialized proposal_created", "planner"),
    ("session", "proposal_reviewed claim_challenged", "critic"),
    (
        "session",
        "tool_intent_signed tool_execution_started tool_execution_completed \
         tool_execution_failed claim_issued final_statement_signed",
        "executor",
    ),
    ("session", "tool_intent_reviewed", "critic operator"),
    ("session", "artifact_recorded", "executor auditor"),
    (
        "session",
        "verification_run_started verification_run_completed coverage_reported artifact_redacted",
        "auditor",
    ),
    ("session", "session_aborted", "operator"),
    ("session", "session_failed", "recorder"),
    (
        "recording",
        "session_initialized tools_listed tool_intent_signed tool_execution_started \
         tool_execution_completed tool_execution_failed artifact_recorded \
         final_statement_signed verification_run_started verification_run_completed \
         coverage_reported session_failed",
        "recorder",
    ),
    ("recording", "tool_intent_reviewed", "recorder operator"),
    ("recording", "artifact_redacted", "auditor"),
    ("recording", "session_aborted", "operator"),
    (
        "work",
        "work_opened lease_granted lease_renewed lease_released agent_session_completed \
         exit_refused artifact_redacted",
        "recorder",
    ),
    ("work", "work_unblocked clock_confirmed", "operator"),
    (
        "flow",
        "flow_started step_dispatched step_skipped step_answered files_applied step_escalated \
         flow_finished artifact_redacted",
        "recorder",
    ),
    ("flow", "answer_given", "operator recorder"),
];

#[test]
fn every_kind_type_and_role_is_as_the_table_says() {
    let mut triples = 0;
    for kind in TraceKind::ALL {
        for &event in EventType::ALL {
            for role in Role::ALL {
                // A torn tail can be found in any ledger.
                let recovered = event == EventType::SessionRecovered && role == Role::Recorder;
                let wanted = recovered
                    || TABLE.iter().any(|(in_kind, types, roles)| {
                        *in_kind == kind.as_str()
                            && types.split_whitespace().any(|name| name == event.as_str())
                            && roles.split_whitespace().any(|name| name == role.as_str())
                    });
                assert_eq!(
                    allowed(kind, event).contains(&role),
                    wanted,
                    "{} {} {}",
                    kind.as_str(),
                    event.as_str(),
                    role.as_str()
                );
                triples += 1;
            }
        }
    }
    assert_eq!(triples, 5 * EventType::ALL.len() * 6);
}

#[test]
fn the_table_names_only_types_that_exist() {
    for (_, types, roles) in TABLE {
        for name in types.split_whitespace() {
            assert!(EventType::parse(name).is_some(), "{name}");
        }
        for name in roles.split_whitespace() {
            assert!(name.parse::<Role>().is_ok(), "{name}");
        }
    }
}
