//! The tools of one session: what holds for all of their calls, and running one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::call::{CallFault, ToolCall};
use super::files::FileTools;
use super::outcome::ToolOutcome;
use crate::sandbox::{Bounds, Drive, End, Isolation, Level, MARKER, Plan, Program, Start, Stop};

/// How long it may take to find out whether a sandbox can be had.
const PROBE_TIME: Duration = Duration::from_secs(30);
/// Where temporary files go if the environment does not say.
const USUAL_TEMPORARY: &str = "/tmp";
/// How often a name for a temporary directory is tried before giving up.
const SCRATCH_NAMES_MAX: u32 = 100;

/// What holds for all calls of a session.
#[derive(Clone)]
pub struct ToolSetting {
    /// The workspace root.
    pub root: PathBuf,
    /// Whether programs may only read below it.
    pub read_only: bool,
    /// What must be neither readable nor writable: the directory of keys, the store.
    pub hidden: Vec<PathBuf>,
    /// Further directories that may be written.
    pub write: Vec<PathBuf>,
    /// Whether programs may use the network.
    pub network: bool,
    /// The level below which no call runs.
    pub require: Level,
    /// Seconds that a call may take.
    pub tool_seconds: u64,
    /// Bytes that are kept of each output, and that a file to be read may have.
    pub output_bytes: u64,
    /// Bytes of memory that each process may have; 0 for no limit.
    pub memory_bytes: u64,
    /// The whole environment of programs.
    pub environment: BTreeMap<OsString, OsString>,
    /// What every process of a call carries in its environment, so that survivors can be found.
    pub marker: String,
    /// The binary to run again, normally this one.
    pub helper: PathBuf,
}

impl fmt::Debug for ToolSetting {
    /// Without the values of variables, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSetting")
            .field("root", &self.root)
            .field("hidden", &self.hidden)
            .field("write", &self.write)
            .field("network", &self.network)
            .field("require", &self.require)
            .field("environment", &self.environment.keys())
            .field("helper", &self.helper)
            .finish_non_exhaustive()
    }
}

/// Why there are no tools in a setting.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A directory of the setting cannot be used.
    #[error("cannot use `{path}` as {purpose}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What for.
        purpose: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Hiding it would hide what tools work on.
    #[error("`{hidden}` must be hidden, but `{inside}` lies in it")]
    HidesWorkspace {
        /// What must be hidden.
        hidden: PathBuf,
        /// What tools work on.
        inside: PathBuf,
    },
    /// No process could be found by it.
    #[error("the marker must not be empty or hold a NUL character")]
    Marker,
}

/// Why a call will not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolRefusal {
    /// Nobody could carry it out.
    #[error(transparent)]
    Call(#[from] CallFault),
    /// Less isolation than is required.
    #[error("isolation `{required}` is required, `{available}` is to be had")]
    Isolation {
        /// What is required.
        required: Level,
        /// What is to be had.
        available: Level,
        /// Why there is no more.
        missing: Vec<String>,
    },
    /// Not even a process of its own can be had.
    #[error("no program can be run: {reason}")]
    NoProcess {
        /// Why not.
        reason: String,
    },
}

/// The tools of a session. Many threads may run calls at once.
#[derive(Debug, Clone)]
pub struct Toolbox {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    setting: ToolSetting,
    bounds: Bounds,
    files: FileTools,
    /// What programs get, or why there are none. Found out with the first of them, since it costs
    /// the start of a process.
    found: OnceLock<Result<Found, String>>,
}

#[derive(Debug)]
struct Found {
    plan: Plan,
    isolation: Isolation,
}

impl Toolbox {
    /// The tools of a setting.
    ///
    /// # Errors
    /// The setting contradicts itself or the machine.
    pub fn new(setting: ToolSetting) -> Result<Self, ToolError> {
        if setting.marker.is_empty() || setting.marker.contains('\0') {
            return Err(ToolError::Marker);
        }
        let bounds = bounds_of(&setting)?;
        let files = FileTools::new(Path::new(&bounds.root), &bounds.hidden(), setting.output_bytes)
            .map_err(|source| ToolError::Directory {
                path: setting.root.clone(),
                purpose: "the workspace root",
                source,
            })?;
        Ok(Self { inner: Arc::new(Inner { setting, bounds, files, found: OnceLock::new() }) })
    }

    /// What isolation a call will have. It is known before the call starts, and a call that cannot
    /// have it does not start. For the first program, the sandbox is entered once to find out.
    ///
    /// # Errors
    /// The call makes no sense, or less than the required level is to be had.
    pub fn isolation(&self, call: &ToolCall) -> Result<Isolation, ToolRefusal> {
        call.check()?;
        match call {
            ToolCall::Exec { .. } => self.inner.found().map(|found| found.isolation.clone()),
            _ => Ok(Isolation::of_file_tools()),
        }
    }

    /// Runs a call to its end. When this returns, nothing that it started runs any more, as far as
    /// its isolation promises. `stop` ends a program early.
    #[must_use]
    pub fn run(&self, call: &ToolCall, stop: &Stop) -> ToolOutcome {
        self.run_for(call, Duration::from_secs(self.inner.setting.tool_seconds), stop)
    }

    /// As [`Toolbox::run`], within another time than that of the setting.
    #[must_use]
    pub fn run_for(&self, call: &ToolCall, time: Duration, stop: &Stop) -> ToolOutcome {
        let files = &self.inner.files;
        match call {
            ToolCall::FileRead { path } => files.read(path),
            ToolCall::FileWrite { path, content } => files.write(path, content.as_bytes()),
            ToolCall::FileDelete { path } => files.delete(path),
            ToolCall::Exec { argv, shell, cwd, env, stdin } => {
                let found =
                    call.check().map_err(ToolRefusal::from).and_then(|()| self.inner.found());
                let found = match found {
                    Ok(found) => found,
                    Err(refusal) => return ToolOutcome::not_started(refusal.to_string()),
                };
                let argv = match shell {
                    Some(script) => vec!["/bin/sh".into(), "-c".into(), script.into()],
                    None => argv.iter().map(OsString::from).collect(),
                };
                let root = Path::new(&self.inner.bounds.root);
                let directory = cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
                let (directory, stdin) = (directory.into(), stdin.clone());
                let environment = self.inner.environment(&found.plan, env);
                let program = Program { argv, directory, environment, stdin, signals: None };
                self.inner.exec(&found.plan, program, time, stop)
            }
        }
    }
}

impl Inner {
    /// What programs get, if it is enough.
    fn found(&self) -> Result<&Found, ToolRefusal> {
        let found = self.found.get_or_init(|| strongest(&self.setting, &self.bounds));
        let found =
            found.as_ref().map_err(|reason| ToolRefusal::NoProcess { reason: reason.clone() })?;
        let (required, available) = (self.setting.require, found.isolation.level);
        if available < required {
            let missing = found.isolation.missing.clone();
            return Err(ToolRefusal::Isolation { required, available, missing });
        }
        Ok(found)
    }

    fn environment(
        &self,
        plan: &Plan,
        added: &BTreeMap<String, String>,
    ) -> Vec<(OsString, OsString)> {
        let mut all = self.setting.environment.clone();
        all.extend(added.iter().map(|(name, value)| (name.into(), value.into())));
        if plan.namespaces.is_some() && Path::new(USUAL_TEMPORARY).is_dir() {
            all.insert("TMPDIR".into(), USUAL_TEMPORARY.into());
        }
        all.insert(MARKER.into(), self.setting.marker.clone().into());
        all.into_iter().collect()
    }

    fn exec(&self, plan: &Plan, mut program: Program, time: Duration, stop: &Stop) -> ToolOutcome {
        let mut bounds = self.bounds.clone();
        let scratch = if plan.needs_scratch() {
            match Scratch::new(self.setting.environment.get(OsStr::new("TMPDIR"))) {
                Ok(scratch) => Some(scratch),
                Err(error) => {
                    let reason = format!("cannot make a directory for temporary files: {error}");
                    return ToolOutcome::not_started(reason);
                }
            }
        } else {
            None
        };
        if let Some(Scratch(path)) = &scratch {
            bounds.scratch = Some(path.clone().into());
            program.environment.retain(|(name, _)| name != "TMPDIR");
            program.environment.push(("TMPDIR".into(), path.clone().into()));
        }
        let drive = Drive {
            helper: &self.setting.helper,
            marker: &self.setting.marker,
            time,
            output_bytes: self.setting.output_bytes,
            listener: None,
            grace: Duration::MAX,
        };
        let start = Start { plan: plan.clone(), bounds, program: Some(program) };
        ToolOutcome::of_program(drive.run(start, stop))
    }
}

/// The first plan that can be had.
fn strongest(setting: &ToolSetting, bounds: &Bounds) -> Result<Found, String> {
    let drive = Drive {
        helper: &setting.helper,
        marker: &setting.marker,
        time: PROBE_TIME,
        output_bytes: 0,
        listener: None,
        grace: Duration::MAX,
    };
    let mut missing = Vec::new();
    let mut last = String::new();
    for plan in Plan::candidates() {
        let start = Start { plan: plan.clone(), bounds: bounds.clone(), program: None };
        last = match drive.run(start, &Stop::default()).end {
            End::Ready(landlock) => {
                let plan = Plan { landlock: Some(landlock), ..plan };
                let isolation = plan.isolation(bounds, missing);
                return Ok(Found { plan, isolation });
            }
            End::Refused(reason) => reason,
            other => format!("the sandbox answers with {other:?}"),
        };
        missing.push(format!("{}: {last}", plan.title()));
    }
    Err(last)
}

fn bounds_of(setting: &ToolSetting) -> Result<Bounds, ToolError> {
    let root = directory(&setting.root, "the workspace root")?;
    let write: Vec<PathBuf> = setting
        .write
        .iter()
        .map(|path| directory(path, "a directory to be written"))
        .collect::<Result<_, _>>()?;
    let mut hidden = Vec::new();
    for path in &setting.hidden {
        let path = resolved(path).map_err(|source| ToolError::Directory {
            path: path.clone(),
            purpose: "something hidden",
            source,
        })?;
        if let Some(inside) = [&root].into_iter().chain(&write).find(|it| it.starts_with(&path)) {
            return Err(ToolError::HidesWorkspace { hidden: path, inside: inside.clone() });
        }
        hidden.push(path);
    }
    Ok(Bounds {
        root: root.into(),
        read_only: setting.read_only,
        write: write.into_iter().map(Into::into).collect(),
        hidden: hidden.into_iter().map(Into::into).collect(),
        scratch: None,
        network: setting.network,
        memory_bytes: setting.memory_bytes,
    })
}

fn directory(path: &Path, purpose: &'static str) -> Result<PathBuf, ToolError> {
    let failed = |source| ToolError::Directory { path: path.to_owned(), purpose, source };
    let found = path.canonicalize().map_err(failed)?;
    if !found.is_dir() {
        return Err(failed(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    Ok(found)
}

/// The canonical form of a path whose end may not exist yet.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => Ok(resolved(parent)?.join(name)),
                _ => Err(error),
            }
        }
        found => found,
    }
}

/// A directory for the temporary files of one call, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(place: Option<&OsString>) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let place = place.map_or_else(|| Path::new(USUAL_TEMPORARY), Path::new).canonicalize()?;
        for _ in 0..SCRATCH_NAMES_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("countersign-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by a dead process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in a directory for temporary files is nobody's loss.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
