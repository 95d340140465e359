//! `countersign report`: a period as one page, what is missing first.

use std::fs;

use countersign_format::event::EventRef;
use countersign_format::id::Ulid;
use countersign_protocol::ReviewDecision;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::Recording;
use countersign_runtime::questions::PersonsAnswer;
use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;
use serde_json::Value;

use crate::binary::Screen;
use crate::place::Place;

/// What a browser would run, and what would turn the words around it.
const PAYLOAD: &str = "<script>alert(\"x\")</script><img src=x onerror=alert(1)>\u{202e}txt";
const SHOWN: &str = "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&lt;img src=x \
                     onerror=alert(1)&gt;<span class=\"odd\">U+202E</span>txt";
/// The days on which the tests' clock stands.
const DAYS: [&str; 4] = ["--from", "2026-02-03", "--to", "2026-02-04"];

fn last(home: &TestHome, id: Ulid) -> EventRef {
    let event = home.events(id).pop().unwrap();
    EventRef { event_id: event.event_id, seq: event.seq.unwrap() }
}

/// Means to delete a file, of which the input is stored.
fn intend(home: &TestHome, recording: &Recording, path: &str) -> EventRef {
    let input = format!("{{\"tool\":\"file_delete\",\"path\":\"{path}\"}}");
    let input = recording.put_artifact(input.as_bytes(), "application/json").unwrap();
    recording
        .submit(RecordingCommand::Intend {
            tool_name: "file_delete".into(),
            input_hash: input.artifact_hash,
            safety_classification: "critical".into(),
            justification: "it is in the way".into(),
            artifacts: vec![input],
        })
        .unwrap();
    last(home, recording.id())
}

fn review(recording: &Recording, intent: EventRef, decision: ReviewDecision, reason: &str) {
    let reasons = vec![reason.to_owned()];
    recording.submit(RecordingCommand::Review { intent, decision, reasons }).unwrap();
}

/// A recording with an approval and a denial, whose every text is hostile; it is over.
fn told(home: &TestHome) -> Ulid {
    let recording = home.workspace.begin_recording(Some("test-agent"), Some(PAYLOAD)).unwrap();
    let intent = intend(home, &recording, "doomed");
    review(&recording, intent, ReviewDecision::Asked, "a person must say");
    home.clock.advance(1_000);
    let (questions, _) = home.workspace.questions().unwrap();
    home.workspace.answer(&questions[0], PersonsAnswer::Yes, Some(PAYLOAD)).unwrap();
    let intent = intend(home, &recording, "precious");
    review(&recording, intent, ReviewDecision::Blocked, PAYLOAD);
    recording.conclude("all is well").unwrap();
    recording.id()
}

fn report(place: &Place, more: &[&str]) -> Screen {
    place.run(&[&["report"], &DAYS[..], more].concat())
}

fn page(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path().join(name)).unwrap()
}

fn facts(place: &Place) -> (i32, Value) {
    let screen = report(place, &["--json"]);
    (screen.code, screen.answer())
}

/// Trusts the root of a workspace.
fn trust(home: &TestHome, place: &Place) {
    let root = home.workspace.root().to_hex();
    let trusted = place.run(&["keys", "trust", &root]);
    assert_eq!(trusted.code, 0, "{trusted}");
}

/// What is wrong with a page: tags that do not fit, and whatever could act.
fn faults(page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!doctype html>\n").unwrap_or("no doctype");
    while let Some(start) = rest.find('<') {
        let Some(length) = rest[start..].find('>') else { break };
        let tag = &rest[start + 1..start + length];
        rest = &rest[start + length + 1..];
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        match (tag.starts_with('/'), name) {
            (false, "meta") => {}
            (false, _) => open.push(name),
            (true, _) if open.pop() == Some(name) => {}
            (true, _) => faults.push(format!("</{name}> closes another element")),
        }
        for attribute in tag.split(' ').skip(1).filter_map(|it| it.split_once('=')) {
            let known = ["class", "id", "href", "lang", "charset", "name", "content", "scope"];
            let fits = match attribute {
                ("href", target) => target.starts_with("\"#"),
                ("http-equiv" | "aria-label", _) => true,
                (name, _) => known.contains(&name) || tag.starts_with("meta"),
            };
            if !fits {
                faults.push(format!("attribute in <{tag}>"));
            }
        }
        if ["script", "img", "link", "iframe", "object", "form", "svg", "base"].contains(&name) {
            faults.push(format!("<{name}>"));
        }
    }
    faults.extend(open.iter().map(|name| format!("<{name}> is not closed")));
    faults
}

/// The words of a page, one line for each that has any.
fn words(page: &str) -> String {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, body) = rest.split_once("</style>").unwrap();
    let mut words = String::new();
    let mut inside = false;
    for character in format!("{head}{body}").chars() {
        match character {
            '<' => inside = true,
            '>' if inside => inside = false,
            _ if !inside => words.push(character),
            _ => {}
        }
    }
    let lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Hashes, keys and ids, which change with everything that is written, replaced.
fn nameless(text: &str) -> String {
    let hexadecimal = |word: &str| word.bytes().all(|it| it.is_ascii_hexdigit());
    let mut named = String::new();
    for piece in text.split_inclusive(|it: char| !it.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
        let name = match word.len() {
            64 if hexadecimal(word) => "$HASH",
            32 if hexadecimal(word) => "$KEY",
            26 if word.starts_with("01") => "$ID",
            // The next element follows without a space.
            31 if word.starts_with("01") && word.ends_with("event") => "$IDevent",
            _ => word,
        };
        named.push_str(name);
        named.push_str(&piece[word.len()..]);
    }
    named
}

#[test]
fn the_checker_of_pages_finds_what_it_looks_for() {
    let page = |body: &str| format!("<!doctype html>\n<html><body>{body}</body></html>");
    assert_eq!(faults(&page("<p class=\"x\">a</p>")), [""; 0]);
    for bad in [
        "<p>",
        "</p>",
        "<b><i></b></i>",
        "<script>x</script>",
        "<p onclick=\"x\"></p>",
        "<a href=\"https://example.org\">x</a>",
        "<img src=\"x\">",
    ] {
        assert_ne!(faults(&page(bad)), [""; 0], "{bad}");
    }
}

#[test]
fn a_period_is_told_on_the_screen_and_on_a_page() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    trust(&home, &place);
    told(&home);
    let screen = report(&place, &[]);
    assert_snapshot!(nameless(&screen.to_string()), @r#"
    exit 0
    --- stdout
    period     from 2026-02-03T00:00:00.000Z until just before 2026-02-05T00:00:00.000Z
    traces     1: 1 passed (0 with warnings), 0 failed, 0 not verified; 0 open, 0 unpinned
    denials    1
    approvals  1: 1 with an unprotected key (an agent under the same user could have used it)
    others     0 failed or aborted, 0 gaps by coverage reports, 7 changes of keys, 0 redactions, 0 recovered tails
    log        pass, 9 entries, checkpoint 9 $HASH
    page       countersign-report-2026-02-03-2026-02-04.html
    verdict    nothing wrong was found

    --- stderr
    "#);
    let page = page(&place, "countersign-report-2026-02-03-2026-02-04.html");
    assert_eq!(faults(&page), [""; 0]);
    let policy = "default-src &#39;none&#39;; style-src &#39;sha256-";
    assert!(page.contains(policy), "{page}");
    let again = report(&place, &[]);
    assert_eq!(again.code, 1, "what is there is not written over: {again}");
    assert_eq!(report(&place, &["--force"]).code, 0);
}

/// The words of a whole page, from one heading to the next, neither of which may be in another part.
fn part(from: &str, to: &str) -> String {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    trust(&home, &place);
    told(&home);
    let screen = report(&place, &["-o", "kept.html", "--title", "One <day>"]);
    assert_eq!(screen.code, 0, "{screen}");
    let page = page(&place, "kept.html");
    let made = page.split_once("Made at ").unwrap().1[..24].to_owned();
    let home_path = home.path().display().to_string();
    let words = words(&page).replace(&made, "$NOW").replace(&home_path, "$HOME");
    let start = words.find(from).unwrap();
    let end = if to.is_empty() { words.len() } else { words.find(to).unwrap() };
    nameless(&words[start..end])
}

const GAPS: &str = "Gaps\nThe workspace log";
const BROKEN_OFF: &str = "Failed and aborted\nNothing";

#[test]
fn a_page_begins_with_the_verdict_the_totals_and_its_contents() {
    assert_snapshot!(part("", GAPS), @r#"
    One &lt;day&gt;
    One &lt;day&gt;
    Period: from 2026-02-03T00:00:00.000Z until just before 2026-02-05T00:00:00.000Z (UTC).
    Workspace $HOME. Made at $NOW by countersign 0.1.0.
    Nothing wrong was found.
    gaps
    0
    traces
    1
    verdict pass
    1
    of them with warnings
    0
    verdict fail
    0
    not verified
    0
    still open
    0
    signer not pinned
    0
    events in the period
    9
    denials
    1
    approvals by people
    1
    questions asked
    1
    let pass by the gate
    0
    let pass by a critic
    0
    failed or aborted
    0
    gaps by coverage reports
    0
    changes of keys
    7
    redactions
    0
    recovered tails
    0
    Gaps
    Verdicts that failed
    Denials
    Approvals by people
    Failed and aborted
    Coverage
    Keys
    Redactions and recovered tails
    The workspace log
    Traces
    What this does not prove
    "#);
}

#[test]
fn a_page_goes_on_with_gaps_failures_and_decisions() {
    assert_snapshot!(part(GAPS, BROKEN_OFF), @r#"
    Gaps
    The workspace log is the list of what must be there. A gap is a trace that it knows and that is gone or shorter, or one that it does not know.
    No gap was found.
    Verdicts that failed
    No verdict failed.
    Denials
    When
    Who
    What
    Why
    Trace
    2026-02-03T04:05:07.000Z
    a rule of the recorder, signed as recorder
    file_delete precious
    tool file_delete, risk critical
    wanted for: it is in the way
    {&quot;tool&quot;:&quot;file_delete&quot;,&quot;path&quot;:&quot;precious&quot;}
    stored input, 40 bytes
    $HASH
    &lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;U+202Etxt
    $IDevent 5 $ID
    Approvals by people
    Given: 1 with an unprotected key (an agent under the same user could have used it).
    When
    Who, and how
    What
    Why
    Trace
    2026-02-03T04:05:07.000Z
    a person, signed as operatorunprotected-key
    with an unprotected key (an agent under the same user could have used it)
    file_delete doomed
    tool file_delete, risk critical
    wanted for: it is in the way
    {&quot;tool&quot;:&quot;file_delete&quot;,&quot;path&quot;:&quot;doomed&quot;}
    stored input, 38 bytes
    $HASH
    &lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;U+202Etxt
    $IDevent 3 $ID
    "#);
}

#[test]
fn a_page_ends_with_everything_else_and_what_it_does_not_prove() {
    assert_snapshot!(part(BROKEN_OFF, ""), @r#"
    Failed and aborted
    Nothing failed or was aborted.
    Coverage
    What comparisons with transcripts and files say of what bypassed the recorder. It is the word of whoever compared; no check stands behind it.
    Nothing was compared.
    Keys
    When
    Change
    Key
    Whose
    More
    2026-02-03T04:05:06.000Z
    added
    $KEY
    auditor (auditor)
    2026-02-03T04:05:06.000Z
    added
    $KEY
    critic (critic)
    2026-02-03T04:05:06.000Z
    added
    $KEY
    executor (executor)
    2026-02-03T04:05:06.000Z
    added
    $KEY
    planner (planner)
    2026-02-03T04:05:06.000Z
    added
    $KEY
    operator (operator)
    2026-02-03T04:05:06.000Z
    added
    $KEY
    recorder (recorder)
    2026-02-03T04:05:06.000Z
    added
    $KEY
    root (recorder)
    Redactions and recovered tails
    No artifact was redacted.
    No unfinished line was set aside.
    The workspace log
    entries
    9, of them 9 in the period
    root key
    $HASH
    checkpoint of
    countersign/$HASH
    checkpoint size
    9
    checkpoint root
    $HASH
    Compare size and root with a checkpoint that was kept elsewhere: a log that was cut back or written anew does not have both.
    pass, open, signer pinned intact as far as it goes; a log never ends
    Traces
    &lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;U+202Etxt $ID
    recording, succeeded
    2026-02-03T04:05:06.000Z to 2026-02-03T04:05:07.000Z; 9 events, of them 9 in the period; the log knows 9; 1 denial, 1 approval
    recorder, operator
    pass, closed, signer pinned intact; the trace ended: succeeded (a recording: what the recorder saw of an outside agent)
    What this does not prove
    that a claim is true
    that nothing happened outside the channel that was recorded
    which model acted
    that roles were separate people or processes
    when something happened, beyond the signer&#39;s word and a checkpoint kept elsewhere
    anything against someone who holds the keys and the disk, since that checkpoint
    Check it yourself: `countersign verify --all` in the workspace, or `countersign verify TRACE` for one trace. This page is derived from the traces and is not signed.
    "#);
}

/// The unescaped text is nowhere, and the escaped one is in every place where it belongs: without
/// the second half an empty page would pass.
#[test]
fn text_of_agents_is_shown_and_never_obeyed() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    told(&home);
    assert_eq!(report(&place, &["-o", "p.html", "--title", PAYLOAD]).code, 0);
    let page = page(&place, "p.html");
    assert_eq!(faults(&page), [""; 0]);
    for bad in ["<script", "<img", "\u{202e}"] {
        assert!(!page.contains(bad), "{bad}");
    }
    // The title of the page, that of the trace, and the two reasons.
    assert_eq!(page.matches(SHOWN).count(), 4, "{page}");
}

#[test]
fn an_approval_is_told_with_its_channel_and_the_exact_action() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    told(&home);
    let (code, facts) = facts(&place);
    assert_eq!(code, 0, "{facts}");
    let approval = &facts["approvals"]["rows"][0];
    assert_eq!(approval["channel"], "unprotected-key");
    assert_eq!(approval["by"], "person");
    assert_eq!(approval["action"]["title"], "file_delete doomed");
    assert_eq!(approval["action"]["input"], "{\"tool\":\"file_delete\",\"path\":\"doomed\"}");
    assert_eq!(facts["totals"]["channels"]["unprotected_key"], 1);
    let denial = &facts["denials"]["rows"][0];
    assert_eq!(denial["action"]["title"], "file_delete precious");
    assert_eq!(denial["reasons"][0], PAYLOAD);
    assert_eq!((&facts["approvals"]["total"], &facts["denials"]["total"]), (&1.into(), &1.into()));
}

#[test]
fn a_trace_that_is_gone_or_cut_or_unknown_is_a_gap() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (gone, cut, kept) = (told(&home), told(&home), told(&home));
    assert_eq!(report(&place, &["--json"]).code, 0);
    fs::remove_dir_all(home.workspace.trace_file(gone).parent().unwrap()).unwrap();
    let path = home.workspace.trace_file(cut);
    let text = fs::read_to_string(&path).unwrap();
    let first: Vec<&str> = text.split_inclusive('\n').take(3).collect();
    fs::write(&path, first.concat()).unwrap();
    // A stranger's trace, which is sound by itself.
    let other = TestHome::new();
    other.clock.advance(5_000);
    let stranger = told(&other);
    let to = home.workspace.trace_file(stranger);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(other.workspace.trace_file(stranger), to).unwrap();
    let screen = report(&place, &["-o", "gaps.html"]);
    let page = page(&place, "gaps.html");
    assert_eq!(faults(&page), [""; 0]);
    let named = |text: &str| {
        let ids = [(gone, "$GONE"), (cut, "$CUT"), (kept, "$KEPT"), (stranger, "$STRANGER")];
        ids.iter().fold(text.to_owned(), |text, (id, name)| text.replace(&id.to_string(), name))
    };
    assert_snapshot!(nameless(&named(&screen.to_string())), @r#"
    exit 3
    --- stdout
    period     from 2026-02-03T00:00:00.000Z until just before 2026-02-05T00:00:00.000Z
    GAP        $STRANGER unknown: the trace is there, and the log does not know it
    GAP        $CUT short: the log knows 9 events, and the trace has 3 events
    GAP        $GONE gone: the log knows 9 events, and the trace is gone
    FAILED     $STRANGER ARTIFACT_MISSING: the artifact $HASH is not in the store
    FAILED     $CUT CHAIN_BREAK: the log knows 9 events of this trace, here are 3
    traces     3: 1 passed (0 with warnings), 2 failed, 0 not verified; 2 open, 3 unpinned
    denials    2
    approvals  2: 2 with an unprotected key (an agent under the same user could have used it)
    others     0 failed or aborted, 0 gaps by coverage reports, 7 changes of keys, 0 redactions, 0 recovered tails
    log        pass, 13 entries, checkpoint 13 $HASH
    page       gaps.html
    verdict    something is wrong: 3 gaps, 2 traces in which something is wrong

    --- stderr
    "#);
    let (code, facts) = facts(&place);
    assert_eq!(code, 3);
    let gaps: Vec<_> = facts["gaps"]["rows"].as_array().unwrap().iter().collect();
    let mut kinds: Vec<_> = gaps
        .iter()
        .map(|gap| format!("{} {}", named(gap["trace_id"].as_str().unwrap()), gap["kind"]))
        .collect();
    kinds.sort();
    assert_eq!(kinds, ["$CUT \"short\"", "$GONE \"gone\"", "$STRANGER \"unknown\""]);
    // Named before anything else on the page.
    let place_of = |text: &str| page.find(text).unwrap();
    assert!(place_of(&gone.to_string()) < place_of("<section id=\"denials\">"));
}

#[test]
fn a_tampered_trace_fails_and_is_linked_to_its_place() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let id = told(&home);
    let path = home.workspace.trace_file(id);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("it is in the way", "it is in my way").replace("alert(1)", "alert(2)"),
    )
    .unwrap();
    let screen = report(&place, &["-o", "tampered.html"]);
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stdout().contains("something is wrong: 1 trace in which"), "{screen}");
    // Whoever edits what was denied does not make the denial vanish.
    assert!(screen.stdout().contains("denials    1\n"), "{screen}");
    let page = page(&place, "tampered.html");
    assert!(page.contains(&format!("<article id=\"trace-{id}\">")));
    assert!(page.contains(&format!("href=\"#trace-{id}\"")));
    assert!(page.contains("HASH_MISMATCH"), "{page}");
}

#[test]
fn only_what_lies_in_the_period_is_told() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    told(&home);
    let (_, facts) = facts(&place);
    assert_eq!((&facts["totals"]["traces"], &facts["keys"]["total"]), (&1.into(), &7.into()));
    for days in [["2026-02-02", "2026-02-02"], ["2026-02-04", "2026-02-05"]] {
        let screen = place.run(&["report", "--json", "--from", days[0], "--to", days[1]]);
        assert_eq!(screen.code, 0, "{screen}");
        let facts = screen.answer();
        assert_eq!((&facts["totals"]["traces"], &facts["keys"]["total"]), (&0.into(), &0.into()));
        assert_eq!(facts["denials"]["rows"], serde_json::json!([]));
    }
}

#[test]
fn what_ended_badly_was_removed_or_changed_is_told() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let artifact = recording.put_artifact(b"hunter2", "text/plain").unwrap();
    let hash = artifact.artifact_hash.to_hex();
    let artifacts = vec![artifact];
    let purpose = "evidence".to_owned();
    recording.submit(RecordingCommand::RecordArtifact { purpose, artifacts }).unwrap();
    recording.conclude("done").unwrap();
    let aborted = home.recording();
    aborted.submit(note("begun")).unwrap();
    let id = aborted.id().to_string();
    for arguments in [
        &["artifact", "redact", &hash, "--reason", "a password"][..],
        &["trace", "abort", &id, "--reason", "changed my mind"],
        &["keys", "rotate", "critic"],
    ] {
        let done = place.run(arguments);
        assert_eq!(done.code, 0, "{done}");
    }
    // These were recorded now, by the system's clock.
    let days = ["--from", "2026-02-03", "--to", "2100-01-01"];
    let screen = place.run(&[&["report", "--json"], &days[..]].concat());
    let facts = screen.answer();
    assert_eq!(facts["redactions"]["rows"][0]["artifact_hash"], hash);
    assert_eq!(facts["broken_off"]["rows"][0]["reason"], "changed my mind");
    assert_eq!(facts["broken_off"]["rows"][0]["status"], "aborted");
    let key = &facts["keys"]["rows"][0];
    assert_eq!((&key["change"], &key["agent_id"]), (&"rotated".into(), &"critic".into()));
}

#[test]
fn a_date_that_is_none_is_a_mistake_of_usage() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_snapshot!(place.run(&["report", "--from", "yesterday"]), @r#"
    exit 2
    --- stdout

    --- stderr
    error: `yesterday` is no date
    hint: write a day as `2026-01-31`, a time as `2026-01-31T12:00:00Z`
    "#);
}

#[test]
fn a_trace_that_is_gone_before_its_end_is_a_gap_of_every_later_period() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let open = home.workspace.begin_recording(Some("test-agent"), Some("still going")).unwrap();
    fs::remove_dir_all(home.workspace.trace_file(open.id()).parent().unwrap()).unwrap();
    let of = |from: &str, to: &str| {
        let screen = place.run(&["report", "--from", from, "--to", to, "--json"]);
        (screen.code, screen.answer()["gaps"]["total"].clone())
    };
    assert_eq!(of("2026-02-03", "2026-02-03"), (3, Value::from(1)));
    assert_eq!(
        of("2026-02-09", "2026-02-10"),
        (3, Value::from(1)),
        "it may have gone on until then"
    );
    assert_eq!(of("2026-02-01", "2026-02-02"), (0, Value::from(0)), "it had not begun");
}
