//! Binds an approval to an input that is not stored as it was.

use countersign_format::hash::Hash;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Tells this use of the recorder's key from every other.
const LABEL: &[u8] = b"countersign/input-binding/1\0";

/// What binds an approval to `raw_input`: an HMAC under a key that only the recorder can derive.
///
/// A plain hash of the raw input would let anybody try out what the redacted secret was.
#[must_use]
pub fn binding(recorder_key_bytes: &[u8], trace_id: &str, raw_input: &[u8]) -> Hash {
    let key = Zeroizing::new(authenticate(recorder_key_bytes, &[LABEL, trace_id.as_bytes()]));
    Hash::from_bytes(authenticate(&*key, &[raw_input]))
}

fn authenticate(key: &[u8], pieces: &[&[u8]]) -> [u8; 32] {
    // A key of any length is taken, so there is no failure to hand on.
    let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    for piece in pieces {
        hmac.update(piece);
    }
    hmac.finalize().into_bytes().into()
}
