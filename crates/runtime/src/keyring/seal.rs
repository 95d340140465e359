//! A seed under a passphrase: Argon2id makes the key, ChaCha20-Poly1305 seals.
//!
//! What is written beside the seed is authenticated with it, so a sealed seed cannot be moved to
//! another agent's file. How hard the passphrase is to guess is left to the person.

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce, Tag};
use countersign_format::text;
use zeroize::Zeroizing;

use super::{KeyringError, Random, SEED_BYTES, Seed};

/// Memory for new keys, in KiB.
pub const ARGON2_MEMORY_KIB: u32 = 19 * 1024;
/// Passes for new keys.
pub const ARGON2_PASSES: u32 = 2;
/// Lanes for new keys.
pub const ARGON2_LANES: u32 = 1;
/// Memory that a file may ask for, in KiB: 256 MiB.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 256 * 1024;
/// Passes that a file may ask for.
pub const ARGON2_PASSES_MAX: u32 = 16;
/// Lanes that a file may ask for.
pub const ARGON2_LANES_MAX: u32 = 4;

const TAG_BYTES: usize = 16;
pub(super) const SALT_BYTES: usize = 16;
pub(super) const NONCE_BYTES: usize = 12;
pub(super) const CIPHERTEXT_BYTES: usize = SEED_BYTES + TAG_BYTES;

/// What stands in a key file in the place of the seed.
pub(super) struct Sealed {
    pub(super) memory: u32,
    pub(super) passes: u32,
    pub(super) lanes: u32,
    pub(super) salt: [u8; SALT_BYTES],
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) ciphertext: [u8; CIPHERTEXT_BYTES],
}

impl Sealed {
    /// Seals `seed`, bound to `context`.
    pub(super) fn seal(
        seed: &Seed,
        passphrase: &str,
        context: &[u8],
        random: &mut Random<'_>,
    ) -> Result<Self, KeyringError> {
        if passphrase.is_empty() {
            return Err(KeyringError::EmptyPassphrase);
        }
        let mut sealed = Self {
            memory: ARGON2_MEMORY_KIB,
            passes: ARGON2_PASSES,
            lanes: ARGON2_LANES,
            salt: [0; SALT_BYTES],
            nonce: [0; NONCE_BYTES],
            ciphertext: [0; CIPHERTEXT_BYTES],
        };
        random(&mut sealed.salt).map_err(KeyringError::Random)?;
        random(&mut sealed.nonce).map_err(KeyringError::Random)?;
        let cipher = sealed.cipher(passphrase)?;
        let nonce = Nonce::from(sealed.nonce);
        let mut text = Zeroizing::new(**seed);
        let tag = cipher
            .encrypt_inout_detached(&nonce, context, text.as_mut_slice().into())
            .map_err(|_| KeyringError::Sealing)?;
        for (byte, source) in sealed.ciphertext.iter_mut().zip(text.iter().chain(tag.iter())) {
            *byte = *source;
        }
        Ok(sealed)
    }

    /// The seed, if the passphrase and the context are those that it was sealed with.
    pub(super) fn open(&self, passphrase: &str, context: &[u8]) -> Result<Seed, KeyringError> {
        let cipher = self.cipher(passphrase)?;
        let (text, tag) = self.ciphertext.split_at(SEED_BYTES);
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        seed.copy_from_slice(text);
        let tag = Tag::try_from(tag).map_err(|_| KeyringError::Sealing)?;
        cipher
            .decrypt_inout_detached(
                &Nonce::from(self.nonce),
                context,
                seed.as_mut_slice().into(),
                &tag,
            )
            .map_err(|_| KeyringError::WrongPassphrase)?;
        Ok(seed)
    }

    fn cipher(&self, passphrase: &str) -> Result<ChaCha20Poly1305, KeyringError> {
        let (memory, passes, lanes) = (self.memory, self.passes, self.lanes);
        let within = memory <= ARGON2_MEMORY_KIB_MAX
            && passes <= ARGON2_PASSES_MAX
            && lanes <= ARGON2_LANES_MAX;
        let params = Params::new(memory, passes, lanes, Some(SEED_BYTES)).ok().filter(|_| within);
        let params = params.ok_or(KeyringError::Cost { memory, passes, lanes })?;
        // Keyboards differ in how they write the same letter.
        let passphrase = Zeroizing::new(text::to_nfc(passphrase));
        let mut key = Zeroizing::new([0; SEED_BYTES]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.as_bytes(), &self.salt, key.as_mut_slice())
            .map_err(|_| KeyringError::Cost { memory, passes, lanes })?;
        Ok(ChaCha20Poly1305::new(<&Key>::from(&*key)))
    }
}
