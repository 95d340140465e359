//! Who is let in, and what every answer says about itself.

use serde_json::json;

use super::viewer::{Viewer, with_session};

#[test]
fn whoever_does_not_belong_here_is_turned_away_with_a_code() {
    let (place, _) = with_session();
    let viewer = Viewer::start(&place);
    let host = format!("host: {}", viewer.address);
    let bearer = format!("authorization: Bearer {}", viewer.token);
    let wrong = "authorization: Bearer 0123456789abcdef0123456789abcdef";
    let get = |lines: &[&str]| viewer.send("GET /api/v1/workspace", lines, b"");
    assert_eq!(get(&[&host, &bearer]).status, 200);
    for (lines, status, code) in [
        (vec![host.as_str()], 401, "unauthorized"),
        (vec![&host, wrong], 401, "unauthorized"),
        (vec!["host: evil.example", &bearer], 421, "forbidden"),
        (vec![&host, &bearer, "origin: http://evil.example"], 403, "forbidden"),
        (vec![&host, &bearer, "origin: null"], 403, "forbidden"),
        (vec![&host, &bearer, "sec-fetch-site: cross-site"], 403, "forbidden"),
        (vec![&host, &host, &bearer], 400, "bad_request"),
    ] {
        let answer = get(&lines);
        assert_eq!(answer.code(), (status, code.to_owned()), "{lines:?}");
        assert!(!answer.head.to_lowercase().contains("access-control"), "{answer:?}");
    }
    let own = format!("origin: http://{}", viewer.address);
    assert_eq!(get(&[&host, &bearer, &own, "sec-fetch-site: same-origin"]).status, 200);
}

#[test]
fn the_page_needs_no_token_and_may_load_nothing_from_elsewhere() {
    let (place, _) = with_session();
    let viewer = Viewer::start(&place);
    let host = format!("host: {}", viewer.address);
    for path in ["/", "/viewer/main.mjs", "/verifier/verify.mjs", "/favicon.svg"] {
        let answer = viewer.send(&format!("GET {path}"), &[&host], b"");
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(
            answer.header("content-security-policy"),
            Some(
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                 connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
                 frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types \
                 countersign"
            ),
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(!answer.head.contains(&viewer.token) && !answer.body.is_empty());
        let tag = format!("if-none-match: {}", answer.header("etag").unwrap());
        assert_eq!(viewer.send(&format!("GET {path}"), &[&host, &tag], b"").status, 304);
    }
    let evil = viewer.send("GET /", &["host: evil.example"], b"");
    assert_eq!(evil.status, 421, "a name that somebody has point here");
    let embedded = viewer.send(
        "GET /",
        &[&host, "sec-fetch-site: cross-site", "sec-fetch-mode: no-cors"],
        b"",
    );
    assert_eq!(embedded.status, 403, "another page may not embed it");
    let followed = viewer.send(
        "GET /",
        &[&host, "sec-fetch-site: cross-site", "sec-fetch-mode: navigate"],
        b"",
    );
    assert_eq!(followed.status, 200, "a person may follow a link");
}

#[test]
fn only_answering_changes_anything_and_nothing_else_takes_a_body() {
    let (place, id) = with_session();
    let viewer = Viewer::start(&place);
    let host = format!("host: {}", viewer.address);
    let bearer = format!("authorization: Bearer {}", viewer.token);
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for path in ["/workspace", "/traces", &format!("/traces/{id}/verdict"), "/questions"] {
            let first = format!("{method} /api/v1{path}");
            let answer = viewer.send(&first, &[&host, &bearer, "content-length: 0"], b"");
            assert_eq!(answer.code(), (405, "method_not_allowed".to_owned()), "{first}");
        }
    }
    let answer = viewer.get("/questions/01kg9ys7g00000000000000001/answer");
    assert_eq!(answer.code(), (405, "method_not_allowed".to_owned()));
    assert_eq!(viewer.get("/nothing").code(), (404, "not_found".to_owned()));
    let long = json!({ "decision": "yes", "reason": "x".repeat(70_000) });
    let answer = viewer.post("/questions/01kg9ys7g00000000000000001/answer", &long);
    assert_eq!(answer.code(), (413, "too_large".to_owned()));
}

#[test]
fn a_port_that_is_taken_is_told_with_a_way_out() {
    let (place, _) = with_session();
    let viewer = Viewer::start(&place);
    let port = viewer.address.port().to_string();
    let second = place.run(&["serve", "--port", &port]);
    assert_eq!(second.code, 1, "{second}");
    assert!(second.stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{second}");
    assert!(second.stderr.contains("hint: name another port, or 0 for any that is free"));
}
