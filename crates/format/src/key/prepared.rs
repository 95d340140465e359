//! A public key that is made ready for verifying many signatures.
//!
//! Says exactly what [`PublicKey::verify`] says, in less time, without taking anything together:
//! multiples of the key are computed once, and the point R of a signature is not decoded, because
//! it is compared in its encoding with the one that belongs there.

use std::fmt;
use std::sync::OnceLock;

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity as _;
use sha2::{Digest as _, Sha512};

use super::{BadSignature, PublicKey, Signature};

/// Multiples of the base point, which all keys share.
static BASE: OnceLock<Multiples> = OnceLock::new();

/// A public key and what verifying with it needs again and again: about 220 KiB.
pub struct PreparedKey {
    public: PublicKey,
    /// Multiples of the key with the other sign.
    minus_key: Multiples,
}

impl PreparedKey {
    /// Makes `public` ready.
    #[must_use]
    pub fn new(public: PublicKey) -> Self {
        Self { public, minus_key: Multiples::of(-public.0.to_edwards()) }
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
        let base = BASE.get_or_init(|| Multiples::of(ED25519_BASEPOINT_POINT));
        let point = self.minus_key.add(&k, base.add(&s, EdwardsPoint::identity()));
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

/// Bits of a scalar that are looked up at once. Seven would save a seventh of the additions, and
/// take twice the memory, which then falls out of the processor's own with a few keys.
const WINDOW: usize = 6;
/// Windows of a scalar, which has 253 bits; the last takes the carry.
const WINDOWS: usize = 43;
/// Multiples in a row. Digits are signed, so that half of them do.
const ROW: usize = 1 << (WINDOW - 1);

/// For each window of a scalar, the multiples of a point that its digits stand for: with them a
/// product is additions only. Takes as long as the scalar makes it: for public values.
struct Multiples(Vec<[EdwardsPoint; ROW]>);

impl Multiples {
    fn of(point: EdwardsPoint) -> Self {
        let mut unit = point;
        let rows = (0..WINDOWS).map(|_| {
            let mut multiple = EdwardsPoint::identity();
            let row = std::array::from_fn(|_| {
                multiple += unit;
                multiple
            });
            // The last of the row is half of the next window's unit.
            unit = multiple + multiple;
            row
        });
        Self(rows.collect())
    }

    /// `sum` and `scalar` times the point.
    fn add(&self, scalar: &Scalar, mut sum: EdwardsPoint) -> EdwardsPoint {
        for (row, digit) in self.0.iter().zip(digits(scalar)) {
            let Some(at) = usize::from(digit.unsigned_abs()).checked_sub(1) else { continue };
            let Some(multiple) = row.get(at) else { continue };
            if digit > 0 {
                sum += multiple;
            } else {
                sum -= multiple;
            }
        }
        sum
    }
}

/// The scalar to the base of 2^[`WINDOW`], least digit first, with digits from -[`ROW`] to [`ROW`].
fn digits(scalar: &Scalar) -> [i8; WINDOWS] {
    const LOW: u32 = (1 << WINDOW) - 1;
    let bytes = scalar.as_bytes();
    let mut carry = 0;
    std::array::from_fn(|window| {
        let bit = window * WINDOW;
        let byte = |at: usize| bytes.get(at).copied().map_or(0, u32::from);
        let two = byte(bit / 8) | (byte(bit / 8 + 1) << 8);
        let digit = ((two >> (bit % 8)) & LOW) + carry;
        carry = u32::from(digit as usize > ROW);
        (digit as i32 - ((carry as i32) << WINDOW)) as i8
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SecretKey;

    /// Small ones, those around a window, the largest, and some from hashes.
    fn scalars() -> Vec<Scalar> {
        let small = (0..200u64).chain((0..252).step_by(7).map(|bit| 1u64 << (bit % 64)));
        let hashed = (0..200u64)
            .map(|n| Scalar::from_bytes_mod_order_wide(&Sha512::digest(n.to_le_bytes()).into()));
        small.map(Scalar::from).chain(hashed).flat_map(|scalar| [scalar, -scalar]).collect()
    }

    #[test]
    fn digits_stand_for_their_scalar() {
        let base = Scalar::from(1u64 << WINDOW);
        for scalar in scalars() {
            let digits = digits(&scalar);
            let sum = digits.iter().rev().fold(Scalar::ZERO, |sum, digit| {
                assert!(usize::from(digit.unsigned_abs()) <= ROW, "{digits:?}");
                let size = Scalar::from(digit.unsigned_abs());
                sum * base + if *digit < 0 { -size } else { size }
            });
            assert_eq!(sum, scalar);
        }
    }

    #[test]
    fn looked_up_products_are_those_of_the_library() {
        let point = SecretKey::from_seed(&[3; 32]).public_key().0.to_edwards();
        let multiples = Multiples::of(point);
        for scalar in scalars() {
            let product = multiples.add(&scalar, ED25519_BASEPOINT_POINT);
            assert_eq!(product, ED25519_BASEPOINT_POINT + scalar * point);
        }
    }

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
