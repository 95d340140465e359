//! The text of a key file.
//!
//! Nothing that holds a seed is copied into memory that is not wiped, and no error repeats text of
//! the file, since any part of a damaged one may be the seed.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_format::id::is_name;
use countersign_format::key::{KeyId, PublicKey, SecretKey, decode_base64};
use countersign_format::role::Role;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::seal::Sealed;
use super::{KEY_FILE_BYTES_MAX, KeyEntry, KeyringError, Protection, Purpose, SEED_BYTES, Seed};

const SCHEMA_VERSION: &str = "1.1.0";
const SCHEMA_PREFIX: &str = "1.1.";
const PLAIN: &str = "plain";
const SEALED: &str = "argon2id-chacha20poly1305";
/// Characters of a seed in padded base64.
const SEED_CHARACTERS: usize = SEED_BYTES.div_ceil(3) * 4;

/// How the seed stands in the file.
pub(super) enum Stored {
    Plain(Seed),
    Sealed(Sealed),
}

/// A key file that was read and holds together.
pub(super) struct KeyFile {
    pub(super) entry: KeyEntry,
    pub(super) stored: Stored,
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text<'a> {
    schema_version: &'a str,
    key_id: KeyId,
    agent_id: &'a str,
    purpose: Purpose,
    roles: Vec<Role>,
    public_key: PublicKey,
    #[serde(borrow)]
    secret: Secret<'a>,
}

/// Both kinds in one: an enum would be read through a buffer that is not wiped.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Secret<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_b64: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    salt_b64: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce_b64: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ciphertext_b64: Option<&'a str>,
}

impl KeyFile {
    /// Reads the file at `path` that is named after `expected`. A plain seed is checked here, a
    /// sealed one once it is open.
    pub(super) fn parse(bytes: &[u8], path: &Path, expected: KeyId) -> Result<Self, KeyringError> {
        let text: Text<'_> =
            serde_json::from_slice(bytes).map_err(|error| KeyringError::Malformed {
                path: path.to_owned(),
                line: error.line(),
                column: error.column(),
            })?;
        let bad = |member, problem| KeyringError::Member { path: path.to_owned(), member, problem };
        if !text.schema_version.starts_with(SCHEMA_PREFIX) {
            return Err(bad("schema_version", "is none that this version reads"));
        }
        if !is_name(text.agent_id) {
            return Err(bad("agent_id", "is not an identifier"));
        }
        for found in [text.key_id, text.public_key.key_id()] {
            if found != expected {
                return Err(KeyringError::OtherKey { path: path.to_owned(), expected, found });
            }
        }
        let stored = text
            .secret
            .read()
            .ok_or_else(|| bad("secret", "is neither a plain seed nor one under a passphrase"))?;
        let protection = match stored {
            Stored::Plain(_) => Protection::Plain,
            Stored::Sealed(_) => Protection::Passphrase,
        };
        let entry = KeyEntry {
            key_id: text.key_id,
            agent_id: text.agent_id.to_owned(),
            purpose: text.purpose,
            roles: text.roles,
            public_key: text.public_key,
            protection,
        };
        let file = Self { entry, stored, path: path.to_owned() };
        if let Stored::Plain(seed) = &file.stored {
            file.check_seed(seed)?;
        }
        Ok(file)
    }

    /// Checks that `seed` gives the key that the file speaks of.
    pub(super) fn check_seed(&self, seed: &Seed) -> Result<(), KeyringError> {
        let found = SecretKey::from_seed(seed).public_key();
        if found == self.entry.public_key {
            return Ok(());
        }
        Err(KeyringError::OtherKey {
            path: self.path.clone(),
            expected: self.entry.key_id,
            found: found.key_id(),
        })
    }
}

impl Secret<'_> {
    fn read(&self) -> Option<Stored> {
        match *self {
            Self {
                kind: PLAIN,
                seed_b64: Some(seed),
                m: None,
                t: None,
                p: None,
                salt_b64: None,
                nonce_b64: None,
                ciphertext_b64: None,
            } => decode_seed(seed).map(Stored::Plain),
            Self {
                kind: SEALED,
                seed_b64: None,
                m: Some(memory),
                t: Some(passes),
                p: Some(lanes),
                salt_b64: Some(salt),
                nonce_b64: Some(nonce),
                ciphertext_b64: Some(ciphertext),
            } => Some(Stored::Sealed(Sealed {
                memory,
                passes,
                lanes,
                salt: decode_base64(salt)?,
                nonce: decode_base64(nonce)?,
                ciphertext: decode_base64(ciphertext)?,
            })),
            _ => None,
        }
    }
}

/// As `decode_base64`, without a buffer that would outlive us.
fn decode_seed(text: &str) -> Option<Seed> {
    // The decoder asks for room in whole groups of three bytes.
    let mut buffer = Zeroizing::new([0; SEED_BYTES + 1]);
    if text.len() != SEED_CHARACTERS
        || STANDARD.decode_slice(text, buffer.as_mut_slice()) != Ok(SEED_BYTES)
    {
        return None;
    }
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    seed.copy_from_slice(buffer.get(..SEED_BYTES)?);
    Some(seed)
}

/// What a sealed seed is bound to: everything else that the file says of the key.
pub(super) fn context(entry: &KeyEntry) -> Vec<u8> {
    let roles: Vec<&str> = entry.roles.iter().map(|role| role.as_str()).collect();
    let purpose = match entry.purpose {
        Purpose::Root => "root",
        Purpose::Recorder => "recorder",
        Purpose::Agent => "agent",
    };
    // No part can hold a line break, so the parts cannot be shifted against each other.
    let parts = ["countersign private key", &entry.agent_id, purpose, &roles.join(",")];
    let mut context = parts.join("\n").into_bytes();
    context.push(b'\n');
    context.extend(entry.public_key.as_bytes());
    context
}

/// The file for a key, wiped when dropped.
pub(super) fn to_bytes(
    entry: &KeyEntry,
    stored: &Stored,
    path: &Path,
) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
    let unwritable =
        |problem| KeyringError::Member { path: path.to_owned(), member: "secret", problem };
    let mut seed_b64 = Zeroizing::new([0; SEED_CHARACTERS]);
    let sealed_b64: [String; 3];
    let secret = match stored {
        Stored::Plain(seed) => {
            STANDARD
                .encode_slice(seed.as_slice(), seed_b64.as_mut_slice())
                .map_err(|_| unwritable("does not fit its encoding"))?;
            let text = std::str::from_utf8(seed_b64.as_slice());
            let text = text.map_err(|_| unwritable("does not fit its encoding"))?;
            Secret { kind: PLAIN, seed_b64: Some(text), ..Secret::default() }
        }
        Stored::Sealed(sealed) => {
            sealed_b64 = [
                STANDARD.encode(sealed.salt),
                STANDARD.encode(sealed.nonce),
                STANDARD.encode(sealed.ciphertext),
            ];
            let [salt, nonce, ciphertext] = &sealed_b64;
            Secret {
                kind: SEALED,
                seed_b64: None,
                m: Some(sealed.memory),
                t: Some(sealed.passes),
                p: Some(sealed.lanes),
                salt_b64: Some(salt),
                nonce_b64: Some(nonce),
                ciphertext_b64: Some(ciphertext),
            }
        }
    };
    let text = Text {
        schema_version: SCHEMA_VERSION,
        key_id: entry.key_id,
        agent_id: &entry.agent_id,
        purpose: entry.purpose,
        roles: entry.roles.clone(),
        public_key: entry.public_key,
        secret,
    };
    // Room for the whole file from the start: a buffer that grew would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_FILE_BYTES_MAX));
    serde_json::to_writer_pretty(&mut *bytes, &text)
        .map_err(|_| unwritable("cannot be written as JSON"))?;
    bytes.push(b'\n');
    Ok(bytes)
}
