//! Where the index is kept, and what keeps it from being kept there.
//!
//! Decides when the file is made, trusted, or removed and made anew. Whoever opens it has its turn
//! by a lock on the directory, so that nobody opens what another removes; those who have it open
//! then go on with a file that has no name any more. What the tables hold is decided elsewhere.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, TransactionBehavior};

use crate::workspace::Workspace;

/// The name of the file in the store.
pub const INDEX_NAME: &str = "index.sqlite";

const SCHEMA: &str = include_str!("schema.sql");
/// To be raised with every change of the schema or of what is put into it.
const SCHEMA_NUMBER: i64 = 5;
/// How long others may keep the index from us before we do without it.
const BUSY: Duration = Duration::from_secs(3);
/// How often a turn is asked for: the lock cannot be waited for with an end.
const TURN_STEP: Duration = Duration::from_millis(2);
/// What lies beside the file.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Why the index is not in its file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unkept {
    #[error("its file cannot be opened or removed: {0}")]
    Io(#[from] io::Error),
    #[error("others are opening it, for too long")]
    Crowded,
    #[error("its file cannot be written to")]
    ReadOnly,
    #[error("it is of another version or workspace")]
    Foreign,
    #[error("its file cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Unkept {
    fn is_damage(&self) -> bool {
        match self {
            Self::Foreign => true,
            Self::Database(error) => is_damage(error),
            Self::Io(_) | Self::Crowded | Self::ReadOnly => false,
        }
    }
}

/// Whether a new file would help. Also what was never written there can come of a damaged page, so
/// all is damage that is not known to be something else.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    !matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::PermissionDenied
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::OperationInterrupted
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// An index in memory, empty.
pub(super) fn in_memory(workspace: &Workspace) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    create(&mut connection, &workspace.root().to_hex())?;
    Ok(connection)
}

/// The index in its file, which is made if it is not there or not ours.
pub(super) fn open(workspace: &Workspace) -> Result<Connection, Unkept> {
    let (path, _turn) = take_turn(workspace.home())?;
    match connect(&path, workspace) {
        Err(unkept) if unkept.is_damage() => {
            remove(&path)?;
            connect(&path, workspace)
        }
        opened => opened,
    }
}

/// The index in a new file.
pub(super) fn make_anew(workspace: &Workspace) -> Result<Connection, Unkept> {
    let (path, _turn) = take_turn(workspace.home())?;
    remove(&path)?;
    connect(&path, workspace)
}

/// The path of the file, without links in it, and the right to open or remove it.
fn take_turn(home: &Path) -> Result<(PathBuf, File), Unkept> {
    let home = home.canonicalize()?;
    let turn = File::open(&home)?;
    let until = Instant::now() + BUSY;
    loop {
        match turn.try_lock() {
            Ok(()) => return Ok((home.join(INDEX_NAME), turn)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(TURN_STEP);
            }
            Err(TryLockError::WouldBlock) => return Err(Unkept::Crowded),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// Opens the file and makes sure that it is ours. It is never opened but through the database:
/// closing another opening of it would end the locks that this process holds.
fn connect(path: &Path, workspace: &Workspace) -> Result<Connection, Unkept> {
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        // A link would lead the database elsewhere, a pipe keep it for ever. Where there is nothing,
        // somebody may have the old file open and still use what lies beside it.
        remove(path)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(Unkept::ReadOnly);
    }
    // As everything in the store it is for its owner alone; its companions get the same mode.
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    connection.busy_timeout(BUSY)?;
    // What the file says is data: nothing in it is run for us.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // A power cut may take the last transactions, but leaves no mixture.
    connection.pragma_update(None, "synchronous", "normal")?;
    let root = workspace.root().to_hex();
    if is_empty(&connection)? {
        create(&mut connection, &root)?;
    } else if !is_ours(&connection, &root)? {
        return Err(Unkept::Foreign);
    }
    Ok(connection)
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn is_ours(connection: &Connection, root: &str) -> rusqlite::Result<bool> {
    let number: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if number != SCHEMA_NUMBER {
        return Ok(false);
    }
    // Nobody but us makes this file, and we make neither triggers nor views.
    let strange = "SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index')";
    let strange: i64 = connection.query_row(strange, [], |row| row.get(0))?;
    let ours = "SELECT count(*) FROM meta WHERE name = 'root' AND value = ?1";
    let ours: i64 = connection.query_row(ours, [root], |row| row.get(0))?;
    Ok(strange == 0 && ours == 1)
}

fn create(connection: &mut Connection, root: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    transaction.execute("INSERT INTO meta (name, value) VALUES ('root', ?1)", [root])?;
    transaction.pragma_update(None, "user_version", SCHEMA_NUMBER)?;
    transaction.commit()
}

fn remove(path: &Path) -> io::Result<()> {
    // The file first: what is then left beside it belongs to nothing, and the next one drops it.
    let beside = COMPANIONS.iter().map(|end| path.with_file_name(format!("{INDEX_NAME}{end}")));
    for path in std::iter::once(path.to_owned()).chain(beside) {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
