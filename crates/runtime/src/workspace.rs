//! A workspace: its store, its keys, its log. The one door to everything that writes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_format::event::SCHEMA_VERSION;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::{AgentIdentity, KEY_ALGORITHM, KeyStatus, PublicKey};
use countersign_format::note::origin;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::log::{LogCommand, LogState, OpenTrace};
use serde_json::{Map, Value};

use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::disk::{Access, Disk, DiskFile, OsDisk, read_full};
use crate::keyring::{Keyring, KeyringError, NewKey, Purpose};
use crate::log::{LogHost, LogWriter};
use crate::replica;
use crate::signers::{ROOT_AGENT, Signers};
use crate::store::{FileStore, Head, LedgerId, Ledgers as _, StoreError};
use crate::writer::{Recorded, WriteError};

/// What a workspace takes from the outside world.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Where files lie.
    pub disk: Arc<dyn Disk>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where ids and keys come from.
    pub entropy: Arc<dyn Entropy>,
}

impl Environment {
    /// The real world.
    #[must_use]
    pub fn system() -> Self {
        Self {
            disk: Arc::new(OsDisk),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
        }
    }
}

/// An agent that every workspace has a key for.
#[derive(Debug, Clone, Copy)]
pub struct KeyHolder {
    /// Its id.
    pub agent_id: &'static str,
    /// Its name for people.
    pub display_name: &'static str,
    /// What its key is for.
    pub purpose: Purpose,
    /// Its one role.
    pub role: Role,
}

/// The agents of a workspace, each with a key of its own: separate duties need separate keys.
pub const AGENTS: [KeyHolder; 6] = [
    KeyHolder::new("recorder", "Recorder", Purpose::Recorder, Role::Recorder),
    KeyHolder::new("operator", "Operator", Purpose::Agent, Role::Operator),
    KeyHolder::new("planner", "Planner", Purpose::Agent, Role::Planner),
    KeyHolder::new("executor", "Executor", Purpose::Agent, Role::Executor),
    KeyHolder::new("critic", "Critic", Purpose::Agent, Role::Critic),
    KeyHolder::new("auditor", "Auditor", Purpose::Agent, Role::Auditor),
];

impl KeyHolder {
    const fn new(
        agent_id: &'static str,
        display_name: &'static str,
        purpose: Purpose,
        role: Role,
    ) -> Self {
        Self { agent_id, display_name, purpose, role }
    }
}

/// Why a workspace could not be made, opened or used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is none.
    #[error("no workspace at `{}`", home.display())]
    Missing {
        /// Where it was looked for.
        home: PathBuf,
    },
    /// There is one already.
    #[error("there is a workspace at `{}` already", home.display())]
    Exists {
        /// Where.
        home: PathBuf,
    },
    /// Something else is there.
    #[error("`{}` is not empty: it holds `{found}`", home.display())]
    NotEmpty {
        /// Where.
        home: PathBuf,
        /// The first thing that is not ours.
        found: String,
    },
    /// Its log does not begin as a log must.
    #[error("the log of `{}` cannot be used: {what}", home.display())]
    BadLog {
        /// Where.
        home: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Keys could not be made or read.
    #[error("the keys of this workspace cannot be used")]
    Keys(#[from] KeyringError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something could not be recorded.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Another process runs the session.
    #[error("session {id} is being run by another process")]
    SessionRuns {
        /// Which.
        id: String,
    },
    /// A trace could not be sealed.
    #[error("trace {id} cannot be sealed")]
    Seal {
        /// Which.
        id: String,
        /// Why not.
        #[source]
        source: Box<crate::seal::Unsealable>,
    },
    /// A file could not be read or written.
    #[error("could not {doing}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// A workspace that is open.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: PathBuf,
    pub(crate) store: FileStore,
    pub(crate) environment: Environment,
    pub(crate) signers: Arc<Signers>,
    pub(crate) log: Arc<LogWriter>,
}

impl Workspace {
    /// Makes a workspace at `home`, with new keys below `config`. One whose making was interrupted
    /// is completed.
    ///
    /// # Errors
    /// There is a complete workspace already, or something could not be written.
    pub fn init(
        config: &Path,
        home: &Path,
        environment: Environment,
    ) -> Result<Self, WorkspaceError> {
        let store = FileStore::new(Arc::clone(&environment.disk), home);
        // Others that make a workspace here at the same time wait, and find it made.
        let _turn = claim(&store)?;
        let workspace = match first_line(&store)? {
            Some(line) => {
                let workspace = Self::with_first_line(config, store, environment, &line)?;
                let complete = workspace.log_state(|log| {
                    AGENTS.iter().all(|agent| log.active_key(agent.role).is_some())
                })?;
                if complete {
                    return Err(WorkspaceError::Exists { home: home.to_owned() });
                }
                workspace
            }
            None => Self::begin(config, store, environment)?,
        };
        for agent in AGENTS {
            if workspace.log_state(|log| log.active_key(agent.role).is_none())? {
                let identity = workspace.new_key(&agent)?;
                workspace.log(LogCommand::AddKey(Box::new(identity)))?;
            }
        }
        Ok(workspace)
    }

    fn begin(
        config: &Path,
        store: FileStore,
        environment: Environment,
    ) -> Result<Self, WorkspaceError> {
        let entropy = Arc::clone(&environment.entropy);
        let (keyring, secret) =
            Keyring::create_root(config, ROOT_AGENT, &mut |bytes| entropy.fill(bytes))?;
        let root = identity(
            ROOT_AGENT,
            "Root",
            &[Role::Recorder],
            secret.public_key(),
            environment.clock.now(),
        );
        let origin = origin(keyring.root());
        let workspace = Self::assemble(config, store, environment, keyring);
        workspace.log(LogCommand::Open {
            origin,
            root: Box::new(root),
            software: concat!("countersign ", env!("CARGO_PKG_VERSION")).to_owned(),
        })?;
        Ok(workspace)
    }

    /// Opens the workspace at `home`.
    ///
    /// # Errors
    /// There is none, or its log does not begin as a log must.
    pub fn open(
        config: &Path,
        home: &Path,
        environment: Environment,
    ) -> Result<Self, WorkspaceError> {
        let store = FileStore::new(Arc::clone(&environment.disk), home);
        match first_line(&store)? {
            Some(line) => Self::with_first_line(config, store, environment, &line),
            // Traces without a log are evidence of something else than an empty directory.
            None if !store.list()?.is_empty() => Err(WorkspaceError::BadLog {
                home: home.to_owned(),
                what: "it is gone, and traces are there".to_owned(),
            }),
            None => Err(WorkspaceError::Missing { home: home.to_owned() }),
        }
    }

    fn with_first_line(
        config: &Path,
        store: FileStore,
        environment: Environment,
        line: &[u8],
    ) -> Result<Self, WorkspaceError> {
        let bad = |what: String| WorkspaceError::BadLog { home: store.home().to_owned(), what };
        let first = replica::read(line).map_err(&bad)?;
        let root = first.payload.pointer("/identity/public_key").and_then(Value::as_str);
        let root = root.and_then(|key| key.parse::<PublicKey>().ok());
        let Some(root) = root else {
            return Err(bad("its first event names no root key".to_owned()));
        };
        let keyring = Keyring::new(config, root.fingerprint());
        Ok(Self::assemble(config, store, environment, keyring))
    }

    fn assemble(
        config: &Path,
        store: FileStore,
        environment: Environment,
        keyring: Keyring,
    ) -> Self {
        let signers = Arc::new(Signers::new(keyring));
        let host = Arc::new(LogHost::new(Arc::clone(&signers), store.clone()));
        let log = Arc::new(LogWriter::new(
            LedgerId::Log,
            store.clone(),
            Arc::clone(&environment.clock),
            Arc::clone(&environment.entropy),
            host,
        ));
        let config = config.to_owned();
        Self { shared: Arc::new(Shared { config, store, environment, signers, log }) }
    }

    /// Where it lies.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.shared.store.home()
    }

    /// Where settings and keys lie.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.shared.config
    }

    /// Its ledgers and artifacts.
    #[must_use]
    pub fn store(&self) -> &FileStore {
        &self.shared.store
    }

    /// Its private keys.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        self.shared.signers.keyring()
    }

    /// The fingerprint of its root key.
    #[must_use]
    pub fn root(&self) -> Hash {
        *self.keyring().root()
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.environment.clock.now()
    }

    /// A new id.
    ///
    /// # Errors
    /// The system gave no random bytes.
    pub fn new_id(&self) -> Result<Ulid, WorkspaceError> {
        let mut random = [0; 16];
        self.shared
            .environment
            .entropy
            .fill(random.get_mut(..10).unwrap_or_default())
            .map_err(|source| WorkspaceError::Io { doing: "draw an id", source })?;
        Ok(Ulid::from_parts(self.now(), u128::from_le_bytes(random)))
    }

    /// A word that nobody can guess.
    pub(crate) fn new_nonce(&self) -> Result<String, WorkspaceError> {
        let mut random = [0; 16];
        let filled = self.shared.environment.entropy.fill(&mut random);
        filled.map_err(|source| WorkspaceError::Io { doing: "draw a nonce", source })?;
        Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// What the log comes to now.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log_state<T>(&self, look: impl FnOnce(&LogState) -> T) -> Result<T, WorkspaceError> {
        Ok(self.shared.log.look(|replica| look(&replica.state))?)
    }

    /// What the log says of a trace, if it has it as open.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn open_trace(&self, id: Ulid) -> Result<Option<OpenTrace>, WorkspaceError> {
        let found = self.log_state(|log| log.open.find(&id.to_string()))?;
        found.map_err(|error| WriteError::Refused(error.into()).into())
    }

    /// What the log says of all traces that it has as open, by id.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn open_traces(&self) -> Result<BTreeMap<String, OpenTrace>, WorkspaceError> {
        let all = self.log_state(|log| log.open.all())?;
        all.map_err(|error| WriteError::Refused(error.into()).into())
    }

    /// Records something in the log.
    pub(crate) fn log(&self, command: LogCommand) -> Result<Recorded, WriteError> {
        self.shared.log.submit(command)
    }

    /// Makes a key for `agent` and its record.
    pub(crate) fn new_key(&self, agent: &KeyHolder) -> Result<AgentIdentity, WorkspaceError> {
        let roles = [agent.role];
        let new = NewKey { agent_id: agent.agent_id, purpose: agent.purpose, roles: &roles };
        let entropy = &self.shared.environment.entropy;
        let secret = self.keyring().create(new, &mut |bytes| entropy.fill(bytes))?;
        let name = agent.display_name;
        Ok(identity(agent.agent_id, name, &roles, secret.public_key(), self.now()))
    }
}

fn identity(
    agent_id: &str,
    display_name: &str,
    roles: &[Role],
    public_key: PublicKey,
    now: Timestamp,
) -> AgentIdentity {
    AgentIdentity {
        schema_version: SCHEMA_VERSION.to_owned(),
        agent_id: agent_id.to_owned(),
        display_name: display_name.to_owned(),
        role_capabilities: roles.to_vec(),
        key_id: public_key.key_id().to_string(),
        public_key,
        key_algorithm: KEY_ALGORITHM.to_owned(),
        status: KeyStatus::Active,
        created_at: now,
        updated_at: now,
        revoked_at: None,
        rotated_at: None,
        revoked_reason: None,
        unknown: Map::new(),
    }
}

/// What may lie in a store whose making was interrupted.
const EARLY_NAMES: [&str; 3] = [IGNORE_NAME, "log", "changes"];
const IGNORE_NAME: &str = ".gitignore";
const IGNORE_ALL: &[u8] = b"*\n";

/// Takes the directory of a workspace that is to be made: it must be empty, or hold nothing but
/// what we left there ourselves. Held until the result is dropped.
fn claim(store: &FileStore) -> Result<Box<dyn DiskFile>, WorkspaceError> {
    let (disk, home) = (store.disk(), store.home());
    store.ensure_dir(home)?;
    let ignore = home.join(IGNORE_NAME);
    let begun = disk.stat(&home.join("log")).map_err(StoreError::from)?.is_some();
    let names = disk.list(home).map_err(StoreError::from)?;
    let strange = names.iter().find(|name| !EARLY_NAMES.iter().any(|early| *name == early));
    let refuse = |found: &str| {
        Err(WorkspaceError::NotEmpty { home: home.to_owned(), found: found.to_owned() })
    };
    if let (Some(name), false) = (strange, begun) {
        return refuse(&name.to_string_lossy());
    }
    let file = disk.open(&ignore, Access::Create).map_err(StoreError::from)?;
    file.lock_exclusive().map_err(StoreError::from)?;
    let mut found = vec![0; IGNORE_ALL.len() + 1];
    let length = read_full(&*file, 0, &mut found).map_err(StoreError::from)?;
    match found.get(..length) {
        Some([]) => {
            file.write_all_at(0, IGNORE_ALL)
                .and_then(|()| file.sync_data())
                .and_then(|()| disk.sync_dir(home))
                .map_err(StoreError::from)?;
        }
        // A file of somebody else, which we would otherwise overwrite.
        Some(other) if other != IGNORE_ALL => return refuse(IGNORE_NAME),
        _ => {}
    }
    Ok(file)
}

/// More than the first line of a log has; the store reads on where it is longer.
const FIRST_LINE_BYTES: usize = 4 << 10;

/// The first line of the log, without its line break.
fn first_line(store: &FileStore) -> Result<Option<Vec<u8>>, StoreError> {
    let mut lines = store.read(LedgerId::Log, Head::EMPTY, FIRST_LINE_BYTES)?;
    match lines.iter().position(|&byte| byte == b'\n') {
        Some(end) => {
            lines.truncate(end);
            Ok(Some(lines))
        }
        None => Ok(None),
    }
}
