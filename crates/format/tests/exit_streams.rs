//! The two channels of exit signals: what is found in a stream, however it is cut into pieces.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failing helper is a failing test"
)]

use countersign_format::exit::{
    DESCRIPTOR_BYTES_MAX, DescriptorFault, ExitSignal, INPUT_BYTES_MAX, StdoutScanner,
    StdoutSignal, read_descriptor,
};
use proptest::prelude::*;
use serde_json::Value;

const NAME: &str = "apm2_agent_exit";
const ONE: &str = concat!(
    r#"{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","#,
    r#""exit_reason":"completed"}"#,
);
const OTHER: &str = concat!(
    r#"{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","#,
    r#""exit_reason":"error"}"#,
);
/// The members of [`ONE`] in another order and on lines of their own.
const PRETTY: &str = "{\n  \"version\": \"1.0.0\",\n  \"protocol\": \"apm2_agent_exit\",\n  \
                      \"exit_reason\": \"completed\",\n  \"phase_completed\": \"REVIEW\"\n}";

type Case = (&'static str, Vec<u8>, StdoutSignal);

fn case(name: &'static str, input: impl Into<Vec<u8>>, expected: StdoutSignal) -> Case {
    (name, input.into(), expected)
}

fn last(signal: impl Into<Vec<u8>>) -> StdoutSignal {
    StdoutSignal::Last(signal.into())
}

const fn not_last(bytes_after: u64) -> StdoutSignal {
    StdoutSignal::NotLast { bytes_after }
}

fn scan(input: &[u8]) -> StdoutSignal {
    scan_pieces([input])
}

fn scan_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> StdoutSignal {
    let mut scanner = StdoutScanner::new();
    pieces.into_iter().for_each(|piece| scanner.push(piece));
    scanner.finish()
}

/// Where a signal stands and what surrounds it.
fn places() -> Vec<Case> {
    use StdoutSignal::{Absent, Ambiguous};
    vec![
        case("nothing", "", Absent),
        case("white space", " \r\n\t\n", Absent),
        case("prose", "all done\n", Absent),
        case("alone", ONE, last(ONE)),
        case("pretty-printed", PRETTY, last(PRETTY)),
        case("after prose", format!("done\n{ONE}\n"), last(ONE)),
        case("pretty-printed after prose", format!("done\n\n{PRETTY}\n\n"), last(PRETTY)),
        case("indented", format!("done\n \t {ONE} \n"), last(ONE)),
        case(
            "CRLF",
            format!("done\r\n{}\r\n\r\n", PRETTY.replace('\n', "\r\n")),
            last(PRETTY.replace('\n', "\r\n")),
        ),
        case("byte order mark", format!("\u{feff}{ONE}"), last(ONE)),
        case("byte order mark after prose", format!("x\n \u{feff}{ONE}\n\u{feff}"), last(ONE)),
        case("half a byte order mark", [b"\xef\xbb", ONE.as_bytes()].concat(), Absent),
        case("half a byte order mark after", [ONE.as_bytes(), b"\n\xef\xbb"].concat(), not_last(2)),
        case("in a fence", format!("done:\n```json\n{PRETTY}\n```\n"), last(PRETTY)),
        case("in a fence without a language", format!("```\n{ONE}\n```"), last(ONE)),
        case("in a fence of tildes", format!("~~~~\n{ONE}\n ~~~~ \r\n\n"), last(ONE)),
        case("in a fence that stays open", format!("```json\n{ONE}"), last(ONE)),
        case("two fences after", format!("{ONE}\n```\n```\n"), not_last(3)),
        case("a fence that opens after", format!("{ONE}\n```json\n"), not_last(7)),
        case("two marks after", format!("{ONE}\n``\n"), not_last(2)),
        case("mixed marks after", format!("{ONE}\n``~\n"), not_last(3)),
        case("a fence on the same line", format!("{ONE}```\n"), not_last(3)),
        case("text after the fence", format!("```\n{ONE}\n```\nbye\n"), not_last(3)),
        case("text before the fence", format!("```\n{ONE}\nbye\n```\n"), not_last(6)),
        case("text after", format!("{ONE}\nsee you\n"), not_last(6)),
        case("text on the same line", format!("{ONE}."), not_last(1)),
        case("text before it on the line", format!("exit: {ONE}\n"), Absent),
        case("quoted in Markdown", format!("> {ONE}\n- {ONE}\n"), Absent),
        case("another object after", format!("{ONE}\n{{\"a\":1}}\n"), not_last(7)),
        case("another object on its line", format!("{ONE}{{}}\n"), not_last(2)),
        case("another object before", format!("{{\"a\":\n1}}\n{ONE}\n"), last(ONE)),
        case("an array before", format!("[1,\n2]\n{ONE}\n"), last(ONE)),
        case("a log line before", format!("[INFO] x {{\n[12:00 {ONE}\n{ONE}\n"), last(ONE)),
        case("twice", format!("{ONE}\n{ONE}\n"), last(ONE)),
        case("twice, spelt differently", format!("{ONE}\nand\n{PRETTY}\n"), last(PRETTY)),
        case("twice, and text after", format!("{ONE}\n{ONE}\nx"), not_last(1)),
        case("two that differ", format!("{ONE}\n{OTHER}\n"), Ambiguous { count: 2 }),
        case("two that differ, then text", format!("{ONE}\nx\n{OTHER}\nx"), Ambiguous { count: 2 }),
        case("the first one again", format!("{ONE}\n{OTHER}\n{ONE}"), Ambiguous { count: 3 }),
        case("a quoted example", format!("```\n{OTHER}\n```\n{ONE}\n"), Ambiguous { count: 2 }),
        case("bells and form feeds after", format!("{ONE}\n\x07\x0c\x00"), last(ONE)),
    ]
}

/// JSON around signals, and JSON that is none.
fn structures() -> Vec<Case> {
    use StdoutSignal::{Absent, Ambiguous, Broken};
    let quoted = Value::from(ONE).to_string();
    let deep = |n: usize| format!("{}{ONE}{}", "{\"a\":\n".repeat(n), "}".repeat(n));
    vec![
        case("in a string", format!("{{\"log\":{quoted}}}"), Absent),
        case("in an object", format!("{{\"result\":\n{ONE}\n}}"), Absent),
        case("in an array", format!("[\n{ONE},\n{OTHER}\n]\n"), Absent),
        case("in a signal", format!("{{\"protocol\":\"{NAME}\",\"x\":\n{OTHER}\n}}"), {
            last(format!("{{\"protocol\":\"{NAME}\",\"x\":\n{OTHER}\n}}"))
        }),
        case("in JSON that a label precedes", format!("out: {{\"a\":\n{ONE}\n}}"), not_last(1)),
        case("as deep as JSON goes", deep(63), Absent),
        case("deeper than JSON goes", deep(64), not_last(64)),
        case("in JSON that never closes", format!("{{\"a\":[\n{ONE}\n"), last(ONE)),
        case("in JSON that never closes, with more", format!("[\n{ONE},\n"), not_last(1)),
        case("in JSON that fails", format!("{{\"a\":[\n{ONE},\n{OTHER}\n!"), {
            Ambiguous { count: 2 }
        }),
        case("nested in JSON that fails", format!("[\n{{\"a\":\n{ONE}\n}},\n!\n{ONE}"), last(ONE)),
        case("after a bracket", format!("{{\n{ONE}\n"), last(ONE)),
        case("after an object that breaks off", format!("{{\"a\": 1,\n{ONE}\n"), last(ONE)),
        case("after a string that breaks off", format!("{{\"a\":\"x\n{ONE}\n"), last(ONE)),
        case("after prose with a brace", format!("{{ not JSON\n{ONE}\n"), last(ONE)),
        case(
            "an object of something else",
            r#"{"protocol":"log","msg":"apm2_agent_exit"}"#,
            Absent,
        ),
        case("the name as a key", r#"{"apm2_agent_exit":"protocol"}"#, Absent),
        case("an array of its values", r#"["apm2_agent_exit","1.0.0"]"#, Absent),
        case("cut off", &ONE[..ONE.len() - 1], Broken),
        case("cut off before its name", &ONE[..20], Absent),
        case("a line break in a string", ONE.replace("1.0.0", "1.0\n.0"), Broken),
        case("no comma", ONE.replace(",\"ver", " \"ver"), Broken),
        case("broken, then whole", format!("{}\n{ONE}\n", &ONE[..60]), last(ONE)),
        case("whole, then broken", format!("{ONE}\n{}\n", &ONE[..60]), not_last(60)),
    ]
}

/// Objects that name the protocol and break other rules.
fn invalid_signals() -> Vec<Case> {
    let members = |more: &str| format!("{{\"protocol\":\"{NAME}\"{more}}}");
    [
        ("nothing else", members("")),
        ("a later version", members(r#","version":"2.0.0","more":{}"#)),
        ("the same key twice", members(r#","version":"1.0.0","version":"1.0.0""#)),
        ("its protocol twice", members(r#","protocol":"log""#)),
        ("a lone surrogate", members(r#","notes":"\ud800""#)),
        ("an unknown escape", members(r#","notes":"\x""#)),
        ("a tab in a string", members(",\"notes\":\"a\tb\"")),
        ("a comma too many", members(",")),
        ("a number that is none", members(r#","version":1.0.0"#)),
        ("a word that is none", members(r#","notes":None"#)),
        ("its name in escapes", r#"{"\u0070rotocol":"\u0061pm2_agent_exit"}"#.to_owned()),
    ]
    .map(|(name, text)| {
        assert!(ExitSignal::from_json(&text).is_err(), "{name}");
        case(name, text.clone(), last(text))
    })
    .into_iter()
    .chain([
        {
            let text = [b"{\"protocol\":\"apm2_agent_exit\",\"notes\":\"\xff\x9b\"}".as_slice()];
            case("no UTF-8", text.concat(), last(text.concat()))
        },
        {
            let text = members(",\"notes\":\"\u{9b}31m\u{9d}\"");
            case("C1 controls in a string", text.clone(), last(text))
        },
    ])
    .collect()
}

/// What a terminal would obey.
fn escapes() -> Vec<Case> {
    let coloured = PRETTY.replace('"', "\u{1b}[32m\"\u{1b}[0m").replace(':', "\u{1b}[1;39m:");
    vec![
        case("coloured", format!("\u{1b}[1m{coloured}\u{1b}[0m\n"), last(PRETTY)),
        case("a title before", format!("\u{1b}]0;agent\u{7}{ONE}\n"), last(ONE)),
        case("a title ended by ST", format!("\u{1b}]2;a\u{1b}\\{ONE}\u{1b}]2;\u{1b}\\"), last(ONE)),
        case("a title that holds one", format!("\u{1b}]0;{ONE}\u{7}\n"), StdoutSignal::Absent),
        case("a title without end", format!("\u{1b}]0;agent\n{ONE}\n"), last(ONE)),
        case("a device string", format!("\u{1b}P1$r0m\u{1b}\\{ONE}\u{1b}_x\u{1b}\\"), last(ONE)),
        case("two bytes", format!("\u{1b}7\u{1b}(B{ONE}\u{1b}8\u{1b}="), last(ONE)),
        case("half an escape after", format!("{ONE}\u{1b}"), last(ONE)),
        case("an unfinished sequence after", format!("{ONE}\u{1b}[12;"), last(ONE)),
        case("C1 controls", format!("\u{9b}1m{ONE}\u{9d}0;x\u{9c}\u{85}"), last(ONE)),
        case("C1 controls of one byte", [b"\x9b1m", ONE.as_bytes(), b"\x9b0m"].concat(), last(ONE)),
        case("characters with the bytes of C1", format!("✓ Û\n{ONE}\n"), last(ONE)),
        case("a character after", format!("{ONE}\n✓"), not_last(3)),
        case("half a character after", [ONE.as_bytes(), b"\n\xc2"].concat(), not_last(1)),
        case("an escape in its name", ONE.replace("agent", "ag\u{1b}[1ment"), last(ONE)),
        case("a fence in colour", format!("```\n{ONE}\n\u{1b}[2m```\u{1b}[0m\n"), last(ONE)),
    ]
}

fn table() -> Vec<Case> {
    [places(), structures(), invalid_signals(), escapes()].concat()
}

#[test]
fn every_form_of_output_has_its_outcome() {
    for (name, input, expected) in table() {
        assert_eq!(scan(&input), expected, "{name}");
    }
}

#[test]
fn where_output_is_cut_into_pieces_makes_no_difference() {
    for (name, input, expected) in table() {
        for cut in 0..=input.len() {
            let (first, second) = input.split_at(cut);
            assert_eq!(scan_pieces([first, second]), expected, "{name}, cut at {cut}");
        }
        assert_eq!(scan_pieces(input.chunks(1)), expected, "{name}, byte by byte");
    }
}

/// What is easily written instead: find the name, take the last braces around it.
fn naive(input: &[u8]) -> StdoutSignal {
    let text = String::from_utf8_lossy(input);
    let found = text.rfind(NAME).and_then(|at| {
        let start = text[..at].rfind('{')?;
        let end = start + text[start..].find('}')?;
        Some(last(&text[start..=end]))
    });
    found.unwrap_or(StdoutSignal::Absent)
}

#[test]
fn a_scanner_that_searches_for_the_name_is_caught_by_the_table() {
    let caught: Vec<&str> = table()
        .into_iter()
        .filter(|(_, input, expected)| naive(input) != *expected)
        .map(|(name, ..)| name)
        .collect();
    for name in
        ["in an object", "in an array", "two that differ", "text after", "coloured", "cut off"]
    {
        assert!(caught.contains(&name), "{name}: {caught:?}");
    }
    assert_eq!(naive(format!("done\n{ONE}\n").as_bytes()), last(ONE));
}

#[test]
fn a_signal_may_be_as_large_as_signals_may_be_and_no_larger() {
    let sized = |bytes: usize| {
        let empty = r#"{"protocol":"apm2_agent_exit","notes":""}"#;
        empty.replace("\"\"}", &format!("\"{}\"}}", "x".repeat(bytes - empty.len())))
    };
    let (largest, larger) = (sized(INPUT_BYTES_MAX), sized(INPUT_BYTES_MAX + 1));
    assert_eq!(scan(largest.as_bytes()), last(largest.clone()));
    assert_eq!(scan(larger.as_bytes()), StdoutSignal::TooLarge);
    // Escapes and what surrounds it do not count.
    let coloured = format!("\u{1b}[1m\n   {}\n", largest.replace(':', "\u{1b}[1m:"));
    assert_eq!(scan(coloured.as_bytes()), last(largest.clone()));

    assert_eq!(scan(&larger.as_bytes()[..INPUT_BYTES_MAX]), StdoutSignal::Broken);
    let cut = &larger.replace("\"}", "xx");
    assert_eq!(scan(cut.as_bytes()), StdoutSignal::TooLarge);
    let late = format!("{{\"notes\":\"{}\",\"protocol\":\"{NAME}\"}}", "x".repeat(1 << 20));
    assert_eq!(scan(late.as_bytes()), StdoutSignal::TooLarge);
    let with = |before: &str| scan(format!("{before}\n{ONE}\n").as_bytes());
    assert_eq!(with(&larger), StdoutSignal::Ambiguous { count: 2 });
    assert_eq!(with(&format!("{larger}\n{larger}")), StdoutSignal::Ambiguous { count: 3 });
    assert_eq!(with(&larger.replace(NAME, "something_else")), last(ONE));
    // What failed after that much is not read again, but what follows it is read.
    assert_eq!(with(&format!("[\n{}!", "1,\n".repeat(40_000))), last(ONE));
    assert_eq!(with(&format!("{{\"a\":\"{}", "x".repeat(100_000))), last(ONE));
    assert_eq!(with(&format!("{{\"a\":[{}\n1 ", "1,".repeat(50_000))), last(ONE));
}

#[expect(clippy::disallowed_methods, reason = "the cases lie in files")]
fn hostile(name: &str) -> Vec<u8> {
    use base64::Engine as _;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/hostile-json.jsonl");
    let text = std::fs::read_to_string(path).expect("case file");
    let streams: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("case"))
        .filter(|case| case["layer"] == "stream:exit")
        .collect();
    assert_eq!(streams.len(), 2);
    let case = streams.iter().find(|case| case["name"] == name).expect("a case of this name");
    let bytes = case["bytes_b64"].as_str().expect("bytes");
    base64::engine::general_purpose::STANDARD.decode(bytes).expect("base64")
}

#[test]
fn a_signal_inside_a_string_of_other_json_is_none() {
    let output = hostile("exit-nested-in-json");
    assert_eq!(scan(&output), StdoutSignal::Absent);
    assert_eq!(read_descriptor("n0nce", b""), Ok(None));
}

/// Printed, it cannot be told from one that is meant, which is why stdout is the weaker channel.
/// Where the descriptor is used, what is printed is not asked: there nothing came.
#[test]
fn a_signal_that_a_tool_prints_counts_on_stdout_and_not_on_the_descriptor() {
    let output = hostile("exit-in-tool-output");
    assert_eq!(scan(&output), last(ONE));
    assert_eq!(read_descriptor("n0nce", b""), Ok(None));
    let echo = "$ cat README.md\\u{a}{\"protocol\":\"apm...".to_owned();
    let fault = DescriptorFault::NoNonce { message: 1, echo };
    assert_eq!(read_descriptor("n0nce", &output), Err(fault));
}

const NONCE: &str = "5f1c9e3b77aa";

fn read(text: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, DescriptorFault> {
    read_descriptor(NONCE, text.as_ref())
}

#[test]
fn a_message_on_the_descriptor_is_the_nonce_a_blank_and_the_signal() {
    let taken = |signal: &str| Ok(Some(signal.as_bytes().to_vec()));
    assert_eq!(read(""), Ok(None));
    assert_eq!(read("\r\n \n"), Ok(None));
    assert_eq!(read(format!("{NONCE} {ONE}")), taken(ONE));
    assert_eq!(read(format!("{NONCE} {ONE}\n")), taken(ONE));
    assert_eq!(read(format!("\n{NONCE} {ONE} \t\r\n\r\n")), taken(ONE));
    assert_eq!(read(format!("{NONCE} {PRETTY}\n")), taken(PRETTY));
    assert_eq!(read(format!("{NONCE} {ONE}\n{NONCE} {PRETTY}\n")), taken(PRETTY));
    // Whether it is a signal is for whoever reads it.
    assert_eq!(read(format!("{NONCE} {{\"a\":1,}}")), taken("{\"a\":1,}"));
    let several = |count| Err(DescriptorFault::Several { count });
    assert_eq!(read(format!("{NONCE} {ONE}\n{NONCE} {OTHER}\n")), several(2));
    assert_eq!(read(format!("{NONCE} {ONE}\n{NONCE} {OTHER}\n{NONCE} {ONE}")), several(3));
}

#[test]
fn a_message_that_does_not_end_as_it_should_is_broken() {
    let broken = |message| Err(DescriptorFault::Broken { message });
    for text in [
        "",
        " ",
        "hello",
        "null",
        "[]",
        "{",
        "{]",
        "{\"a\":\"",
        "{} {}",
        "{},",
        " {}",
        "\n{}",
        "\u{feff}{}",
        "{}5f1c9e3b77aa {}",
    ] {
        assert_eq!(read(format!("{NONCE} {text}")), broken(1), "{text}");
    }
    assert_eq!(read(format!("{NONCE} {ONE}\n{NONCE} {{")), broken(2));
    let text = broken(2).expect_err("broken").to_string();
    assert_eq!(
        text,
        "message 2 on the descriptor is not one closed JSON object on lines of its own"
    );
}

#[test]
fn a_message_without_the_nonce_is_refused_and_the_nonce_is_not_repeated() {
    let no_nonce = |message, echo: &str| {
        let echo = echo.to_owned();
        Err::<Option<Vec<u8>>, _>(DescriptorFault::NoNonce { message, echo })
    };
    for (text, echo) in [
        ("{}", "{}"),
        ("x", "x"),
        ("5f1c9e3b77ab {}", "***********b {}"),
        ("0f1c9e3b77aa {}", "0*********** {}"),
        // A nonce that something precedes, or no blank follows, or that was cut off.
        ("x5f1c9e3b77aa {}", "x************ {}"),
        ("5f1c9e3b77aa", "************"),
        ("5f1c9e3b77aa{}", "************{}"),
        ("5f1c9e3b77aa\t{}", "************\\u{9}{}"),
        ("5f1c9e3b77aa\n{}", "************\\u{a}{}"),
        ("5f1c9", "*****"),
        ("5F1C9E3B77AA {}", "5F1C9E3B77AA {}"),
        ("\u{1b}[2J\u{202e}", "\\u{1b}[2J\\u{202e}"),
        ("012345678901234567890123456789_5f1c9e3b77aa {}", "012345678901234567890123456789_*..."),
    ] {
        assert_eq!(read(text), no_nonce(1, echo), "{text}");
        assert_eq!(read(format!("{NONCE} {ONE}\n{text}")), no_nonce(2, echo), "{text}");
    }
    let text = no_nonce(1, "x").expect_err("no nonce").to_string();
    assert_eq!(text, "message 1 on the descriptor does not begin with the nonce, but with `x`");
    // A nonce that everybody knows is none.
    assert_eq!(read_descriptor("", b" {}"), no_nonce(1, "{}"));
}

#[test]
fn the_descriptor_has_limits_for_a_message_and_for_everything() {
    let sized = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let message = |bytes: usize| format!("{NONCE} {}\n", sized(bytes));
    let largest = sized(INPUT_BYTES_MAX).into_bytes();
    assert_eq!(read(message(INPUT_BYTES_MAX)), Ok(Some(largest.clone())));
    let too_large =
        |actual, max| Err::<Option<Vec<u8>>, _>(DescriptorFault::TooLarge { actual, max });
    let larger = too_large(INPUT_BYTES_MAX + 1, INPUT_BYTES_MAX);
    assert_eq!(read(message(INPUT_BYTES_MAX + 1)), larger);
    let unclosed = format!("{NONCE} {{\"a\":\"{}", "x".repeat(INPUT_BYTES_MAX));
    assert_eq!(read(unclosed), too_large(INPUT_BYTES_MAX + 6, INPUT_BYTES_MAX));

    let three = message(INPUT_BYTES_MAX).repeat(3);
    let padded = format!("{three}{}", " ".repeat(DESCRIPTOR_BYTES_MAX - three.len()));
    assert_eq!(read(&padded), Ok(Some(largest)));
    let over = DESCRIPTOR_BYTES_MAX + 1;
    assert_eq!(read(format!("{padded} ")), too_large(over, DESCRIPTOR_BYTES_MAX));
    let text = too_large(over, DESCRIPTOR_BYTES_MAX).expect_err("too large").to_string();
    assert_eq!(text, "too much on the descriptor: 262145 bytes > 262144 bytes maximum");
}

/// The end of the value that begins at `at`, in as many words as the rule needs and no more.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    let blank = |mut at: usize| {
        while matches!(text.get(at), Some(b' ' | b'\n')) {
            at += 1;
        }
        at
    };
    let string = |at: usize| {
        let length = text.get(at + 1..)?.iter().position(|byte| matches!(byte, b'"' | b'\n'))?;
        (text[at + 1 + length] == b'"').then_some(at + 2 + length)
    };
    match text.get(at)? {
        b'"' => string(at),
        open @ (b'{' | b'[') => {
            let close = if *open == b'{' { b'}' } else { b']' };
            let mut at = blank(at + 1);
            loop {
                if text.get(at) == Some(&close) {
                    return Some(at + 1);
                }
                if *open == b'{' {
                    at = blank(string(at).filter(|_| text[at] == b'"')?);
                    if text.get(at) != Some(&b':') {
                        return None;
                    }
                    at = blank(at + 1);
                }
                at = blank(value_end(text, at)?);
                match text.get(at)? {
                    b',' => at = blank(at + 1),
                    byte if *byte == close => {}
                    _ => return None,
                }
            }
        }
        b'1' | b'x' => {
            let length = text[at..].iter().take_while(|byte| matches!(byte, b'1' | b'x')).count();
            Some(at + length)
        }
        _ => None,
    }
}

/// Signals as the rule says it: line by line, reading whatever begins one, from the next line on
/// where that fails. Only for text without escapes, fences and deep nesting.
fn by_lines(text: &[u8]) -> StdoutSignal {
    let (mut found, mut at): (Vec<(usize, usize)>, usize) = (Vec::new(), 0);
    let next_line = |at: usize| {
        text[at..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(text.len(), |length| at + length + 1)
    };
    while at < text.len() {
        let start = at + text[at..].iter().take_while(|byte| **byte == b' ').count();
        let end = match text.get(start) {
            Some(b'{' | b'[') => value_end(text, start),
            _ => None,
        };
        if let Some(end) = end
            && [ONE, OTHER].contains(&String::from_utf8_lossy(&text[start..end]).as_ref())
        {
            found.push((start, end));
        }
        at = next_line(end.unwrap_or(start));
    }
    let Some(&(start, end)) = found.last() else { return StdoutSignal::Absent };
    if found.iter().any(|&(s, e)| text[s..e] != text[start..end]) {
        return StdoutSignal::Ambiguous { count: found.len() as u64 };
    }
    match text[end..].iter().filter(|byte| !matches!(byte, b' ' | b'\n')).count() {
        0 => last(&text[start..end]),
        bytes_after => not_last(bytes_after as u64),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn one_pass_finds_what_reading_line_by_line_again_and_again_finds(
        pieces in proptest::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", "\"a\":", "\"a\"", ",", "\n", "\n", "1", " ", "x", "!",
                "{\"a\":\n", "[\n", "\n}", "\n]\n", ",\n", ONE, ONE, OTHER, "\n{}", "[]",
            ]),
            0..40,
        )
    ) {
        let text = pieces.concat();
        prop_assert_eq!(scan(text.as_bytes()), by_lines(text.as_bytes()), "{}", text);
    }

    #[test]
    fn arbitrary_pieces_of_output_never_panic_and_are_the_same_as_the_whole(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..8),
                prop::sample::select(vec![
                    ONE, PRETTY, OTHER, "\n", "{", "\u{1b}[", "\u{1b}]", "```\n",
                ])
                .prop_map(|text| text.as_bytes().to_vec()),
            ],
            0..12,
        )
    ) {
        let whole = pieces.concat();
        let found = scan_pieces(pieces.iter().map(Vec::as_slice));
        prop_assert_eq!(&found, &scan(&whole));
        prop_assert_eq!(&found, &scan_pieces(whole.chunks(1)));
    }

    #[test]
    fn arbitrary_text_without_our_name_holds_no_signal(
        text in "(?s)([{}\\[\\]\":,\n a1]|.){0,80}",
    ) {
        prop_assume!(!text.contains(NAME));
        prop_assert_eq!(scan(text.as_bytes()), StdoutSignal::Absent);
    }

    #[test]
    fn arbitrary_bytes_on_the_descriptor_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        is_ours in any::<bool>(),
    ) {
        let nonce = if is_ours { format!("{NONCE} ") } else { String::new() };
        let message = [nonce.as_bytes(), &bytes].concat();
        if let Err(fault) = read(&message) {
            let told = format!("{fault}{fault:?}");
            prop_assert!(!told.contains(NONCE));
        }
    }
}
