//! Private keys, kept outside of the workspace: `<config>/keys/<root fingerprint>/<key id>.json`.
//!
//! Beside it, `<key id>.retired` says that the key is no longer active. A key file is refused unless it is a real file of ours that nobody else can read and its seed
//! gives the key that it is named after. Which keys are valid is decided by the workspace log. Bytes
//! of a seed that stood plainly before `protect` may survive on the disk: no file can promise more.

mod file;
pub(crate) mod files;
mod seal;
mod signing;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use countersign_format::hash::Hash;
use countersign_format::id::is_name;
use countersign_format::key::{KEY_BYTES, KeyId, PublicKey};
use countersign_format::role::Role;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use file::{KeyFile, Stored};
pub use files::PrivateFileError;
use files::{Access, PrivateDir};
use seal::Sealed;
pub use seal::{
    ARGON2_LANES, ARGON2_LANES_MAX, ARGON2_MEMORY_KIB, ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES,
    ARGON2_PASSES_MAX,
};
pub use signing::SigningKey;

/// Bytes of one key file.
pub const KEY_FILE_BYTES_MAX: usize = 16 << 10;

const KEYS_DIR: &str = "keys";
const SEED_BYTES: usize = KEY_BYTES;

type Seed = Zeroizing<[u8; SEED_BYTES]>;

/// Where random bytes come from: [`system_random`], or something repeatable in tests.
pub type Random<'r> = dyn FnMut(&mut [u8]) -> io::Result<()> + 'r;

/// Fills `bytes` from the system's source of randomness.
///
/// # Errors
/// If the system has none.
pub fn system_random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}

/// Why a key could not be made, kept or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// No variable says where settings are kept.
    #[error("none of `COUNTERSIGN_CONFIG`, `XDG_CONFIG_HOME` and `HOME` says where keys are kept")]
    NoConfig,
    /// Keys would be looked for in whatever directory one happens to be in.
    #[error("`{variable}` must be an absolute path, found `{}`", found.display())]
    RelativeConfig {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        found: PathBuf,
    },
    /// The file or its directory must not be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// There is no such key.
    #[error("there is no private key `{key_id}` in `{}`", path.display())]
    Missing {
        /// The key.
        key_id: KeyId,
        /// Where it would be.
        path: PathBuf,
    },
    /// There already is such a key.
    #[error("the private key `{key_id}` already exists")]
    Exists {
        /// The key.
        key_id: KeyId,
    },
    /// A name that no agent can have.
    #[error("`{found}` cannot be the id of an agent: use 1 to 128 of `a-z 0-9 _ . : @ -`")]
    AgentId {
        /// The name.
        found: String,
    },
    /// A keyring belongs to one root.
    #[error("the keyring of root `{root}` cannot hold another root key")]
    SecondRoot {
        /// Its fingerprint.
        root: Hash,
    },
    /// The file is not what a key file is. The text itself is not shown: it may be the secret.
    #[error("`{}` is damaged or not a key file, at line {line} column {column}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where reading stopped, from 1.
        line: usize,
        /// The byte in that line, from 1.
        column: usize,
    },
    /// One member of the file is not as it must be.
    #[error("`{}` is damaged: `{member}` {problem}", path.display())]
    Member {
        /// The file.
        path: PathBuf,
        /// The member.
        member: &'static str,
        /// What is wrong with it, without the value.
        problem: &'static str,
    },
    /// The file holds another key than its name says.
    #[error("`{}` holds the key `{found}`, expected `{expected}`", path.display())]
    OtherKey {
        /// The file.
        path: PathBuf,
        /// The key that it is named after.
        expected: KeyId,
        /// The key that its contents give.
        found: KeyId,
    },
    /// A passphrase is needed.
    #[error("the private key `{key_id}` is protected by a passphrase")]
    Protected {
        /// The key.
        key_id: KeyId,
    },
    /// A passphrase was given for a key that has none.
    #[error("the private key `{key_id}` is not protected by a passphrase")]
    NotProtected {
        /// The key.
        key_id: KeyId,
    },
    /// The passphrase does not open the key.
    #[error("the passphrase is wrong, or the key file was altered")]
    WrongPassphrase,
    /// An empty passphrase protects nothing.
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    /// The file asks for more work than any key of ours.
    #[error(
        "the key file asks for {memory} KiB, {passes} passes and {lanes} lanes; at most \
         {ARGON2_MEMORY_KIB_MAX} KiB, {ARGON2_PASSES_MAX} passes and {ARGON2_LANES_MAX} lanes are used"
    )]
    Cost {
        /// Memory in KiB.
        memory: u32,
        /// Passes over it.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// The cipher failed, which it does only for inputs that are far longer.
    #[error("cannot seal the private key")]
    Sealing,
    /// Two libraries do not see the same key in one seed, which none ever did.
    #[error("the private key `{key_id}` cannot be used to sign")]
    Unusable {
        /// The key.
        key_id: KeyId,
    },
    /// No random bytes.
    #[error("cannot draw random bytes")]
    Random(#[source] io::Error),
}

/// The directory of settings: `$COUNTERSIGN_CONFIG`, else `$XDG_CONFIG_HOME/countersign`, else
/// `$HOME/.config/countersign`. Empty variables count as unset.
///
/// # Errors
/// If none is set, or the one that counts is not an absolute path.
pub fn config_dir(lookup: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, KeyringError> {
    for (variable, below) in [
        ("COUNTERSIGN_CONFIG", ""),
        ("XDG_CONFIG_HOME", "countersign"),
        ("HOME", ".config/countersign"),
    ] {
        let Some(value) = lookup(variable).filter(|value| !value.is_empty()) else { continue };
        let found = PathBuf::from(value);
        if !found.is_absolute() {
            return Err(KeyringError::RelativeConfig { variable, found });
        }
        return Ok(if below.is_empty() { found } else { found.join(below) });
    }
    Err(KeyringError::NoConfig)
}

/// The one thing that a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Signs key events, and is what others trust.
    Root,
    /// Signs what the system itself records.
    Recorder,
    /// Signs for one agent or person.
    Agent,
}

/// How the seed is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// By file permissions alone.
    Plain,
    /// By a passphrase as well.
    Passphrase,
}

/// What is known of a private key without reading its seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its name.
    pub key_id: KeyId,
    /// Who holds it.
    pub agent_id: String,
    /// What it is for.
    pub purpose: Purpose,
    /// In which roles it was made to sign.
    pub roles: Vec<Role>,
    /// The public half.
    pub public_key: PublicKey,
    /// How the seed is kept.
    pub protection: Protection,
}

/// A key to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewKey<'a> {
    /// Who is to hold it.
    pub agent_id: &'a str,
    /// What it is for.
    pub purpose: Purpose,
    /// In which roles it is to sign.
    pub roles: &'a [Role],
}

/// The private keys that belong to one root.
#[derive(Debug, Clone)]
pub struct Keyring {
    config: PathBuf,
    root: Hash,
}

impl Keyring {
    /// The keyring of the root with this fingerprint. Nothing is read yet.
    #[must_use]
    pub fn new(config: &Path, root: Hash) -> Self {
        Self { config: config.to_owned(), root }
    }

    /// Makes a root key and its keyring.
    ///
    /// # Errors
    /// If the name is none, or the file cannot be written.
    pub fn create_root(
        config: &Path,
        agent_id: &str,
        random: &mut Random<'_>,
    ) -> Result<(Self, SigningKey), KeyringError> {
        let seed = draw_seed(random)?;
        let secret = SigningKey::from_seed(&seed)?;
        let keyring = Self::new(config, secret.public_key().fingerprint());
        let key = NewKey { agent_id, purpose: Purpose::Root, roles: &[Role::Recorder] };
        keyring.store_new(key, &seed, &secret.public_key())?;
        Ok((keyring, secret))
    }

    /// The fingerprint of the root.
    #[must_use]
    pub const fn root(&self) -> &Hash {
        &self.root
    }

    /// Makes a key. When this returns, it survives power loss.
    ///
    /// # Errors
    /// If it is another root, the name is none, or the file cannot be written.
    pub fn create(
        &self,
        key: NewKey<'_>,
        random: &mut Random<'_>,
    ) -> Result<SigningKey, KeyringError> {
        if key.purpose == Purpose::Root {
            return Err(KeyringError::SecondRoot { root: self.root });
        }
        let seed = draw_seed(random)?;
        let secret = SigningKey::from_seed(&seed)?;
        self.store_new(key, &seed, &secret.public_key())?;
        Ok(secret)
    }

    fn store_new(
        &self,
        key: NewKey<'_>,
        seed: &Seed,
        public_key: &PublicKey,
    ) -> Result<(), KeyringError> {
        if !is_name(key.agent_id) {
            return Err(KeyringError::AgentId { found: key.agent_id.to_owned() });
        }
        let entry = KeyEntry {
            key_id: public_key.key_id(),
            agent_id: key.agent_id.to_owned(),
            purpose: key.purpose,
            roles: key.roles.to_vec(),
            public_key: *public_key,
            protection: Protection::Plain,
        };
        let keys = PrivateDir::create_top(&self.config)?.create(KEYS_DIR)?;
        let dir = keys.create(&self.root.to_hex())?;
        if dir.contains(&file_name(entry.key_id))? {
            return Err(KeyringError::Exists { key_id: entry.key_id });
        }
        write(&dir, &entry, &Stored::Plain(seed.clone()))
    }

    /// The key, from a file that holds its seed plainly.
    ///
    /// # Errors
    /// If there is no such key, its file must not be used, or it is protected.
    pub fn load(&self, key_id: KeyId) -> Result<SigningKey, KeyringError> {
        let file = self.read(key_id)?;
        match &file.stored {
            Stored::Plain(seed) => SigningKey::from_seed(seed),
            Stored::Sealed(_) => Err(KeyringError::Protected { key_id }),
        }
    }

    /// The key, from a file that is protected by `passphrase`.
    ///
    /// # Errors
    /// If there is no such key, its file must not be used, the passphrase is wrong, or there is
    /// none on this key.
    pub fn load_protected(
        &self,
        key_id: KeyId,
        passphrase: &str,
    ) -> Result<SigningKey, KeyringError> {
        self.open_sealed(key_id, passphrase).and_then(|(_, seed)| SigningKey::from_seed(&seed))
    }

    /// Puts the seed of a key under `passphrase`.
    ///
    /// # Errors
    /// If the key cannot be loaded, is protected already, or the file cannot be written.
    pub fn protect(
        &self,
        key_id: KeyId,
        passphrase: &str,
        random: &mut Random<'_>,
    ) -> Result<(), KeyringError> {
        let file = self.read(key_id)?;
        let Stored::Plain(seed) = &file.stored else {
            return Err(KeyringError::Protected { key_id });
        };
        let entry = KeyEntry { protection: Protection::Passphrase, ..file.entry };
        let sealed = Sealed::seal(seed, passphrase, &file::context(&entry), random)?;
        write(&self.dir(key_id)?, &entry, &Stored::Sealed(sealed))
    }

    /// Takes the passphrase off a key.
    ///
    /// # Errors
    /// As [`Self::load_protected`], or if the file cannot be written.
    pub fn unprotect(&self, key_id: KeyId, passphrase: &str) -> Result<(), KeyringError> {
        let (entry, seed) = self.open_sealed(key_id, passphrase)?;
        let entry = KeyEntry { protection: Protection::Plain, ..entry };
        write(&self.dir(key_id)?, &entry, &Stored::Plain(seed))
    }

    /// What is known of one key.
    ///
    /// # Errors
    /// If there is no such key or its file must not be used.
    pub fn entry(&self, key_id: KeyId) -> Result<KeyEntry, KeyringError> {
        self.read(key_id).map(|file| file.entry)
    }

    /// All keys, by id; none if the keyring does not exist. Names that are not those of key files
    /// are passed over.
    ///
    /// # Errors
    /// If one of the files must not be used.
    pub fn list(&self) -> Result<Vec<KeyEntry>, KeyringError> {
        let Some(dir) = self.find_dir()? else { return Ok(Vec::new()) };
        let ids = dir.names()?;
        ids.iter()
            .filter_map(|name| name.to_str()?.strip_suffix(".json")?.parse().ok())
            .map(|key_id| self.read_in(&dir, key_id).map(|file| file.entry))
            .collect()
    }

    /// Notes that a key is no longer active. Its file stays, since what waits for an answer may be bound
    /// to it; but only what the workspace's log says of a key counts for others, and who reads the log
    /// by a snapshot that this key signed would be told by the key itself.
    ///
    /// # Errors
    /// If there is no keyring, or the note cannot be written.
    pub fn retire(&self, key_id: KeyId) -> Result<(), KeyringError> {
        Ok(self.dir(key_id)?.replace(&retired_name(key_id), b"")?)
    }

    /// Whether a key was active once and is not any more, as far as is known without the log.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn is_retired(&self, key_id: KeyId) -> Result<bool, KeyringError> {
        match self.find_dir()? {
            Some(dir) => Ok(dir.contains(&retired_name(key_id))?),
            None => Ok(false),
        }
    }

    fn open_sealed(
        &self,
        key_id: KeyId,
        passphrase: &str,
    ) -> Result<(KeyEntry, Seed), KeyringError> {
        let file = self.read(key_id)?;
        let Stored::Sealed(sealed) = &file.stored else {
            return Err(KeyringError::NotProtected { key_id });
        };
        let seed = sealed.open(passphrase, &file::context(&file.entry))?;
        file.check_seed(&seed)?;
        Ok((file.entry, seed))
    }

    fn find_dir(&self) -> Result<Option<PrivateDir>, KeyringError> {
        let Some(config) = PrivateDir::open_top(&self.config)? else { return Ok(None) };
        let Some(keys) = config.open(KEYS_DIR)? else { return Ok(None) };
        Ok(keys.open(&self.root.to_hex())?)
    }

    fn dir(&self, key_id: KeyId) -> Result<PrivateDir, KeyringError> {
        let path = || self.config.join(KEYS_DIR).join(self.root.to_hex());
        self.find_dir()?.ok_or_else(|| KeyringError::Missing { key_id, path: path() })
    }

    fn read(&self, key_id: KeyId) -> Result<KeyFile, KeyringError> {
        self.read_in(&self.dir(key_id)?, key_id)
    }

    fn read_in(&self, dir: &PrivateDir, key_id: KeyId) -> Result<KeyFile, KeyringError> {
        let name = file_name(key_id);
        let bytes = dir
            .read(&name, KEY_FILE_BYTES_MAX, Access::Private)?
            .ok_or_else(|| KeyringError::Missing { key_id, path: dir.path().to_owned() })?;
        let file = KeyFile::parse(&bytes, &dir.path().join(name), key_id)?;
        let is_this_root = file.entry.public_key.fingerprint() == self.root;
        if (file.entry.purpose == Purpose::Root) == is_this_root {
            Ok(file)
        } else {
            Err(KeyringError::SecondRoot { root: self.root })
        }
    }
}

fn draw_seed(random: &mut Random<'_>) -> Result<Seed, KeyringError> {
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    random(seed.as_mut_slice()).map_err(KeyringError::Random)?;
    Ok(seed)
}

fn file_name(key_id: KeyId) -> String {
    format!("{key_id}.json")
}

fn retired_name(key_id: KeyId) -> String {
    format!("{key_id}.retired")
}

fn write(dir: &PrivateDir, entry: &KeyEntry, stored: &Stored) -> Result<(), KeyringError> {
    let name = file_name(entry.key_id);
    let bytes = file::to_bytes(entry, stored, &dir.path().join(&name))?;
    Ok(dir.replace(&name, &bytes)?)
}
