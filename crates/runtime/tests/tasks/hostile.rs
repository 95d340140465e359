//! What is hardly a task file: never a panic, always an answer of bounded length.

use countersign_runtime::task::{TASK_BYTES_MAX, TASK_FAULTS_MAX, Task, TaskFault};

use crate::whole::WHOLE;
use crate::{LEAST, faults};

#[test]
fn bytes_that_are_no_text_are_told_where_they_stand() {
    let cases: [(&[u8], &str); 4] = [
        (b"# \xff", "line 1, column 3: the file must be UTF-8, found the byte 0xff"),
        (
            b"\xc3\xa9\n\xc3\xa9\xc3",
            "line 2, column 2: the file must be UTF-8, found the byte 0xc3",
        ),
        (b"\xff\xfet\0", "line 1, column 1: the file must be UTF-8, found the byte 0xff"),
        (b"\xef\xbb\xbf", "line 1, column 1: the file must not start with a byte order mark"),
    ];
    for (bytes, expected) in cases {
        let faults = Task::from_bytes(bytes).unwrap_err();
        assert_eq!(faults.iter().map(TaskFault::to_string).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_file_may_have_a_mebibyte() {
    let fill = |length: usize| format!("{LEAST}#{}", "x".repeat(length - LEAST.len() - 1));
    assert!(Task::parse(&fill(TASK_BYTES_MAX)).is_ok());
    let expected = ["line 1, column 1: file of 1048577 bytes, the limit is 1048576"];
    assert_eq!(faults(&fill(TASK_BYTES_MAX + 1)), expected);
}

#[test]
fn a_text_may_have_sixteen_kibibytes() {
    let with = |length: usize| LEAST.replace("\"o\"", &format!("\"{}\"", "x".repeat(length)));
    assert!(Task::parse(&with(16384)).is_ok());
    let expected = ["line 2, column 13: objective: has 16385 bytes, the limit is 16384"];
    assert_eq!(faults(&with(16385)), expected);
}

#[test]
fn a_program_may_have_as_many_arguments_as_a_tool_takes() {
    let with = |count: usize| {
        let argv = format!("[{}]", "\"a\",".repeat(count));
        LEAST.replace("[\"true\"]", &argv)
    };
    assert!(Task::parse(&with(4096)).is_ok());
    let expected =
        ["line 8, column 8: steps[0].actions[0].argv: has 4097 entries, the limit is 4096"];
    assert_eq!(faults(&with(4097)), expected);
}

#[test]
fn the_first_hundred_faults_are_listed() {
    let many: String = (0..5000).map(|n| format!("{n} = 1\n")).collect();
    let told = faults(&format!("{many}{LEAST}"));
    assert_eq!(told.len(), TASK_FAULTS_MAX);
    assert!(told[99].starts_with("line 100, column 1: 99: unknown key, "), "{}", told[99]);
}

#[test]
fn what_a_fault_repeats_of_the_file_is_cut() {
    let long = "k".repeat(10_000);
    let told = faults(&format!("{long} = \"x\"\ntags = \"{long}\"\npolicy_profile = \"{long}\"\n"));
    assert_eq!(told.len(), 6);
    assert!(told.iter().all(|fault| fault.len() < 300), "{told:?}");
}

#[test]
fn nesting_as_deep_as_the_file_allows_is_refused() {
    let dotted = vec!["a"; 79].join(".");
    let deep = format!("{}1{}", format!("{{{dotted} = ").repeat(79), "}".repeat(79));
    for text in [
        format!("[{dotted}]\n{dotted} = {deep}\n"),
        format!("tags = {}", "[".repeat(500_000)),
        format!("tags = {}", "{a=".repeat(300_000)),
        format!("{}b = 1", "a.".repeat(500_000)),
        format!("[{}]", "a.".repeat(500_000)),
        "[[a]]\n".repeat(150_000),
        "[[steps]]\n".repeat(100_000),
        "=".repeat(TASK_BYTES_MAX),
    ] {
        let told = faults(&text);
        assert!((1..=TASK_FAULTS_MAX).contains(&told.len()), "{told:?}");
    }
}

fn waiting(step: usize, after: &str) -> String {
    let action = "actions = [{ tool = \"exec\", shell = \"x\" }]";
    format!("[[steps]]\nid = \"{step}\"\nobjective = \"x\"\n{action}\nafter = [{after}]\n")
}

#[test]
fn long_circles_are_told_briefly() {
    let head = "task_id = \"t\"\nobjective = \"o\"\n";
    let steps: String = (0..20).map(|n| waiting(n, &format!("\"{}\"", (n + 1) % 20))).collect();
    let expected = "line 102, column 10: steps[19].after[0]: waits for itself: \
                    `19` → `0` → `1` → `2` → `3` → `4` → … → `19`";
    assert_eq!(faults(&format!("{head}{steps}")), [expected]);
    let steps: String = (0..9000).map(|n| waiting(n, &format!("\"{}\", \"0\"", n + 1))).collect();
    assert_eq!(faults(&format!("{head}{steps}")).len(), TASK_FAULTS_MAX);
}

/// A small generator of numbers, the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// Cuts, repeats, moves and replaces some bytes.
fn mangle(text: &[u8], dice: &mut Dice) -> Vec<u8> {
    const PIECES: [&str; 12] =
        ["\"", "'''", "[", "]]", "{", "=", ".", "\n", ",", "é", "\\", "[[steps]]\n"];
    let mut bytes = text.to_vec();
    for _ in 0..=dice.below(4) {
        let from = dice.below(bytes.len());
        let to = (from + dice.below(40)).min(bytes.len());
        match dice.below(5) {
            0 => drop(bytes.drain(from..to)),
            1 => drop(bytes.splice(from..from, PIECES[dice.below(PIECES.len())].bytes())),
            2 => bytes[from] = u8::try_from(dice.below(256)).unwrap(),
            3 => {
                let (piece, at) = (bytes[from..to].to_vec(), dice.below(bytes.len()));
                drop(bytes.splice(at..at, piece));
            }
            _ => bytes.truncate(to),
        }
        bytes.push(b'\n');
    }
    bytes
}

#[test]
fn mangled_files_are_answered_in_order_and_without_a_panic() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..4000 {
        let bytes = mangle(WHOLE.as_bytes(), &mut dice);
        let Err(faults) = Task::from_bytes(&bytes) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        assert!((1..=TASK_FAULTS_MAX).contains(&faults.len()), "{text}");
        let places: Vec<_> = faults.iter().map(|fault| (fault.line, fault.column)).collect();
        assert!(places.is_sorted(), "{text}: {faults:?}");
        for fault in faults {
            let line = text.split('\n').nth(fault.line - 1);
            let fits = line.is_some_and(|line| fault.column <= line.chars().count() + 1);
            assert!(fits && fault.column > 0, "{text}: {fault}");
        }
    }
}
