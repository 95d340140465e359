//! Sessions: what a verifier finds in them, and what it says of one in which nothing is wrong.

#![cfg(test)]

use countersign_format::event::{Draft, EventRef, EventType};
use countersign_format::hash::Hash;
use countersign_format::report::{
    Approvals, CheckStatus, Closed, Signer, VerificationReport, VerificationStatus,
};
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_protocol::ReviewDecision;
use countersign_protocol::session::{
    Claim, ClaimStatus, FinalStatement, Lifecycle, Resolution, SessionCommand,
};
use countersign_testkit::SessionStory;
use countersign_testkit::session::SEPARATE;
use countersign_verify::{Profile, render, verify_prefix};
use serde_json::{Value, json};

/// Code, check and place of every failure.
fn failures(report: &VerificationReport) -> Vec<(&str, &str, Option<u64>)> {
    let failures = report.failures.iter();
    failures.map(|it| (it.failure_code.as_str(), it.check_id.as_str(), it.index)).collect()
}

fn warnings(report: &VerificationReport) -> Vec<&str> {
    report.warnings.iter().map(|it| it.warning_code.as_str()).collect()
}

fn status(report: &VerificationReport, check: &str) -> CheckStatus {
    report.checks.iter().find(|it| it.check_id == check).unwrap().status
}

const RULES: &str = "CHK_ROLE_POLICY_CONFORMANCE";
const CLAIMS: &str = "CHK_CLAIM_EVIDENCE_SUFFICIENCY";
const DUTIES: &str = "CHK_SEPARATION_OF_DUTIES";
const END: &str = "CHK_FINALIZATION_INTEGRITY";
const VIOLATION: &str = "ROLE_POLICY_VIOLATION";

#[test]
fn a_session_in_which_nothing_is_wrong_passes_every_check() {
    let story = SessionStory::whole();
    assert_eq!(story.state().lifecycle(), Lifecycle::Completed);
    let report = story.verify(Profile::STRICT);
    assert_eq!(report.failures, []);
    assert_eq!(report.warnings, []);
    assert_eq!((report.closed, report.signer), (Closed::Yes, Signer::Pinned));
    let checks: Vec<_> = report
        .checks
        .iter()
        .map(|it| (it.check_id.as_str(), it.status, it.scope.as_str()))
        .collect();
    assert_eq!(
        checks,
        [
            ("CHK_SCHEMA_CONFORMANCE", CheckStatus::Pass, "10 events"),
            ("CHK_EVENT_HASH_INTEGRITY", CheckStatus::Pass, "10 events"),
            ("CHK_CHAIN_CONTINUITY", CheckStatus::Pass, "10 events"),
            ("CHK_SIGNATURE_VALIDITY", CheckStatus::Pass, "10 signatures"),
            ("CHK_KEY_STATUS", CheckStatus::Pass, ""),
            ("CHK_LOG", CheckStatus::Pass, "keys as of log entry 9"),
            ("CHK_ARTIFACT_EXISTENCE", CheckStatus::Pass, "3 artifacts"),
            ("CHK_ARTIFACT_HASH_MATCH", CheckStatus::Pass, "3 artifacts"),
            ("CHK_RECEIPT_CHAIN", CheckStatus::Pass, "1 receipts"),
            (CLAIMS, CheckStatus::Pass, "1 claims"),
            (RULES, CheckStatus::Pass, ""),
            (DUTIES, CheckStatus::Pass, ""),
            (END, CheckStatus::Pass, "1 audits"),
        ]
    );
    assert_eq!(report.not_proven.len(), 6);
    assert_eq!(report.head, Some(story.head()));
}

/// An insider writes with real keys what the rules do not allow: each is found where it stands, and
/// what rests on it is not blamed again.
#[test]
fn what_the_rules_do_not_allow_is_found_where_it_stands() {
    let mut story = SessionStory::new(&SEPARATE);
    let proposal = story.plan();
    let risky = story.intend(&proposal, RiskClass::Elevated, "input");
    let execution = story.run(risky, "input", "output");
    story.claim(&execution, "output");
    story.conclude();
    story.audit();
    story.submit(SessionCommand::Abort { reason: "too late".into() });
    story.close();
    let report = story.verify(Profile::DEFAULT);
    assert_eq!(failures(&report), [(VIOLATION, RULES, Some(4)), (VIOLATION, RULES, Some(10))]);
    assert_eq!(report.failures[0].message, "the intent at 3 is elevated and was not approved");
    assert_eq!(report.failures[1].message, "the trace has ended; `session_aborted` may not follow");
    let lenient = story.verify(Profile::LENIENT);
    assert_eq!((failures(&lenient), warnings(&lenient)), (vec![], vec![VIOLATION, VIOLATION]));
}

#[test]
fn an_audit_records_what_it_found_and_the_session_fails() {
    let mut story = SessionStory::claimed();
    story.blobs.remove(&Hash::of(b"input"));
    story.conclude();
    let audit = story.audit();
    story.close();
    assert_eq!(audit.verification_status, VerificationStatus::Fail);
    assert_eq!(story.state().lifecycle(), Lifecycle::Failed);
    let report = story.verify(Profile::DEFAULT);
    let missing = ("ARTIFACT_MISSING", "CHK_ARTIFACT_EXISTENCE", Some(3));
    assert_eq!(failures(&audit), [missing]);
    assert_eq!(failures(&report), [missing]);
    assert_eq!((report.closed, status(&report, END)), (Closed::Yes, CheckStatus::Pass));
}

fn claimed_with(change: impl FnOnce(&mut SessionStory, &mut Claim, &EventRef)) -> SessionStory {
    let mut story = SessionStory::new(&SEPARATE);
    let proposal = story.plan();
    let execution = story.execute(&proposal, RiskClass::Low, "output");
    let mut claim = story.claim_on(&execution, "output");
    change(&mut story, &mut claim, &execution);
    story.submit(SessionCommand::Claim(Box::new(claim)));
    story
}

#[test]
fn a_claim_without_the_evidence_that_it_needs_is_unproven() {
    let unproven = ("CLAIM_UNPROVEN", CLAIMS, Some(6));
    let thin = claimed_with(|_, claim, _| claim.evidence.clear());
    assert_eq!(failures(&thin.verify(Profile::DEFAULT)), [unproven]);

    let unmet = claimed_with(|story, claim, execution| {
        let mut elsewhere = story.put(b"from elsewhere");
        elsewhere.producer_event_id.clone_from(&execution.event_id);
        claim.evidence = vec![elsewhere];
    });
    assert_eq!(failures(&unmet.verify(Profile::DEFAULT)), [unproven]);
    let lenient = unmet.verify(Profile::LENIENT);
    assert_eq!((failures(&lenient), warnings(&lenient)), (vec![], vec!["CLAIM_UNPROVEN"]));

    let mut unlisted = SessionStory::new(&SEPARATE);
    let proposal = unlisted.plan();
    let execution = unlisted.execute(&proposal, RiskClass::Low, "output");
    let claim = unlisted.claim_on(&execution, "output");
    let (role, draft) = unlisted.offer(SessionCommand::Claim(Box::new(claim)));
    unlisted.force(role, Draft { artifacts: Vec::new(), ..draft });
    assert_eq!(failures(&unlisted.verify(Profile::DEFAULT)), [unproven]);

    // That it rests on nothing that was run is another rule.
    let baseless = claimed_with(|_, claim, _| claim.executions.clear());
    assert_eq!(failures(&baseless.verify(Profile::DEFAULT)), [(VIOLATION, RULES, Some(6))]);
}

#[test]
fn a_claim_whose_evidence_is_gone_or_changed_is_unproven() {
    let mut story = SessionStory::whole();
    let output = Hash::of(b"output");
    story.blobs.remove(&output);
    let unproven = ("CLAIM_UNPROVEN", CLAIMS, Some(6));
    let report = story.verify(Profile::DEFAULT);
    let missing = ("ARTIFACT_MISSING", "CHK_ARTIFACT_EXISTENCE", Some(5));
    assert_eq!(failures(&report), [missing, unproven]);
    story.blobs.insert(output, b"0utput".to_vec());
    let report = story.verify(Profile::DEFAULT);
    let changed = ("ARTIFACT_HASH_MISMATCH", "CHK_ARTIFACT_HASH_MATCH", Some(5));
    assert_eq!(failures(&report), [changed, unproven]);
}

#[test]
fn a_dispute_is_a_warning_and_under_strict_a_failure() {
    let mut story = SessionStory::new(&SEPARATE);
    let proposal = story.plan();
    let execution = story.execute(&proposal, RiskClass::Low, "output");
    let claim = story.claim(&execution, "output");
    let claim_id = format!("claim_{}", claim.event_id);
    story.submit(SessionCommand::Challenge {
        claim,
        claim_id: claim_id.clone(),
        reason: "weak".into(),
        artifacts: Vec::new(),
    });
    let upheld = Resolution { claim_id: claim_id.clone(), status: ClaimStatus::Upheld };
    story.submit(SessionCommand::Conclude(Box::new(FinalStatement {
        verdict: "greeted".into(),
        achieved: true,
        resolutions: vec![upheld],
        artifacts: Vec::new(),
    })));
    story.audit();
    story.close();
    let report = story.verify(Profile::DEFAULT);
    assert_eq!((failures(&report), warnings(&report)), (vec![], vec!["CLAIM_DISPUTED"]));
    assert_eq!(
        report.warnings[0].message,
        format!("the claim {claim_id} was challenged and upheld with nothing new since")
    );
    let strict = story.verify(Profile::STRICT);
    assert_eq!(failures(&strict), [("CLAIM_UNPROVEN", CLAIMS, Some(8))]);
}

#[test]
fn duties_are_separate_by_key_and_by_agent() {
    const JACK: &[Role] = &[Role::Executor, Role::Critic];
    let mut one_key = SEPARATE.to_vec();
    one_key[3] = ("jack", 5, JACK);
    one_key.remove(4);
    let mut one_agent = SEPARATE.to_vec();
    one_agent[4] = ("executor", 6, &[Role::Critic]);
    let table = [
        (one_key, "the key `", "` acts as executor here, and as critic at event 2"),
        (one_agent, "the agent `executor", "` acts as executor here, and as critic at event 2"),
    ];
    for (players, from, to) in table {
        let mut story = SessionStory::new(&players);
        let proposal = story.plan();
        let execution = story.execute(&proposal, RiskClass::Low, "output");
        story.claim(&execution, "output");
        let report = story.verify(Profile::DEFAULT);
        assert_eq!(failures(&report), [(VIOLATION, DUTIES, Some(3))]);
        let message = &report.failures[0].message;
        assert!(message.starts_with(from) && message.ends_with(to), "{message}");
        let lenient = story.verify(Profile::LENIENT);
        assert_eq!((failures(&lenient), warnings(&lenient)), (vec![], vec![VIOLATION]));
    }
    // Who plans may also act: only the three are kept apart.
    let mut planner = SEPARATE.to_vec();
    planner[2] = ("executor", 5, &[Role::Planner, Role::Executor]);
    planner.remove(3);
    let mut story = SessionStory::new(&planner);
    story.plan();
    assert_eq!(failures(&story.verify(Profile::DEFAULT)), []);
}

#[test]
fn a_key_acts_only_in_the_roles_that_the_log_gives_it() {
    let mut players = SEPARATE.to_vec();
    players.truncate(5);
    let mut story = SessionStory::new(&players);
    story.plan();
    story.play(Role::Auditor, ("critic", 6));
    story.submit(SessionCommand::Redact { artifact_hash: Hash::of(b"x"), reason: "so".into() });
    let report = story.verify(Profile::DEFAULT);
    assert_eq!(failures(&report), [(VIOLATION, RULES, Some(3)), (VIOLATION, DUTIES, Some(3))]);
    assert!(report.failures[0].message.ends_with("of `critic` has no role `auditor`"));
}

#[test]
fn before_the_final_statement_everything_but_the_artifacts_is_verified() {
    let mut story = SessionStory::claimed();
    story.blobs.clear();
    let report = verify_prefix(&story, &story.options(Profile::DEFAULT)).unwrap();
    assert_eq!((failures(&report), warnings(&report)), (vec![], vec![]));
    for check in ["CHK_ARTIFACT_EXISTENCE", "CHK_ARTIFACT_HASH_MATCH"] {
        assert_eq!(status(&report, check), CheckStatus::NotChecked);
    }
    let last = report.not_proven.last().unwrap();
    assert_eq!(last, "that the artifacts are there and whole: they were not read");
    assert_eq!(failures(&story.verify(Profile::DEFAULT)).len(), 3);

    let text = String::from_utf8(story.lines().clone()).unwrap();
    *story.lines() = text.replacen("harmless", "harmful!", 1).into_bytes();
    let report = verify_prefix(&story, &story.options(Profile::DEFAULT)).unwrap();
    let codes: Vec<_> = report.failures.iter().map(|it| it.failure_code.as_str()).collect();
    assert_eq!(codes, ["HASH_MISMATCH", "SIG_INVALID"]);
}

#[test]
fn the_report_counts_what_people_approved_and_how_they_were_asked() {
    let mut story = SessionStory::new(&SEPARATE);
    let proposal = story.plan();
    let intent = story.intend(&proposal, RiskClass::Elevated, "input");
    let review =
        |by: Role, decision: ReviewDecision, channel: Option<&str>| SessionCommand::ReviewIntent {
            by,
            subject: intent.clone(),
            decision,
            reasons: Vec::new(),
            gate: None,
            deadline: None,
            channel: channel.map(str::to_owned),
            artifacts: Vec::new(),
        };
    assert_eq!(story.verify(Profile::DEFAULT).approvals, Approvals::default());
    story.submit(review(Role::Critic, ReviewDecision::Approved, None));
    for channel in ["protected-key", "unprotected-key", "unprotected-key"] {
        story.submit(review(Role::Operator, ReviewDecision::Approved, Some(channel)));
    }
    let report = story.verify(Profile::DEFAULT);
    let counted = Approvals { protected_key: 1, unprotected_key: 2, ..Approvals::default() };
    assert_eq!(report.approvals, counted);
    let line = "\napprovals: 1 with a protected key, 2 with an unprotected key (an agent under the \
                same user could have used it)\n";
    assert!(render(&report).contains(line));

    story.submit(review(Role::Operator, ReviewDecision::Approved, Some("client-prompt")));
    story.submit(review(Role::Operator, ReviewDecision::Approved, None));
    story.submit(review(Role::Operator, ReviewDecision::Blocked, None));
    let report = story.verify(Profile::DEFAULT);
    assert_eq!(report.approvals, Approvals { client_prompt: 1, unstated: 1, ..counted });
    assert!(
        render(&report).contains(", 1 at the client's own prompt, 1 in a way that is not stated")
    );
}

/// Something that is changed in a report.
type Change = fn(&mut Value);

/// What an auditor stored is compared with what it recorded, and both with the trace.
#[test]
fn the_report_of_an_audit_is_about_this_trace_and_says_what_was_recorded() {
    let untouched = |_: &mut Value| {};
    let table: [(Change, Option<(&str, &str)>); 9] = [
        (untouched, None),
        (
            |report| report["trace_id"] = json!("01arz3ndektsv4rrffq69g5fav"),
            Some((VIOLATION, "the report has the trace_id `01arz3ndektsv4rrffq69g5fav`, not `")),
        ),
        (
            |report| report["report_id"] = json!("01arz3ndektsv4rrffq69g5faw"),
            Some((VIOLATION, "the report has the report_id `01arz3ndektsv4rrffq69g5faw`, not `")),
        ),
        (
            |report| report["verification_status"] = json!("fail"),
            Some((VIOLATION, "the report has the verification_status `fail`, not `pass`")),
        ),
        (
            |report| report["head"] = json!(Hash::of(b"another")),
            Some((VIOLATION, "the report is about 9 events ending in `")),
        ),
        (
            |report| report["head"] = Value::Null,
            Some((VIOLATION, "the report is about 9 events ending in ``")),
        ),
        (
            |report| report["metrics"]["events"] = json!(8),
            Some((VIOLATION, "the report is about 8 events ending in `")),
        ),
        (
            |report| report["checks"] = json!("all of them"),
            Some(("SCHEMA_INVALID", "the report is misshapen: /checks: ")),
        ),
        (
            |report| *report = json!(["no report"]),
            Some(("SCHEMA_INVALID", "the report is misshapen: ")),
        ),
    ];
    for (change, wanted) in table {
        let mut story = SessionStory::claimed();
        story.conclude();
        story.submit(SessionCommand::StartAudit { profile: "default".into() });
        let mut report = serde_json::to_value(story.verify(Profile::DEFAULT)).unwrap();
        change(&mut report);
        let bytes = countersign_format::json::to_bytes(&report);
        complete(&mut story, &bytes);
        let found = story.verify(Profile::STRICT);
        let place = wanted.map(|(code, _)| (code, END, Some(9)));
        assert_eq!(failures(&found), Vec::from_iter(place));
        if let Some((_, words)) = wanted {
            let failure = &found.failures[0];
            assert!(failure.message.starts_with(words), "{}", failure.message);
            assert_eq!(failure.artifact_hash, Some(Hash::of(&bytes)));
        }
    }
}

/// Completes the audit with `bytes` as its report, and closes the session.
fn complete(story: &mut SessionStory, bytes: &[u8]) {
    let report = Box::new(story.put(bytes));
    story.submit(SessionCommand::CompleteAudit {
        status: VerificationStatus::Pass,
        report_id: "01arz3ndektsv4rrffq69g5fav".into(),
        report,
        artifacts: Vec::new(),
    });
    story.close();
}

#[test]
fn a_report_that_two_readers_could_take_differently_is_no_report() {
    let mut story = SessionStory::claimed();
    story.conclude();
    story.submit(SessionCommand::StartAudit { profile: "default".into() });
    let report = serde_json::to_string(&story.verify(Profile::DEFAULT)).unwrap();
    let twice = report.replacen('{', "{\"verification_status\":\"fail\",", 1);
    complete(&mut story, twice.as_bytes());
    let found = story.verify(Profile::STRICT);
    assert_eq!(failures(&found), [("SCHEMA_INVALID", END, Some(9))]);
}

#[test]
fn an_audit_lists_its_report_and_has_a_final_statement_before_it() {
    let mut unlisted = SessionStory::claimed();
    unlisted.conclude();
    unlisted.submit(SessionCommand::StartAudit { profile: "default".into() });
    let report = unlisted.verify(Profile::DEFAULT);
    let artifact = unlisted.put(&serde_json::to_vec(&report).unwrap());
    let (role, draft) = unlisted.offer(SessionCommand::CompleteAudit {
        status: VerificationStatus::Pass,
        report_id: report.report_id,
        report: Box::new(artifact),
        artifacts: Vec::new(),
    });
    unlisted.force(role, Draft { artifacts: Vec::new(), ..draft });
    unlisted.close();
    let found = unlisted.verify(Profile::DEFAULT);
    assert_eq!(failures(&found), [(VIOLATION, END, Some(9))]);

    let mut early = SessionStory::claimed();
    early.audit();
    early.close();
    let found = early.verify(Profile::DEFAULT);
    // What must be there and is not is a fault of the schema.
    assert_eq!(failures(&found)[0], ("SCHEMA_INVALID", END, Some(7)));
    assert_eq!(found.failures[0].message, "there is no final statement to verify");
}

/// The auditor may have been interrupted between the start of its audit and its report: what stands
/// in between may be covered, what comes later cannot.
#[test]
fn a_report_covers_at_least_what_came_before_the_audit_began() {
    let torn = json!({
        "reason": "the last line was incomplete", "torn_bytes": 1, "torn_hash": Hash::of(b"x"),
        "torn_file": "torn/0-0",
    });
    let mut story = SessionStory::claimed();
    story.conclude();
    story.submit(SessionCommand::StartAudit { profile: "default".into() });
    story.force(Role::Recorder, Draft::new(EventType::SessionRecovered, torn));
    let report = story.verify(Profile::DEFAULT);
    assert_eq!(report.metrics.events, 10);
    story.complete_audit(&report);
    story.close();
    assert_eq!(failures(&story.verify(Profile::STRICT)), []);

    // Another audit, whose report is the one of the first.
    story.submit(SessionCommand::StartAudit { profile: "default".into() });
    story.complete_audit(&report);
    let found = story.verify(Profile::DEFAULT);
    assert_eq!(failures(&found), [(VIOLATION, END, Some(12))]);
    let ended = found.checks.iter().find(|it| it.check_id == END).unwrap();
    assert_eq!(ended.scope, "2 audits");
}

#[test]
fn a_report_that_is_gone_is_missing_evidence_and_nothing_else() {
    let mut story = SessionStory::claimed();
    story.conclude();
    let report = story.audit();
    story.close();
    let hash =
        Hash::of(&countersign_format::json::to_bytes(&serde_json::to_value(&report).unwrap()));
    story.blobs.remove(&hash).unwrap();
    let found = story.verify(Profile::DEFAULT);
    let missing = ("ARTIFACT_MISSING", "CHK_ARTIFACT_EXISTENCE", Some(9));
    assert_eq!(failures(&found), [missing]);
    let ended = found.checks.iter().find(|it| it.check_id == END).unwrap();
    assert_eq!(ended.scope, "1 audits, 1 without a report that could be read");
}
