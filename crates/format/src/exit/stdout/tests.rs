//! The parts of the scanner, and what hostile output costs it.

use super::*;
use crate::exit::EXIT_SIGNAL_PROTOCOL;

const SIGNAL: &str = r#"{"protocol":"apm2_agent_exit"}"#;
const MEBIBYTES: usize = 3 << 20;

/// Output made to be read again and again, or to be kept.
fn adversarial() -> Vec<(&'static str, String)> {
    let repeated = |unit: &str| unit.repeat(MEBIBYTES / unit.len());
    let filler = "1,".repeat(400);
    let chain = "{\"a\":\n".repeat(63);
    vec![
        ("brackets that nothing closes", repeated("{\"a\":[\n")),
        ("objects that nothing closes", repeated("{\"a\":\n")),
        ("arrays that nothing closes", repeated("[\n")),
        ("long lines that nest too deep", repeated(&format!("{{\"a\":[{filler}1],\"b\":\n"))),
        ("strings that nothing closes", repeated("{\"a\":\"\n")),
        ("one string that nothing closes", format!("{{\"a\":\"{}", repeated("x"))),
        ("one array of objects without end", format!("[\n{}", repeated("{},\n"))),
        ("an error before every limit", repeated(&format!("{chain}[{filler}\n{filler}!\n"))),
        (
            "a deep chain that fails just inside the limit",
            repeated(&format!("{chain}[{}!\n", "1,\n".repeat(21_000))),
        ),
        (
            "a deep chain of signals that fails just inside the limit",
            repeated(&format!(
                "{}[{}!\n",
                "{\"protocol\":\"apm2_agent_exit\",\"a\":\n".repeat(63),
                "1,\n".repeat(20_000)
            )),
        ),
        (
            "small objects in an array that fails",
            repeated(&format!("[\n{}!\n", "{},\n".repeat(16_000))),
        ),
        ("opening brackets in a row", repeated("{")),
        ("backslashes", format!("{{\"a\":\"{}", repeated("\\"))),
        ("escapes that nothing ends", repeated("\u{1b}]\u{1b}[\u{1b}P")),
        ("C1 controls", repeated("\u{9d}\u{9b}\u{90}")),
        ("byte order marks", repeated("\u{feff}")),
        ("fences", repeated("```\n")),
        ("signals, all alike", repeated(&format!("{SIGNAL}\n"))),
        (
            "signals in an array that nothing closes",
            format!("[\n{}", repeated(&format!("{SIGNAL},\n"))),
        ),
    ]
}

#[test]
fn hostile_output_is_read_twice_at_most_and_never_kept_for_long() {
    for (name, input) in adversarial() {
        let mut scanner = StdoutScanner::new();
        let mut kept = 0;
        for piece in input.as_bytes().chunks(4096) {
            scanner.push(piece);
            let latest = scanner.latest.as_ref().and_then(|latest| latest.text.as_ref());
            kept = kept.max(scanner.text.capacity() + latest.map_or(0, Vec::capacity));
            assert!(scanner.unclosed.len() <= 64, "{name}");
        }
        // Twice, and one byte for each time that a candidate fails.
        assert!(scanner.steps <= 3 * input.len() as u64, "{name}: {} steps", scanner.steps);
        assert!(kept <= 3 * INPUT_BYTES_MAX, "{name}: {kept} bytes kept");
    }
}

#[test]
fn a_large_object_is_skipped_without_being_kept() {
    let mut scanner = StdoutScanner::new();
    scanner.push(b"{\"log\":\"");
    for _ in 0..64 {
        scanner.push(&[b'x'; 4096]);
    }
    assert_eq!(scanner.text, b"");
    scanner.push(format!("\"}}\n{SIGNAL}").as_bytes());
    assert_eq!(scanner.finish(), StdoutSignal::Last(SIGNAL.into()));
}

fn shown(input: &[u8]) -> Vec<u8> {
    let mut terminal = Terminal::default();
    let mut out = Vec::new();
    let mut keep = |shown| match shown {
        Shown::Nothing => {}
        Shown::One(byte) => out.push(byte),
        Shown::Two(first, second) => out.extend([first, second]),
    };
    for &byte in input {
        keep(terminal.step(byte, false));
    }
    keep(terminal.finish());
    out
}

#[test]
fn a_terminal_obeys_sequences_and_shows_the_rest() {
    let cases: &[(&[u8], &[u8])] = &[
        (b"plain", b"plain"),
        (b"\x1b[31;1mred\x1b[0m", b"red"),
        (b"\x1b[?25lx\x1b[2 qy", b"xy"),
        (b"\x1b]0;title\x07x", b"x"),
        (b"\x1b]8;;https://a.example\x1b\\x\x1b]8;;\x1b\\", b"x"),
        (b"\x1bPdcs\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", b"abcd"),
        (b"\x1b7a\x1b8\x1bcb\x1b(Bc\x1b#8d", b"abcd"),
        (b"\x1b\x1b[1mx", b"x"),
        (b"\x1b]0;\x1b[1mx", b"x"),
        (b"\x1b]0;cancelled\x18x", b"x"),
        (b"\x1b[12\x18x", b"x"),
        // Nothing goes on over a line break.
        (b"\x1b]0;unfinished\nx", b"\nx"),
        (b"\x1b[12\nx", b"\nx"),
        (b"\x1b\nx", b"\nx"),
        (b"\x1b(\nx", b"\nx"),
        // C1 in both forms, but not inside of characters.
        ("\u{9b}31mx\u{9d}0;t\u{9c}y\u{85}z".as_bytes(), b"xyz"),
        (b"\x9b31mx\x9d0;t\x9cy\x85z", b"xyz"),
        ("✓ é 🚀 Ü\u{a0}".as_bytes(), "✓ é 🚀 Ü\u{a0}".as_bytes()),
        ("\u{1b}]0;✓ done\u{7}x".as_bytes(), b"x"),
        ("\u{1b}]0;✓\u{9c}x".as_bytes(), b"x"),
        (b"\xc2\x1b[1mx\xc2\xc2\x9b1my\xc2", b"\xc2x\xc2y\xc2"),
        // Not a character, and not a control either.
        (b"\xff\xa0\xe2\x82x", b"\xff\xa0\xe2\x82x"),
    ];
    for (input, expected) in cases {
        assert_eq!(
            shown(input),
            expected.to_vec(),
            "{}: {}",
            input.escape_ascii(),
            shown(input).escape_ascii()
        );
    }
}

/// Where the value ends with which `text` begins, and whether it names the protocol.
fn lexed(text: &str) -> (usize, Step, bool) {
    let mut bytes = text.bytes().enumerate();
    let mut grammar = Grammar::opened_by(bytes.next().unwrap().1, 0);
    let end = bytes
        .map(|(at, byte)| (at, grammar.step(byte, at)))
        .find(|(_, step)| *step != Step::More)
        .unwrap_or((text.len(), Step::More));
    (end.0, end.1, grammar.names_protocol())
}

#[test]
fn every_json_value_closes_where_it_ends() {
    for text in [
        "{}",
        "[]",
        "{ }",
        r#"{"a":{"b":[1,-2.5e+3,true,null,"}"]},"c":"\"]\\"}"#,
        "[\n\t1 ,\r\n 2 ]",
        // Left to the strict reader.
        r#"{"a":1,}"#,
        "[01,NaN,]",
        r#"{"a":"\x\ud800"}"#,
    ] {
        assert_eq!(lexed(text), (text.len() - 1, Step::Closed, false), "{text}");
        assert_eq!(lexed(&format!("{text}}}")), (text.len() - 1, Step::Closed, false), "{text}");
    }
    for (text, at) in [
        ("{]", 1),
        ("[}", 1),
        ("{a:1}", 1),
        ("{,}", 1),
        ("[,]", 1),
        (r#"{"a"}"#, 4),
        (r#"{"a":}"#, 5),
        (r#"{"a" 1}"#, 5),
        ("[1 2]", 3),
        ("[1]]", 2),
        (r#"["a"#, 3),
        ("[\"a\n\"]", 3),
        ("[\u{feff}]", 1),
    ] {
        let (end, step, _) = lexed(text);
        assert_eq!(end, at, "{text}");
        assert_eq!(step == Step::Closed, text == "[1]]", "{text}");
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(lexed(&nested(64)), (127, Step::Closed, false));
    assert_eq!(lexed(&nested(65)), (64, Step::Failed, false));
}

#[test]
fn only_a_member_of_the_outermost_object_names_the_protocol() {
    for (names, text) in [
        (true, SIGNAL),
        (true, r#"{"a":{},"protocol" : "apm2_agent_exit","b":1}"#),
        (true, r#"{"protocol":"other","protocol":"apm2_agent_exit"}"#),
        (true, r#"{"protocol":"apm2_agent_exit","protocol":"other"}"#),
        (true, r#"{"\u0070rotocol":"apm2\u005fagent_exit"}"#),
        (false, r#"{"protocol":"apm2_agent_exit2"}"#),
        (false, r#"{"protocol":"apm2_agent_exi"}"#),
        (false, r#"{"protocol":["apm2_agent_exit"]}"#),
        (false, r#"{"protocol":1,"b":"apm2_agent_exit"}"#),
        (false, r#"{"Protocol":"apm2_agent_exit"}"#),
        (false, r#"{"a":{"protocol":"apm2_agent_exit"}}"#),
        (false, r#"{"a":"protocol","b":"apm2_agent_exit"}"#),
        (false, r#"["protocol","apm2_agent_exit"]"#),
        (false, r#"[{"protocol":"apm2_agent_exit"}]"#),
    ] {
        assert_eq!(lexed(text), (text.len() - 1, Step::Closed, names), "{text}");
    }
    let long = format!(r#"{{"protocol":"apm2_agent_exit{}"}}"#, " ".repeat(100));
    assert!(!lexed(&long).2);
    let escaped: String =
        EXIT_SIGNAL_PROTOCOL.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    assert!(lexed(&format!(r#"{{"protocol":"{escaped}"}}"#)).2);
    assert!(!lexed(&format!(r#"{{"protocol":"{escaped}x"}}"#)).2);
}
