//! `countersign check task`.

use insta::assert_snapshot;

use crate::binary::{command, run, run_with};

const TASK: &str = r#"
task_id = "fix-parser"
objective = "Make the parser accept an empty file"
requested_roles = ["planner", "executor", "critic"]

[agents.critic]
kind = "prompt"
command = ["my-model"]

[[steps]]
id = "build"
objective = "Build it"
actions = [{ tool = "exec", argv = ["make"] }, { tool = "exec", shell = "make check" }]

[[steps]]
id = "note"
objective = "Write it down"
after = ["build"]
actions = [{ tool = "file_read", path = "a.md" }]

[[steps]]
id = "note-elsewhere"
objective = "Write it down elsewhere"
after = ["build"]
fallback_for = "note"
actions = [{ tool = "file_write", path = "b.md", content = "x" }]
"#;

const WRONG: &str = "task_id = \"Fix It\"\r\nobjektive = \"é\"\r\ntags = [\"é\", 3]\r\n\
                     [limits]\r\n\tparallel = 99\r\n";

#[test]
fn a_task_that_is_valid() {
    assert_snapshot!(run(&["check", "task"], TASK), @r"
        exit 0
        --- stdout
        task: fix-parser
        planner: built-in
        executor: built-in
        critic: prompt
        step build: exec, exec
        step note, after build: file_read
        step note-elsewhere, if note fails, after build: file_write

        --- stderr
        ");
    assert_snapshot!(run(&["check", "task", "--json"], TASK), @r#"
        exit 0
        --- stdout
        {"valid":true,"kind":"task","task_id":"fix-parser","roles":[{"role":"planner","agent":"built-in"},{"role":"executor","agent":"built-in"},{"role":"critic","agent":"prompt"}],"steps":[{"id":"build","tools":["exec","exec"]},{"id":"note","tools":["file_read"],"after":["build"]},{"id":"note-elsewhere","tools":["file_write"],"after":["build"],"fallback_for":"note"}]}

        --- stderr
        "#);
}

#[test]
fn a_task_whose_planner_proposes_the_steps() {
    let task = "task_id = \"t\"\nobjective = \"o\"\n\
                [agents.planner]\nkind = \"command\"\ncommand = [\"plan\"]\n";
    assert_snapshot!(run(&["check", "task"], task), @r"
        exit 0
        --- stdout
        task: t
        planner: command
        executor: built-in
        critic: built-in
        auditor: built-in

        --- stderr
        ");
    assert_snapshot!(run(&["check", "task", "--json"], task), @r#"
        exit 0
        --- stdout
        {"valid":true,"kind":"task","task_id":"t","roles":[{"role":"planner","agent":"command"},{"role":"executor","agent":"built-in"},{"role":"critic","agent":"built-in"},{"role":"auditor","agent":"built-in"}],"steps":[]}

        --- stderr
        "#);
}

#[test]
fn a_task_that_is_wrong_lists_every_fault() {
    assert_snapshot!(run(&["check", "task"], WRONG), @r"
        exit 3
        --- stdout

        --- stderr
        error: not a valid task: 6 faults
          line 1, column 1: objective: missing, must be a string
          line 1, column 1: steps: missing, a built-in planner proposes what stands in `steps`
          line 1, column 11: task_id: found `Fix It`, an identifier is 1 to 128 of `a-z 0-9 _ . : @ -`, starting with a letter or digit
          line 2, column 1: objektive: unknown key, did you mean `objective`?
          line 3, column 14: tags[1]: must be a string, found the integer 3
          line 5, column 13: limits.parallel: must be between 1 and 32, found 99
        ");
    assert_snapshot!(run(&["check", "task", "--json"], WRONG), @r#"
        exit 3
        --- stdout
        {"valid":false,"kind":"task","faults":[{"path":"objective","message":"missing, must be a string","line":1,"column":1},{"path":"steps","message":"missing, a built-in planner proposes what stands in `steps`","line":1,"column":1},{"path":"task_id","message":"found `Fix It`, an identifier is 1 to 128 of `a-z 0-9 _ . : @ -`, starting with a letter or digit","line":1,"column":11},{"path":"objektive","message":"unknown key, did you mean `objective`?","line":2,"column":1},{"path":"tags[1]","message":"must be a string, found the integer 3","line":3,"column":14},{"path":"limits.parallel","message":"must be between 1 and 32, found 99","line":5,"column":13}]}

        --- stderr
        "#);
}

#[test]
fn a_file_that_is_no_toml() {
    assert_snapshot!(run(&["check", "task"], "task_id = fix\nobjective = \"x\n"), @r#"
        exit 3
        --- stdout

        --- stderr
        error: not a valid task: 2 faults
          line 1, column 11: `fix` is no value, text must be quoted
          line 2, column 15: string is not closed, expected `"`
        "#);
    assert_snapshot!(run(&["check", "task", "--json"], "task_id = \u{202e}\n"), @r#"
        exit 3
        --- stdout
        {"valid":false,"kind":"task","faults":[{"path":"","message":"`\u202e` is no value, text must be quoted","line":1,"column":11}]}

        --- stderr
        "#);
}

#[test]
fn a_file_that_is_no_text_or_too_long() {
    assert_snapshot!(run(&["check", "task"], b"# \xc3\xa9\n\xff"), @r"
        exit 3
        --- stdout

        --- stderr
        error: not a valid task: 1 fault
          line 2, column 1: the file must be UTF-8, found the byte 0xff
        ");
    assert_snapshot!(run(&["check", "task"], vec![b'\n'; 3 << 20]), @r"
        exit 3
        --- stdout

        --- stderr
        error: not a valid task: 1 fault
          line 1, column 1: file of 3145728 bytes, the limit is 1048576
        ");
}

/// What a summary repeats of a task are names, which can hold nothing that a terminal obeys.
#[test]
fn no_text_of_a_task_reaches_its_summary() {
    let hostile = r"x\nstep fake: exec\u001b[2J";
    let other = TASK.replace("Make the parser", hostile).replace("Build it", hostile);
    assert_eq!(run(&["check", "task"], other), run(&["check", "task"], TASK));
    for name in ["fix-parser", "build", "note-elsewhere", "critic", "prompt", "exec\""] {
        let screen = run(&["check", "task"], TASK.replace(name, &format!("{hostile}{name}")));
        assert_eq!((screen.code, screen.stdout()), (3, ""), "{name}: {screen}");
    }
}

#[test]
fn a_file_a_dash_and_nothing_read_alike() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("task.toml");
    std::fs::write(&path, TASK).unwrap();
    let expected = run(&["check", "task"], TASK);
    assert_eq!(run(&["check", "task", "-"], TASK), expected);
    assert_eq!(run(&["check", "task", path.to_str().unwrap()], ""), expected);
    let mut named = command(&["check", "task", "task.toml"]);
    named.current_dir(home.path());
    assert_eq!(run_with(named, b""), expected);
}
