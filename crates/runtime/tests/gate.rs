#![cfg(test)]
//! The files of the gate: loading, learning, replaying.

use std::fs;
use std::path::Path;
use std::process::Command;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_gate::risk::Outcomes;
use countersign_gate::{Cell, Decision, GateRequest, Policy, RiskModel};
use countersign_runtime::actions::{ActionReport, ActionRequest, AgentRuntime, RuntimeOptions};
use countersign_runtime::gate::{
    AskedIntent, Deviation, Effect, RecordedDecision, SelfReports, TraceReport, replay,
};
use countersign_runtime::secrets::Redactor;
use countersign_runtime::store::{Blobs as _, StoreError};
use countersign_testkit::TestHome;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn edit() -> GateRequest {
    let kind = countersign_format::receipt::ActionType::CodeEdit;
    GateRequest {
        paths: vec!["src/a.rs".into()],
        ..GateRequest::new("ana", "executor", kind, "edit")
    }
}

fn runtime(home: &TestHome) -> AgentRuntime {
    AgentRuntime::new(home.workspace.clone(), Redactor::default(), RuntimeOptions::default())
}

/// Gates and records edits that end so, and says in which trace.
fn act(home: &TestHome, successes: &[bool]) -> Ulid {
    let runtime = runtime(home);
    let mut trace = None;
    for &success in successes {
        home.clock.advance(1_000);
        let asked = ActionRequest {
            action_type: "code_edit".into(),
            description: "edit".into(),
            files: vec!["src/a.rs".into()],
            ..ActionRequest::default()
        };
        let answer = runtime.gate(&asked).unwrap();
        let report = ActionReport {
            action_type: "code_edit".into(),
            description: "edit".into(),
            tool_name: "edit".into(),
            success,
            files: vec!["src/a.rs".into()],
            gate_token: Some(answer.token),
            ..ActionReport::default()
        };
        runtime.record(&report).unwrap();
        trace = Some(answer.trace_id);
    }
    trace.unwrap()
}

fn model(home: &TestHome) -> RiskModel {
    RiskModel::from_bytes(&fs::read(home.workspace.model_file()).unwrap()).unwrap()
}

#[test]
fn without_files_the_built_in_policy_is_in_force() {
    let home = TestHome::new();
    let loaded = home.workspace.gate().unwrap();
    assert_eq!(loaded.policy_bytes, Policy::built_in().as_bytes());
    assert_eq!((loaded.model_bytes.clone(), loaded.policy_file.clone()), (None, None));
    assert_eq!(loaded.gate.decide(&edit()).verdict.decision(), Decision::Allow);
    assert!(!loaded.is_stale());
}

#[test]
fn a_broken_policy_asks_about_everything_and_names_the_rule() {
    let home = TestHome::new();
    let broken =
        Policy::built_in().replace("@match(\"file_delete src/a.rs\")", "@match(\"file_read a\")");
    write(&home.workspace.policy_file(), &broken);
    let loaded = home.workspace.gate().unwrap();
    let verdict = loaded.gate.decide(&edit()).verdict;
    assert_eq!(verdict.decision(), Decision::Ask);
    let reason = verdict.reasons()[0].to_string();
    assert!(reason.starts_with("ask because `policy` failed: line "), "{reason}");
    assert!(reason.ends_with("rule `deletion` must match `file_read a`, but does not"), "{reason}");
}

#[test]
fn a_gate_is_stale_once_a_file_of_it_changed() {
    let home = TestHome::new();
    let loaded = home.workspace.gate().unwrap();
    write(&home.workspace.policy_file(), Policy::built_in());
    assert!(loaded.is_stale());
    let loaded = home.workspace.gate().unwrap();
    assert!(!loaded.is_stale());
    fs::remove_file(home.workspace.policy_file()).unwrap();
    assert!(loaded.is_stale());
}

#[test]
fn a_policy_that_is_too_long_or_no_file_is_never_skipped() {
    let home = TestHome::new();
    write(&home.workspace.policy_file(), &"//\n".repeat(1 << 20));
    let verdict = home.workspace.gate().unwrap().gate.decide(&edit()).verdict;
    assert_eq!(verdict.decision(), Decision::Ask);
    fs::remove_file(home.workspace.policy_file()).unwrap();
    fs::create_dir(home.workspace.policy_file()).unwrap();
    assert!(home.workspace.gate().is_err());
}

#[test]
fn what_agents_say_of_themselves_is_counted_and_learned_only_on_request() {
    let home = TestHome::new();
    act(&home, &[true, false, true]);
    let left = home.workspace.learn_from_traces(SelfReports::LeftOut, Effect::Save).unwrap();
    assert_eq!(left, TraceReport { reported_left_out: 3, ..TraceReport::default() });
    assert!(!home.workspace.model_file().exists());

    let tried = home.workspace.learn_from_traces(SelfReports::Learned, Effect::DryRun).unwrap();
    let reported = Outcomes { failed: 1, succeeded: 2 };
    assert_eq!(tried, TraceReport { traces: 1, reported, ..TraceReport::default() });
    assert!(!home.workspace.model_file().exists());

    let learned = home.workspace.learn_from_traces(SelfReports::Learned, Effect::Save).unwrap();
    assert_eq!(learned, tried);
    let model = model(&home);
    assert_eq!(model.reported().of(Cell::default()), reported);
    assert_eq!(model.seen().total(), Outcomes::default());
}

#[test]
fn learning_again_changes_nothing_and_then_only_what_is_new() {
    let home = TestHome::new();
    act(&home, &[true, true]);
    let learn = || home.workspace.learn_from_traces(SelfReports::Learned, Effect::Save).unwrap();
    learn();
    let before = fs::read(home.workspace.model_file()).unwrap();
    assert_eq!(learn(), TraceReport::default());
    assert_eq!(fs::read(home.workspace.model_file()).unwrap(), before);
    act(&home, &[false]);
    assert_eq!(learn().reported, Outcomes { failed: 1, succeeded: 0 });
    assert_eq!(model(&home).outcomes(Cell::default()), Outcomes { failed: 1, succeeded: 2 });
    let snapshot = home.path().join(format!("gate/models/{}.json", Hash::of(&before)));
    assert_eq!(fs::read(snapshot).unwrap(), before);
}

#[test]
fn a_trace_that_does_not_verify_teaches_nothing() {
    let home = TestHome::new();
    let good = act(&home, &[true]);
    let bad = act(&home, &[true]);
    let ledger = home.workspace.trace_file(bad);
    let text = fs::read_to_string(&ledger).unwrap();
    fs::write(
        &ledger,
        text.replacen("\"justification\":\"edit\"", "\"justification\":\"edIt\"", 1),
    )
    .unwrap();
    let report = home.workspace.learn_from_traces(SelfReports::Learned, Effect::Save).unwrap();
    assert_eq!(report.reported.total(), 1);
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(report.left_out[0].trace_id, bad.to_string());
    assert_eq!(model(&home).learned_of(bad), Default::default());
    assert_ne!(model(&home).learned_of(good), Default::default());
}

#[test]
fn a_model_that_cannot_be_read_is_not_replaced() {
    let home = TestHome::new();
    act(&home, &[true]);
    write(&home.workspace.model_file(), "{}");
    assert!(home.workspace.learn_from_traces(SelfReports::Learned, Effect::Save).is_err());
    assert_eq!(fs::read_to_string(home.workspace.model_file()).unwrap(), "{}");
}

/// The decisions of a trace, and what its store keeps.
fn decisions(home: &TestHome, trace: Ulid) -> Vec<RecordedDecision> {
    let events = home.events(trace);
    let asked: Vec<AskedIntent> = events.iter().filter_map(AskedIntent::of).collect();
    let made = events.iter().filter_map(RecordedDecision::of);
    let about = |decision: &RecordedDecision| {
        asked.iter().find(|intent| intent.event_id() == decision.intent_id).cloned()
    };
    made.map(|decision| {
        let asked = about(&decision);
        decision.about(asked)
    })
    .collect()
}

fn kept(home: &TestHome, hash: &Hash, max: u64) -> Result<Option<Vec<u8>>, StoreError> {
    match home.workspace.store().get(hash, max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(StoreError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[test]
fn a_decision_is_made_again_with_the_same_reasons() {
    let home = TestHome::new();
    act(&home, &[true]);
    home.workspace.learn_from_traces(SelfReports::Learned, Effect::Save).unwrap();
    let trace = act(&home, &[true, false]);
    let decisions = decisions(&home, trace);
    assert_eq!(decisions.len(), 2);
    for decision in decisions {
        let replayed = replay(decision, |hash, max| kept(&home, hash, max)).unwrap();
        assert_eq!(replayed.deviations, []);
        assert!(replayed.opinion.is_some());
    }
}

#[test]
fn one_byte_of_the_policy_changed_is_told_by_its_hash_and_by_what_it_decides() {
    let home = TestHome::new();
    let trace = act(&home, &[true]);
    let decision = decisions(&home, trace).remove(0);
    let policy = Hash::of(Policy::built_in().as_bytes());
    let changed = |from: &str, to: &str| {
        let text = Policy::built_in().replacen(from, to, 1).into_bytes();
        let found = Hash::of(&text).to_string();
        let replayed = replay(decision.clone(), |hash, max| {
            if *hash == policy { Ok(Some(text.clone())) } else { kept(&home, hash, max) }
        });
        (found, replayed.unwrap().deviations)
    };
    let recorded = policy.to_string();
    let (found, deviations) = changed("// The policy", "// the policy");
    let hash = |found| Deviation::Changed { part: "policy", recorded: recorded.clone(), found };
    assert_eq!(deviations, [hash(found)]);
    let words = "changes files of the workspace";
    let (found, deviations) = changed(words, "changes files of the Workspace");
    let reason = |words: &str| format!("allow by `editing`: {words}");
    let expected = [
        hash(found),
        Deviation::Gone { reason: reason(words) },
        Deviation::New { reason: reason("changes files of the Workspace") },
    ];
    assert_eq!(deviations, expected);
}

#[test]
fn what_is_not_kept_any_more_is_named() {
    let home = TestHome::new();
    let trace = act(&home, &[true]);
    let decision = decisions(&home, trace).remove(0);
    let replayed = replay(decision, |_, _| Ok::<_, StoreError>(None)).unwrap();
    let parts: Vec<_> = replayed
        .deviations
        .iter()
        .map(|it| match it {
            Deviation::Missing { part, .. } => *part,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(parts, ["request", "policy"]);
}

/// A repository in which the second commit is reverted and the third fixed.
fn repository(dir: &Path) {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org", "-C"])
            .arg(dir)
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let commit = |file: &str, text: &str, message: &str| {
        fs::write(dir.join(file), text).unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", message]);
        git(&["rev-parse", "HEAD"])
    };
    git(&["init", "-q"]);
    commit("a.txt", "one\n", "begin");
    let second = commit("b.txt", "two\n", "a bad idea");
    let third = commit("c.txt", "three\n", "add c");
    commit("b.txt", "", &format!("Revert\n\nThis reverts commit {second}.\n"));
    commit("c.txt", "3\n", &format!("mend c\n\nFixes: {} (\"add c\")\n", &third[..12]));
    commit("d.txt", &"if x\n".repeat(12), "add d");
    // What the repository says must not be run.
    git(&["config", "core.fsmonitor", "touch ran"]);
    git(&["config", "core.pager", "touch ran"]);
    git(&["config", "diff.external", "touch ran"]);
    git(&["config", "log.showSignature", "true"]);
    git(&["config", "gpg.program", "touch"]);
}

#[test]
fn a_history_teaches_which_changes_were_taken_back() {
    let home = TestHome::new();
    let repo = tempfile::tempdir().unwrap();
    repository(repo.path());
    let learn = |effect| home.workspace.learn_from_history(repo.path(), 1_000, effect).unwrap();
    let tried = learn(Effect::DryRun);
    assert_eq!(tried.outcomes, Outcomes { failed: 2, succeeded: 4 });
    assert!(!home.workspace.model_file().exists());
    assert_eq!(learn(Effect::Save), tried);
    let before = fs::read(home.workspace.model_file()).unwrap();
    assert_eq!(learn(Effect::Save), tried);
    assert_eq!(fs::read(home.workspace.model_file()).unwrap(), before);
    // Five small changes; the last one adds twelve lines with as many branches.
    let model = model(&home);
    assert_eq!(model.outcomes(Cell::default()), Outcomes { failed: 2, succeeded: 3 });
    let large = Cell::of_levels([1, 3, 0, 0, 0]);
    assert_eq!(model.outcomes(large), Outcomes { failed: 0, succeeded: 1 });
    assert!(!repo.path().join("ran").exists());
    let fewer = home.workspace.learn_from_history(repo.path(), 2, Effect::DryRun).unwrap();
    assert_eq!(fewer.outcomes, Outcomes { failed: 0, succeeded: 2 });
}

#[test]
fn where_there_is_no_history_git_says_so() {
    let home = TestHome::new();
    let empty = tempfile::tempdir().unwrap();
    let error = home.workspace.learn_from_history(empty.path(), 10, Effect::Save).unwrap_err();
    assert!(error.to_string().starts_with("git could not find the last commit: "), "{error}");
}
