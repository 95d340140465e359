//! What becomes of tools when their recorder dies, and of the command by which it enters a sandbox.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_runtime::sandbox::MARKER;
use countersign_runtime::tools::{Toolbox, end_survivors};

use super::place::{Place, run, shell, under_landlock};
use crate::binary;

/// Names the workspace of the recorder that is to be killed, and its Landlock layers.
const DOOMED: &str = "COUNTERSIGN_TEST_DOOMED";
const LAYERS: &str = "COUNTERSIGN_TEST_LAYERS";

/// Not a test by itself: the process that the next ones kill.
#[test]
fn a_recorder_waits_for_its_tool() {
    let (Some(root), Some(layers)) = (std::env::var_os(DOOMED), std::env::var(LAYERS).ok()) else {
        return;
    };
    under_landlock(layers.parse().unwrap(), || {
        let mut setting = Place::new().setting();
        setting.root = PathBuf::from(&root);
        setting.hidden.clear();
        setting.tool_seconds = 1000;
        setting.marker = "doomed".to_owned();
        let toolbox = Toolbox::new(setting).unwrap();
        // The second has left the group and the session, and cleared its environment.
        let script = "exec 3> held; setsid -f env -i sleep 1000; echo begun >&3; sleep 1000";
        run(&toolbox, &shell(script));
    });
}

fn spawn_doomed(root: &Path, layers: usize) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::recorder::a_recorder_waits_for_its_tool"])
        .env(DOOMED, root)
        .env(LAYERS, layers.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn tools_die_with_their_recorder() {
    for layers in [0, 1, 16] {
        let place = Place::new();
        let mut fifo = place.fifo("held");
        let mut recorder = spawn_doomed(&place.root, layers);
        assert_eq!(fifo.line(), "begun\n");
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        fifo.until_end();
    }
}

#[test]
fn survivors_are_found_by_their_marker_and_ended() {
    let marker = format!("survivors-of-{}", std::process::id());
    let spawn = |marker: &str| {
        let mut command = Command::new("cat");
        command.env(MARKER, marker).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A process that has only just been made has no environment yet.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    };
    let (mut one, mut two) = (spawn(&marker), spawn(&marker));
    let mut other = spawn(&format!("{marker}-other"));
    assert_eq!(end_survivors(&marker).unwrap(), 2);
    for child in [&mut one, &mut two] {
        assert!(!child.wait().unwrap().success());
    }
    assert_eq!(other.try_wait().unwrap(), None);
    assert_eq!(end_survivors(&marker).unwrap(), 0);
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn the_command_is_not_for_people() {
    let help = binary::run_with(binary::command(&["--help"]), b"");
    assert!(!help.stdout().contains("sandboxed"), "{help}");
    let alone = binary::run_with(binary::command(&["sandboxed", "enter"]), b"{}");
    insta::assert_snapshot!(alone, @r"
    exit 1
    --- stdout

    --- stderr
    error: this is for the recorder to run, with its orders on standard input
    ");
    let wrong = binary::run_with(binary::command(&["sandboxed", "leave"]), b"");
    insta::assert_snapshot!(wrong, @r"
    exit 2
    --- stdout

    --- stderr
    error: invalid value 'leave' for '<STAGE>': there is no such stage

    For more information, try '--help'.
    ");
}
