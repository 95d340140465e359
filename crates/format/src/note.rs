//! Signed notes and the checkpoints in them, as C2SP defines both.
//!
//! A note is read strictly, so that there is one spelling of it, yet signatures of keys that we do
//! not know are kept and ignored: witnesses add theirs. Text may be used only after
//! [`SignedNote::verify`]; whether a key is to be trusted is the caller's to decide.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::hash::{Hash, hex};
use crate::key::{KEY_BYTES, PublicKey, SIGNATURE_BYTES, Signature, Signs, decode_base64};

/// Bytes of a whole note: room for dozens of post-quantum signatures.
pub const NOTE_BYTES_MAX: usize = 256 << 10;
/// Signatures on one note.
pub const NOTE_SIGNATURES_MAX: usize = 100;
/// Bytes of a key's name.
pub const NOTE_NAME_BYTES_MAX: usize = 1024;
/// Leaves that a checkpoint may claim; other implementations count in signed 64-bit integers.
pub const CHECKPOINT_SIZE_MAX: u64 = i64::MAX.unsigned_abs();

const KEY_HASH_BYTES: usize = 4;
/// The algorithm byte of plain Ed25519.
const ED25519: u8 = 1;
const SIGNATURE_PREFIX: &str = "\u{2014} ";

/// The first line of our checkpoints, and the name under which they are signed.
#[must_use]
pub fn origin(root_fingerprint: &Hash) -> String {
    format!("countersign/{root_fingerprint}")
}

/// Why a text is not a note, not a checkpoint, or not signed by whom it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// More bytes than [`NOTE_BYTES_MAX`].
    #[error("a note has at most {NOTE_BYTES_MAX} bytes, found {found}")]
    TooLong {
        /// Bytes of the note.
        found: usize,
    },
    /// Not UTF-8, or control characters other than line breaks.
    #[error("a note is UTF-8 without control characters other than line breaks")]
    NotText,
    /// The text does not end in a line break.
    #[error("the text of a note ends in a line break")]
    NoFinalNewline,
    /// No empty line with signatures after it.
    #[error("a note has an empty line and then at least one signature line")]
    NoSignatures,
    /// More signatures than [`NOTE_SIGNATURES_MAX`].
    #[error("a note has at most {NOTE_SIGNATURES_MAX} signatures, found {found}")]
    TooManySignatures {
        /// Signature lines of the note.
        found: usize,
    },
    /// A line below the empty line is not a signature.
    #[error("signature line {line} is not `\u{2014} <name> <base64 of key hash and signature>`")]
    SignatureLine {
        /// The line, from 1.
        line: usize,
    },
    /// A name that cannot stand in a signature line.
    #[error("the name of a key has 1 to {NOTE_NAME_BYTES_MAX} bytes, no spaces and no `+`")]
    Name,
    /// A text that is not a verifier key.
    #[error("a verifier key is `<name>+<key hash>+<base64 of algorithm and key>`, with Ed25519")]
    VerifierKey,
    /// None of the known keys signed the note.
    #[error("the note is signed by none of the {known} known keys")]
    Unsigned {
        /// How many keys were looked for.
        known: usize,
    },
    /// A known key's signature does not fit the text.
    #[error("the signature of `{name}+{hash}` does not fit the note")]
    BadSignature {
        /// The name of the key.
        name: String,
        /// Its key hash in hexadecimal digits.
        hash: String,
    },
    /// The three lines of a checkpoint are not as they must be.
    #[error("not a checkpoint: {0}")]
    Checkpoint(&'static str),
    /// The checkpoint is of another log than the key that signed it.
    #[error("expected the checkpoint of one of the keys that signed it, found that of `{found}`")]
    Origin {
        /// The origin that the checkpoint names.
        found: String,
    },
}

/// A public key under the name that its signatures carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteKey {
    name: String,
    key: PublicKey,
}

impl NoteKey {
    /// Names `key`.
    ///
    /// # Errors
    /// If the name cannot stand in a signature line.
    pub fn new(name: &str, key: PublicKey) -> Result<Self, NoteError> {
        if !is_key_name(name) {
            return Err(NoteError::Name);
        }
        Ok(Self { name: name.to_owned(), key })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key.
    #[must_use]
    pub const fn public_key(&self) -> &PublicKey {
        &self.key
    }

    /// The first four bytes of the SHA-256 of name, line break, algorithm and key: a hint at which
    /// key signed, never a proof.
    #[must_use]
    pub fn hash(&self) -> [u8; KEY_HASH_BYTES] {
        let pieces = [self.name.as_bytes(), b"\n", &[ED25519], self.key.as_bytes()];
        Hash::of_pieces(&pieces).as_bytes().first_chunk().copied().unwrap_or_default()
    }
}

/// The verifier key that other implementations take: `name+hash+base64`.
impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut encoded = vec![ED25519];
        encoded.extend(self.key.as_bytes());
        write!(f, "{}+{}+{}", self.name, hex(&self.hash()), STANDARD.encode(encoded))
    }
}

impl FromStr for NoteKey {
    type Err = NoteError;

    fn from_str(text: &str) -> Result<Self, NoteError> {
        let parse = || {
            // The base64 may hold a `+` of its own, names and hashes do not.
            let (name, rest) = text.split_once('+')?;
            let (hash, encoded) = rest.split_once('+')?;
            let bytes: [u8; 1 + KEY_BYTES] = decode_base64(encoded)?;
            let (&ED25519, key) = bytes.split_first()? else { return None };
            let key = Self::new(name, PublicKey::from_bytes(key.try_into().ok()?).ok()?).ok()?;
            (hash == hex(&key.hash())).then_some(key)
        };
        parse().ok_or(NoteError::VerifierKey)
    }
}

fn is_key_name(name: &str) -> bool {
    (1..=NOTE_NAME_BYTES_MAX).contains(&name.len())
        && !name.contains(|c: char| c == '+' || c.is_whitespace() || c < ' ')
}

/// One signature line: whose it says it is, and the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteSignature {
    name: String,
    key_hash: [u8; KEY_HASH_BYTES],
    /// 64 bytes for Ed25519; other algorithms have other lengths.
    bytes: Vec<u8>,
}

impl NoteSignature {
    /// The name of the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hint at which key of that name it is.
    #[must_use]
    pub const fn key_hash(&self) -> [u8; KEY_HASH_BYTES] {
        self.key_hash
    }

    fn parse(line: &str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix(SIGNATURE_PREFIX)?.split_once(' ')?;
        let decoded = STANDARD.decode(encoded).ok()?;
        let (&key_hash, bytes) = decoded.split_first_chunk()?;
        (is_key_name(name) && !bytes.is_empty()).then(|| Self {
            name: name.to_owned(),
            key_hash,
            bytes: bytes.to_vec(),
        })
    }

    fn is_by(&self, key: &NoteKey) -> bool {
        self.name == key.name && self.key_hash == key.hash()
    }
}

impl fmt::Display for NoteSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = STANDARD.encode([self.key_hash.as_slice(), &self.bytes].concat());
        write!(f, "{SIGNATURE_PREFIX}{} {encoded}", self.name)
    }
}

/// A text and the signatures under it. `Display` gives back the bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedNote {
    text: String,
    signatures: Vec<NoteSignature>,
}

impl SignedNote {
    /// Signs `text` with `key` under `name`.
    ///
    /// # Errors
    /// If the text or the name cannot stand in a note.
    pub fn sign(text: &str, name: &str, key: &impl Signs) -> Result<Self, NoteError> {
        if !is_note_text(text) {
            return Err(NoteError::NotText);
        }
        if !text.ends_with('\n') {
            return Err(NoteError::NoFinalNewline);
        }
        if text.len() > NOTE_BYTES_MAX / 2 {
            return Err(NoteError::TooLong { found: text.len() });
        }
        let public = NoteKey::new(name, key.public_key())?;
        let signature = NoteSignature {
            name: name.to_owned(),
            key_hash: public.hash(),
            bytes: key.sign(text.as_bytes()).as_bytes().to_vec(),
        };
        Ok(Self { text: text.to_owned(), signatures: vec![signature] })
    }

    /// Reads a note. Nothing is verified yet.
    ///
    /// # Errors
    /// If the bytes are not a note in its one spelling, or exceed a limit.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        if bytes.len() > NOTE_BYTES_MAX {
            return Err(NoteError::TooLong { found: bytes.len() });
        }
        let whole = std::str::from_utf8(bytes).map_err(|_| NoteError::NotText)?;
        if !is_note_text(whole) {
            return Err(NoteError::NotText);
        }
        // The text may hold empty lines, the signatures may not.
        let body = whole.strip_suffix('\n').ok_or(NoteError::NoFinalNewline)?;
        let (text, lines) = body.rsplit_once("\n\n").ok_or(NoteError::NoSignatures)?;
        let found = lines.split('\n').count();
        if found > NOTE_SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures { found });
        }
        let signatures = lines
            .split('\n')
            .zip(1..)
            .map(|(text, line)| NoteSignature::parse(text).ok_or(NoteError::SignatureLine { line }))
            .collect::<Result<_, _>>()?;
        Ok(Self { text: format!("{text}\n"), signatures })
    }

    /// The text, with its final line break. Not to be believed before [`Self::verify`].
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signatures, of known and unknown keys.
    #[must_use]
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }

    /// The keys of `known` that signed the text: at least one.
    ///
    /// # Errors
    /// If none of them did, or a signature that says it is of one of them does not fit.
    pub fn verify<'k>(&self, known: &'k [NoteKey]) -> Result<Vec<&'k NoteKey>, NoteError> {
        let mut signers = Vec::new();
        for key in known {
            for signature in self.signatures.iter().filter(|signature| signature.is_by(key)) {
                let bytes: Option<[u8; SIGNATURE_BYTES]> =
                    signature.bytes.as_slice().try_into().ok();
                bytes
                    .map(Signature::from_bytes)
                    .and_then(|bytes| key.key.verify(self.text.as_bytes(), &bytes).ok())
                    .ok_or_else(|| NoteError::BadSignature {
                        name: key.name.clone(),
                        hash: hex(&key.hash()),
                    })?;
                if !signers.contains(&key) {
                    signers.push(key);
                }
            }
        }
        if signers.is_empty() {
            return Err(NoteError::Unsigned { known: known.len() });
        }
        Ok(signers)
    }
}

/// Control characters are those below U+0020 and, beyond what C2SP asks, none.
fn is_note_text(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' || byte == b'\n')
}

impl fmt::Display for SignedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|signature| writeln!(f, "{signature}"))
    }
}

/// The state of a log: how many entries it has and the root of the tree over them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log.
    pub origin: String,
    /// Leaves of the tree.
    pub size: u64,
    /// Its root.
    pub root: Hash,
}

/// The three lines, each with its line break.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = STANDARD.encode(self.root.as_bytes());
        write!(f, "{}\n{}\n{root}\n", self.origin, self.size)
    }
}

impl FromStr for Checkpoint {
    type Err = NoteError;

    /// Reads the text of a note. Lines after the third are extensions: they must not be empty, stay
    /// in the note, and mean nothing here.
    fn from_str(text: &str) -> Result<Self, NoteError> {
        let body = text.strip_suffix('\n').ok_or(NoteError::NoFinalNewline)?;
        let mut lines = body.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(NoteError::Checkpoint("it has three lines: origin, size and root"));
        };
        if !is_note_text(text) {
            return Err(NoteError::NotText);
        }
        if origin.is_empty() || lines.any(str::is_empty) {
            return Err(NoteError::Checkpoint("its lines are not empty"));
        }
        let size = parse_size(size).ok_or(NoteError::Checkpoint(
            "its size is a decimal number below 2^63 without leading zeros",
        ))?;
        let root = decode_base64(root)
            .map(Hash::from_bytes)
            .ok_or(NoteError::Checkpoint("its root is 32 bytes in padded standard base64"))?;
        Ok(Self { origin: origin.to_owned(), size, root })
    }
}

fn parse_size(text: &str) -> Option<u64> {
    // `parse` alone takes a plus sign and leading zeros.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let size: u64 = text.parse().ok().filter(|_| plain)?;
    (size <= CHECKPOINT_SIZE_MAX && (text == "0" || !text.starts_with('0'))).then_some(size)
}

impl Checkpoint {
    /// Signs the checkpoint under the name of its origin.
    ///
    /// # Errors
    /// If the origin cannot be the name of a key.
    pub fn sign(&self, key: &impl Signs) -> Result<SignedNote, NoteError> {
        SignedNote::sign(&self.to_string(), &self.origin, key)
    }

    /// The checkpoint in a note, once one of the keys in `known` has signed it under the name of
    /// its origin.
    ///
    /// # Errors
    /// If the signatures do not hold, the text is no checkpoint, or it is that of another log.
    pub fn open(note: &SignedNote, known: &[NoteKey]) -> Result<Self, NoteError> {
        let signers = note.verify(known)?;
        let checkpoint: Self = note.text.parse()?;
        if signers.iter().any(|signer| signer.name == checkpoint.origin) {
            Ok(checkpoint)
        } else {
            Err(NoteError::Origin { found: checkpoint.origin })
        }
    }
}
