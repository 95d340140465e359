//! Signatures that hold, and ones that only a lenient verifier takes.

use countersign_format::hash::{hex, unhex};
use countersign_format::key::{PublicKey, SecretKey, Signature};
use serde_json::{Value, json};

/// The order of the base point, least significant byte first.
const ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";

/// Encodings of points of small order; the last three are not canonical.
const SMALL: [(&str, &str); 8] = [
    ("order 1", "0100000000000000000000000000000000000000000000000000000000000000"),
    ("order 2", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("order 4", "0000000000000000000000000000000000000000000000000000000000000000"),
    ("order 8", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    ("order 8, the other", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    ("order 1, not canonical", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("order 4, not canonical", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ("order 1, sign of zero", "0100000000000000000000000000000000000000000000000000000000000080"),
];

/// Made with the private key so that R is the neutral element: a lenient verifier takes it.
const NEUTRAL_R: &str = "0100000000000000000000000000000000000000000000000000000000000000\
                         edd9139b49b487fba21e2096f6d7c6bcb801aa4bedef7db72fbca3777f80b200";

/// The base point, and 1: with a key of order 1 that is a signature of every message.
const BASE_AND_ONE: &str = "5866666666666666666666666666666666666666666666666666666666666666\
                            0100000000000000000000000000000000000000000000000000000000000000";

fn case(name: &str, key: &str, message: &[u8], signature: &[u8]) -> Value {
    let valid = || {
        let key = PublicKey::from_bytes(&unhex(key)?.try_into().ok()?).ok()?;
        let signature = Signature::from_bytes(signature.try_into().ok()?);
        key.verify(message, &signature).ok()
    };
    json!({
        "name": name, "public_key_hex": key, "message_hex": hex(message),
        "signature_hex": hex(signature), "valid": valid().is_some(),
    })
}

/// `signature` with the order added to its second half.
fn with_order(signature: &[u8]) -> Vec<u8> {
    let order = unhex(ORDER).unwrap_or_default();
    let (point, scalar) = signature.split_at_checked(32).unwrap_or_default();
    let mut sum = point.to_vec();
    let mut carry = 0;
    for (a, b) in scalar.iter().zip(order) {
        let digit = u16::from(*a) + u16::from(b) + carry;
        sum.extend(digit.to_le_bytes().first());
        carry = digit >> 8;
    }
    sum
}

/// The file `ed25519.json`.
pub(super) fn vectors() -> Value {
    let message = b"countersign";
    let secret = SecretKey::from_seed(&[1; 32]);
    let key = hex(secret.public_key().as_bytes());
    let signature = secret.sign(message).as_bytes().to_vec();
    let other = SecretKey::from_seed(&[2; 32]).sign(message).as_bytes().to_vec();
    let mut cases = vec![
        case("signed", &key, message, &signature),
        case("signed, empty message", &key, b"", secret.sign(b"").as_bytes()),
        case("another message", &key, b"Countersign", &signature),
        case("another key's signature", &key, message, &other),
        case("S above the order", &key, message, &with_order(&signature)),
        case("all zeros", &key, message, &[0; 64]),
        case("neutral R", &key, message, &unhex(NEUTRAL_R).unwrap_or_default()),
    ];
    for (name, point) in SMALL {
        // With S = 0 and R = A such a key verifies about one message in its order.
        let mut forged = unhex(point).unwrap_or_default();
        forged.extend([0; 32]);
        cases.push(case(&format!("key of {name}"), point, message, &forged));
        let (_, scalar) = signature.split_at_checked(32).unwrap_or_default();
        let mut forged = unhex(point).unwrap_or_default();
        forged.extend(scalar);
        cases.push(case(&format!("R of {name}"), &key, message, &forged));
        if name.starts_with("order 1") {
            let forged = unhex(BASE_AND_ONE).unwrap_or_default();
            cases.push(case(&format!("every message, key of {name}"), point, message, &forged));
        }
    }
    json!({ "seed_hex": hex(&[1; 32]), "cases": cases })
}
