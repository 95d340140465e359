//! The Python-compatible reader and writer against the real `python3`, document by document.

#![cfg(test)]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use countersign_format::hash::hex;
use countersign_format::json::{DEPTH_MAX, ELEMENTS_MAX, LINE_BYTES_MAX};
use countersign_format::python::{FLOAT_BYTES_MAX, INTEGER_DIGITS_MAX, dumps, loads};

/// Reads one document in hexadecimal per line; answers `+` and its canonical text, or `-`.
const PYTHON: &str = r#"
import json, sys
for line in sys.stdin.buffer:
    try:
        value = json.loads(bytes.fromhex(line.decode("ascii")).decode("utf-8"))
        answer = "+" + json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        answer = "-"
    sys.stdout.write(answer + "\n")
"#;

/// What Python makes of each document; `None` where it refuses.
#[expect(clippy::disallowed_methods, reason = "the test asks another implementation")]
fn ask_python(documents: &[Vec<u8>]) -> Vec<Option<String>> {
    let mut python = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs `python3`, 3.11 or later");
    let mut stdin = python.stdin.take().unwrap();
    let stdout = BufReader::new(python.stdout.take().unwrap());
    let answers: Vec<_> = std::thread::scope(|scope| {
        // Both pipes are bounded: writing and reading in turn would block each other.
        scope.spawn(move || {
            for document in documents {
                writeln!(stdin, "{}", hex(document)).unwrap();
            }
        });
        stdout.lines().map(|line| line.unwrap().strip_prefix('+').map(str::to_owned)).collect()
    });
    assert!(python.wait().unwrap().success());
    assert_eq!(answers.len(), documents.len());
    answers
}

fn ask_us(document: &[u8]) -> Option<String> {
    loads(document).ok().map(|value| dumps(&value))
}

/// A document, and how to make it again.
fn assert_same(seed: u64, documents: &[Vec<u8>]) -> usize {
    let mut accepted = 0;
    for (index, (document, python)) in documents.iter().zip(ask_python(documents)).enumerate() {
        accepted += usize::from(python.is_some());
        assert_eq!(
            ask_us(document),
            python,
            "seed {seed:#x}, document {index}: {:?}",
            String::from_utf8_lossy(document)
        );
    }
    accepted
}

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from((self.next() >> 16) % u64::try_from(limit).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn space(&mut self, out: &mut String) {
        if self.below(6) == 0 {
            out.push_str(self.pick(&[" ", "\n", "\t", "\r", " \r\n\t "]));
        }
    }

    fn value(&mut self, depth: usize, out: &mut String) {
        self.space(out);
        match self.below(if depth == 0 { 7 } else { 10 }) {
            0 => {
                out.push_str(self.pick(&["null", "true", "false", "NaN", "Infinity", "-Infinity"]))
            }
            1 => self.integer(out),
            2..=4 => self.float(out),
            5 | 6 => self.string(out),
            7 => {
                out.push('[');
                for index in 0..self.below(5) {
                    if index > 0 {
                        out.push(',');
                    }
                    self.value(depth - 1, out);
                }
                self.space(out);
                out.push(']');
            }
            _ => {
                out.push('{');
                for index in 0..self.below(6) {
                    if index > 0 {
                        out.push(',');
                    }
                    self.space(out);
                    self.key(out);
                    self.space(out);
                    out.push(':');
                    self.value(depth - 1, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }

    /// Often one of a few, so that keys repeat, spelled in different ways.
    fn key(&mut self, out: &mut String) {
        match self.below(3) {
            0 => out.push_str(self.pick(&[
                "\"a\"",
                r#""\u0061""#,
                "\"b\"",
                "\"\"",
                r#""\ud800""#,
                r#""\uD800""#,
                "\"\u{ffff}\"",
                r#""\uffff""#,
                "\"\u{10000}\"",
                r#""\ud800\udc00""#,
            ])),
            _ => self.string(out),
        }
    }

    fn integer(&mut self, out: &mut String) {
        if self.below(3) == 0 {
            out.push('-');
        }
        match self.below(4) {
            0 => out.push('0'),
            1 => write!(out, "{}", self.next()).unwrap(),
            2 => write!(out, "{}", self.below(1000)).unwrap(),
            _ => {
                out.push('7');
                for _ in 0..self.below(60) {
                    write!(out, "{}", self.below(10)).unwrap();
                }
            }
        }
    }

    fn float(&mut self, out: &mut String) {
        match self.below(7) {
            // Any double at all; the exponent keeps it from being an integer token.
            0 | 1 => {
                let float = f64::from_bits(self.next());
                let float = if float.is_finite() { float } else { 0.5 };
                write!(out, "{float:e}").unwrap();
            }
            // Doubles around the places where the notation changes.
            2 => {
                let float = f64::from_bits(self.next() >> 12 | 0x3FF0_0000_0000_0000);
                write!(out, "{}{float:.17}e{}", self.pick(&["", "-"]), self.below(40) as i64 - 20)
                    .unwrap();
            }
            // Few digits.
            3 => write!(out, "{}.{}", self.below(10_000), self.below(10_000)).unwrap(),
            // Powers of two, where the neighbours are not equally far away.
            4 => {
                let exponent = u64::try_from(self.below(2047)).unwrap();
                write!(out, "{:e}", f64::from_bits(exponent << 52).max(5e-324)).unwrap();
            }
            // Halves of the last place, where two shortest texts are equally near.
            5 => {
                let whole = self.next() >> (11 + self.below(8));
                write!(
                    out,
                    "{whole}.{}",
                    self.pick(&["125", "25", "375", "5", "625", "75", "875"])
                )
                .unwrap();
            }
            // More digits than a double has, overflow, underflow.
            _ => {
                self.integer(out);
                write!(out, ".{:020}", self.next()).unwrap();
                out.push_str(
                    self.pick(&["", "e0", "E+5", "e-7", "e300", "e-330", "E400", "e-0007"]),
                );
            }
        }
    }

    fn string(&mut self, out: &mut String) {
        out.push('"');
        for _ in 0..self.below(9) {
            match self.below(8) {
                0 => out.push_str(
                    self.pick(&[r#"\""#, r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t"]),
                ),
                1 => write!(out, "\\u{:04x}", self.below(0x1_0000)).unwrap(),
                2 => write!(out, "\\u{:04X}", 0xD800 + self.below(0x800)).unwrap(),
                3 => {
                    write!(out, "\\ud8{:02x}\\udc{:02x}", self.below(256), self.below(256)).unwrap()
                }
                4 => write!(out, "\\u00{:02x}", self.below(0x100)).unwrap(),
                5 => {
                    let code = u32::try_from(self.below(0x11_0000)).unwrap();
                    let plain = char::from_u32(code)
                        .filter(|plain| !matches!(plain, '\0'..' ' | '"' | '\\'));
                    out.push(plain.unwrap_or('\u{7f}'));
                }
                6 => out
                    .push_str(self.pick(&["\u{7f}", "\u{80}", "é", "\u{2028}", "🚀", "\u{feff}"])),
                _ => out.push_str(self.pick(&["a", "Z", " ", "/", "~", "'", "<", "0"])),
            }
        }
        out.push('"');
    }

    /// The document with a few bytes removed, repeated, replaced or added.
    fn damage(&mut self, document: &mut Vec<u8>) {
        const BYTES: &[u8] = b"\"\\/{}[],:.-+eE019aunNIftr \t\n\r\x00\x01\x1f\x7f\x80\xc0\xed\xa0\xef\xbb\xbf\xf4\xff";
        for _ in 0..=self.below(3) {
            let at = self.below(document.len() + 1);
            let byte = BYTES[self.below(BYTES.len())];
            match self.below(4) {
                0 => document.insert(at, byte),
                1 if at < document.len() => drop(document.remove(at)),
                2 if at < document.len() => document[at] = byte,
                3 if at < document.len() => document.insert(at, document[at]),
                _ => document.truncate(at),
            }
        }
    }
}

#[test]
fn random_documents_come_out_byte_for_byte_as_from_python() {
    let seed = 0x9E37_79B9_7F4A_7C15;
    let mut random = Random(seed);
    let documents: Vec<_> = (0..20_000)
        .map(|_| {
            let mut out = String::new();
            random.value(4, &mut out);
            out.into_bytes()
        })
        .collect();
    assert_eq!(assert_same(seed, &documents), documents.len());
}

#[test]
fn damaged_documents_are_refused_where_python_refuses_them() {
    let seed = 0xD1B5_4A32_D192_ED03;
    let mut random = Random(seed);
    let documents: Vec<_> = (0..20_000)
        .map(|_| {
            let mut out = String::new();
            random.value(2, &mut out);
            let mut document = out.into_bytes();
            random.damage(&mut document);
            document
        })
        .collect();
    let accepted = assert_same(seed, &documents);
    assert!((1000..19_000).contains(&accepted), "{accepted} of {}", documents.len());
}

const MALFORMED: &[&str] = &[
    "",
    " ",
    "nul",
    "nullx",
    "True",
    "None",
    "nan",
    "-NaN",
    "+1",
    "+Infinity",
    "Inf",
    "-Inf",
    "-",
    "--1",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "-.5",
    "1.e5",
    "1e",
    "1e+",
    "1E-",
    "0x10",
    "1_000",
    "1 2",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[",
    "]",
    "[1",
    "{",
    "}",
    "{,}",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{\"a\" 1}",
    "{a:1}",
    "{'a':1}",
    "{1:2}",
    "{\"a\":1 \"b\":2}",
    "\"",
    "\"a",
    "'a'",
    "\"\\x41\"",
    "\"\\",
    "\"\\u\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u+123\"",
    "\"\\u 123\"",
    "\"\\ud800\\u12\"",
    "\"\\ud800\\",
    "\"\\U0001F680\"",
    "\"a\nb\"",
    "\"a\tb\"",
    "\"\u{0}\"",
    "\"\u{1f}\"",
    "\u{feff}1",
    "\u{a0}1",
    "1\u{2028}",
    "1\u{0}",
    "\u{c}1",
    "// a\n1",
    "/**/1",
    "[1]]",
    "{}{}",
    "\u{661}",
    "1\u{661}",
    "[1,,2]",
    "[NaN1]",
    "Infinityx",
    "-Infinit",
    "tru e",
];

#[test]
fn malformed_documents_are_refused_by_both() {
    let mut documents: Vec<Vec<u8>> =
        MALFORMED.iter().map(|text| text.as_bytes().to_vec()).collect();
    documents.extend(
        [
            &b"\"\xff\""[..],
            b"\"\xc0\x80\"",
            b"\"\xed\xa0\x80\"",
            b"\"\xf4\x90\x80\x80\"",
            b"\"\xe2\x82\"",
            b"\xff\xfe1\x00",
            b"\x001\x00",
            b"\xef\xbb\xbf{}",
            b"\x80",
        ]
        .map(<[u8]>::to_vec),
    );
    documents.push("7".repeat(INTEGER_DIGITS_MAX + 1).into_bytes());
    documents.push(format!("[-{}]", "7".repeat(INTEGER_DIGITS_MAX + 1)).into_bytes());
    assert_eq!(assert_same(0, &documents), 0);
}

#[test]
fn documents_at_the_limits_come_out_as_from_python() {
    let documents = [
        "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX),
        "7".repeat(INTEGER_DIGITS_MAX),
        format!("-{}", "7".repeat(INTEGER_DIGITS_MAX)),
        format!("{}e-{}", "7".repeat(FLOAT_BYTES_MAX - 7), FLOAT_BYTES_MAX - 8),
        format!("0.{}1e{}", "0".repeat(FLOAT_BYTES_MAX - 9), FLOAT_BYTES_MAX - 8),
        "1e99999999999999999999".to_owned(),
        "0e99999999999999999999".to_owned(),
        "-1e-99999999999999999999".to_owned(),
        // Half way between two doubles, and a hair above it.
        "9007199254740993.0".to_owned(),
        format!("9007199254740993.{}1", "0".repeat(800)),
        "2.4703282292062327208e-324".to_owned(),
        "2.4703282292062328e-324".to_owned(),
        "1.7976931348623158e308".to_owned(),
        "1.7976931348623159e308".to_owned(),
        format!("[{}0]", "0,".repeat(ELEMENTS_MAX - 1)),
        format!("\"{}\"", "x".repeat(LINE_BYTES_MAX - 2)),
    ]
    .map(String::into_bytes);
    assert_eq!(assert_same(0, &documents), documents.len());
}

/// The only differences: Python takes these, we refuse them.
#[test]
fn beyond_our_limits_python_takes_more_than_we_do() {
    let documents = [
        "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1),
        format!("{}.5", "7".repeat(FLOAT_BYTES_MAX - 1)),
        format!("[{}0]", "0,".repeat(ELEMENTS_MAX)),
        format!("\"{}\"", "x".repeat(LINE_BYTES_MAX - 1)),
    ]
    .map(String::into_bytes);
    for (document, python) in documents.iter().zip(ask_python(&documents)) {
        assert!(python.is_some());
        assert_eq!(ask_us(document), None);
    }
}
