//! What the API says of traces, events, artifacts and the log, against the files themselves.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::viewer::{Viewer, files, with_session};
use crate::place::Place;

fn ledger(place: &Place, id: &str) -> Vec<u8> {
    fs::read(place.path().join(format!(".countersign/traces/{id}/events.jsonl"))).unwrap()
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_trace_is_shown_as_its_ledger_has_it() {
    let (place, id) = with_session();
    let viewer = Viewer::start(&place);
    let bytes = ledger(&place, &id);
    let events = lines(&bytes);
    let shown = viewer.ask(&format!("/traces/{id}"));
    let last = events.last().unwrap();
    assert_eq!(
        (&shown["kind"], &shown["status"], &shown["closed"], &shown["events"], &shown["head"]),
        (
            &json!("session"),
            &json!("succeeded"),
            &json!(true),
            &json!(events.len()),
            &last["event_hash"]
        )
    );
    assert_eq!(shown["log"], json!({ "size": events.len(), "closed": true }));
    let page = viewer.ask(&format!("/traces/{id}/events?limit=200"));
    let items: Vec<&Value> =
        page["items"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
    assert_eq!(items, events.iter().collect::<Vec<_>>(), "whole events, in order");
    assert_eq!((&page["matched"], &page["total"]), (&json!(events.len()), &json!(events.len())));
    assert_eq!(viewer.get(&format!("/traces/{id}/ledger")).body, bytes);
    let verdict = viewer.ask(&format!("/traces/{id}/verdict"));
    let command = place.run(&["verify", &id, "--json", "--no-write"]);
    let said: Value = serde_json::from_slice(&command.stdout).unwrap();
    assert_eq!(verdict["report_digest"], said["report_digest"], "the same verdict");
    assert_eq!(verdict["signer"], "pinned");
}

#[test]
fn pages_and_filters_fit_together() {
    let (place, id) = with_session();
    let viewer = Viewer::start(&place);
    let events = lines(&ledger(&place, &id));
    let facets = viewer.ask(&format!("/traces/{id}/facets"));
    for (member, pointer, name) in [
        ("types", "/event_type", "type"),
        ("roles", "/actor/role", "role"),
        ("actors", "/actor/agent_id", "actor"),
    ] {
        for facet in facets[member].as_array().unwrap() {
            let value = facet["name"].as_str().unwrap();
            let expected: Vec<usize> = (0..events.len())
                .filter(|&at| events[at].pointer(pointer).unwrap() == value)
                .collect();
            assert_eq!(facet["count"], json!(expected.len()), "{value}");
            let mut found = Vec::new();
            // One at a time: pages neither overlap nor leave anything out.
            for offset in 0..expected.len() {
                let path = format!("/traces/{id}/events?{name}={value}&offset={offset}&limit=1");
                let page = viewer.ask(&path);
                assert_eq!(page["matched"], json!(expected.len()));
                found.push(page["items"][0]["index"].as_u64().unwrap() as usize);
            }
            assert_eq!(found, expected, "{value}");
        }
    }
    let several = viewer.ask(&format!(
        "/traces/{id}/events?type=claim_issued&type=final_statement_signed&role=executor"
    ));
    assert_eq!(several["matched"], json!(2));
    let text = viewer.ask(&format!("/traces/{id}/events?text=HELLO%20viewer"));
    assert!(text["matched"].as_u64().unwrap() > 0, "whatever the case: {text}");
    assert_eq!(viewer.ask(&format!("/traces/{id}/events?text=nowhere-at-all"))["matched"], 0);
    assert_eq!(viewer.ask(&format!("/traces/{id}/events?offset=9000"))["items"], json!([]));
}

#[test]
fn every_event_is_checked_on_the_spot_and_an_edited_one_is_caught() {
    let (place, id) = with_session();
    let viewer = Viewer::start(&place);
    let bytes = ledger(&place, &id);
    let count = lines(&bytes).len();
    let mut linked = BTreeSet::new();
    for index in 0..count {
        let one = viewer.ask(&format!("/traces/{id}/events/{index}"));
        let checks = &one["checks"];
        assert_eq!(checks["canonical"], true);
        for hash in ["payload_hash", "event_hash", "previous"] {
            assert_eq!(checks[hash]["stated"], checks[hash]["computed"], "{hash} of {index}");
        }
        assert_eq!(checks["signature"]["status"], "valid");
        for link in one["links"]["to"].as_array().unwrap() {
            linked.insert((
                index as u64,
                link["index"].as_u64().unwrap(),
                link["rel"].clone().to_string(),
            ));
        }
        for artifact in one["artifacts"].as_array().unwrap() {
            assert_eq!(artifact["present"], true);
        }
    }
    // What one event says of another, the other says as well.
    let mut back = BTreeSet::new();
    for index in 0..count {
        let one = viewer.ask(&format!("/traces/{id}/events/{index}"));
        for link in one["links"]["from"].as_array().unwrap() {
            back.insert((
                link["index"].as_u64().unwrap(),
                index as u64,
                link["rel"].clone().to_string(),
            ));
        }
    }
    assert_eq!(linked, back);
    assert!(linked.len() > 4, "{linked:?}");
    assert_eq!(viewer.get(&format!("/traces/{id}/events/{count}")).status, 404);

    let path = place.path().join(format!(".countersign/traces/{id}/events.jsonl"));
    let text = String::from_utf8(bytes).unwrap();
    let at =
        text.lines().position(|line| line.contains("\"event_type\":\"proposal_created\"")).unwrap();
    let edited: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(index, line)| match index == at {
            true => line.replacen("echo", "ecno", 1),
            false => line.to_owned(),
        })
        .collect();
    fs::write(&path, edited.join("\n") + "\n").unwrap();
    let one = viewer.ask(&format!("/traces/{id}/events/{at}"));
    let checks = &one["checks"];
    assert_ne!(checks["payload_hash"]["stated"], checks["payload_hash"]["computed"]);
    assert_eq!(checks["signature"]["status"], "invalid");
    let verdict = viewer.ask(&format!("/traces/{id}/verdict"));
    assert_eq!(verdict["verification_status"], "fail");
    let one = viewer.ask(&format!("/traces/{id}/events/{at}"));
    let codes: Vec<&str> = one["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["failure_code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["HASH_MISMATCH", "SIG_INVALID"]);
    let next = viewer.ask(&format!("/traces/{id}/events/{}", at + 1));
    assert_ne!(next["checks"]["previous"]["stated"], next["checks"]["previous"]["computed"]);
}

#[test]
fn artifacts_come_as_bytes_to_be_saved_whole_or_in_part() {
    let (place, id) = with_session();
    let viewer = Viewer::start(&place);
    let events = lines(&ledger(&place, &id));
    let hashes: BTreeSet<String> = events
        .iter()
        .flat_map(|event| event["artifacts"].as_array().unwrap().clone())
        .map(|artifact| artifact["artifact_hash"].as_str().unwrap().to_owned())
        .collect();
    assert!(hashes.len() > 2);
    for hash in &hashes {
        let (a, b) = (&hash[..2], &hash[2..4]);
        let stored =
            fs::read(place.path().join(format!(".countersign/artifacts/sha256/{a}/{b}/{hash}")))
                .unwrap();
        let path = format!("/artifacts/{hash}");
        let whole = viewer.get(&path);
        assert_eq!((whole.status, &whole.body), (200, &stored));
        assert_eq!(whole.header("content-type"), Some("application/octet-stream"));
        assert_eq!(
            whole.header("content-disposition"),
            Some(format!("attachment; filename=\"{hash}.bin\"").as_str())
        );
        assert_eq!(
            whole.header("content-security-policy"),
            Some("default-src 'none'; sandbox; frame-ancestors 'none'")
        );
        if stored.len() > 4 {
            let part = viewer.get_with(&path, &["range: bytes=1-3"]);
            assert_eq!((part.status, part.body.as_slice()), (206, &stored[1..4]));
            let range = format!("bytes 1-3/{}", stored.len());
            assert_eq!(part.header("content-range"), Some(range.as_str()));
        }
        let beyond = viewer.get_with(&path, &[&format!("range: bytes={}-", stored.len())]);
        assert_eq!(beyond.code(), (416, "range".to_owned()));
    }
    let none = viewer.get(&format!("/artifacts/{}", "0".repeat(64)));
    assert_eq!(none.code(), (404, "not_found".to_owned()));
    assert_eq!(viewer.get("/artifacts/..%2f..%2flog%2fevents.jsonl").status, 404);
}

#[test]
fn traces_are_found_by_kind_state_text_and_time() {
    let (place, id) = with_session();
    let opened = place.run(&["work", "open", "Paint the Fence", "--label", "W-7", "--json"]);
    assert_eq!(opened.code, 0, "{opened}");
    let viewer = Viewer::start(&place);
    let ids = |query: &str| -> Vec<String> {
        let page = viewer.ask(&format!("/traces{query}"));
        let items = page["items"].as_array().unwrap();
        assert_eq!(page["total"], 2);
        items.iter().map(|it| it["trace_id"].as_str().unwrap().to_owned()).collect()
    };
    let all = ids("");
    let (work, id) = (all[0].as_str(), id.as_str());
    assert_eq!(all, [work, id], "the newest first");
    assert_eq!(ids("?order=oldest"), [id, work]);
    assert_eq!(ids("?kind=work"), [work]);
    assert_eq!(ids("?kind=work&kind=session"), all);
    assert_eq!(ids("?closed=true"), [id]);
    assert_eq!(ids("?status=running"), [work]);
    assert_eq!(ids("?text=paint%20the%20FENCE"), [work]);
    assert_eq!(ids(&format!("?text={}", &id[..20])), [id]);
    assert_eq!(ids("?to=2020-01-01"), Vec::<String>::new());
    assert_eq!(ids("?from=2020-01-01&limit=1&offset=1"), [id]);
    for bad in [
        "?kind=wrok",
        "?status=x",
        "?closed=yes",
        "?from=yesterday",
        "?limit=501",
        "?page=1",
        "?order=up",
    ] {
        assert_eq!(
            viewer.get(&format!("/traces{bad}")).code(),
            (400, "bad_request".to_owned()),
            "{bad}"
        );
    }
    let item = viewer.ask(&format!("/work/{work}"));
    assert_eq!(item["item"]["label"], "W-7");
    assert_eq!(item["transitions"][0]["type"], "work_opened");
    assert_eq!(viewer.ask("/work")["items"][0]["title"], "Paint the Fence");
    assert_eq!(viewer.get(&format!("/flows/{id}")).status, 404, "a session is no flow");
}

#[test]
fn reading_changes_no_file() {
    let (place, id) = with_session();
    let home = place.path().join(".countersign");
    let before = files(&home);
    let viewer = Viewer::start(&place);
    let document = viewer.ask("/openapi.json");
    let hash = "0".repeat(64);
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations.get("get").is_none() || path == "/live" {
            continue;
        }
        let path = path.replace("{id}", &id).replace("{index}", "1").replace("{hash}", &hash);
        let answer = viewer.get(&path.replace("{report_id}", &id));
        assert!(answer.status == 200 || answer.status == 404, "{path}: {answer:?}");
        asked += 1;
    }
    assert!(asked > 20, "{asked}");
    assert_eq!(files(&home), before);
}

#[test]
fn what_is_recorded_is_told_to_whoever_listens() {
    let (place, id) = with_session();
    let viewer = Viewer::start(&place);
    let mut news = viewer.listen("");
    news.next("hello");
    assert_eq!(place.run(&["work", "open", "Something new"]).code, 0);
    let told = news.next("traces");
    assert_eq!(told["items"][0]["title"], "Something new");
    // A trace that is followed is told from the place on that the listener names.
    let count = lines(&ledger(&place, &id)).len();
    let mut followed = viewer.listen(&format!("?trace={id}&from={}", count - 2));
    let told = followed.next("events");
    let places: Vec<&Value> =
        told["items"].as_array().unwrap().iter().map(|it| &it["index"]).collect();
    assert_eq!(places, [&json!(count - 2), &json!(count - 1)]);
    assert_eq!(viewer.get("/live?from=3").code(), (400, "bad_request".to_owned()));
}

#[test]
fn a_damaged_trace_is_shown_as_far_as_it_can_be_read() {
    let (place, id) = with_session();
    let path = place.path().join(format!(".countersign/traces/{id}/events.jsonl"));
    let text = fs::read_to_string(&path).unwrap();
    let mut all: Vec<&str> = text.lines().collect();
    let count = all.len();
    all[3] = "{\"not\": json";
    fs::write(&path, all.join("\n") + "\n").unwrap();
    let viewer = Viewer::start(&place);
    let page = viewer.ask(&format!("/traces/{id}/events"));
    assert_eq!(page["total"], json!(count));
    assert_eq!(page["items"][3]["event"], Value::Null);
    assert_eq!(page["items"][3]["unreadable"], "expected a value at line 1 column 9");
    assert_eq!(page["items"][4]["event"]["seq"], 4, "what follows is shown");
    let row = viewer.ask(&format!("/traces/{id}"));
    assert!(row["unreadable"].as_str().unwrap().starts_with("event 3: "), "{row}");
    let one = viewer.ask(&format!("/traces/{id}/events/3"));
    assert_eq!((&one["line"], &one["checks"]), (&json!("{\"not\": json"), &Value::Null));
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    assert_eq!(viewer.get(&format!("/traces/{id}/events")).status, 404);
}

#[test]
fn a_trace_that_the_log_knows_and_that_is_gone_is_named() {
    let (place, id) = with_session();
    let count = lines(&ledger(&place, &id)).len();
    let viewer = Viewer::start(&place);
    assert_eq!(viewer.ask("/workspace")["gone"], json!([]));
    let mut news = viewer.listen("");
    news.next("hello");
    fs::remove_dir_all(place.path().join(format!(".countersign/traces/{id}"))).unwrap();
    // Of what is gone there is no row to tell: whoever listens is told to look at everything.
    assert_eq!(news.next("traces")["items"], json!([]));
    news.next("hello");
    let workspace = until(&viewer, "/workspace", |it| it["gone_count"] != 0);
    assert_eq!(
        (&workspace["gone_count"], &workspace["gone"]),
        (&json!(1), &json!([{ "trace_id": id, "kind": "session", "size": count, "closed": true }]))
    );
    let gone = viewer.get(&format!("/traces/{id}"));
    assert_eq!(gone.code(), (404, "gone".to_owned()));
    let message = format!("trace {id} is gone: the workspace log knows {count} of its events");
    assert_eq!(gone.json()["error"]["message"], json!(message));
    let never = viewer.get("/traces/01kg9ys7g00000000000000001");
    assert_eq!(never.code(), (404, "not_found".to_owned()));
}

/// Asks again until an answer fits: what was listed is verified by and by.
fn until(viewer: &Viewer, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let started = std::time::Instant::now();
    loop {
        let answer = viewer.ask(path);
        if fits(&answer) {
            return answer;
        }
        assert!(started.elapsed().as_secs() < 30, "{answer}");
        std::thread::yield_now();
    }
}

#[test]
fn a_verdict_in_the_list_is_of_the_bytes_that_lie_there_now() {
    let (place, id) = with_session();
    let viewer = Viewer::start(&place);
    let listed = until(&viewer, "/traces", |it| !it["items"][0]["verdict"].is_null());
    assert_eq!(listed["items"][0]["verdict"]["verification_status"], "pass");
    assert_eq!(viewer.ask("/traces?verdict=fail")["matched"], 0);
    assert_eq!(viewer.ask("/traces?verdict=pass")["matched"], 1);
    // One byte in its place, and the old time of change.
    let path = place.path().join(format!(".countersign/traces/{id}/events.jsonl"));
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("hello viewer", "jello viewer", 1)).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    let now = viewer.ask("/traces");
    let status = &now["items"][0]["verdict"]["verification_status"];
    assert!(status.is_null() || status == "fail", "{now}");
    let failing = until(&viewer, "/traces?verdict=fail", |it| it["matched"] == 1);
    assert_eq!(failing["items"][0]["trace_id"], json!(id));
    assert_eq!(viewer.ask("/workspace")["failing"], 1);
    assert_eq!(viewer.get("/traces?verdict=maybe").status, 400);
    let verdict = viewer.ask(&format!("/traces/{id}/verdict"));
    assert_eq!(verdict["verification_status"], "fail");
}
