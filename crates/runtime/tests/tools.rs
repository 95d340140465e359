//! The tools that open one file by themselves, and what they do not touch.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use countersign_runtime::sandbox::{Isolation, Level, Stop, Stream};
use countersign_runtime::tools::{Ended, ToolCall, ToolError, ToolOutcome, ToolSetting, Toolbox};

/// A workspace in a directory of its own, with something beside it.
struct Place {
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("work");
        for (path, content) in [
            ("work/a/file", "content\n"),
            ("work/.countersign/ledger", "secret\n"),
            ("work/vault/deep/key", "secret\n"),
            ("beside/file", "secret\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self { dir, root }
    }

    fn setting(&self) -> ToolSetting {
        ToolSetting {
            read_only: false,
            root: self.root.clone(),
            hidden: vec![self.root.join(".countersign"), self.root.join("vault/deep")],
            write: Vec::new(),
            network: false,
            require: Level::Full,
            tool_seconds: 10,
            output_bytes: 64,
            memory_bytes: 0,
            environment: BTreeMap::new(),
            marker: "test".to_owned(),
            // No program is run here.
            helper: "/no/such/binary".into(),
        }
    }

    fn read(&self, path: &str) -> Said {
        self.run(&ToolCall::FileRead { path: path.to_owned() })
    }

    fn write(&self, path: &str, content: &str) -> Said {
        let (path, content) = (path.to_owned(), content.to_owned());
        self.run(&ToolCall::FileWrite { path, content })
    }

    fn delete(&self, path: &str) -> Said {
        self.run(&ToolCall::FileDelete { path: path.to_owned() })
    }

    fn run(&self, call: &ToolCall) -> Said {
        let outcome = Toolbox::new(self.setting()).unwrap().run(call, &Stop::default());
        assert!(outcome.elapsed < Duration::from_secs(10));
        Said::of(&outcome)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }
}

/// Status, output and error.
#[derive(Debug, PartialEq, Eq)]
struct Said(i32, String, String);

impl Said {
    fn of(outcome: &ToolOutcome) -> Self {
        let text = |stream: &Stream| {
            assert_eq!(stream.dropped, 0);
            String::from_utf8(stream.bytes.clone()).unwrap()
        };
        let Ended::Exited(status) = outcome.ended else { panic!("{outcome:?}") };
        Self(status, text(&outcome.stdout), text(&outcome.stderr))
    }

    fn done(output: &str) -> Self {
        Self(0, output.to_owned(), String::new())
    }

    fn failed(reason: &str) -> Self {
        Self(1, String::new(), format!("{reason}\n"))
    }
}

#[test]
fn a_file_is_read_written_and_deleted() {
    let place = Place::new();
    assert_eq!(place.read("a/file"), Said::done("content\n"));
    assert_eq!(place.write("a/file", "other"), Said::done("wrote 5 bytes to `a/file`\n"));
    assert_eq!(place.read("a/file"), Said::done("other"));
    assert_eq!(place.delete("a/file"), Said::done("deleted `a/file`\n"));
    assert_eq!(place.read("a/file"), Said::failed("cannot read `a/file`: there is no such file"));
    let gone = Said::failed("cannot delete `a/file`: there is no such file");
    assert_eq!(place.delete("a/file"), gone);
    assert_eq!(fs::read_dir(place.root.join("a")).unwrap().count(), 0);
}

#[test]
fn directories_on_the_way_to_a_new_file_are_made() {
    let place = Place::new();
    assert_eq!(place.write("x/y/z", ""), Said::done("wrote 0 bytes to `x/y/z`\n"));
    assert_eq!(place.text("x/y/z"), "");
    let missing = Said::failed("cannot read `u/v`: there is no such file");
    assert_eq!(place.read("u/v"), missing);
    assert!(!place.root.join("u").exists());
}

#[test]
fn a_file_that_is_written_again_keeps_its_mode_and_is_never_half_written() {
    let place = Place::new();
    let path = place.root.join("a/file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    let before = File::open(&path).unwrap();
    place.write("a/file", "new");
    // Whoever had it open still has the old one: it was replaced, not changed.
    assert_eq!(std::io::read_to_string(before).unwrap(), "content\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(place.text("a/file"), "new");
}

#[test]
fn a_file_at_the_limit_is_read_and_one_beyond_it_is_not() {
    let place = Place::new();
    fs::write(place.root.join("fits"), [b'x'; 64]).unwrap();
    fs::write(place.root.join("exceeds"), [b'x'; 65]).unwrap();
    assert_eq!(place.read("fits"), Said::done(&"x".repeat(64)));
    let exceeds = "cannot read `exceeds`: more than 64 bytes, which is the limit";
    assert_eq!(place.read("exceeds"), Said::failed(exceeds));
}

#[test]
fn links_are_not_followed_wherever_they_lead() {
    let place = Place::new();
    let link = |target: &Path, name: &str| symlink(target, place.root.join(name)).unwrap();
    link(&place.dir.path().join("beside/file"), "to-file");
    link(&place.dir.path().join("beside"), "to-directory");
    link(Path::new("a"), "to-inside");
    link(Path::new("/no/where"), "to-nothing");
    link(Path::new("loop"), "loop");
    for name in ["to-file", "to-directory", "to-nothing", "loop"] {
        let said = |doing| Said::failed(&format!("cannot {doing} `{name}`: it is a link"));
        assert_eq!(place.read(name), said("read"));
        assert_eq!(place.write(name, "x"), said("write"));
        assert_eq!(place.delete(name), said("delete"));
    }
    for path in ["to-directory/file", "to-inside/file", "to-directory/new", "a/file/x"] {
        let reason = "a component before the last is a link or not a directory";
        let said = |doing| Said::failed(&format!("cannot {doing} `{path}`: {reason}"));
        assert_eq!(place.read(path), said("read"));
        assert_eq!(place.write(path, "x"), said("write"));
        assert_eq!(place.delete(path), said("delete"));
    }
    let beside = place.dir.path().join("beside");
    assert_eq!(fs::read_to_string(beside.join("file")).unwrap(), "secret\n");
    assert_eq!(fs::read_dir(beside).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_that_takes_the_place_of_a_directory_never_leads_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::CWD;

    let place = Place::new();
    let (swap, other) = (place.root.join("swap"), place.root.join("other"));
    let outside = place.dir.path().join("beside");
    fs::create_dir(&swap).unwrap();
    fs::write(swap.join("file"), "inside\n").unwrap();
    symlink(&outside, &other).unwrap();
    let swapping = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while swapping.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &swap, CWD, &other, exchange).unwrap();
            }
        });
        let reason = "a component before the last is a link or not a directory";
        let refused = Said::failed(&format!("cannot read `swap/file`: {reason}"));
        let mut seen = [false; 2];
        for _ in 0..1000 {
            let said = place.read("swap/file");
            assert!(said == refused || said == Said::done("inside\n"), "{said:?}");
            seen[usize::from(said == refused)] = true;
            place.write("swap/new", "x");
        }
        swapping.store(false, Ordering::Relaxed);
        assert_eq!(seen, [true, true]);
    });
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
}

#[test]
fn what_is_not_a_regular_file_is_refused_and_never_waited_for() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.root.join("fifo")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(place.root.join("socket")).unwrap();
    for (name, reason) in [
        ("fifo", "it is not a regular file"),
        ("socket", "it is not a regular file"),
        ("a", "it is a directory"),
    ] {
        let said = |doing| Said::failed(&format!("cannot {doing} `{name}`: {reason}"));
        assert_eq!(place.read(name), said("read"));
        assert_eq!(place.write(name, "x"), said("write"));
        assert_eq!(place.delete(name), said("delete"));
    }
}

#[test]
fn what_is_hidden_is_kept_from_the_file_tools_too() {
    let place = Place::new();
    for path in ["vault/deep", "vault/deep/key", "vault/deep/new/file"] {
        let said = |doing| Said::failed(&format!("cannot {doing} `{path}`: it is kept from tools"));
        assert_eq!(place.read(path), said("read"));
        assert_eq!(place.write(path, "x"), said("write"));
        assert_eq!(place.delete(path), said("delete"));
    }
    assert_eq!(place.text("vault/deep/key"), "secret\n");
    assert_eq!(fs::read_dir(place.root.join("vault/deep")).unwrap().count(), 1);
    // Beside it is open.
    assert_eq!(place.write("vault/new", "").0, 0);
}

#[test]
fn paths_that_no_workspace_has_are_refused_in_words() {
    let place = Place::new();
    for (path, reason) in [
        ("../beside/file", "path has a `..` component"),
        ("/etc/passwd", "path is absolute, it must be relative to the workspace root"),
        (".countersign/ledger", "path leads into `.countersign`, which agents may not write"),
        (".git/config", "path leads into `.git`, which agents may not write"),
        ("", "path is empty"),
        ("a/", "path ends in `/`, it must name a file"),
    ] {
        let said = |doing| Said::failed(&format!("cannot {doing} `{path}`: {reason}"));
        assert_eq!(place.read(path), said("read"));
        assert_eq!(place.write(path, "x"), said("write"));
        assert_eq!(place.delete(path), said("delete"));
    }
}

#[test]
fn a_refused_write_leaves_nothing_behind() {
    let place = Place::new();
    let names = |path: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names(&place.root);
    assert_eq!(place.write("a", "x").0, 1);
    assert_eq!(place.write("a/file/x", "x").0, 1);
    assert_eq!(names(&place.root), before);
    assert_eq!(names(&place.root.join("a")), ["file"]);
}

#[test]
fn file_tools_need_no_sandbox() {
    let place = Place::new();
    let toolbox = Toolbox::new(place.setting()).unwrap();
    for call in [
        ToolCall::FileRead { path: "a/file".to_owned() },
        ToolCall::FileDelete { path: "a/file".to_owned() },
        ToolCall::FileWrite { path: "a/file".to_owned(), content: String::new() },
    ] {
        assert_eq!(toolbox.isolation(&call), Ok(Isolation::of_file_tools()));
    }
    let refused = ToolCall::FileRead { path: ".git/config".to_owned() };
    let said = "`path`: path leads into `.git`, which agents may not write";
    assert_eq!(toolbox.isolation(&refused).unwrap_err().to_string(), said);
}

#[test]
fn a_setting_that_hides_the_workspace_is_refused() {
    let place = Place::new();
    let mut setting = place.setting();
    setting.hidden.push(place.dir.path().to_owned());
    let error = Toolbox::new(setting).unwrap_err();
    assert!(matches!(error, ToolError::HidesWorkspace { inside, .. } if inside == place.root));
}

#[test]
fn the_values_of_variables_are_not_shown() {
    let place = Place::new();
    let mut setting = place.setting();
    setting.environment.insert("TOKEN".into(), "hunter2".into());
    let shown = format!("{:?}", Toolbox::new(setting).unwrap());
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}
