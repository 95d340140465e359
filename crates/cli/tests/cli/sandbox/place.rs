//! A workspace with a store, keys beside it, and tools in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use countersign_runtime::sandbox::{Isolation, Level, Stop};
use countersign_runtime::tools::{ToolCall, ToolOutcome, ToolSetting, Toolbox};
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

/// Set for tests that another test runs again as another user.
pub(super) const HELPER: &str = "COUNTERSIGN_TEST_HELPER";
pub(super) const BASE: &str = "COUNTERSIGN_TEST_BASE";

/// How long something is waited for that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the hidden files hold.
pub(super) const SECRET: &str = "secret\n";

pub(super) struct Place {
    /// Removed with this.
    _dir: Option<TempDir>,
    /// The directory of all the others.
    pub(super) top: PathBuf,
    pub(super) root: PathBuf,
    /// A hidden file in a hidden directory beside the workspace.
    pub(super) key: PathBuf,
    /// A hidden file in a hidden directory of the workspace.
    pub(super) ledger: PathBuf,
    /// A directory beside the workspace with a file `kept`.
    pub(super) outside: PathBuf,
}

/// Where tests put what must not lie among temporary files, which tools do not see.
fn base() -> PathBuf {
    if let Some(base) = std::env::var_os(BASE) {
        return base.into();
    }
    let candidates = ["/var/lib", env!("CARGO_TARGET_TMPDIR")].map(PathBuf::from);
    let usable = |path: &PathBuf| tempfile::tempdir_in(path).is_ok();
    candidates.into_iter().find(usable).unwrap_or_else(std::env::temp_dir)
}

pub(super) fn helper() -> PathBuf {
    std::env::var_os(HELPER).unwrap_or_else(|| env!("CARGO_BIN_EXE_countersign").into()).into()
}

impl Place {
    pub(super) fn new() -> Self {
        Self::below(&base())
    }

    pub(super) fn below(base: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("countersign-").tempdir_in(base).unwrap();
        let mut place = Self::at(&dir.path().canonicalize().unwrap());
        place._dir = Some(dir);
        for file in [&place.key, &place.ledger, &place.outside.join("kept")] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, SECRET).unwrap();
        }
        fs::create_dir(place.root.join("src")).unwrap();
        fs::write(place.root.join("src/main"), "main\n").unwrap();
        place
    }

    /// One that another process made.
    pub(super) fn at(top: &Path) -> Self {
        Self {
            _dir: None,
            top: top.to_owned(),
            root: top.join("work"),
            key: top.join("config/keys/executor.key"),
            ledger: top.join("work/.countersign/log/events.jsonl"),
            outside: top.join("outside"),
        }
    }

    pub(super) fn setting(&self) -> ToolSetting {
        ToolSetting {
            read_only: false,
            root: self.root.clone(),
            hidden: vec![self.top.join("config"), self.root.join(".countersign")],
            write: Vec::new(),
            network: false,
            require: Level::None,
            tool_seconds: 60,
            output_bytes: 1 << 20,
            memory_bytes: 1 << 30,
            environment: BTreeMap::from(
                [("PATH", "/usr/bin:/bin"), ("LC_ALL", "C")]
                    .map(|(name, value)| (OsString::from(name), OsString::from(value))),
            ),
            marker: format!("test-{}", self.top.display()),
            helper: helper(),
        }
    }

    pub(super) fn toolbox(&self) -> Toolbox {
        Toolbox::new(self.setting()).unwrap()
    }

    pub(super) fn sh(&self, script: &str) -> ToolOutcome {
        run(&self.toolbox(), &shell(script))
    }

    /// A pipe with a name, `root/name`, whose end is reached when no process of a tool has it open.
    pub(super) fn fifo(&self, name: &str) -> Fifo {
        Fifo::new(&self.root.join(name))
    }

    /// Whether all that tools must not touch is as it was.
    pub(super) fn assert_untouched(&self) {
        for file in [&self.key, &self.ledger, &self.outside.join("kept")] {
            assert_eq!(fs::read_to_string(file).unwrap(), SECRET, "{}", file.display());
        }
        assert_eq!(names(&self.outside), ["kept"]);
        assert_eq!(names(&self.root.join(".countersign")), ["log"]);
        assert_eq!(names(self.ledger.parent().unwrap()), ["events.jsonl"]);
    }
}

pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(super) fn shell(script: &str) -> ToolCall {
    let script = Some(script.to_owned());
    ToolCall::Exec { argv: Vec::new(), shell: script, cwd: None, env: BTreeMap::new(), stdin: None }
}

pub(super) fn exec<const N: usize>(argv: [&str; N]) -> ToolCall {
    let argv = argv.map(str::to_owned).to_vec();
    ToolCall::Exec { argv, shell: None, cwd: None, env: BTreeMap::new(), stdin: None }
}

pub(super) fn run(toolbox: &Toolbox, call: &ToolCall) -> ToolOutcome {
    toolbox.run(call, &Stop::default())
}

pub(super) fn isolation(toolbox: &Toolbox) -> Isolation {
    toolbox.isolation(&exec(["true"])).unwrap()
}

/// What a tool printed.
pub(super) fn text(outcome: &ToolOutcome) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (outcome.exit_status(), text(&outcome.stdout.bytes), text(&outcome.stderr.bytes))
}

/// Runs `test` as it is, where nothing can be mounted, and where no sandbox is to be had at all: the
/// last two under Landlock of their own, which refuses mounts, and sixteen of which are the most that
/// a kernel takes.
pub(super) fn at_each_level(test: impl Fn() + Sync) {
    for layers in [0, 1, 16] {
        under_landlock(layers, &test);
    }
}

pub(super) fn under_landlock<T: Send>(layers: usize, test: impl FnOnce() -> T + Send) -> T {
    use landlock::{AccessFs, Ruleset, RulesetAttr as _};

    // Landlock holds for a thread and all that it starts.
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            for _ in 0..layers {
                let rules = Ruleset::default().handle_access(AccessFs::MakeBlock).unwrap();
                rules.create().unwrap().restrict_self().unwrap();
            }
            test()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The reading end of a named pipe.
pub(super) struct Fifo {
    end: fs::File,
}

impl Fifo {
    fn new(path: &Path) -> Self {
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let end = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap();
        Self { end }
    }

    /// Waits for the next line.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        let began = Instant::now();
        while !line.ends_with('\n') {
            assert!(began.elapsed() < PATIENCE, "nobody writes");
            self.wait();
            let mut byte = [0];
            match self.end.read(&mut byte) {
                Ok(1) => line.push(byte[0].into()),
                // Nobody has opened it yet.
                Ok(_) => thread::yield_now(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        line
    }

    /// Waits until nobody has it open any more.
    pub(super) fn until_end(mut self) {
        let mut rest = Vec::new();
        loop {
            self.wait();
            match self.end.read_to_end(&mut rest) {
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Whether nobody has it open any more, now.
    pub(super) fn is_ended(&mut self) -> bool {
        let mut rest = Vec::new();
        self.end.read_to_end(&mut rest).is_ok()
    }

    fn wait(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut waiting = [PollFd::new(&self.end, PollFlags::IN)];
        let timeout = Timespec::try_from(PATIENCE).unwrap();
        assert_ne!(poll(&mut waiting, Some(&timeout)).unwrap(), 0, "nothing comes");
    }
}
