//! Snapshots and other caches: one that does not fit is thrown away, and nothing but speed is lost.
#![cfg(test)]

use std::path::{Path, PathBuf};

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_protocol::recording::RecordingCommand;
use countersign_testkit::{TestHome, note};
use serde_json::Value;

/// A recording that is long enough to have a snapshot, with an intent that has not started.
struct Long {
    home: TestHome,
    id: Ulid,
    intent: EventRef,
}

/// Its first event, the intent, and the notes.
const EVENTS: u64 = 42;

impl Long {
    fn new() -> Self {
        let home = TestHome::new();
        let recording = home.recording();
        let intend = RecordingCommand::Intend {
            tool_name: "exec".into(),
            input_hash: Hash::of(b"ls"),
            safety_classification: "low".into(),
            justification: "to see what is there".into(),
            artifacts: vec![],
        };
        let event = recording.submit(intend).unwrap().events.remove(0);
        let intent = EventRef { event_id: event.event_id, seq: event.seq.unwrap() };
        for round in 0..EVENTS - 2 {
            recording.submit(note(&format!("{round:03}"))).unwrap();
        }
        let id = recording.id();
        drop(recording);
        let long = Self { home, id, intent };
        assert!(long.snapshot().exists());
        long
    }

    fn snapshot(&self) -> PathBuf {
        self.home.workspace.trace_file(self.id).with_file_name("snapshot")
    }

    /// What a process that opens the workspace now makes of it is what the events say.
    fn goes_on(self, case: &str) {
        let workspace = self.home.reopen();
        let recording = workspace.recording(self.id).unwrap();
        assert_eq!(recording.size().unwrap(), EVENTS, "{case}");
        let start = RecordingCommand::Start { intent: self.intent.clone() };
        let started = recording.submit(start).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(started.events[0].seq, Some(EVENTS), "{case}");
        self.home.check(self.id, EVENTS + 1);
    }
}

/// The two lines of the snapshot at `path`, the second one changed.
fn changed(path: &Path, change: impl FnOnce(&mut Value)) -> (String, String) {
    let text = std::fs::read_to_string(path).unwrap();
    let (voucher, body) = text.split_once('\n').unwrap();
    let mut body: Value = serde_json::from_str(body).unwrap();
    change(&mut body);
    (voucher.to_owned(), serde_json::to_string(&body).unwrap())
}

/// The snapshot at `path` with its body changed, signed by the key of this id in the keyring of `signer`.
fn rewrite_signed(
    path: &Path,
    change: impl FnOnce(&mut Value),
    (signer, key_id): (&TestHome, &str),
) {
    let (_, body) = changed(path, change);
    let secret = signer.workspace.keyring().load(key_id.parse().unwrap()).unwrap();
    let hash = Hash::of(body.as_bytes());
    let message = [b"countersign-snapshot\n", &hash.as_bytes()[..]].concat();
    let signature = secret.sign(&message).to_string();
    let voucher = serde_json::json!({"key_id": key_id, "signature": signature}).to_string();
    std::fs::write(path, format!("{voucher}\n{body}")).unwrap();
}

/// The snapshot with its body changed, under the signature that it had.
fn rewrite(long: &Long, change: impl FnOnce(&mut Value)) {
    let (voucher, body) = changed(&long.snapshot(), change);
    std::fs::write(long.snapshot(), format!("{voucher}\n{body}")).unwrap();
}

/// Whoever believes this does not know the intent that is to be started.
fn forget_intents(body: &mut Value) {
    body["state"]["intents"] = serde_json::json!({});
}

#[test]
fn a_snapshot_that_fits_is_used() {
    let long = Long::new();
    let recorder = long.home.workspace.find_key("recorder").unwrap();
    rewrite_signed(&long.snapshot(), |_| {}, (&long.home, &recorder.key_id));
    // The last event is out of reach for whoever would read the ledger from its beginning.
    let path = long.home.workspace.trace_file(long.id);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replacen("\"purpose\":\"000\"", "\"purpose\":\"xxx\"", 1)).unwrap();
    assert_eq!(long.home.reopen().recording(long.id).unwrap().size().unwrap(), EVENTS);
    std::fs::write(&path, whole).unwrap();
    long.goes_on("as it was");
}

#[test]
fn an_edited_snapshot_is_thrown_away() {
    let long = Long::new();
    rewrite(&long, forget_intents);
    long.goes_on("state");
    let long = Long::new();
    rewrite(&long, |body| body["chain"]["head"] = Hash::of(b"other").to_hex().into());
    long.goes_on("head");
    let long = Long::new();
    rewrite(&long, |body| body["chain"]["events"] = 7.into());
    long.goes_on("size");
}

/// The twin of what follows: signed by the recorder's key, it is believed.
#[test]
fn what_the_recorder_signed_is_believed() {
    let long = Long::new();
    let recorder = long.home.workspace.find_key("recorder").unwrap();
    rewrite_signed(&long.snapshot(), forget_intents, (&long.home, &recorder.key_id));
    let reopened = long.home.reopen();
    let recording = reopened.recording(long.id).unwrap();
    let start = RecordingCommand::Start { intent: long.intent.clone() };
    let refused = recording.submit(start).unwrap_err().to_string();
    assert!(refused.contains("intent"), "{refused}");
}

#[test]
fn a_snapshot_that_somebody_else_signed_is_thrown_away() {
    let long = Long::new();
    let auditor = long.home.workspace.find_key("auditor").unwrap();
    rewrite_signed(&long.snapshot(), forget_intents, (&long.home, &auditor.key_id));
    long.goes_on("another key of this workspace");
    let (long, other) = (Long::new(), TestHome::other());
    let recorder = other.workspace.find_key("recorder").unwrap();
    rewrite_signed(&long.snapshot(), forget_intents, (&other, &recorder.key_id));
    long.goes_on("the recorder of another workspace");
}

/// A key that was retired may be in other hands.
#[test]
fn a_snapshot_that_a_retired_key_signed_is_thrown_away() {
    let long = Long::new();
    let retired = long.home.workspace.find_key("recorder").unwrap();
    long.home.workspace.rotate_key(&retired.key_id).unwrap();
    rewrite_signed(&long.snapshot(), forget_intents, (&long.home, &retired.key_id));
    long.goes_on("a retired key");
}

/// The log would be told of a false history by the key that is active now.
#[test]
fn a_rotation_does_not_build_on_what_a_retired_key_signed() {
    let long = Long::new();
    let retired = long.home.workspace.find_key("recorder").unwrap();
    long.home.workspace.rotate_key(&retired.key_id).unwrap();
    let more = long.home.workspace.recording(long.id).unwrap();
    more.submit(note("more")).unwrap();
    drop(more);
    let lie = |body: &mut Value| {
        let other = Hash::of(b"another event").to_hex();
        body["chain"]["tree"]["peaks"][0] = other.into();
    };
    rewrite_signed(&long.snapshot(), lie, (&long.home, &retired.key_id));
    let reopened = long.home.reopen();
    let active = reopened.find_key("recorder").unwrap();
    reopened.rotate_key(&active.key_id).unwrap();
    long.home.check(long.id, EVENTS + 1);
}

/// Which key is active is what the log says, so its own snapshot cannot say whose word counts.
#[test]
fn a_snapshot_of_the_log_that_a_retired_key_signed_is_thrown_away() {
    let home = TestHome::new();
    let snapshot = home.path().join("log/snapshot");
    while !snapshot.exists() {
        drop(home.recording());
    }
    let before = std::fs::read_to_string(&snapshot).unwrap();
    let retired = home.workspace.find_key("recorder").unwrap();
    let active = home.workspace.rotate_key(&retired.key_id).unwrap();
    std::fs::write(&snapshot, before).unwrap();
    let log = std::fs::read(home.path().join("log/events.jsonl")).unwrap();
    let start =
        log.len() - log.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap().len() - 1;
    let last: Value = serde_json::from_slice(&log[start..]).unwrap();
    // As if nothing had come after the rotation, and no rotation had been.
    let lie = |body: &mut Value| {
        body["bytes"] = log.len().into();
        body["last_line"] = start.into();
        body["chain"]["head"] = last["event_hash"].clone();
        body["chain"]["events"] = (last["seq"].as_u64().unwrap() + 1).into();
        body["chain"]["last_id"] = last["event_id"].clone();
    };
    rewrite_signed(&snapshot, lie, (&home, &retired.key_id));
    assert_eq!(home.reopen().find_key("recorder").unwrap().key_id, active.key_id);
    let recording = home.reopen().begin_recording(None, None).unwrap();
    home.check(recording.id(), 1);
}

#[test]
fn the_snapshot_of_another_recording_is_thrown_away() {
    let long = Long::new();
    let other = long.home.recording();
    let place = long.home.workspace.trace_file(other.id()).with_file_name("snapshot");
    std::fs::copy(long.snapshot(), place).unwrap();
    let reopened = long.home.reopen();
    let recording = reopened.recording(other.id()).unwrap();
    assert_eq!(recording.size().unwrap(), 1);
    recording.submit(note("second")).unwrap();
    long.home.check(other.id(), 2);
}

#[test]
fn a_snapshot_of_another_version_of_the_state_is_thrown_away() {
    let long = Long::new();
    let recorder = long.home.workspace.find_key("recorder").unwrap();
    let change = |body: &mut Value| {
        body["state_version"] = 99.into();
        forget_intents(body);
    };
    rewrite_signed(&long.snapshot(), change, (&long.home, &recorder.key_id));
    long.goes_on("version");
}

#[test]
fn a_torn_snapshot_is_thrown_away() {
    for keep in [0, 1, 300, 700] {
        let long = Long::new();
        let bytes = std::fs::read(long.snapshot()).unwrap();
        assert!(bytes.len() > 700);
        std::fs::write(long.snapshot(), &bytes[..keep]).unwrap();
        long.goes_on(&format!("{keep} bytes"));
    }
}

#[test]
fn a_stale_snapshot_is_caught_up() {
    let long = Long::new();
    let old = std::fs::read(long.snapshot()).unwrap();
    let recording = long.home.workspace.recording(long.id).unwrap();
    for round in 0..40 {
        recording.submit(note(&round.to_string())).unwrap();
    }
    drop(recording);
    assert_ne!(std::fs::read(long.snapshot()).unwrap(), old, "there is a newer one");
    std::fs::write(long.snapshot(), old).unwrap();
    let reopened = long.home.reopen();
    let recording = reopened.recording(long.id).unwrap();
    assert_eq!(recording.size().unwrap(), EVENTS + 40);
    recording.submit(RecordingCommand::Start { intent: long.intent.clone() }).unwrap();
    long.home.check(long.id, EVENTS + 41);
}

/// A process kept a snapshot of lines that it had read before they were synced. Power loss took the
/// last of them, another line of the same length was written in its place, and the next process,
/// which compared lengths only, built on the snapshot: its event followed one that does not exist.
#[test]
fn a_snapshot_of_lines_that_were_taken_back_is_thrown_away() {
    let long = Long::new();
    let path = long.home.workspace.trace_file(long.id);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, cut_last_line(&whole)).unwrap();
    let replace = long.home.reopen();
    replace.recording(long.id).unwrap().submit(note("xyz")).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), whole.len() as u64);
    long.goes_on("as long as the ledger");
}

/// As above, where keys change: the log was told of an event that does not exist.
#[test]
fn a_rotation_does_not_checkpoint_lines_that_were_taken_back() {
    let long = Long::new();
    let path = long.home.workspace.trace_file(long.id);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, cut_last_line(&whole)).unwrap();
    let replace = long.home.reopen();
    replace.recording(long.id).unwrap().submit(note("xyz")).unwrap();
    let recorder = long.home.workspace.find_key("recorder").unwrap();
    long.home.workspace.rotate_key(&recorder.key_id).unwrap();
    long.goes_on("with the new key");
}

/// As above, within one process: what it had read was taken back by a writer whose sync failed.
#[test]
fn lines_that_were_read_and_taken_back_are_not_built_on() {
    for purpose in ["two", "a longer one", "2"] {
        let home = TestHome::new();
        let recording = home.recording();
        let reopened = home.reopen();
        let reader = reopened.recording(recording.id()).unwrap();
        recording.submit(note("one")).unwrap();
        assert_eq!(reader.size().unwrap(), 2);
        let path = home.workspace.trace_file(recording.id());
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, cut_last_line(&whole)).unwrap();
        let replace = home.reopen();
        replace.recording(recording.id()).unwrap().submit(note(purpose)).unwrap();
        reader.submit(note("three")).unwrap_or_else(|error| panic!("{purpose}: {error:?}"));
        home.check(recording.id(), 3);
    }
}

fn cut_last_line(text: &str) -> &str {
    let end = text.trim_end().rfind('\n').unwrap();
    &text[..=end]
}

#[test]
fn caches_can_be_deleted_at_any_time() {
    let long = Long::new();
    let home = &long.home;
    let dir = home.workspace.trace_file(long.id).with_file_name("");
    let caches = [
        dir.join("snapshot"),
        dir.join("trace.json"),
        home.path().join("log/checkpoint"),
        home.path().join("log/snapshot"),
        home.path().join("log/open"),
        home.path().join("changes"),
    ];
    let here = home.workspace.recording(long.id).unwrap();
    let mut events = EVENTS;
    for cache in &caches {
        let _ = std::fs::remove_file(cache);
        home.check(long.id, events);
        here.submit(note("here")).unwrap();
        home.reopen().recording(long.id).unwrap().submit(note("elsewhere")).unwrap();
        events += 2;
        home.check(long.id, events);
    }
    here.conclude("done").unwrap();
    let summary = home.workspace.summary(long.id).unwrap().unwrap();
    for cache in &caches {
        let _ = std::fs::remove_file(cache);
    }
    let report = home.check(long.id, events + 3);
    assert_eq!(home.reopen().summary(long.id).unwrap().unwrap(), summary);
    assert_eq!(report.metrics.events, summary.event_count);
}

#[test]
fn the_snapshot_of_the_log_is_thrown_away_when_it_does_not_fit() {
    let home = TestHome::new();
    let snapshot = home.path().join("log/snapshot");
    while !snapshot.exists() {
        drop(home.recording());
    }
    let good = std::fs::read_to_string(&snapshot).unwrap();
    let active = "\"status\":\"active\"";
    assert!(good.contains(active));
    for bad in [good.replace(active, "\"status\":\"revoked\""), String::new(), good[..99].into()] {
        std::fs::write(&snapshot, bad).unwrap();
        let recording = home.reopen().begin_recording(None, None).unwrap();
        home.check(recording.id(), 1);
    }
}

/// A workspace whose log has a snapshot, with recordings that were begun before and after it.
fn with_log_snapshot(traces: usize) -> (TestHome, Vec<Ulid>) {
    let home = TestHome::new();
    let ids: Vec<Ulid> = (0..traces).map(|_| home.recording().id()).collect();
    assert!(home.path().join("log/snapshot").exists());
    (home, ids)
}

/// What one trace needs is found among many, the rest is not read: the log itself is out of reach,
/// and so is every page but those that lead to the trace.
#[test]
fn a_process_that_adds_to_one_trace_reads_nothing_of_the_others() {
    let (home, mut ids) = with_log_snapshot(300);
    // Without a snapshot the pages are written anew, and none that is out of date is left.
    std::fs::remove_file(home.path().join("log/snapshot")).unwrap();
    ids.push(home.reopen().begin_recording(None, None).unwrap().id());
    ids.sort_unstable();
    let pages = home.path().join("log/open");
    let text = std::fs::read_to_string(&pages).unwrap();
    let (first, last) = (ids.first().unwrap(), ids.last().unwrap());
    let is_spoiled = |page: &str| page.contains("traces") && page.contains(&first.to_string());
    let spoiled: String = text
        .lines()
        .map(|page| match is_spoiled(page) {
            true => format!("{}\n", " ".repeat(page.len())),
            false => format!("{page}\n"),
        })
        .collect();
    assert_ne!(spoiled, text);
    std::fs::write(&pages, spoiled).unwrap();
    let log = home.path().join("log/events.jsonl");
    let whole = std::fs::read_to_string(&log).unwrap();
    let first_opened = whole.find("trace_opened").unwrap();
    std::fs::write(&log, whole.replacen("trace_opened", "trace_opOned", 1)).unwrap();
    let recording = home.reopen().recording(*last).unwrap();
    recording.submit(note("more")).unwrap();
    let told = home.reopen().open_trace(*first).unwrap_err();
    assert!(told.to_string().contains("cannot be read"), "{told}");
    // What else was appended to the log meanwhile stays.
    let mut now = std::fs::read(&log).unwrap();
    now[first_opened..first_opened + 12].copy_from_slice(b"trace_opened");
    std::fs::write(&log, now).unwrap();
    home.check(*last, 2);
    home.check(*first, 1);
}

#[test]
fn pages_that_are_not_those_of_the_snapshot_cost_time_and_nothing_else() {
    let (home, mut ids) = with_log_snapshot(150);
    let (pages, snapshot) = (home.path().join("log/open"), home.path().join("log/snapshot"));
    // Without a snapshot the pages are written anew: each of them is in use.
    std::fs::remove_file(&snapshot).unwrap();
    ids.push(home.reopen().begin_recording(None, None).unwrap().id());
    let vouched = std::fs::read(&snapshot).unwrap();
    let good = std::fs::read(&pages).unwrap();
    let (older, _) = with_log_snapshot(100);
    let foreign = std::fs::read(older.path().join("log/open")).unwrap();
    let mut one_bit = good.clone();
    one_bit[40] ^= 1;
    let cut = good[..good.len() / 2].to_vec();
    for (round, bad) in [foreign, one_bit, cut, Vec::new()].into_iter().enumerate() {
        std::fs::write(&snapshot, &vouched).unwrap();
        std::fs::write(&pages, bad).unwrap();
        let workspace = home.reopen();
        let open = workspace.open_traces().unwrap();
        assert_eq!(open.len(), ids.len() + round, "{round}");
        for id in &ids {
            assert!(workspace.open_trace(*id).unwrap().is_some(), "{round}");
        }
        // A writer makes them anew in time.
        drop(workspace.begin_recording(None, None).unwrap());
    }
    let verified = home.workspace.recording(ids[7]).unwrap();
    verified.submit(note("on")).unwrap();
    home.check(ids[7], 2);
}

/// Whoever ended a trace that an earlier process had opened must be believed by the next one.
#[test]
fn what_the_log_says_of_traces_is_the_same_with_and_without_a_snapshot() {
    let home = TestHome::new();
    let mut ids = Vec::new();
    for round in 0..40 {
        let workspace = home.reopen();
        ids.extend((0..9).map(|_| workspace.begin_recording(None, None).unwrap().id()));
        let ended = ids[round * 7 / 2 + 1];
        workspace.recording(ended).unwrap().conclude("done").unwrap();
    }
    let kept = home.reopen().open_traces().unwrap();
    assert_eq!(kept.len(), 40 * 8);
    std::fs::remove_file(home.path().join("log/snapshot")).unwrap();
    assert_eq!(home.reopen().open_traces().unwrap(), kept);
    // Two that both write snapshots, each with what the other opened and ended.
    let (here, there) = (home.reopen(), home.reopen());
    for round in 0..90 {
        let (one, other) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let id = one.begin_recording(None, None).unwrap().id();
        if round % 3 == 0 {
            other.recording(id).unwrap().conclude("done").unwrap();
        }
    }
    let kept = home.reopen().open_traces().unwrap();
    assert_eq!(here.open_traces().unwrap(), kept);
    std::fs::remove_file(home.path().join("log/open")).unwrap();
    assert_eq!(home.reopen().open_traces().unwrap(), kept);
}

/// A pipe that nobody writes to stands in its place: whoever opened it would wait forever.
#[test]
fn the_verifier_never_opens_a_snapshot() {
    let long = Long::new();
    let before = long.home.check(long.id, EVENTS);
    let log = ["log/snapshot", "log/open"].map(|name| long.home.path().join(name));
    for place in log.into_iter().chain([long.snapshot()]) {
        let _ = std::fs::remove_file(&place);
        make_pipe(&place);
    }
    let after = long.home.check(long.id, EVENTS);
    assert_eq!(after.report_digest, before.report_digest);
    long.goes_on("a writer refuses to wait for it");
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success(), "mkfifo {}", path.display());
}
