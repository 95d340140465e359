//! Where documents come from, and documents that are hardly any.

use std::process::Stdio;

use super::exit_signal;
use crate::binary::{Screen, command, run, run_with};

const KINDS: [&str; 8] = [
    "json",
    "ledger-line",
    "event",
    "receipt",
    "exit-signal",
    "input-envelope",
    "output-envelope",
    "task",
];

fn check(kind: &str, document: &[u8]) -> Screen {
    let mut check = command(&["check", kind]);
    check.env("AGENT_EXIT_PROTOCOL_ENABLED", "true");
    run_with(check, document)
}

#[test]
fn hardly_documents_are_refused_cleanly_by_every_kind() {
    let deep = "[".repeat(300_000);
    let deep_object = "{\"a\":".repeat(200_000);
    let long = format!("\"{}\"", "x".repeat(2 << 20));
    let longest = vec![b' '; 17 << 20];
    for document in [
        &b""[..],
        b"\n",
        b" ",
        b"\0",
        b"{\"a\":\0}",
        b"\xff\xfe{\0}\0",
        b"\xef\xbb\xbf{}",
        b"{}\0",
        b"{\"a\":1}\r\n{\"a\":2}\r\n",
        b"{} {}",
        b"{'a':1}",
        b"\"\xed\xa0\x80\"",
        b"-",
        deep.as_bytes(),
        deep_object.as_bytes(),
        long.as_bytes(),
        &longest,
    ] {
        for kind in KINDS {
            let screen = check(kind, document);
            let start = String::from_utf8_lossy(document.get(..20).unwrap_or(document));
            assert_eq!(screen.code, 3, "{kind} {start:?}: {screen}");
            assert_eq!(screen.stdout(), "", "{kind} {start:?}");
            assert!(screen.stderr.starts_with("error: "), "{kind} {start:?}: {screen}");
            assert!(!screen.stderr.contains("panicked"), "{kind} {start:?}: {screen}");
        }
    }
}

#[test]
fn any_layout_of_json_is_taken() {
    for document in ["{\"a\":1}\r\n", "\n\n{\n\"a\"\t:\r1}\n\n", " {\"a\":1} "] {
        let screen = run(&["check", "json"], document);
        assert_eq!((screen.code, screen.stdout()), (0, "{\"a\":1}"), "{document:?}");
    }
    for document in ["\"\"", "null", "0", "-0", "[]"] {
        assert_eq!(run(&["check", "json"], document).code, 0, "{document}");
    }
}

#[test]
fn a_file_a_dash_and_nothing_read_alike() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a b.json");
    std::fs::write(&path, "[1.0]").unwrap();
    let path = path.to_str().unwrap();
    let expected = run(&["check", "json"], "[1.0]");
    assert_eq!(expected.stdout(), "[1]");
    assert_eq!(run(&["check", "json", "-"], "[1.0]"), expected);
    assert_eq!(run(&["check", "json", path], ""), expected);
    assert_eq!(run(&["--home", "x", "check", "json", path], ""), expected);
    let mut named_dash = command(&["check", "json", "./-"]);
    std::fs::write(home.path().join("-"), "[1.0]").unwrap();
    named_dash.current_dir(home.path());
    assert_eq!(run_with(named_dash, b""), expected);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_can_be_named_and_directories_not() {
    let expected = run(&["check", "json"], "[1.0]");
    assert_eq!(run(&["check", "json", "/dev/stdin"], "[1.0]"), expected);
    let screen = run(&["check", "json", "/dev/zero"], "");
    assert_eq!(screen.code, 3);
    assert!(screen.stderr.contains("the limit is 1048576"), "{screen}");
    assert_eq!(run(&["check", "json", "/dev/null"], "").code, 3);
    let home = tempfile::tempdir().unwrap();
    let screen = run(&["check", "json", home.path().to_str().unwrap()], "");
    assert_eq!((screen.code, screen.stdout()), (1, ""));
    assert!(screen.stderr.ends_with("`\n  caused by: is a directory\n"), "{screen}");
}

#[test]
fn a_length_beyond_the_limit_is_named() {
    let screen = run(&["check", "json"], vec![b' '; 2 << 20]);
    assert_eq!(
        screen.stderr,
        "error: not valid: document of 2097152 bytes, the limit is 1048576 at line 1 column 1\n"
    );
    let screen = run(&["check", "output-envelope"], vec![b' '; (16 << 20) + 5]);
    assert!(screen.stderr.contains("document of 16777221 bytes, the limit is 16777216"));
}

/// A file of which nothing but its length is stored.
fn long_file(home: &std::path::Path) -> std::path::PathBuf {
    let path = home.join("long");
    std::fs::File::create(&path).unwrap().set_len(200_000_000).unwrap();
    path
}

#[test]
fn the_length_of_a_file_is_told_however_long_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = long_file(home.path());
    let told = "200000000 bytes";
    for kind in KINDS {
        let named = check_file(kind, Some(&path), Stdio::null());
        assert!(named.code == 3 && named.stderr.contains(told), "{kind}: {named}");
        let given = std::fs::File::open(&path).unwrap();
        let given = check_file(kind, None, given.into());
        assert_eq!((given.code, given.stderr), (3, named.stderr), "{kind}");
    }
    let flow = run(&["check", "flow", path.to_str().unwrap()], "");
    assert!(flow.code == 3 && flow.stderr.contains(told), "{flow}");
}

fn check_file(kind: &str, file: Option<&std::path::Path>, stdin: Stdio) -> Screen {
    let mut check = command(&["check", kind]);
    check.env("AGENT_EXIT_PROTOCOL_ENABLED", "true").args(file).stdin(stdin);
    let ended = check.output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    Screen { code: ended.status.code().unwrap(), stdout: ended.stdout, stderr }
}

/// What the shell or another program has read of a file is no part of the document.
#[test]
fn a_file_is_as_long_as_what_is_left_of_it() {
    use std::io::Seek as _;
    let home = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::open(long_file(home.path())).unwrap();
    file.seek(std::io::SeekFrom::Start(199_999_000)).unwrap();
    let screen = check_file("json", None, file.try_clone().unwrap().into());
    assert!(screen.stderr.contains("expected a value at line 1 column 1"), "{screen}");
    file.seek(std::io::SeekFrom::Start(100_000_000)).unwrap();
    let screen = check_file("json", None, file.into());
    assert!(screen.stderr.contains("document of 100000000 bytes, the limit is"), "{screen}");
}

#[cfg(unix)]
#[test]
fn of_an_endless_document_no_length_is_made_up() {
    for (kind, limit) in [("json", 1 << 20), ("output-envelope", 16 << 20), ("task", 1 << 20)] {
        let screen = run(&["check", kind, "/dev/zero"], "");
        let told = format!("more than {} bytes, the limit is {limit}", limit + 1 + (64 << 20));
        assert!(screen.code == 3 && screen.stderr.contains(&told), "{kind}: {screen}");
    }
}

#[test]
fn a_reader_who_goes_away_ends_the_command_quietly() {
    let mut check = command(&["check", "json", "-"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    check.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("document");
    std::fs::write(&path, "[1]").unwrap();
    check.stdin(std::fs::File::open(path).unwrap());
    let ended = check.output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(1), &b""[..]));
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let mut check = command(&["check", "json", "-"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("document");
    std::fs::write(&path, "[1]").unwrap();
    check.stdin(std::fs::File::open(path).unwrap()).stdout(full);
    let ended = check.output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.starts_with(b"error: cannot write to standard output\n"));
}

#[test]
fn usage_errors_end_with_two_before_anything_is_read() {
    for arguments in [
        &["check"][..],
        &["check", "nonsense"],
        &["check", "agent"],
        &["check", "json", "a", "b"],
        &["check", "json", "--nonsense"],
        &["nonsense"],
        &[],
    ] {
        let screen = run(arguments, "{}");
        assert_eq!((screen.code, screen.stdout()), (2, ""), "{arguments:?}");
    }
    assert_eq!(exit_signal::check(&["--phase"], None, "").code, 2);
    let screen = run(&["--version"], "");
    assert_eq!(screen.code, 0);
    assert_eq!(screen.stdout(), concat!("countersign ", env!("CARGO_PKG_VERSION"), "\n"));
}
