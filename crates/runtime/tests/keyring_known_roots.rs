//! The file of trusted roots.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::thread;

use countersign_format::hash::Hash;
use countersign_runtime::keyring::PrivateFileError;
use countersign_runtime::known_roots::{KnownRoot, KnownRoots, KnownRootsError};
use tempfile::TempDir;

struct Home {
    dir: TempDir,
    roots: KnownRoots,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = KnownRoots::new(&dir.path().join("config"));
        Self { dir, roots }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("config/known_roots")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }
}

fn root(number: u8) -> Hash {
    Hash::of(&[number])
}

#[test]
fn a_root_that_was_added_is_known_and_adding_it_again_changes_nothing() {
    let home = Home::new();
    assert_eq!(home.roots.list().unwrap(), []);
    assert!(!home.roots.contains(&root(1)).unwrap());
    home.roots.add(&root(1), "  ana's laptop ").unwrap();
    home.roots.add(&root(2), "").unwrap();
    home.roots.add(&root(1), "another label").unwrap();
    assert_eq!(
        home.roots.list().unwrap(),
        [
            KnownRoot { fingerprint: root(1), label: "ana's laptop".to_owned() },
            KnownRoot { fingerprint: root(2), label: String::new() },
        ]
    );
    assert_eq!(home.text(), format!("{} ana's laptop\n{}\n", root(1), root(2)));
    assert_eq!(fs::metadata(home.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(home.dir.path().join("config")).unwrap().count(), 1);
}

#[test]
fn removing_a_root_leaves_the_rest_of_the_file_as_it_was() {
    let home = Home::new();
    assert!(!home.roots.remove(&root(1)).unwrap());
    home.roots.add(&root(1), "one").unwrap();
    let edited = format!("# my roots\n\n  {}   two  \n{} one\n# end", root(2), root(1));
    fs::write(home.file(), &edited).unwrap();
    assert!(home.roots.remove(&root(1)).unwrap());
    assert_eq!(home.text(), format!("# my roots\n\n  {}   two  \n# end", root(2)));
    home.roots.add(&root(3), "three").unwrap();
    assert!(home.text().ends_with(&format!("# end\n{} three\n", root(3))));
    assert!(!home.roots.remove(&root(1)).unwrap());
    assert!(home.roots.contains(&root(2)).unwrap());
}

#[test]
fn a_line_that_cannot_be_read_is_an_error_and_is_not_overwritten() {
    let home = Home::new();
    home.roots.add(&root(1), "one").unwrap();
    let fingerprint = root(2).to_hex();
    for bad in [
        fingerprint.to_uppercase(),
        fingerprint.chars().take(63).collect(),
        format!("{fingerprint}0 label"),
        format!("{fingerprint},label"),
        "garbage".to_owned(),
    ] {
        let text = format!("# comment\n{bad}\n");
        fs::write(home.file(), &text).unwrap();
        for result in [
            home.roots.list().map(|_| ()),
            home.roots.contains(&root(1)).map(|_| ()),
            home.roots.add(&root(3), ""),
            home.roots.remove(&root(1)).map(|_| ()),
        ] {
            assert!(matches!(result, Err(KnownRootsError::Line { line: 2, .. })), "{bad}");
        }
        assert_eq!(home.text(), text);
    }
    fs::write(home.file(), b"\xff\n").unwrap();
    assert!(matches!(home.roots.list(), Err(KnownRootsError::NotText { .. })));
}

#[test]
fn labels_stay_on_their_line() {
    let home = Home::new();
    for label in [format!("a\n{}", root(2)), "a\u{1b}[2J".to_owned(), "a".repeat(257)] {
        assert!(matches!(home.roots.add(&root(1), &label), Err(KnownRootsError::Label)));
    }
    assert!(!home.file().exists());
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let home = Home::new();
    home.roots.add(&root(1), "one").unwrap();
    fs::set_permissions(home.file(), Permissions::from_mode(0o644)).unwrap();
    home.roots.list().unwrap();
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(home.file(), Permissions::from_mode(mode)).unwrap();
        let error = home.roots.list().unwrap_err().to_string();
        assert!(error.ends_with(&format!("run `chmod go-w {}`", home.file().display())), "{error}");
    }
}

#[test]
fn a_link_is_refused() {
    let home = Home::new();
    home.roots.add(&root(1), "one").unwrap();
    let aside = home.dir.path().join("aside");
    fs::rename(home.file(), &aside).unwrap();
    symlink(&aside, home.file()).unwrap();
    assert!(matches!(
        home.roots.list(),
        Err(KnownRootsError::File(PrivateFileError::Symlink { .. }))
    ));
}

#[test]
fn roots_that_are_added_at_the_same_time_are_all_kept() {
    let home = Home::new();
    thread::scope(|scope| {
        for number in 0..16 {
            let roots = &home.roots;
            scope.spawn(move || roots.add(&root(number), "").unwrap());
        }
    });
    assert_eq!(home.roots.list().unwrap().len(), 16);
}
