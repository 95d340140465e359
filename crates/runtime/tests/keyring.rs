//! Private keys on a real file system.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use countersign_format::hash::hex;
use countersign_format::key::{KeyId, SecretKey};
use countersign_format::role::Role;
use countersign_runtime::keyring::{
    ARGON2_LANES, ARGON2_MEMORY_KIB, ARGON2_PASSES, KeyEntry, Keyring, KeyringError, NewKey,
    PrivateFileError, Protection, Purpose, SigningKey, config_dir, system_random,
};
use tempfile::TempDir;

const PASSPHRASE: &str = "correct horse battery staple";

/// A keyring with a root key and the key of an operator.
struct Home {
    dir: TempDir,
    keyring: Keyring,
    root: KeyId,
    operator: KeyId,
}

/// Seeds that a leak would be found by: byte `n` for the n-th draw.
fn counting() -> impl FnMut(&mut [u8]) -> io::Result<()> {
    let mut draws = 0xa0;
    move |bytes| {
        bytes.fill(draws);
        draws += 1;
        Ok(())
    }
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut random = counting();
        let config = dir.path().join("config");
        let (keyring, root) = Keyring::create_root(&config, "root", &mut random).unwrap();
        let key = NewKey { agent_id: "ana", purpose: Purpose::Agent, roles: &[Role::Operator] };
        let operator = keyring.create(key, &mut random).unwrap();
        Self {
            dir,
            keyring,
            root: root.public_key().key_id(),
            operator: operator.public_key().key_id(),
        }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    fn keys(&self) -> PathBuf {
        self.config().join("keys").join(self.keyring.root().to_hex())
    }

    fn file(&self) -> PathBuf {
        self.keys().join(format!("{}.json", self.operator))
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn rewrite(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }

    fn load(&self) -> Result<SigningKey, KeyringError> {
        self.keyring.load(self.operator)
    }

    fn refusal(&self) -> String {
        self.load().unwrap_err().to_string()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_key_that_was_made_can_be_loaded_and_is_private() {
    let home = Home::new();
    assert_eq!(home.load().unwrap().public_key(), SecretKey::from_seed(&[0xa1; 32]).public_key());
    assert_eq!(
        home.keyring.load(home.root).unwrap().public_key().fingerprint(),
        *home.keyring.root()
    );
    assert_eq!(mode(&home.file()), 0o600);
    for dir in [home.config(), home.config().join("keys"), home.keys()] {
        assert_eq!(mode(&dir), 0o700);
    }
    assert_eq!(fs::read_dir(home.keys()).unwrap().count(), 2, "nothing temporary is left");
}

#[test]
fn the_list_says_what_each_key_is_for() {
    let home = Home::new();
    let mut expected = vec![
        KeyEntry {
            key_id: home.root,
            agent_id: "root".to_owned(),
            purpose: Purpose::Root,
            roles: vec![Role::Recorder],
            public_key: SecretKey::from_seed(&[0xa0; 32]).public_key(),
            protection: Protection::Plain,
        },
        KeyEntry {
            key_id: home.operator,
            agent_id: "ana".to_owned(),
            purpose: Purpose::Agent,
            roles: vec![Role::Operator],
            public_key: SecretKey::from_seed(&[0xa1; 32]).public_key(),
            protection: Protection::Plain,
        },
    ];
    expected.sort_by_key(|entry| entry.key_id);
    fs::write(home.keys().join(".left.tmp"), "x").unwrap();
    assert_eq!(home.keyring.list().unwrap(), expected);
    let nowhere = Keyring::new(&home.dir.path().join("nowhere"), *home.keyring.root());
    assert_eq!(nowhere.list().unwrap(), []);
    assert!(matches!(nowhere.load(home.root), Err(KeyringError::Missing { .. })));
}

#[test]
fn each_permission_of_others_on_the_file_is_refused_with_its_remedy() {
    let home = Home::new();
    for bits in 0..=0o77 {
        set_mode(&home.file(), 0o600 | bits);
        if bits == 0 {
            home.load().unwrap();
            continue;
        }
        let path = home.file().display().to_string();
        assert_eq!(
            home.refusal(),
            format!(
                "`{path}` is open to other users (mode {:04o}); run `chmod 600 {path}`",
                0o600 | bits
            )
        );
        assert!(home.keyring.list().is_err());
        assert!(home.keyring.protect(home.operator, PASSPHRASE, &mut counting()).is_err());
    }
    set_mode(&home.file(), 0o400);
    home.load().unwrap();
}

#[test]
fn each_permission_of_others_on_a_directory_is_refused_with_its_remedy() {
    let home = Home::new();
    for dir in [home.keys(), home.config().join("keys")] {
        for bits in 1..=0o77 {
            set_mode(&dir, 0o700 | bits);
            assert!(home.refusal().ends_with(&format!("run `chmod 700 {}`", dir.display())));
        }
        set_mode(&dir, 0o700);
        home.load().unwrap();
    }
}

#[test]
fn the_settings_may_be_read_but_not_written_by_others() {
    let home = Home::new();
    set_mode(&home.config(), 0o755);
    home.load().unwrap();
    for bits in [0o20, 0o02] {
        set_mode(&home.config(), 0o700 | bits);
        assert!(home.refusal().ends_with(&format!("run `chmod go-w {}`", home.config().display())));
    }
}

#[test]
fn the_remedy_quotes_paths_for_the_shell() {
    let error =
        PrivateFileError::Permissions { path: "/a b/it's".into(), mode: 0o644, wanted: "600" };
    assert_eq!(error.remedy(), r"chmod 600 '/a b/it'\''s'");
}

#[test]
fn links_are_not_followed() {
    let home = Home::new();
    let aside = home.dir.path().join("aside.json");
    fs::rename(home.file(), &aside).unwrap();
    symlink(&aside, home.file()).unwrap();
    assert!(matches!(
        home.load(),
        Err(KeyringError::File(PrivateFileError::Symlink { path })) if path == home.file()
    ));
    fs::remove_file(home.file()).unwrap();
    fs::rename(&aside, home.file()).unwrap();

    let aside = home.dir.path().join("aside");
    fs::rename(home.keys(), &aside).unwrap();
    symlink(&aside, home.keys()).unwrap();
    assert!(matches!(
        home.load(),
        Err(KeyringError::File(PrivateFileError::Symlink { path })) if path == home.keys()
    ));
}

#[test]
fn what_is_not_a_regular_file_is_refused_without_waiting() {
    let home = Home::new();
    fs::remove_file(home.file()).unwrap();
    fs::create_dir(home.file()).unwrap();
    assert!(home.refusal().ends_with("is not a regular file"));
    fs::remove_dir(home.file()).unwrap();
    let dir = fs::File::open(home.keys()).unwrap();
    let name = format!("{}.json", home.operator);
    rustix::fs::mknodat(
        &dir,
        name,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(home.refusal().ends_with("is not a regular file"));
}

#[test]
fn files_of_somebody_else_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    for path in [home.file(), home.keys(), home.config().join("keys"), home.config()] {
        chown(&path, Some(65_534), None).unwrap();
        assert_eq!(
            home.refusal(),
            format!("`{}` belongs to user 65534, expected user 0", path.display())
        );
        chown(&path, Some(0), None).unwrap();
    }
    home.load().unwrap();
}

#[test]
fn every_truncation_of_a_file_is_refused() {
    let home = Home::new();
    let text = home.text();
    for length in 0..text.trim_end().len() {
        home.rewrite(&text[..length]);
        assert!(matches!(home.load(), Err(KeyringError::Malformed { .. })), "{length} bytes");
    }
    home.rewrite(&text);
    home.load().unwrap();
}

/// Errors must not repeat the text of a damaged file: any part of it may be the seed.
#[test]
fn garbled_files_are_refused_without_showing_the_seed() {
    let home = Home::new();
    let text = home.text();
    let seed = "oaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaE=";
    assert!(text.contains(seed), "the test looks for the right thing");
    for (garbled, problem) in [
        (text.replace("\"seed_b64\"", "\"seed\""), "damaged or not a key file"),
        (text.replace("\"ana\"", &format!("[\"{seed}\"]")), "damaged or not a key file"),
        (text.replace("\"plain\"", &format!("\"{seed}\"")), "`secret` is neither"),
        (text.replace("\"plain\"", "\"argon2id-chacha20poly1305\""), "`secret` is neither"),
        (text.replace(seed, &seed[4..]), "`secret` is neither"),
        (text.replace("aE=", "aF="), "`secret` is neither"),
        (text.replace("1.1.0", "2.0.0"), "`schema_version` is none"),
        (text.replace("\"ana\"", &format!("\"{seed}\"")), "`agent_id` is not"),
        (text.replace("\"agent\"", &format!("\"{seed}\"")), "damaged or not a key file"),
        (text.replace("\"operator\"", &format!("\"{seed}\"")), "damaged or not a key file"),
        (text.replace("\"agent\"", "\"root\""), "cannot hold another root key"),
        (format!("{text}{seed}"), "damaged or not a key file"),
        (format!("\u{feff}{text}"), "damaged or not a key file"),
        (text.replace('{', &format!("{{\"{seed}\":1,")), "damaged or not a key file"),
        ("\0".repeat(600), "damaged or not a key file"),
        (" ".repeat(20_000), "has more than 16384 bytes"),
    ] {
        home.rewrite(&garbled);
        let error = home.load().unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert!(!format!("{error} {error:?}").contains(seed), "{error:?}");
    }
}

#[test]
fn a_file_with_the_contents_of_another_key_is_refused() {
    let home = Home::new();
    let text = home.text();
    let other = fs::read_to_string(home.keys().join(format!("{}.json", home.root))).unwrap();
    home.rewrite(&other);
    assert!(matches!(home.load(), Err(KeyringError::OtherKey { found, .. }) if found == home.root));
    // The right name and public key over another seed.
    let seed = "oKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKA=";
    assert!(other.contains(seed));
    home.rewrite(&text.replace("oaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaGhoaE=", seed));
    assert!(matches!(home.load(), Err(KeyringError::OtherKey { found, .. }) if found == home.root));
}

#[test]
fn a_protected_key_opens_with_its_passphrase_alone() {
    let home = Home::new();
    home.keyring.protect(home.operator, PASSPHRASE, &mut counting()).unwrap();
    assert_eq!(mode(&home.file()), 0o600);
    assert_eq!(home.keyring.entry(home.operator).unwrap().protection, Protection::Passphrase);
    assert!(matches!(home.load(), Err(KeyringError::Protected { .. })));
    for wrong in ["", "correct horse battery stapl", "Correct horse battery staple"] {
        let result = home.keyring.load_protected(home.operator, wrong);
        assert!(matches!(result, Err(KeyringError::WrongPassphrase)));
    }
    let key = home.keyring.load_protected(home.operator, PASSPHRASE).unwrap();
    assert_eq!(key.public_key().key_id(), home.operator);

    assert!(matches!(
        home.keyring.protect(home.operator, PASSPHRASE, &mut counting()),
        Err(KeyringError::Protected { .. })
    ));
    assert!(home.keyring.unprotect(home.operator, "wrong").is_err());
    home.keyring.unprotect(home.operator, PASSPHRASE).unwrap();
    home.load().unwrap();
    assert!(matches!(
        home.keyring.load_protected(home.operator, PASSPHRASE),
        Err(KeyringError::NotProtected { .. })
    ));
}

#[test]
fn a_protected_file_holds_no_trace_of_the_seed() {
    let home = Home::new();
    home.keyring
        .protect(home.operator, PASSPHRASE, &mut |bytes| {
            bytes.fill(0x11);
            Ok(())
        })
        .unwrap();
    let text = home.text();
    for trace in ["a1a1", "oaGh", "GhoaGh", "hoaGho", "seed", PASSPHRASE] {
        assert!(!text.contains(trace), "{text}");
    }
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let secret = &value["secret"];
    assert_eq!(secret["kind"], "argon2id-chacha20poly1305");
    assert_eq!(
        (&secret["m"], &secret["t"], &secret["p"]),
        (&ARGON2_MEMORY_KIB.into(), &ARGON2_PASSES.into(), &ARGON2_LANES.into())
    );
}

#[test]
fn a_protected_file_cannot_be_altered_or_ask_for_too_much() {
    let home = Home::new();
    home.keyring.protect(home.operator, PASSPHRASE, &mut counting()).unwrap();
    let text = home.text();
    let open = || home.keyring.load_protected(home.operator, PASSPHRASE);
    for (from, to) in [
        ("\"ana\"", "\"bob\""),
        ("\"operator\"", "\"auditor\""),
        ("\"agent\"", "\"recorder\""),
        ("\"t\": 2", "\"t\": 3"),
    ] {
        assert!(text.contains(from), "{from}");
        home.rewrite(&text.replace(from, to));
        assert!(matches!(open(), Err(KeyringError::WrongPassphrase)), "{from}");
    }
    for (from, to) in [
        ("\"m\": 19456", "\"m\": 100000000"),
        ("\"m\": 19456", "\"m\": 4294967295"),
        ("\"m\": 19456", "\"m\": 0"),
        ("\"t\": 2", "\"t\": 1000000"),
        ("\"t\": 2", "\"t\": 0"),
        ("\"p\": 1", "\"p\": 5"),
    ] {
        assert!(text.contains(from), "{from}");
        home.rewrite(&text.replace(from, to));
        assert!(matches!(open(), Err(KeyringError::Cost { .. })), "{to}");
    }
    home.rewrite(&text);
    open().unwrap();
}

#[test]
fn a_passphrase_is_the_same_however_its_letters_are_composed() {
    let home = Home::new();
    home.keyring.protect(home.operator, "cafe\u{301}", &mut counting()).unwrap();
    home.keyring.load_protected(home.operator, "caf\u{e9}").unwrap();
}

#[test]
fn keys_that_make_no_sense_are_not_made() {
    let home = Home::new();
    let make = |agent_id, purpose| {
        home.keyring.create(NewKey { agent_id, purpose, roles: &[] }, &mut system_random)
    };
    assert!(matches!(make("ana", Purpose::Root), Err(KeyringError::SecondRoot { .. })));
    for name in ["", "Ana", "../ana", "a\nb"] {
        assert!(matches!(make(name, Purpose::Agent), Err(KeyringError::AgentId { .. })));
    }
    let again = NewKey { agent_id: "ana", purpose: Purpose::Agent, roles: &[] };
    let same_seed = &mut |bytes: &mut [u8]| {
        bytes.fill(0xa1);
        Ok(())
    };
    assert!(matches!(
        home.keyring.create(again, same_seed),
        Err(KeyringError::Exists { key_id }) if key_id == home.operator
    ));
    let broken = &mut |_: &mut [u8]| Err(io::Error::other("no entropy"));
    assert!(matches!(home.keyring.create(again, broken), Err(KeyringError::Random(_))));
    assert!(matches!(
        home.keyring.protect(home.operator, "", &mut counting()),
        Err(KeyringError::EmptyPassphrase)
    ));
    assert_eq!(home.keyring.list().unwrap().len(), 2);
}

#[test]
fn keys_from_the_system_differ() {
    let home = Home::new();
    let key = NewKey { agent_id: "recorder", purpose: Purpose::Recorder, roles: &[Role::Recorder] };
    let first = home.keyring.create(key, &mut system_random).unwrap();
    let second = home.keyring.create(key, &mut system_random).unwrap();
    assert_ne!(first.public_key(), second.public_key());
    assert_eq!(home.keyring.list().unwrap().len(), 4);
}

#[test]
fn nothing_shows_a_seed_when_debugged() {
    let home = Home::new();
    let shown = format!(
        "{:?} {:#?} {:?} {:?} {:?}",
        home.keyring,
        home.keyring.list().unwrap(),
        home.load().unwrap(),
        NewKey { agent_id: "ana", purpose: Purpose::Agent, roles: &[] },
        home.keyring.load_protected(home.operator, PASSPHRASE),
    );
    let seed = [0xa1_u8; 32];
    let traces = [hex(&seed[..4]), "161, 161".to_owned(), "oaGh".to_owned(), "A1A1".to_owned()];
    for trace in traces {
        assert!(!shown.contains(&trace), "{shown}");
    }
}

#[test]
fn the_settings_are_where_the_first_set_variable_says() {
    let at = |set: &[(&str, &str)]| {
        config_dir(|name| {
            set.iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| OsString::from(value))
        })
    };
    let all = [("COUNTERSIGN_CONFIG", "/c"), ("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(at(&all).unwrap(), Path::new("/c"));
    assert_eq!(at(&all[1..]).unwrap(), Path::new("/x/countersign"));
    assert_eq!(at(&all[2..]).unwrap(), Path::new("/h/.config/countersign"));
    assert_eq!(
        at(&[("COUNTERSIGN_CONFIG", ""), ("HOME", "/h")]).unwrap(),
        Path::new("/h/.config/countersign")
    );
    assert!(matches!(at(&[]), Err(KeyringError::NoConfig)));
    assert_eq!(
        at(&[("COUNTERSIGN_CONFIG", "keys")]).unwrap_err().to_string(),
        "`COUNTERSIGN_CONFIG` must be an absolute path, found `keys`"
    );
}
