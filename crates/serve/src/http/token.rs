//! The secret that opens the HTTP server: where it lies, how it is made, how it is compared.
//!
//! It is a file of its owner alone, outside of the workspace, since an agent can read what lies in
//! there. A file that others could read is refused, not repaired: who knows who has read it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use countersign_format::hash::Hash;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Characters of a token that somebody chose: fewer could be guessed.
const TOKEN_CHARACTERS_MIN: usize = 32;
/// Bytes of a token file.
const FILE_BYTES_MAX: u64 = 1024;
/// Permissions that only the owner has.
const OTHERS: u32 = 0o077;

/// A token, known by its hash only.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    digest: Hash,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It could not be read or made.
    #[error("cannot read or make the token file `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others could have read it.
    #[error("the token file `{path}` has mode {mode:o}: others than its owner can use it")]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is no plain file of ours.
    #[error("the token file `{path}` is not a plain file of this user")]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// It holds no token.
    #[error(
        "the token file `{path}` does not hold one line of {TOKEN_CHARACTERS_MIN} or more visible \
         ASCII characters"
    )]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// An agent could read it.
    #[error(
        "the token file `{path}` lies in the workspace `{workspace}`, where agents can read it"
    )]
    InWorkspace {
        /// The file.
        path: PathBuf,
        /// The workspace.
        workspace: PathBuf,
    },
}

impl Token {
    /// A new token that lies nowhere, and its text.
    ///
    /// # Errors
    /// The system gave no random bytes.
    pub fn fresh() -> io::Result<(Self, String)> {
        let text = random_text()?;
        Ok((Self { digest: Hash::of(text.as_bytes()) }, text))
    }

    /// The token in the file at `path`, which is made if there is none.
    ///
    /// # Errors
    /// Others can read it, it holds no token, or it could not be made.
    pub fn load_or_make(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Io { path: path.to_owned(), source };
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        }
        match make(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        read(path)
    }

    /// The same, of a file that somebody named, which must lie outside of the workspace.
    ///
    /// # Errors
    /// It lies in the workspace, and as above.
    pub fn load_or_make_outside(path: &Path, workspace: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Io { path: path.to_owned(), source };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).canonicalize().map_err(failed)?;
        let workspace = workspace.canonicalize().map_err(failed)?;
        if dir.starts_with(&workspace) {
            return Err(TokenError::InWorkspace { path: path.to_owned(), workspace });
        }
        Self::load_or_make(path)
    }

    /// Whether this is the token. Takes as long for a wrong one as for the right one.
    #[must_use]
    pub fn is(&self, offered: &[u8]) -> bool {
        // The digests have one length, and nobody can choose how much of theirs is right.
        let (ours, theirs) = (self.digest, Hash::of(offered));
        let pairs = ours.as_bytes().iter().zip(theirs.as_bytes());
        pairs.fold(0, |difference, (ours, theirs)| difference | (ours ^ theirs)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Makes a token under a name that does not exist yet. The file appears with all of its bytes, so
/// that another server that starts at the same moment reads a whole one.
fn make(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let text = random_text()?;
    let mut name = [0; 8];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    let draft = path.with_extension(format!("new-{:016x}", u64::from_le_bytes(name)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let made = file
        .write_all(format!("{text}\n").as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&draft, path));
    fs::remove_file(&draft).and(made)
}

fn random_text() -> io::Result<String> {
    let mut secret = [0; TOKEN_BYTES];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    Ok(secret.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read(path: &Path) -> Result<Token, TokenError> {
    let failed = |source| TokenError::Io { path: path.to_owned(), source };
    let found = path.symlink_metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(TokenError::NotOurs { path: path.to_owned() });
    }
    let file = File::open(path).map_err(failed)?;
    // What was opened counts, not what was there before.
    let opened = file.metadata().map_err(failed)?;
    let same = (opened.dev(), opened.ino()) == (found.dev(), found.ino());
    if !same || opened.uid() != rustix::process::geteuid().as_raw() {
        return Err(TokenError::NotOurs { path: path.to_owned() });
    }
    if opened.mode() & OTHERS != 0 {
        let mode = opened.mode() & 0o7777;
        return Err(TokenError::TooOpen { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let token = text.trim_ascii();
    if token.len() < TOKEN_CHARACTERS_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::NoToken { path: path.to_owned() });
    }
    Ok(Token { digest: Hash::of(token.as_bytes()) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("workspace")).unwrap();
            fs::create_dir(dir.path().join("config")).unwrap();
            Self { dir }
        }

        fn load(&self, name: &str) -> Result<Token, String> {
            let (file, workspace) = (self.dir.path().join(name), self.dir.path().join("workspace"));
            let root = self.dir.path().canonicalize().unwrap().display().to_string();
            let dir = self.dir.path().display().to_string();
            let shown =
                |error: TokenError| error.to_string().replace(&root, "ROOT").replace(&dir, "ROOT");
            Token::load_or_make_outside(&file, &workspace).map_err(shown)
        }

        fn write(&self, name: &str, text: &str, mode: u32) {
            let file = self.dir.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    #[test]
    fn a_token_is_made_once_for_its_owner_alone() {
        let place = Place::new();
        let first = place.load("config/mcp-token").unwrap();
        assert_eq!(place.load("config/mcp-token"), Ok(first.clone()));
        let file = place.dir.path().join("config/mcp-token");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.trim_end().len(), 64);
        assert!(first.is(text.trim_end().as_bytes()));
        assert!(!first.is(b""));
        assert!(!first.is(text.as_bytes()));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no draft is left");
        assert_eq!(format!("{first:?}"), "Token(…)");
    }

    #[test]
    fn a_token_that_others_can_read_or_choose_is_refused() {
        let place = Place::new();
        let good = "0123456789abcdef0123456789abcdef";
        place.write("open", good, 0o640);
        place.write("short", "hunter2", 0o600);
        place.write("two", &format!("{good}\n{good}"), 0o600);
        place.write("good", good, 0o400);
        std::os::unix::fs::symlink(place.dir.path().join("good"), place.dir.path().join("link"))
            .unwrap();
        let no_token = |name| {
            format!(
                "the token file `ROOT/{name}` does not hold one line of 32 or more visible ASCII characters"
            )
        };
        for (name, expected) in [
            ("open", "the token file `ROOT/open` has mode 640: others than its owner can use it".to_owned()),
            ("short", no_token("short")),
            ("two", no_token("two")),
            ("link", "the token file `ROOT/link` is not a plain file of this user".to_owned()),
            ("workspace/t", "the token file `ROOT/workspace/t` lies in the workspace `ROOT/workspace`, where agents can read it".to_owned()),
        ] {
            assert_eq!(place.load(name), Err(expected), "{name}");
        }
        assert!(place.load("good").unwrap().is(good.as_bytes()));
    }
}
