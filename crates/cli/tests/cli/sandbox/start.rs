//! How programs are found and what they are given.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use countersign_runtime::sandbox::Level;
use countersign_runtime::tools::{Ended, ToolCall, ToolError, ToolOutcome, ToolRefusal, Toolbox};

use super::place::{Place, at_each_level, exec, isolation, run, shell, text};

fn executable(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn reason(outcome: &ToolOutcome) -> &str {
    match &outcome.ended {
        Ended::NotStarted(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_cannot_be_run_is_told_from_one_that_fails() {
    at_each_level(|| {
        let place = Place::new();
        let toolbox = place.toolbox();
        executable(&place.root.join("src/orphan"), "#!/no/such/interpreter\n");
        let orphan = place.root.join("src/orphan");
        let table = [
            (
                exec(["no-such-program"]),
                "there is no program `no-such-program` on the path of its environment".to_owned(),
            ),
            (exec(["src/none"]), "cannot run `src/none`: there is no such file".to_owned()),
            (exec(["src/main"]), "cannot run `src/main`: it may not be executed".to_owned()),
            (exec(["./src"]), "cannot run `./src`: not a file".to_owned()),
            (
                exec(["src/orphan"]),
                format!("cannot run `{}`: its interpreter is missing", orphan.display()),
            ),
        ];
        for (call, expected) in table {
            assert_eq!(reason(&run(&toolbox, &call)), expected);
        }
        let nowhere = ToolCall::Exec {
            argv: vec!["true".to_owned()],
            shell: None,
            cwd: Some("no/where".to_owned()),
            env: BTreeMap::new(),
            stdin: None,
        };
        let expected = format!("there is no directory `{}`", place.root.join("no/where").display());
        assert_eq!(reason(&run(&toolbox, &nowhere)), expected);
        // A shell that does not find a program is a program that ended.
        assert_eq!(run(&toolbox, &shell("no-such-program")).ended, Ended::Exited(127));
    });
}

#[test]
fn a_call_that_makes_no_sense_is_not_started() {
    let place = Place::new();
    let toolbox = place.toolbox();
    let neither = exec([]);
    let said = "exactly one of `argv` and `shell` must be given";
    assert_eq!(toolbox.isolation(&neither).unwrap_err().to_string(), said);
    assert_eq!(reason(&run(&toolbox, &neither)), said);
}

#[test]
fn a_program_gets_its_input_directory_environment_and_name() {
    at_each_level(|| {
        let place = Place::new();
        let mut setting = place.setting();
        setting.environment.insert("KEPT".into(), "kept".into());
        setting.environment.insert("CHANGED".into(), "before".into());
        setting.environment.insert("PATH".into(), "tools:/usr/bin:/bin".into());
        let marker = setting.marker.clone();
        let toolbox = Toolbox::new(setting).unwrap();
        fs::create_dir(place.root.join("src/tools")).unwrap();
        executable(
            &place.root.join("src/tools/show"),
            "#!/bin/sh\necho \"$0 $# $2\"; pwd; cat; env | grep -v -e ^PWD -e ^_ -e ^SHLVL | sort\n",
        );
        let call = ToolCall::Exec {
            argv: ["show", "a b", "$HOME *", ""].map(str::to_owned).to_vec(),
            shell: None,
            cwd: Some("src".to_owned()),
            env: BTreeMap::from([
                ("CHANGED".to_owned(), "after".to_owned()),
                ("COUNTERSIGN_TRACE".to_owned(), "forged".to_owned()),
            ]),
            stdin: Some("input\n".to_owned()),
        };
        let outcome = run(&toolbox, &call);
        let src = place.root.join("src");
        let (status, stdout, stderr) = text(&outcome);
        let temporary = stdout.lines().find(|line| line.starts_with("TMPDIR=")).map(str::to_owned);
        assert_eq!(temporary.is_some(), isolation(&toolbox).level != Level::None);
        let mut expected = vec![
            format!("{}/tools/show 3 $HOME *", src.display()),
            src.display().to_string(),
            "input".to_owned(),
            "CHANGED=after".to_owned(),
            format!("COUNTERSIGN_TRACE={marker}"),
            "KEPT=kept".to_owned(),
            "LC_ALL=C".to_owned(),
            "PATH=tools:/usr/bin:/bin".to_owned(),
        ];
        expected.extend(temporary);
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        assert_eq!(stdout.lines().collect::<Vec<_>>(), expected);
    });
}

#[test]
fn a_program_sees_the_name_by_which_it_was_called() {
    let place = Place::new();
    let outcome = run(&place.toolbox(), &exec(["cat", "/proc/self/cmdline"]));
    assert_eq!(text(&outcome).1, "cat\0/proc/self/cmdline\0");
}

#[test]
fn without_input_there_is_none() {
    let place = Place::new();
    assert_eq!(
        text(&run(&place.toolbox(), &exec(["cat"]))),
        (Some(0), String::new(), String::new())
    );
}

#[test]
fn much_input_and_many_arguments_arrive() {
    let place = Place::new();
    let toolbox = place.toolbox();
    let input = "0123456789abcdef".repeat(1 << 19);
    let call = ToolCall::Exec {
        argv: vec!["wc".to_owned(), "-c".to_owned()],
        shell: None,
        cwd: None,
        env: BTreeMap::new(),
        stdin: Some(input.clone()),
    };
    assert_eq!(text(&run(&toolbox, &call)).1, format!("{}\n", input.len()));
    let mut argv = vec!["sh".to_owned(), "-c".to_owned(), "echo $#".to_owned(), "x".to_owned()];
    argv.extend((0..4000).map(|number| format!("argument {number}")));
    let call = ToolCall::Exec { argv, shell: None, cwd: None, env: BTreeMap::new(), stdin: None };
    assert_eq!(text(&run(&toolbox, &call)).1, "4000\n");
}

#[test]
fn the_tools_environment_loads_no_code_into_the_process_that_enters_the_sandbox() {
    at_each_level(|| {
        let place = Place::new();
        let call = ToolCall::Exec {
            argv: vec!["true".to_owned()],
            shell: None,
            cwd: None,
            env: BTreeMap::from([("LD_PRELOAD".to_owned(), "/no/such/library.so".to_owned())]),
            stdin: None,
        };
        let (status, _, stderr) = text(&run(&place.toolbox(), &call));
        // The loader complains once for each program that has the variable.
        assert_eq!((status, stderr.matches("library.so").count()), (Some(0), 1), "{stderr}");
    });
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let place = Place::new();
    let refused = |change: &dyn Fn(&mut countersign_runtime::tools::ToolSetting)| {
        let mut setting = place.setting();
        change(&mut setting);
        Toolbox::new(setting).unwrap_err()
    };
    let missing = place.root.join("none");
    assert_eq!(
        refused(&|setting| setting.root.clone_from(&missing)).to_string(),
        format!("cannot use `{}` as the workspace root", missing.display())
    );
    assert_eq!(
        refused(&|setting| setting.write.push(place.root.join("src/main"))).to_string(),
        format!(
            "cannot use `{}` as a directory to be written",
            place.root.join("src/main").display()
        )
    );
    let above = place.root.parent().unwrap();
    assert_eq!(
        refused(&|setting| setting.hidden.push(above.to_owned())).to_string(),
        format!("`{}` must be hidden, but `{}` lies in it", above.display(), place.root.display())
    );
    assert!(matches!(refused(&|setting| setting.marker.clear()), ToolError::Marker));
}

#[test]
fn without_the_binary_no_program_is_run() {
    let place = Place::new();
    for (helper, expected) in [
        (
            "/no/such/binary",
            "cannot start `/no/such/binary`: No such file or directory (os error 2)",
        ),
        // A program that is not ours says nothing.
        ("/bin/true", "the sandbox ended without a word: exit status: 0"),
    ] {
        let mut setting = place.setting();
        setting.helper = helper.into();
        let toolbox = Toolbox::new(setting).unwrap();
        let reason = expected.to_owned();
        let refusal = ToolRefusal::NoProcess { reason };
        assert_eq!(toolbox.isolation(&exec(["true"])), Err(refusal.clone()));
        let outcome = run(&toolbox, &exec(["true"]));
        assert_eq!(outcome.ended, Ended::NotStarted(refusal.to_string()));
    }
}
