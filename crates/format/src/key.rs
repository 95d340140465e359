//! Ed25519 keys, signatures, and who holds a key.
//!
//! A key that could verify signatures nobody made is refused when it is read, and signatures are
//! checked strictly and one at a time: batches accept what a single check refuses. Where private
//! keys are kept, and whether a key is trusted, is decided elsewhere.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Sha512;

use crate::hash::{Hash, hex, unhex};

mod identity;
mod prepared;

pub use identity::{AGENT_IDENTITY, AgentIdentity, KeyStatus};
pub use prepared::PreparedKey;

/// The one signature algorithm.
pub const KEY_ALGORITHM: &str = "ed25519";
/// Bytes of a public key, and of the seed of a private one.
pub const KEY_BYTES: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// The bytes of padded standard base64, if there are exactly `N` and the text is the only way to
/// write them.
#[must_use]
pub fn decode_base64<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// Implements serde for a type that is written as text.
macro_rules! text_form {
    ($type:ty, $error:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(|error: $error| de::Error::custom(error))
            }
        }
    };
}

/// The short name of a key: the first 32 hexadecimal digits of the SHA-256 of its raw bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 16]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A text that is not 32 lowercase hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key id is 32 lowercase hexadecimal digits")]
pub struct NotAKeyId;

impl FromStr for KeyId {
    type Err = NotAKeyId;

    fn from_str(text: &str) -> Result<Self, NotAKeyId> {
        unhex(text).and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(NotAKeyId)
    }
}

text_form!(KeyId, NotAKeyId);

/// Why bytes are not a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicKey {
    /// The text is not the encoding of 32 bytes.
    #[error("a public key is {KEY_BYTES} bytes in padded standard base64")]
    Encoding,
    /// The bytes stand for no point of the curve.
    #[error("the public key is not a point of the curve")]
    NotAPoint,
    /// One signature fits many messages under such a key.
    #[error("the public key has small order, so signatures under it prove nothing")]
    Weak,
    /// The point has a shorter spelling, so one key would have two ids.
    #[error("the public key is not in its canonical encoding")]
    NotCanonical,
}

/// A public key that is safe to verify with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// A key from its raw bytes.
    ///
    /// # Errors
    /// If they are no point of the curve, one of small order, or not its canonical encoding.
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Result<Self, BadPublicKey> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| BadPublicKey::NotAPoint)?;
        if key.is_weak() {
            return Err(BadPublicKey::Weak);
        }
        if key.to_edwards().compress().to_bytes() != *bytes {
            return Err(BadPublicKey::NotCanonical);
        }
        Ok(Self(key))
    }

    /// The raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// The name under which events and files refer to this key.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        KeyId(self.fingerprint().as_bytes().first_chunk().copied().unwrap_or_default())
    }

    /// The SHA-256 of the raw bytes, by which a key is trusted.
    #[must_use]
    pub fn fingerprint(&self) -> Hash {
        Hash::of(self.as_bytes())
    }

    /// Checks that `signature` was made over `message` with this key.
    ///
    /// # Errors
    /// If it was not, or if it is not the one signature that a signer would have made.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), BadSignature> {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.0.verify_strict(message, &signature).map_err(|_| BadSignature)
    }
}

/// A signature that does not fit the message and the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not fit the message and the key")]
pub struct BadSignature;

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<Self, BadPublicKey> {
        Self::from_bytes(&decode_base64(text).ok_or(BadPublicKey::Encoding)?)
    }
}

text_form!(PublicKey, BadPublicKey);

/// An Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature([u8; SIGNATURE_BYTES]);

impl Signature {
    /// A signature from its raw bytes, which may or may not fit anything.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; SIGNATURE_BYTES]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.0
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

/// A text that is not the encoding of 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signature is {SIGNATURE_BYTES} bytes in padded standard base64")]
pub struct NotASignature;

impl FromStr for Signature {
    type Err = NotASignature;

    fn from_str(text: &str) -> Result<Self, NotASignature> {
        decode_base64(text).map(Self).ok_or(NotASignature)
    }
}

text_form!(Signature, NotASignature);

/// Somebody who can sign: a private key, in whatever form it is held.
pub trait Signs {
    /// The key under which its signatures verify.
    fn public_key(&self) -> PublicKey;

    /// Signs `message`; the same message always gets the same signature.
    fn sign(&self, message: &[u8]) -> Signature;
}

/// A private key. It is wiped from memory when dropped and never shown.
pub struct SecretKey {
    /// What grows from the seed, kept because every signature needs it.
    expanded: ExpandedSecretKey,
    /// The public half. Signing under the half of another key would give the secret away, so the two
    /// are only ever made together.
    public: VerifyingKey,
}

impl SecretKey {
    /// The key that grows from `seed`.
    #[must_use]
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        let expanded = ExpandedSecretKey::from(seed);
        let public = VerifyingKey::from(&expanded);
        Self { expanded, public }
    }

    /// Its public half.
    #[must_use]
    pub const fn public_key(&self) -> PublicKey {
        PublicKey(self.public)
    }

    /// Signs `message`; the same message always gets the same signature.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(raw_sign::<Sha512>(&self.expanded, message, &self.public).to_bytes())
    }
}

impl Signs for SecretKey {
    fn public_key(&self) -> PublicKey {
        Self::public_key(self)
    }

    fn sign(&self, message: &[u8]) -> Signature {
        Self::sign(self, message)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public_key().key_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, first vector.
    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    const SIGNATURE: &str = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155\
                             5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
    /// The order of the base point, least significant byte first.
    const ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";

    fn bytes<const N: usize>(digits: &str) -> [u8; N] {
        unhex(digits).unwrap().try_into().unwrap()
    }

    /// The encoding of `y`, without and with the sign bit.
    fn both_signs(y: &str) -> [[u8; 32]; 2] {
        let plain: [u8; 32] = bytes(y);
        let mut signed = plain;
        signed[31] |= 0x80;
        [plain, signed]
    }

    #[test]
    fn the_vector_of_the_standard_is_reproduced() {
        let secret = SecretKey::from_seed(&bytes(SEED));
        assert_eq!(secret.public_key().as_bytes(), &bytes(PUBLIC));
        let signature = secret.sign(b"");
        assert_eq!(signature.as_bytes(), &bytes(SIGNATURE));
        assert_eq!(secret.public_key().verify(b"", &signature), Ok(()));
        assert_eq!(secret.public_key().verify(b"x", &signature), Err(BadSignature));
    }

    #[test]
    fn a_key_is_named_by_the_hash_of_its_raw_bytes() {
        let key = PublicKey::from_bytes(&bytes(PUBLIC)).unwrap();
        let digest = Hash::of(&bytes::<32>(PUBLIC)).to_hex();
        assert_eq!(key.fingerprint().to_hex(), digest);
        assert_eq!(key.key_id().to_string(), digest[..32]);
        assert_eq!(digest[..32].parse(), Ok(key.key_id()));
        for text in
            ["", &digest, &digest[..31], &digest[..32].to_uppercase(), "../../../etc/passwd"]
        {
            assert_eq!(text.parse::<KeyId>(), Err(NotAKeyId));
        }
    }

    #[test]
    fn keys_of_small_order_are_refused_in_every_encoding() {
        let ones = "ff".repeat(30);
        for y in [
            format!("01{}", "00".repeat(31)),
            "00".repeat(32),
            format!("ec{ones}7f"),
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05".to_owned(),
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a".to_owned(),
            format!("ed{ones}7f"),
            format!("ee{ones}7f"),
        ] {
            for encoding in both_signs(&y) {
                assert_eq!(PublicKey::from_bytes(&encoding), Err(BadPublicKey::Weak), "{y}");
                let text = STANDARD.encode(encoding);
                assert_eq!(text.parse::<PublicKey>(), Err(BadPublicKey::Weak));
            }
        }
    }

    #[test]
    fn no_encoding_above_the_field_is_a_key() {
        let mut not_canonical = 0;
        for low in 0xed..=0xff_u8 {
            for encoding in both_signs(&format!("{low:02x}{}7f", "ff".repeat(30))) {
                let result = PublicKey::from_bytes(&encoding);
                assert!(result.is_err(), "{}", hex(&encoding));
                not_canonical += u32::from(result == Err(BadPublicKey::NotCanonical));
            }
        }
        assert!(not_canonical > 0, "the check was never reached");
    }

    #[test]
    fn bytes_that_are_no_point_are_refused() {
        let two = format!("02{}", "00".repeat(31));
        assert_eq!(PublicKey::from_bytes(&bytes(&two)), Err(BadPublicKey::NotAPoint));
    }

    #[test]
    fn a_signature_with_the_order_added_is_refused() {
        let key = PublicKey::from_bytes(&bytes(PUBLIC)).unwrap();
        let (mut forged, order): ([u8; 64], [u8; 32]) = (bytes(SIGNATURE), bytes(ORDER));
        let mut carry = 0;
        for (place, addend) in order.into_iter().enumerate() {
            let sum = u16::from(forged[32 + place]) + u16::from(addend) + carry;
            forged[32 + place] = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert_eq!(carry, 0);
        assert_eq!(key.verify(b"", &Signature::from_bytes(forged)), Err(BadSignature));
    }

    #[test]
    fn every_flipped_bit_breaks_a_signature() {
        let key = PublicKey::from_bytes(&bytes(PUBLIC)).unwrap();
        for bit in 0..512 {
            let mut forged: [u8; 64] = bytes(SIGNATURE);
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.verify(b"", &Signature::from_bytes(forged)), Err(BadSignature));
        }
    }

    #[test]
    fn base64_has_one_accepted_spelling() {
        // 0xff bytes give `/` at every place, which the URL-safe alphabet writes as `_`.
        let signature = Signature::from_bytes([0xff; 64]);
        let text = signature.to_string();
        assert_eq!(text.parse(), Ok(signature));
        let unpadded = text.trim_end_matches('=');
        for other in [
            text.replace('/', "_"),
            unpadded.to_owned(),
            format!("{unpadded}="),
            format!("{text}="),
            format!("{text}\n"),
            format!(" {text}"),
            text.replace("w==", "x=="),
            text[4..].to_owned(),
            format!("AAAA{text}"),
            String::new(),
        ] {
            assert_eq!(other.parse::<Signature>(), Err(NotASignature), "{other}");
            assert!(serde_json::from_value::<Signature>(other.into()).is_err());
        }
        let key = PublicKey::from_bytes(&bytes(PUBLIC)).unwrap();
        let text = key.to_string();
        assert_eq!(text.parse(), Ok(key));
        for other in [
            text.trim_end_matches('=').to_owned(),
            text.replace('/', "_").replace('+', "-") + "=",
            text.replace("o=", "p="),
            text[4..].to_owned(),
            format!("{text} "),
        ] {
            assert_eq!(other.parse::<PublicKey>(), Err(BadPublicKey::Encoding), "{other}");
        }
    }

    #[test]
    fn debug_output_names_a_secret_key_without_showing_it() {
        let secret = SecretKey::from_seed(&bytes(SEED));
        let shown = format!("{secret:?} {secret:#?}");
        assert!(shown.contains(&secret.public_key().key_id().to_string()));
        let list = format!("{:?}", bytes::<32>(SEED));
        for leak in [SEED, &SEED[..16], list.as_str(), &STANDARD.encode(bytes::<32>(SEED))] {
            assert!(!shown.contains(leak), "{shown}");
        }
    }
}
