//! Signed notes and checkpoints: one spelling each, and nothing that was not signed.

use countersign_format::key::SecretKey;
use countersign_format::note::{Checkpoint, NoteError, NoteKey, SignedNote};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "checkpoint",
    holds: |data| holds(data, SignedNote::parse),
    twin: |data| holds(data, |bytes| SignedNote::parse(&[bytes.trim_ascii_end(), b"\n"].concat())),
    tries: 20_000,
    words: "\n·\n\n·\u{2014} · ·0·+·07·9223372036854775808·countersign/·==·=·AAAA·\
        \u{2014} x AAAAAAAA\n·\r\n·\t·-",
};

/// The vector's note, and the seed of the key that signed it.
const VECTOR: &str = include_str!("../../../docs/formats/vectors/checkpoint.txt");
const SEED: [u8; 32] = [2; 32];

fn holds(data: &[u8], parse: fn(&[u8]) -> Result<SignedNote, NoteError>) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(checkpoint) = text.parse::<Checkpoint>()
    {
        let written = checkpoint.to_string();
        assert!(text.starts_with(&written), "another spelling: {text:?}");
        assert_eq!(written.parse().as_ref(), Ok(&checkpoint), "written, it differs");
    }
    let Ok(note) = parse(data) else { return };
    assert_eq!(note.to_string().as_bytes(), data, "another spelling");
    assert!(!note.signatures().is_empty());
    let name = VECTOR.lines().next().unwrap_or_default();
    let key = NoteKey::new(name, SecretKey::from_seed(&SEED).public_key()).expect("the key");
    if let Ok(checkpoint) = Checkpoint::open(&note, &[key]) {
        let (signed, _) = VECTOR.split_once("\n\n").unwrap_or_default();
        assert_eq!(checkpoint.to_string().trim_end(), signed, "nobody has signed this");
    }
}
