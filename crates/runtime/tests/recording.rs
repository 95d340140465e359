//! Recordings, from the command to the disk and back through the verifier.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{EventRef, EventType};
use countersign_format::hash::Hash;
use countersign_format::report::{Closed, FailureCode, Signer, VerificationStatus};
use countersign_protocol::Refusal;
use countersign_protocol::ReviewDecision;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::{ENVOY_COMMANDS_MAX, WriteError};
use countersign_testkit::{TestHome, note};
use countersign_verify::{OpenTraces, Profile, exit_status};

fn last(events: &[countersign_format::event::Event]) -> EventRef {
    let event = events.last().unwrap();
    EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap() }
}

fn intend() -> RecordingCommand {
    RecordingCommand::Intend {
        tool_name: "exec".into(),
        input_hash: Hash::of(b"ls"),
        safety_classification: "low".into(),
        justification: "to see what is there".into(),
        artifacts: vec![],
    }
}

#[test]
fn a_recording_goes_from_its_first_event_to_its_close() {
    let home = TestHome::new();
    let recording = home.recording();
    let intent = last(&recording.submit(intend()).unwrap().events);
    let approve = RecordingCommand::Review {
        intent: intent.clone(),
        decision: ReviewDecision::Approved,
        reasons: vec!["read only".into()],
    };
    recording.submit(approve).unwrap();
    let start = last(&recording.submit(RecordingCommand::Start { intent }).unwrap().events);
    let output = recording.put_artifact(b"Cargo.toml\n", "text/plain").unwrap();
    recording
        .submit(RecordingCommand::Complete {
            execution: start,
            exit_status: 0,
            artifacts: vec![output.clone()],
        })
        .unwrap();
    let report = recording.conclude("done").unwrap();
    assert_eq!(report.verification_status, VerificationStatus::Pass, "{report:#?}");

    let report = home.check(recording.id(), 8);
    assert_eq!(report.closed, Closed::Yes);
    assert_eq!(exit_status(&report, OpenTraces::Incomplete), 0);
    let text = std::fs::read_to_string(home.workspace.trace_file(recording.id())).unwrap();
    assert!(text.contains(&output.artifact_hash.to_hex()));
}

#[test]
fn an_open_recording_is_intact_but_not_closed() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.submit(note("one")).unwrap();
    let report = home.check(recording.id(), 2);
    assert_eq!(report.closed, Closed::No);
    assert_eq!(exit_status(&report, OpenTraces::Incomplete), 4);
    assert_eq!(exit_status(&report, OpenTraces::Accepted), 0);
}

#[test]
fn a_blocked_intent_cannot_start_and_its_refusal_changes_nothing() {
    let home = TestHome::new();
    let recording = home.recording();
    let intent = last(&recording.submit(intend()).unwrap().events);
    let block = RecordingCommand::Review {
        intent: intent.clone(),
        decision: ReviewDecision::Blocked,
        reasons: vec![],
    };
    recording.submit(block).unwrap();
    let refused = recording.submit(RecordingCommand::Start { intent }).unwrap_err();
    assert!(matches!(refused, WriteError::Refused(Refusal::NoSuchReference { .. })), "{refused}");
    recording.submit(note("goes on")).unwrap();
    home.check(recording.id(), 4);
}

#[test]
fn nothing_but_redactions_and_audits_follows_the_end() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.conclude("done").unwrap();
    let refused = recording.submit(note("late")).unwrap_err();
    assert!(
        matches!(
            refused,
            WriteError::Refused(Refusal::Ended { found: EventType::ArtifactRecorded })
        ),
        "{refused}"
    );
    let redact = RecordingCommand::Redact { artifact_hash: Hash::of(b"x"), reason: "test".into() };
    recording.submit(redact).unwrap();
    let report = home.check(recording.id(), 5);
    assert_eq!(report.closed, Closed::Yes);
}

#[test]
fn a_final_statement_is_refused_whole_while_a_tool_is_running() {
    let home = TestHome::new();
    let recording = home.recording();
    let intent = last(&recording.submit(intend()).unwrap().events);
    recording.submit(RecordingCommand::Start { intent }).unwrap();
    let conclude = RecordingCommand::Conclude { verdict: "done".to_owned(), achieved: None };
    let refused = recording.submit(conclude).unwrap_err();
    assert!(refused.to_string().contains("still under way"), "{refused}");
    recording.submit(note("still open")).unwrap();
    home.check(recording.id(), 4);
}

#[test]
fn whoever_concludes_ends_what_is_running_as_unknown() {
    let home = TestHome::new();
    let recording = home.recording();
    let intent = last(&recording.submit(intend()).unwrap().events);
    recording.submit(RecordingCommand::Start { intent }).unwrap();
    recording.conclude("done").unwrap();
    let events = home.events(recording.id());
    let ended = &events[3];
    assert_eq!(ended.event_type, EventType::ToolExecutionFailed);
    assert_eq!(ended.payload["outcome"], "unknown");
    let report = home.check(recording.id(), 7);
    assert_eq!(report.closed, Closed::Yes);
}

#[test]
fn two_writers_of_one_recording_build_one_chain() {
    let home = TestHome::new();
    let first = home.recording();
    let second = home.reopen();
    let second = second.recording(first.id()).unwrap();
    for round in 0..20 {
        first.submit(note(&format!("first {round}"))).unwrap();
        second.submit(note(&format!("second {round}"))).unwrap();
    }
    home.check(first.id(), 41);
}

#[test]
fn sixty_four_callers_share_syncs_and_none_is_lost() {
    let home = TestHome::new();
    let recording = home.recording();
    std::thread::scope(|scope| {
        for caller in 0..64 {
            let recording = &recording;
            scope.spawn(move || {
                for round in 0..20 {
                    recording.submit(note(&format!("{caller} {round}"))).unwrap();
                }
            });
        }
    });
    home.check(recording.id(), 64 * 20 + 1);
}

#[test]
fn an_envoy_hears_once_of_each_command_that_it_sent() {
    let home = TestHome::new();
    let recording = home.recording();
    let mut envoy = recording.envoy();
    let sent: BTreeSet<_> =
        (0..64).map(|caller| envoy.send(note(&caller.to_string())).unwrap()).collect();
    let mut heard = BTreeSet::new();
    let mut events = BTreeSet::new();
    while let Some((ticket, answer)) = envoy.hear() {
        assert!(heard.insert(ticket), "{ticket:?} was answered twice");
        events.extend(answer.unwrap().events.into_iter().map(|event| event.event_id));
    }
    assert_eq!((&heard, events.len()), (&sent, 64));
    home.check(recording.id(), 65);
}

#[test]
fn envoys_and_callers_build_one_chain() {
    let home = TestHome::new();
    let recording = home.recording();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let recording = &recording;
            scope.spawn(move || {
                for round in 0..40 {
                    recording.submit(note(&format!("{thread} {round}"))).unwrap();
                }
            });
            scope.spawn(move || {
                let mut envoy = recording.envoy();
                for round in 0..10 {
                    for caller in 0..16 {
                        envoy.send(note(&format!("{thread} {caller} {round}"))).unwrap();
                    }
                    while let Some((_, answer)) = envoy.hear() {
                        answer.unwrap();
                    }
                }
            });
        }
    });
    home.check(recording.id(), 4 * 40 + 4 * 160 + 1);
}

#[test]
fn a_crew_records_for_envoys_and_callers_and_is_gone_afterwards() {
    let home = TestHome::new();
    let recording = home.recording();
    let heard = recording.with_crew(|| {
        std::thread::scope(|scope| {
            let recording = &recording;
            let callers: Vec<_> = (0..8)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut heard = 0;
                        for round in 0..10 {
                            recording.submit(note(&format!("{thread} {round}"))).unwrap();
                            let mut envoy = recording.envoy();
                            for caller in 0..16 {
                                envoy.send(note(&format!("{thread} {caller} {round}"))).unwrap();
                            }
                            while let Some((_, answer)) = envoy.hear() {
                                heard += answer.unwrap().events.len();
                            }
                        }
                        heard
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum::<usize>()
        })
    });
    assert_eq!(heard, 8 * 160);
    // Nobody waits for who is gone.
    recording.submit(note("without a crew")).unwrap();
    home.check(recording.id(), 8 * 170 + 2);
}

/// Two crews of one recording: who dismisses its own leaves the other's.
#[test]
fn a_crew_goes_and_another_stays() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.with_crew(|| {
        recording.with_crew(|| recording.submit(note("with both")).unwrap());
        recording.submit(note("with one")).unwrap();
    });
    home.check(recording.id(), 3);
}

/// Threads of a crew are joined and callers are answered, whatever becomes of the work.
#[test]
fn a_crew_is_dismissed_by_a_panic() {
    let home = TestHome::new();
    let recording = home.recording();
    let work = || {
        recording.with_crew(|| {
            recording.submit(note("before")).unwrap();
            panic!("the work is broken");
        })
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
    recording.submit(note("after")).unwrap();
    home.check(recording.id(), 3);
}

#[test]
fn an_envoy_that_goes_waits_for_what_it_sent() {
    let home = TestHome::new();
    let recording = home.recording();
    let mut envoy = recording.envoy();
    for caller in 0..8 {
        envoy.send(note(&caller.to_string())).unwrap();
    }
    drop(envoy);
    home.check(recording.id(), 9);
}

/// Whoever is not there to hear is given nothing to do: others would wait for it.
#[test]
fn nobody_waits_for_an_envoy_that_is_about_other_things() {
    let home = TestHome::new();
    let recording = home.recording();
    let mut envoy = recording.envoy();
    for round in 0..8 {
        envoy.send(note(&format!("of the envoy {round}"))).unwrap();
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let recording = &recording;
                scope.spawn(move || {
                    recording.submit(note(&format!("of another {round} {caller}"))).unwrap();
                });
            }
        });
    }
    for _ in 0..8 {
        envoy.hear().unwrap().1.unwrap();
    }
    assert!(envoy.hear().is_none());
    home.check(recording.id(), 8 + 32 + 1);
}

/// It did more than fits into one batch, nobody was there to make room, and who had led went to sleep
/// without a look at what was left.
#[test]
fn a_caller_behind_more_than_a_batch_of_an_envoy_is_answered() {
    let home = TestHome::new();
    let recording = home.recording();
    let mut envoy = recording.envoy();
    let text = "x".repeat(5_000);
    for _ in 0..ENVOY_COMMANDS_MAX {
        envoy.send(note(&text)).unwrap();
    }
    recording.submit(note("behind it")).unwrap();
    drop(envoy);
    home.check(recording.id(), ENVOY_COMMANDS_MAX as u64 + 2);
}

#[test]
fn an_envoy_has_no_more_under_way_than_it_may() {
    let home = TestHome::new();
    let recording = home.recording();
    let mut envoy = recording.envoy();
    for number in 0..ENVOY_COMMANDS_MAX {
        envoy.send(note(&number.to_string())).unwrap();
    }
    let refused = envoy.send(note("one more")).unwrap_err();
    assert_eq!(refused.to_string(), "256 commands wait for their answers, which is the limit");
    envoy.hear().unwrap().1.unwrap();
    envoy.send(note("one more")).unwrap();
    drop(envoy);
    home.check(recording.id(), ENVOY_COMMANDS_MAX as u64 + 2);
}

#[test]
fn an_envoy_is_told_which_of_its_commands_the_rules_refuse() {
    let home = TestHome::new();
    let recording = home.recording();
    let mut envoy = recording.envoy();
    let good = envoy.send(note("good")).unwrap();
    let intent = EventRef { event_id: "01m7gshs9s12rmnpmjtn1m4rpk".into(), seq: 7 };
    let bad = envoy.send(RecordingCommand::Start { intent }).unwrap();
    let answers: BTreeMap<_, _> = std::iter::from_fn(|| envoy.hear()).collect();
    assert!(answers[&good].is_ok());
    assert!(matches!(answers[&bad], Err(WriteError::Refused(_))), "{:?}", answers[&bad]);
    drop(envoy);
    home.check(recording.id(), 2);
}

#[test]
fn the_log_is_told_of_every_thousand_and_twenty_fourth_event() {
    let home = TestHome::new();
    let recording = home.recording();
    for round in 0..1100 {
        recording.submit(note(&round.to_string())).unwrap();
    }
    home.check(recording.id(), 1101);
    let log = std::fs::read_to_string(home.path().join("log/events.jsonl")).unwrap();
    assert_eq!(log.matches("\"trace_checkpointed\"").count(), 2, "once as type, once as payload");
    assert!(log.contains("\"size\":1024"));
}

#[test]
fn time_that_runs_backwards_is_clamped_and_the_clock_kept_beside_it() {
    let home = TestHome::new();
    let recording = home.recording();
    home.clock.advance(-5_000);
    let recorded = recording.submit(note("earlier")).unwrap();
    let event = &recorded.events[0];
    assert_eq!(event.created_at.to_string(), "2026-02-03T04:05:06.000Z");
    assert_eq!(event.raw_clock.unwrap().to_string(), "2026-02-03T04:05:01.000Z");
    home.check(recording.id(), 2);
}

#[test]
fn a_torn_tail_is_set_aside_and_the_next_writer_says_so() {
    let home = TestHome::new();
    let id = home.recording().id();
    let path = home.workspace.trace_file(id);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"actor\":{\"agent_id\":\"rec");
    std::fs::write(&path, &bytes).unwrap();
    let report = home.verify(id);
    assert_eq!(report.failures, []);
    assert_eq!(report.warnings[0].warning_code, "TORN_TAIL");

    let workspace = home.reopen();
    let recording = workspace.recording(id).unwrap();
    recording.submit(note("after")).unwrap();
    home.check(id, 3);
    let torn = path.parent().unwrap().join("torn");
    let kept = std::fs::read_dir(torn).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read(kept).unwrap(), b"{\"actor\":{\"agent_id\":\"rec");
}

#[test]
fn a_damaged_ledger_is_left_alone() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.submit(note("to be edited")).unwrap();
    let path = home.workspace.trace_file(recording.id());
    let text = std::fs::read_to_string(&path).unwrap().replace("to be edited", "was edited!!");
    std::fs::write(&path, &text).unwrap();
    let workspace = home.reopen();
    let error = workspace.recording(recording.id()).unwrap_err();
    assert!(error.to_string().contains("damaged ledger"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let report = home.verify(recording.id());
    let codes: Vec<_> = report.failures.iter().map(|failure| failure.failure_code).collect();
    assert_eq!(codes, [FailureCode::HashMismatch, FailureCode::SigInvalid]);
    assert_eq!(report.failures[0].index, Some(1));
}

#[test]
fn a_trace_cut_at_any_event_is_never_accepted() {
    let home = TestHome::new();
    let recording = home.recording();
    for round in 0..4 {
        recording.submit(note(&round.to_string())).unwrap();
    }
    recording.conclude("done").unwrap();
    home.check(recording.id(), 8);
    let path = home.workspace.trace_file(recording.id());
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for keep in 0..lines.len() {
        std::fs::write(&path, lines[..keep].concat()).unwrap();
        let report = home.verify(recording.id());
        assert_eq!(exit_status(&report, OpenTraces::Accepted), 3, "{keep} events: {report:#?}");
    }
}

#[test]
fn a_reader_who_trusts_another_root_sees_an_unpinned_signer() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.conclude("done").unwrap();
    let report = home.verify_with(recording.id(), [Hash::of(b"somebody else")], Profile::DEFAULT);
    assert_eq!(report.failures, []);
    assert_eq!(report.signer, Signer::Unpinned);
    assert_eq!(exit_status(&report, OpenTraces::Incomplete), 4);
}

#[test]
fn equal_findings_have_equal_digests() {
    let home = TestHome::new();
    let recording = home.recording();
    let first = home.verify(recording.id());
    let second = home.verify(recording.id());
    assert_eq!(first.report_digest, second.report_digest);
    recording.submit(note("more")).unwrap();
    assert_ne!(home.verify(recording.id()).report_digest, first.report_digest);
}

#[test]
fn text_enters_in_normalisation_form_c() {
    let home = TestHome::new();
    let recording = home.recording();
    let recorded = recording.submit(note("cafe\u{301}")).unwrap();
    assert_eq!(recorded.events[0].payload["purpose"], "caf\u{e9}");
    home.check(recording.id(), 2);
}

#[test]
fn what_a_reader_would_refuse_is_never_signed() {
    let home = TestHome::new();
    let recording = home.recording();
    let refused = recording.submit(note("\u{fffe}")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "could not record the event",
        "with the cause: {:?}",
        std::error::Error::source(&refused).map(ToString::to_string)
    );
    let huge = recording.submit(note(&"x".repeat(2 << 20))).unwrap_err();
    assert!(matches!(huge, WriteError::Unwritable(_)), "{huge}");
    let risky = RecordingCommand::Intend {
        tool_name: String::new(),
        input_hash: Hash::of(b""),
        safety_classification: "harmless".into(),
        justification: String::new(),
        artifacts: vec![],
    };
    let invalid = recording.submit(risky).unwrap_err();
    let cause = std::error::Error::source(&invalid).unwrap().to_string();
    assert_eq!(cause, "the event is not valid: /payload/tool_name: must not be empty");
    recording.submit(note("goes on")).unwrap();
    home.check(recording.id(), 2);
}
