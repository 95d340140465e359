//! Which isolation is recorded, required and kept to.

use countersign_runtime::sandbox::{
    Concealment, FileConfinement, Isolation, Level, LimitSet, NetworkReach, ProcessScope,
};
use countersign_runtime::tools::{Ended, ToolCall, ToolRefusal, Toolbox};

use super::place::{Place, exec, isolation, run, shell, under_landlock};

/// Whether this kernel has what a level needs, by the kernel's own word rather than by ours.
fn has_landlock() -> bool {
    use landlock::{AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _};

    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::Truncate).is_ok()
}

fn has_namespaces() -> bool {
    // Users, mounts, processes, network and System V objects, and an empty file system mounted.
    let script = "import ctypes, sys\n\
                  c = ctypes.CDLL(None)\n\
                  sys.exit(c.unshare(0x78020000)\n    \
                      or c.mount(None, b'/', None, 0x44000, None)\n    \
                      or c.mount(b'none', b'/tmp', b'tmpfs', 0, None))";
    let tried = std::process::Command::new("/usr/bin/python3").args(["-c", script]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

#[test]
fn the_strongest_isolation_that_can_be_had_is_taken_and_recorded() {
    let found = isolation(&Place::new().toolbox());
    if !has_namespaces() {
        assert!(!found.missing.is_empty(), "{found:?}");
        return;
    }
    let files =
        if has_landlock() { FileConfinement::MountsLandlock } else { FileConfinement::Mounts };
    // Where the system masks its `/proc`, there is no other.
    let missing = found.missing.clone();
    let known = |reason: &String| reason.contains("/proc") || reason.starts_with("Landlock");
    assert!(missing.iter().all(known), "{missing:?}");
    let expected = Isolation {
        level: Level::Full,
        files,
        store: Concealment::Hidden,
        keys: Concealment::Hidden,
        network: NetworkReach::Private,
        processes: ProcessScope::Namespace,
        limits: LimitSet::TimeOutputMemory,
        missing,
    };
    assert_eq!(found, expected);
}

#[test]
fn without_mounts_there_is_landlock_and_it_is_said_why() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    let found = under_landlock(1, || isolation(&place.toolbox()));
    assert_eq!((found.level, found.files), (Level::Files, FileConfinement::Landlock));
    assert_eq!((found.store, found.keys), (Concealment::Unreadable, Concealment::Unreadable));
    assert_eq!(found.processes, ProcessScope::Descendants);
    let (first, last) = (found.missing.first().unwrap(), found.missing.last().unwrap());
    assert!(first.starts_with("namespaces of an unprivileged user: "), "{first}");
    let cost = format!("nothing can be made or removed directly in `{}`", place.root.display());
    assert_eq!(*last, cost);
}

#[test]
fn without_landlock_too_there_are_limits_and_it_is_said_why() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    let found = under_landlock(16, || isolation(&place.toolbox()));
    let missing = found.missing.clone();
    assert!(missing.iter().any(|why| why.starts_with("Landlock alone: ")), "{missing:?}");
    let expected = Isolation {
        level: Level::None,
        files: FileConfinement::Open,
        store: Concealment::Open,
        keys: Concealment::Open,
        network: NetworkReach::Open,
        processes: ProcessScope::Descendants,
        limits: LimitSet::TimeOutputMemory,
        missing,
    };
    assert_eq!(found, expected);
}

#[test]
fn a_tool_is_refused_rather_than_run_with_less_than_is_required() {
    let place = Place::new();
    let mut setting = place.setting();
    setting.require = Level::Full;
    let toolbox = Toolbox::new(setting).unwrap();
    let (level, answer) = under_landlock(16, || {
        (isolation(&place.toolbox()).level, toolbox.isolation(&exec(["true"])))
    });
    if level == Level::Full {
        return;
    }
    let refusal = answer.unwrap_err();
    let said = format!("isolation `full` is required, `{level}` is to be had");
    assert_eq!(refusal.to_string(), said);
    assert!(matches!(
        refusal,
        ToolRefusal::Isolation { required: Level::Full, missing, .. } if !missing.is_empty()
    ));
    let outcome = run(&toolbox, &shell("echo > src/ran"));
    assert_eq!(outcome.ended, Ended::NotStarted(said));
    assert!(!place.root.join("src/ran").exists());
    // The file tools need no sandbox.
    let read = ToolCall::FileRead { path: "src/main".to_owned() };
    assert_eq!(toolbox.isolation(&read), Ok(Isolation::of_file_tools()));
    assert_eq!(run(&toolbox, &read).stdout.bytes, b"main\n");
}

#[test]
fn a_promise_that_cannot_be_kept_is_not_broken_silently() {
    let place = Place::new();
    let toolbox = place.toolbox();
    if isolation(&toolbox).level != Level::Full || !has_landlock() {
        return;
    }
    // What could be had when it was tried cannot be had any more.
    let outcome = under_landlock(1, || run(&toolbox, &shell("echo > src/ran")));
    assert!(
        matches!(&outcome.ended, Ended::NotStarted(reason)
            if reason.starts_with("the sandbox could not be entered: cannot detach `/`")),
        "{:?}",
        outcome.ended
    );
    assert!(!place.root.join("src/ran").exists());
    assert_eq!(run(&toolbox, &shell("echo > src/ran")).ended, Ended::Exited(0));
}

#[test]
fn no_limit_of_memory_is_recorded_as_none() {
    let mut setting = Place::new().setting();
    let place = Place::new();
    setting.root.clone_from(&place.root);
    setting.hidden.clear();
    setting.memory_bytes = 0;
    let toolbox = Toolbox::new(setting).unwrap();
    assert_eq!(isolation(&toolbox).limits, LimitSet::TimeOutput);
    assert_eq!(run(&toolbox, &exec(["true"])).ended, Ended::Exited(0));
}
