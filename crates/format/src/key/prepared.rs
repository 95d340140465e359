//! A public key that is made ready for verifying many signatures.
//!
//! Says exactly what [`PublicKey::verify`] says, in less time, without taking anything together:
//! multiples of the key are computed once, and the point R of a signature is not decoded, because
//! it is compared in its encoding with the one that belongs there.

use std::fmt;

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::VartimeEdwardsPrecomputation;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::VartimePrecomputedMultiscalarMul as _;
use sha2::{Digest as _, Sha512};

use super::{BadSignature, PublicKey, Signature};

/// A public key and what verifying with it needs again and again: about 20 KiB.
pub struct PreparedKey {
    public: PublicKey,
    /// Multiples of the base point and of the key with the other sign.
    multiples: VartimeEdwardsPrecomputation,
}

impl PreparedKey {
    /// Makes `public` ready.
    #[must_use]
    pub fn new(public: PublicKey) -> Self {
        let points = [ED25519_BASEPOINT_POINT, -public.0.to_edwards()];
        Self { public, multiples: VartimeEdwardsPrecomputation::new(points) }
    }

    /// The key.
    #[must_use]
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Checks that `signature` was made over `message` with this key.
    ///
    /// # Errors
    /// If it was not, or if it is not the one signature that a signer would have made.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), BadSignature> {
        let (r, s) = signature.0.split_first_chunk::<32>().ok_or(BadSignature)?;
        let s = <[u8; 32]>::try_from(s).map_err(|_| BadSignature)?;
        let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(s)).ok_or(BadSignature)?;
        let k = Sha512::new().chain_update(r).chain_update(self.public.as_bytes());
        let k = Scalar::from_bytes_mod_order_wide(&k.chain_update(message).finalize().into());
        // R has to be [s]B - [k]A. If its bytes are the encoding of that point, they are canonical,
        // and it has small order if that point has. The key was refused if it had.
        let point = self.multiples.vartime_multiscalar_mul([s, k]);
        if point.compress().as_bytes() == r && !point.is_small_order() {
            Ok(())
        } else {
            Err(BadSignature)
        }
    }
}

impl fmt::Debug for PreparedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreparedKey({})", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SecretKey;

    /// Every bit of a signature, of the message and of the key, one after the other.
    #[test]
    fn a_prepared_key_says_what_the_strict_check_says() {
        for seed in 0..4 {
            let secret = SecretKey::from_seed(&[seed; 32]);
            let public = secret.public_key();
            let prepared = PreparedKey::new(public);
            let message = vec![seed; usize::from(seed) * 100];
            let signature = secret.sign(&message);
            assert_eq!(prepared.verify(&message, &signature), Ok(()));
            assert_eq!(prepared.verify(b"another", &signature), Err(BadSignature));
            for bit in 0..512 {
                let mut changed = *signature.as_bytes();
                if let Some(byte) = changed.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
                let changed = Signature::from_bytes(changed);
                let strict = public.verify(&message, &changed);
                assert_eq!(prepared.verify(&message, &changed), strict, "bit {bit}");
                assert_eq!(strict, Err(BadSignature));
            }
        }
    }

    /// s + L is the same number for whoever does not look; a second signature would be made of it.
    #[test]
    fn the_other_spelling_of_a_signature_is_refused() {
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9,
            0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let secret = SecretKey::from_seed(&[9; 32]);
        let mut bytes = *secret.sign(b"message").as_bytes();
        let mut carry = 0;
        for (byte, order) in bytes.iter_mut().skip(32).zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(order) + carry;
            [*byte, _] = sum.to_le_bytes();
            carry = sum >> 8;
        }
        let prepared = PreparedKey::new(secret.public_key());
        assert_eq!(prepared.verify(b"message", &Signature::from_bytes(bytes)), Err(BadSignature));
    }

    /// With R the neutral element and s = 0 the equation holds for a k of 0 only; with a key of
    /// small order it would hold for any message, which is why such keys are refused.
    #[test]
    fn a_point_of_small_order_is_refused_although_its_bytes_fit() {
        let public = SecretKey::from_seed(&[1; 32]).public_key();
        let mut bytes = [0; 64];
        bytes[0] = 1;
        let signature = Signature::from_bytes(bytes);
        for message in [&b""[..], b"a", b"b"] {
            assert_eq!(PreparedKey::new(public).verify(message, &signature), Err(BadSignature));
        }
    }
}
