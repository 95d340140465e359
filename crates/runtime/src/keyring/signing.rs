//! Private keys in the form in which they sign every event.
//!
//! The signature is most of what an event costs its recorder, and AWS-LC makes the same one in about
//! half the time of `ed25519-dalek`: its arithmetic is assembly that was proven correct. Nothing is
//! verified with it: what a stranger relies on is the crate `format` alone.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use countersign_format::key::{KEY_BYTES, PublicKey, SecretKey, Signature, Signs};

use super::KeyringError;

/// A private key that signs many messages. The library wipes it from memory when it is dropped.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl SigningKey {
    /// The key that grows from `seed`.
    ///
    /// # Errors
    /// If the library that signs sees another public half in it than the one that verifies.
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Result<Self, KeyringError> {
        let public = SecretKey::from_seed(seed).public_key();
        match Ed25519KeyPair::from_seed_unchecked(seed) {
            Ok(pair) if pair.public_key().as_ref() == public.as_bytes() => {
                Ok(Self { pair, public })
            }
            _ => Err(KeyringError::Unusable { key_id: public.key_id() }),
        }
    }

    /// Its public half.
    #[must_use]
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Signs `message`; the same message always gets the same signature.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        let made = self.pair.sign(message);
        // An Ed25519 signature has 64 bytes; anything else would verify nowhere.
        Signature::from_bytes(made.as_ref().first_chunk().copied().unwrap_or([0; 64]))
    }
}

impl Signs for SigningKey {
    fn public_key(&self) -> PublicKey {
        Self::public_key(self)
    }

    fn sign(&self, message: &[u8]) -> Signature {
        Self::sign(self, message)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(of {})", self.public.key_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_libraries_make_the_same_signature_and_it_verifies(
            seed: [u8; KEY_BYTES],
            message in proptest::collection::vec(any::<u8>(), 0..2048),
        ) {
            let (ours, reference) = (SigningKey::from_seed(&seed)?, SecretKey::from_seed(&seed));
            prop_assert_eq!(ours.public_key(), reference.public_key());
            let signature = ours.sign(&message);
            prop_assert_eq!(signature, reference.sign(&message));
            prop_assert_eq!(ours.public_key().verify(&message, &signature), Ok(()));
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = SigningKey::from_seed(&[7; KEY_BYTES]).unwrap();
        assert_eq!(format!("{key:?}"), format!("SigningKey(of {})", key.public_key().key_id()));
    }
}
