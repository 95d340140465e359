//! Files of ours: what is sealed verifies, and nothing else does.

use std::fs;
use std::path::PathBuf;

use countersign_format::cap::CapManifest;
use countersign_format::event::ArtifactDescriptor;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::receipt::{ActionType, Record, verify_chain};
use countersign_format::risk::RiskClass;
use countersign_protocol::receipts::Parent;
use countersign_protocol::recording::{RecordedAction, RecordingCommand, Reporter};
use countersign_testkit::{TestHome, note};
use countersign_verify::cap::{CapOwner, cap_contents};
use countersign_verify::{FileSource, OpenTraces, exit_status};

use crate::archive::{Members, member, members, packed, replace, sealed};
use crate::{answer, nothing_kept, verdict_on};

fn action(number: u32, output: ArtifactDescriptor) -> RecordingCommand {
    RecordingCommand::Record(Box::new(RecordedAction {
        action_type: ActionType::CodeEdit,
        tool_name: "edit".to_owned(),
        description: format!("change {number} \u{e9}"),
        paths: vec!["src/main.rs".to_owned()],
        token: None,
        call_id: None,
        asked: None,
        reporter: Reporter::Agent,
        risk: RiskClass::Low,
        input: Some(output.clone()),
        redactions: Vec::new(),
        success: number.is_multiple_of(2),
        failure: "it broke".to_owned(),
        duration_ms: 5,
        output: Some(output),
        parent: Parent::Last,
    }))
}

/// A workspace with a recording of three actions that has ended.
fn ended() -> (TestHome, Ulid) {
    let home = TestHome::new();
    let recording = home.recording();
    for number in 0..3 {
        let output = format!("output {number}");
        let output = recording.put_artifact(output.as_bytes(), "text/plain").unwrap();
        let _ = recording.submit(action(number, output)).unwrap();
    }
    recording.conclude("done").unwrap();
    let id = recording.id();
    (home, id)
}

fn seal(home: &TestHome, id: Ulid) -> Vec<u8> {
    let path = home.path().join("../one.cap");
    let sealed = home.workspace.seal(id, &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(sealed.bytes, bytes.len() as u64);
    bytes
}

#[test]
fn a_sealed_trace_verifies_by_itself() {
    let (home, id) = ended();
    let file = seal(&home, id);
    let root = home.workspace.root();
    assert_eq!(answer(&file, &[root]), (0, vec![]));
    assert_eq!(answer(&file, &[]), (4, vec![]));
    let (verdict, _) = verdict_on(&file, &[root], &nothing_kept());
    assert_eq!(verdict.owner, CapOwner::Countersign);
    let direct = home.verify_with(id, [root], countersign_verify::Profile::DEFAULT);
    assert_eq!(verdict.report.warnings, direct.warnings);
    assert_eq!(verdict.report.metrics.events, direct.metrics.events);
    assert_eq!(verdict.report.head, direct.head);
    assert_eq!(seal(&home, id), file, "sealed again it has the same bytes");
}

#[test]
fn its_actions_are_a_chain_that_others_can_read() {
    let (home, id) = ended();
    let file = seal(&home, id);
    let mut all = members(&file);
    let lines = String::from_utf8(member(&mut all, "actions.jsonl").clone()).unwrap();
    let records: Vec<_> = lines.lines().map(|it| Record::read(it.as_bytes()).unwrap()).collect();
    assert_eq!(records.len(), 3);
    verify_chain(&records).unwrap();
    let contents = cap_contents(file.as_slice()).unwrap();
    assert_eq!(contents.actions_count, 3);
    assert_eq!(contents.identity.trace_id, id.to_string());
    assert_eq!(contents.identity.agent, "test-agent");
    assert_eq!(contents.identity.chain_hash, records[2].receipt_hash.to_hex());
    assert_eq!(contents.actions[1].description, "change 1 \u{e9}");
}

#[test]
fn a_trace_without_actions_can_be_sealed() {
    let home = TestHome::new();
    let recording = home.recording();
    let _ = recording.submit(note("nothing done")).unwrap();
    recording.conclude("done").unwrap();
    let file = seal(&home, recording.id());
    assert_eq!(answer(&file, &[home.workspace.root()]), (0, vec![]));
}

#[test]
fn an_open_trace_is_not_sealed() {
    let home = TestHome::new();
    let recording = home.recording();
    let error = home.workspace.seal(recording.id(), &home.path().join("../x.cap")).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "it has not ended");
    assert!(!home.path().join("../x.cap").exists());
}

/// Whatever single byte is changed, the file does not pass.
#[test]
fn no_byte_can_be_changed() {
    let (home, id) = ended();
    let file = seal(&home, id);
    let root = home.workspace.root();
    // All of the beginning and the end, and a part of what lies between.
    let places =
        (0..200).chain((200..file.len() - 64).step_by(97)).chain(file.len() - 64..file.len());
    for place in places {
        for bit in [1, 0x80] {
            let mut changed = file.clone();
            changed[place] ^= bit;
            let (status, messages) = answer(&changed, &[root]);
            assert_eq!((status, messages.is_empty()), (3, false), "byte {place}");
        }
    }
}

/// Makes a manifest that lists what there is.
fn relist(all: &mut Members) {
    let mut manifest = CapManifest::read(&all[0].1).unwrap();
    manifest.members = all[1..]
        .iter()
        .map(|(name, data)| countersign_format::cap::CapMember {
            name: name.clone(),
            sha256: Hash::of(data),
            size: data.len() as u64,
        })
        .collect();
    all[0].1 = manifest.to_bytes();
}

type Attack = (&'static str, fn(&mut Members), &'static str);

const ATTACKS: &[Attack] = &[
    ("an artifact dropped", |m| m.retain(|(_, bytes)| bytes != b"output 0"), "rtifact"),
    (
        "the ledger dropped",
        |m| m.retain(|(name, _)| name != "trace/events.jsonl"),
        "`manifest.json` lists `actions.jsonl` where `trace/events.jsonl` must be",
    ),
    (
        "the report dropped",
        |m| m.retain(|(name, _)| name != "report.json"),
        "`report.json` is not the report that the last audit of the trace names",
    ),
    (
        "the actions emptied",
        |m| member(m, "actions.jsonl").clear(),
        "`actions.jsonl` does not say what the events of the trace say",
    ),
    (
        "an action dropped",
        |m| {
            let lines = member(m, "actions.jsonl");
            let end = lines.iter().position(|&byte| byte == b'\n').unwrap();
            lines.drain(..=end);
        },
        "`actions.jsonl` does not say what the events of the trace say",
    ),
    (
        "a description",
        |m| replace(member(m, "actions.jsonl"), "change 1", "change 9"),
        "`actions.jsonl` does not say what the events of the trace say",
    ),
    (
        "a verdict",
        |m| replace(member(m, "actions.jsonl"), "PROOF_ONLY", "FULLY_VERIFIED"),
        "`actions.jsonl` does not say what the events of the trace say",
    ),
    (
        "the capsule",
        |m| replace(member(m, "agent_capsule.json"), "\"num_actions\": 3", "\"num_actions\": 4"),
        "`agent_capsule.json` does not say what the trace says: 3 actions, the last receipt ",
    ),
    (
        "the report changed",
        |m| member(m, "report.json").push(b'\n'),
        "`report.json` is not the report that the last audit of the trace names",
    ),
    (
        "a file added",
        |m| m.push(("notes.txt".to_owned(), Vec::new())),
        "`manifest.json` lists `notes.txt`, which is no member of a sealed file",
    ),
    (
        "an artifact added",
        |m| {
            let name = format!("artifacts/sha256/{}", "f".repeat(64));
            m.push((name, b"x".to_vec()));
        },
        "with the hash ",
    ),
    (
        "artifacts swapped",
        |m| {
            let last = m.len() - 1;
            m.swap(last, last - 1);
        },
        "out of order",
    ),
    ("members swapped", |m| m.swap(1, 2), "where `log/extract.json` must be"),
    (
        "the ledger cut",
        |m| {
            let lines = member(m, "trace/events.jsonl");
            lines.pop();
            let end = lines.iter().rposition(|&byte| byte == b'\n').unwrap();
            lines.truncate(end + 1);
        },
        "the log knows ",
    ),
    (
        "the agent",
        |m| {
            replace(&mut m[0].1, "test-agent", "best-agent");
        },
        "`manifest.json` has the `agent` \"best-agent\", the trace gives \"test-agent\"",
    ),
    (
        "the count",
        |m| {
            replace(&mut m[0].1, "\"actions_count\":3", "\"actions_count\":4");
        },
        "`manifest.json` has the `actions_count` 4, the trace gives 3",
    ),
    (
        "the extract",
        |m| {
            replace(member(m, "log/extract.json"), "trace_closed", "trace_clowed");
        },
        "log entry ",
    ),
];

#[test]
fn a_file_put_together_anew_is_caught_by_what_the_trace_says() {
    let (home, id) = ended();
    let file = seal(&home, id);
    let root = home.workspace.root();
    let mut same = members(&file);
    relist(&mut same);
    assert_eq!(sealed(&same), file);
    let mut missed = Vec::new();
    for (name, attack, expected) in ATTACKS {
        let mut all = members(&file);
        attack(&mut all);
        relist(&mut all);
        let (status, messages) = answer(&sealed(&all), &[root]);
        let told = messages.iter().any(|message| message.contains(expected));
        if status != 3 || !told {
            missed.push((name, status, messages));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

type Edit = fn(&mut Members);

#[test]
fn what_the_manifest_lists_is_what_must_be_there() {
    let (home, id) = ended();
    let file = seal(&home, id);
    let root = home.workspace.root();
    let attacks: [(Edit, &str); 5] = [
        (|m| drop(m.pop()), "is missing: `manifest.json` lists it"),
        (|m| m.push(("x".to_owned(), Vec::new())), "member `x` is not listed in `manifest.json`"),
        (
            |m| m.swap(1, 2),
            "member `report.json` stands where `manifest.json` lists `log/extract.json`",
        ),
        (|m| member(m, "actions.jsonl").push(b'\n'), "member `actions.jsonl` has "),
        (
            |m| replace(member(m, "actions.jsonl"), "change 1", "change 2"),
            "member `actions.jsonl` hashes to ",
        ),
    ];
    for (attack, expected) in attacks {
        let mut all = members(&file);
        attack(&mut all);
        let (status, messages) = answer(&sealed(&all), &[root]);
        assert_eq!((status, messages.len()), (3, 1), "{messages:?}");
        assert!(messages[0].contains(expected), "{messages:?}");
    }
    let (status, messages) = answer(&packed(&members(&file)), &[root]);
    assert_eq!(status, 3);
    assert_eq!(messages, ["the gzip header is not that of a sealed file"]);
}

#[test]
fn a_longer_log_counts_and_another_log_contradicts() {
    let (home, id) = ended();
    let file = seal(&home, id);
    let root = home.workspace.root();
    let later = home.recording();
    let _ = later.submit(note("the log goes on")).unwrap();
    let kept = FileSource::in_home(&home.path(), PathBuf::new());
    let (verdict, _) = verdict_on(&file, &[root], &kept);
    assert_eq!(exit_status(&verdict.report, OpenTraces::Incomplete), 0);
    let (alone, _) = verdict_on(&file, &[root], &nothing_kept());
    assert!(verdict.report.metrics.log_entries > alone.report.metrics.log_entries);
    // An entry that both have, changed.
    let log = fs::read_to_string(home.path().join("log/events.jsonl")).unwrap();
    let forged = home.path().join("../forged.jsonl");
    fs::write(&forged, log.replacen("Recorder", "Rekorder", 1)).unwrap();
    let kept = FileSource { log: Some(forged), ..nothing_kept() };
    let (verdict, _) = verdict_on(&file, &[root], &kept);
    assert_eq!(exit_status(&verdict.report, OpenTraces::Incomplete), 3);
}

#[test]
fn a_redacted_artifact_is_not_in_the_file() {
    let (home, id) = ended();
    let gone = Hash::of(b"output 1");
    let _ = home.workspace.redact(gone, "a secret").unwrap();
    let file = seal(&home, id);
    assert!(members(&file).iter().all(|(name, _)| !name.ends_with(&gone.to_hex())));
    let (status, messages) = answer(&file, &[home.workspace.root()]);
    assert_eq!((status, messages), (0, vec![]));
}

#[test]
fn what_repeats_itself_a_thousand_times_can_be_read_back() {
    let zeros = vec![0; 80 << 20];
    let file =
        sealed(&vec![("zeros".to_owned(), zeros.clone()), ("more".to_owned(), b"x".to_vec())]);
    let back = members(&file);
    assert_eq!(back[0].1, zeros);
    assert_eq!(back[1].1, b"x");
    assert!((file.len() as u64) < 64 << 20, "{}", file.len());
}
