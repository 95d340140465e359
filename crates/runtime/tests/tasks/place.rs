//! Where a fault is said to be.

use countersign_runtime::task::{Task, TaskFault};

use crate::LEAST;

/// The rest of the line from the place of a fault on.
fn pointed<'t>(text: &'t str, fault: &TaskFault) -> &'t str {
    let line = text.split('\n').nth(fault.line - 1).unwrap();
    let (at, _) = line.char_indices().nth(fault.column - 1).unwrap();
    &line[at..]
}

fn only_fault(text: &str) -> TaskFault {
    let mut faults = Task::parse(text).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

#[test]
fn columns_count_characters_whatever_stands_before() {
    for before in [
        "\t\t",
        "tags = [\"中文\", \"🚀\"]\n",
        "# cafe\u{301}\u{202e}\n",
        "constraints = ['''\né\n''', \"\"\"\nx\n\"\"\"]\n  \t ",
    ] {
        let text = format!("{before}policy_profile = \"néw\"\n{LEAST}");
        for text in [text.replace('\n', "\r\n"), text] {
            let fault = only_fault(&text);
            assert_eq!(fault.path, "policy_profile", "{text}");
            assert!(pointed(&text, &fault).starts_with("\"néw\""), "{text}: {fault}");
        }
    }
}

#[test]
fn a_fault_in_a_line_of_many_scripts_has_the_number_of_its_character() {
    let expected = TaskFault {
        line: 1,
        column: 22,
        path: "tags[2]".to_owned(),
        message: "must be a string, found the integer 7".to_owned(),
    };
    let line = "tags = [\t\"é\", \"中文🚀\", 7]";
    assert_eq!(line.chars().nth(21), Some('7'));
    assert_eq!(only_fault(&format!("{line}\r\n{LEAST}")), expected);
}

#[test]
fn a_fault_of_the_text_itself_has_no_path() {
    let expected = TaskFault {
        line: 2,
        column: 14,
        path: String::new(),
        message: "`é` is no value, text must be quoted".to_owned(),
    };
    let shown = "line 2, column 14: `é` is no value, text must be quoted";
    assert_eq!(expected.to_string(), shown);
    assert_eq!(only_fault("# é\r\n\tobjective = é\r\n"), expected);
}

#[test]
fn a_key_is_pointed_at_however_its_table_is_written() {
    for (text, line, column) in [
        ("limits.paralel = 3\n", 1, 8),
        ("limits = { paralel = 3 }\n", 1, 12),
        ("limits = { time_seconds = 3,\n\tparalel = 3 }\n", 2, 2),
    ] {
        let fault = only_fault(&format!("{text}{LEAST}"));
        assert_eq!((fault.line, fault.column), (line, column), "{text}");
        assert_eq!(fault.path, "limits.paralel");
    }
}
