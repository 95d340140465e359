//! Notes and checkpoints against the vectors of the other implementations.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use countersign_format::hash::Hash;
use countersign_format::key::{SecretKey, decode_base64};
use countersign_format::merkle::empty_root;
use countersign_format::note::{
    CHECKPOINT_SIZE_MAX, Checkpoint, NOTE_BYTES_MAX, NoteError, NoteKey, SignedNote, origin,
};

/// The published key pairs and notes of the tests of Go's `sumdb/note`.
const PETER: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const PETER_SEED: &str = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
const ENOCH: &str = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";
const TEXT: &str = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n";
const PETER_LINE: &str = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
const ENOCH_LINE: &str = "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n";

fn key(text: &str) -> NoteKey {
    text.parse().unwrap()
}

fn note(signatures: &str) -> SignedNote {
    SignedNote::parse(format!("{TEXT}\n{signatures}").as_bytes()).unwrap()
}

fn secret() -> SecretKey {
    SecretKey::from_seed(&[9; 32])
}

fn checkpoint() -> Checkpoint {
    let root = secret().public_key().fingerprint();
    Checkpoint { origin: origin(&root), size: 3, root: Hash::of(b"three") }
}

fn own_key() -> NoteKey {
    NoteKey::new(&checkpoint().origin, secret().public_key()).unwrap()
}

#[test]
fn a_note_of_the_go_implementation_is_verified_and_printed_back() {
    let both = note(&format!("{PETER_LINE}{ENOCH_LINE}"));
    assert_eq!(both.text(), TEXT);
    assert_eq!(both.verify(&[key(PETER), key(ENOCH)]), Ok(vec![&key(PETER), &key(ENOCH)]));
    assert_eq!(both.to_string(), format!("{TEXT}\n{PETER_LINE}{ENOCH_LINE}"));
}

#[test]
fn signing_with_the_published_key_gives_the_published_note() {
    let bytes: [u8; 33] = decode_base64(PETER_SEED).unwrap();
    let secret = SecretKey::from_seed(bytes[1..].try_into().unwrap());
    let signed = SignedNote::sign(TEXT, "PeterNeumann", &secret).unwrap();
    assert_eq!(signed.to_string(), format!("{TEXT}\n{PETER_LINE}"));
    assert_eq!(NoteKey::new("PeterNeumann", secret.public_key()).unwrap().to_string(), PETER);
}

#[test]
fn signatures_of_unknown_keys_are_ignored_whatever_their_length() {
    let cosignature = format!("— witness.example/w1 {}\n", "AAAA".repeat(900));
    let signed = note(&format!("{ENOCH_LINE}{PETER_LINE}{cosignature}"));
    assert_eq!(signed.verify(&[key(PETER)]), Ok(vec![&key(PETER)]));
    assert_eq!(signed.signatures().len(), 3);
    assert_eq!(signed.signatures()[2].name(), "witness.example/w1");
    assert!(signed.to_string().ends_with(&cosignature));
}

#[test]
fn a_note_without_a_known_signature_is_refused() {
    assert_eq!(note(PETER_LINE).verify(&[]), Err(NoteError::Unsigned { known: 0 }));
    assert_eq!(note(PETER_LINE).verify(&[key(ENOCH)]), Err(NoteError::Unsigned { known: 1 }));
    let renamed = PETER_LINE.replace("PeterNeumann", "PeterNeuman");
    assert_eq!(note(&renamed).verify(&[key(PETER)]), Err(NoteError::Unsigned { known: 1 }));
}

#[test]
fn a_bad_signature_of_a_known_key_fails_even_beside_a_good_one() {
    let bad = Err(NoteError::BadSignature {
        name: "PeterNeumann".to_owned(),
        hash: "c74f20a3".to_owned(),
    });
    let altered = PETER_LINE.replace("ZJkuBS", "ZJkuBT");
    let longer = PETER_LINE.replace("ZJkuBS", "ZJkuBSABCD");
    for line in [altered, longer] {
        for signatures in
            [line.clone(), format!("{PETER_LINE}{line}"), format!("{ENOCH_LINE}{line}")]
        {
            assert_eq!(note(&signatures).verify(&[key(ENOCH), key(PETER)]), bad);
        }
    }
}

#[test]
fn an_altered_text_fails() {
    for place in 0..TEXT.len() {
        let mut text = TEXT.as_bytes().to_vec();
        text[place] ^= 1;
        let whole = [&text, b"\n".as_slice(), PETER_LINE.as_bytes()].concat();
        let result = SignedNote::parse(&whole).and_then(|note| {
            note.verify(&[key(PETER)])?;
            Ok(())
        });
        assert!(result.is_err(), "byte {place}");
    }
}

#[test]
fn the_text_ends_at_the_last_empty_line() {
    let text = "Ognuno sta solo sul cuor della terra\n\ned è subito sera.\n";
    let signed = SignedNote::sign(text, "quasimodo.example/salvatore", &secret()).unwrap();
    let read = SignedNote::parse(signed.to_string().as_bytes()).unwrap();
    assert_eq!(read, signed);
    assert_eq!(read.text(), text);
}

#[test]
fn malformed_notes_are_refused() {
    let line = PETER_LINE.trim_end();
    let (start, encoded) = line.rsplit_once(' ').unwrap();
    let bad = NoteError::SignatureLine { line: 1 };
    for (bytes, error) in [
        (TEXT.to_owned(), NoteError::NoSignatures),
        (format!("{TEXT}\n"), NoteError::NoSignatures),
        (format!("{TEXT}\n{line}"), NoteError::NoFinalNewline),
        (String::new(), NoteError::NoFinalNewline),
        (format!("\u{1}{TEXT}\n{line}\n"), NoteError::NotText),
        (format!("{TEXT}\n{line}\r\n"), NoteError::NotText),
        (format!("{TEXT}\t\n{line}\n"), NoteError::NotText),
        (format!("{TEXT}\n{line}\nUnexpected line.\n"), NoteError::SignatureLine { line: 2 }),
        (format!("{TEXT}\n{line}\n\n"), NoteError::SignatureLine { line: 2 }),
        (format!("{TEXT}\n{}\n", line.replace('—', "-")), bad.clone()),
        (format!("{TEXT}\n{}\n", line.replace('—', "–")), bad.clone()),
        (format!("{TEXT}\n{}\n", line.replace("— ", "—")), bad.clone()),
        (format!("{TEXT}\n{}\n", line.replace("— ", "—  ")), bad.clone()),
        (format!("{TEXT}\n{line} \n"), bad.clone()),
        (format!("{TEXT}\n— Bad Name {encoded}\n"), bad.clone()),
        (format!("{TEXT}\n— Bad+Name {encoded}\n"), bad.clone()),
        (format!("{TEXT}\n— Bad\u{a0}Name {encoded}\n"), bad.clone()),
        (format!("{TEXT}\n{start} {}\n", encoded.trim_end_matches('=')), bad.clone()),
        (format!("{TEXT}\n{start} {}\n", encoded.replace("AM=", "AN=")), bad.clone()),
        (format!("{TEXT}\n{start} {}\n", encoded.replace('/', "_")), bad.clone()),
        (format!("{TEXT}\n{start} AAAAAA==\n"), bad),
        (
            format!("{TEXT}\n{}", PETER_LINE.repeat(101)),
            NoteError::TooManySignatures { found: 101 },
        ),
    ] {
        assert_eq!(SignedNote::parse(bytes.as_bytes()), Err(error), "{bytes}");
    }
    let invalid = [b"\xff".as_slice(), TEXT.as_bytes(), b"\n", PETER_LINE.as_bytes()].concat();
    assert_eq!(SignedNote::parse(&invalid), Err(NoteError::NotText));
    let found = NOTE_BYTES_MAX + 1;
    assert_eq!(SignedNote::parse(&vec![b'a'; found]), Err(NoteError::TooLong { found }));
}

#[test]
fn verifier_keys_have_one_spelling() {
    assert_eq!(key(PETER).to_string(), PETER);
    assert_eq!(key(ENOCH).to_string(), ENOCH);
    for end in 0..PETER.len() {
        assert!(PETER[..end].parse::<NoteKey>().is_err(), "{}", &PETER[..end]);
    }
    for place in 0..PETER.len() {
        let mut altered = PETER.as_bytes().to_vec();
        altered[place] += 1;
        assert!(std::str::from_utf8(&altered).unwrap().parse::<NoteKey>().is_err());
    }
    // Of the Go tests: another length and another algorithm, each with a key hash that fits.
    for bad in [
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    ] {
        assert_eq!(bad.parse::<NoteKey>(), Err(NoteError::VerifierKey));
    }
}

#[test]
fn names_and_texts_that_cannot_stand_in_a_note_are_not_signed() {
    for name in ["", "a b", "a+b", "a\nb", "a\u{2003}b", &"a".repeat(1025)] {
        assert_eq!(SignedNote::sign(TEXT, name, &secret()), Err(NoteError::Name));
    }
    assert_eq!(SignedNote::sign("abc", "a", &secret()), Err(NoteError::NoFinalNewline));
    assert_eq!(SignedNote::sign("a\tb\n", "a", &secret()), Err(NoteError::NotText));
}

#[test]
fn the_example_of_the_checkpoint_specification_is_read_and_written() {
    let text =
        "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let line = "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";
    let signed = SignedNote::parse(format!("{text}\n{line}").as_bytes()).unwrap();
    let read: Checkpoint = signed.text().parse().unwrap();
    assert_eq!((read.origin.as_str(), read.size), ("example.com/behind-the-sofa", 20_852_163));
    assert_eq!(read.to_string(), text);
}

#[test]
fn a_checkpoint_is_signed_under_its_origin_and_opened_with_that_key() {
    let signed = checkpoint().sign(&secret()).unwrap();
    assert_eq!(Checkpoint::open(&signed, &[key(PETER), own_key()]), Ok(checkpoint()));
    assert!(checkpoint().origin.starts_with("countersign/"));
    assert_eq!(checkpoint().origin.len(), "countersign/".len() + 64);
    let empty = Checkpoint { size: 0, root: empty_root(), ..checkpoint() };
    assert_eq!(empty.to_string().parse(), Ok(empty));
}

#[test]
fn a_checkpoint_signed_for_another_log_is_refused() {
    let other = Checkpoint { origin: "example.com/other".to_owned(), ..checkpoint() };
    let signed = SignedNote::sign(&other.to_string(), &checkpoint().origin, &secret()).unwrap();
    assert_eq!(
        Checkpoint::open(&signed, &[own_key()]),
        Err(NoteError::Origin { found: "example.com/other".to_owned() })
    );
}

#[test]
fn extension_lines_are_kept_in_the_note_and_ignored() {
    let text = format!("{}an extension\nanother\n", checkpoint());
    let signed = SignedNote::sign(&text, &checkpoint().origin, &secret()).unwrap();
    assert_eq!(Checkpoint::open(&signed, &[own_key()]), Ok(checkpoint()));
    assert!(signed.to_string().starts_with(&text));
}

#[test]
fn malformed_checkpoints_are_refused() {
    let good = checkpoint().to_string();
    let root = good.lines().nth(2).unwrap().to_owned();
    let size = |size: &str| format!("log\n{size}\n{root}\n");
    let mut bad: Vec<String> = [
        "",
        "00",
        "01",
        "+1",
        "-1",
        " 1",
        "1 ",
        "1.0",
        "0x1",
        "١",
        "9223372036854775808",
        "18446744073709551616",
    ]
    .iter()
    .map(|text| size(text))
    .collect();
    bad.extend([
        String::new(),
        "log\n1\n".to_owned(),
        format!("\n1\n{root}\n"),
        format!("log\n1\n{root}"),
        format!("log\n1\n{root}\n\n"),
        format!("log\n1\n{root}\n\nextension\n"),
        format!("log\n1\n{root} \n"),
        format!("log\r\n1\n{root}\n"),
        format!("log\n1\n{}\n", root.trim_end_matches('=')),
        format!("log\n1\n{}\n", &root[4..]),
        format!("log\n1\nAAAA{root}\n"),
    ]);
    for text in bad {
        assert!(text.parse::<Checkpoint>().is_err(), "{text:?}");
    }
    let largest: Checkpoint = size("9223372036854775807").parse().unwrap();
    assert_eq!(largest.size, CHECKPOINT_SIZE_MAX);
}
