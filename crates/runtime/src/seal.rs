//! Sealing a trace that has ended into one file to hand to somebody else.
//!
//! The same workspace gives the same bytes. What is missing from the store is missing from the file;
//! whoever verifies it is told so.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use countersign_format::cap::{CapManifest, CapMember, CapWriter, capsule};
use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::note::origin;
use countersign_format::proof::EXTRACT_BYTES_MAX;
use countersign_format::report::{Failure, VerificationStatus};
use countersign_format::time::Timestamp;
use countersign_verify::cap::{CapTally, REPORT_BYTES_MAX, action_line, members};
use countersign_verify::{
    FileSource, Options, Profile, Source as _, StoredArtifact, Unprovable, log_extract,
    verify_prefix,
};
use sha2::{Digest as _, Sha256};

use crate::inspect::{each_event, first_event};
use crate::store::LedgerId;
use crate::workspace::{Workspace, WorkspaceError};

const PIECE_BYTES: usize = 64 << 10;

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedFile {
    /// Where.
    pub path: PathBuf,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many members, the manifest included.
    pub members: u64,
    /// How many actions.
    pub actions: u64,
    /// The receipt hash of the last one.
    pub final_receipt: Option<Hash>,
    /// The hash of CapSeal's capsule in it.
    pub capsule_hash: Option<Hash>,
}

/// Why a trace cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum Unsealable {
    /// It can go on.
    #[error("it has not ended")]
    Open,
    /// It holds a line that is no event.
    #[error("its line {index} cannot be read: {what}")]
    BadLine {
        /// Which.
        index: u64,
        /// Why not.
        what: String,
    },
    /// It does not hold.
    #[error("it does not verify: {}", .0.first().map_or("", |failure| &failure.message))]
    Broken(Vec<Failure>),
    /// The log does not show it.
    #[error(transparent)]
    Log(#[from] Unprovable),
    /// What the log says of it is more than a reader takes.
    #[error("what the log says of it has {bytes} bytes, a sealed file holds {EXTRACT_BYTES_MAX}")]
    LongLog {
        /// How much it is.
        bytes: usize,
    },
    /// It changed while it was read.
    #[error("it changed while it was read")]
    Changed,
    /// Something could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Workspace {
    /// Seals a trace that has ended into the file `to`, which is replaced. When it returns, the file
    /// survives power loss.
    ///
    /// # Errors
    /// The trace is open or does not hold, or something could not be read or written.
    pub fn seal(&self, id: Ulid, to: &Path) -> Result<SealedFile, WorkspaceError> {
        let refused = |source: Unsealable| WorkspaceError::Seal {
            id: id.to_string(),
            source: Box::new(source),
        };
        let plan = Plan::make(self, id).map_err(refused)?;
        let to = std::path::absolute(to).map_err(|error| refused(error.into()))?;
        replace(&to, |file| plan.write(file)).map_err(refused).map(|bytes| SealedFile {
            path: to,
            bytes,
            members: plan.manifest.members.len() as u64 + 1,
            actions: plan.manifest.actions_count,
            final_receipt: plan.manifest.chain_hash.parse().ok(),
            capsule_hash: plan.capsule_hash(),
        })
    }
}

/// Everything that will be in the file.
struct Plan {
    id: Ulid,
    source: FileSource,
    tally: CapTally,
    manifest: CapManifest,
    extract: Vec<u8>,
    report: Option<Vec<u8>>,
    capsule: Vec<u8>,
}

impl Plan {
    fn capsule_hash(&self) -> Option<Hash> {
        let capsule: serde_json::Value = serde_json::from_slice(&self.capsule).ok()?;
        capsule.get("capsule_hash")?.as_str()?.parse().ok()
    }

    fn make(workspace: &Workspace, id: Ulid) -> Result<Self, Unsealable> {
        let path = workspace.trace_file(id);
        let source = FileSource::in_home(workspace.home(), path);
        let tally = tally(&source.events, id)?;
        if tally.ended().is_none() {
            return Err(Unsealable::Open);
        }
        holds(&source, id)?;
        let first = first_event(&source.events)?.ok_or(Unsealable::Changed)?;
        let extract = log_extract(&source, &first)?.to_bytes();
        if extract.len() > EXTRACT_BYTES_MAX {
            return Err(Unsealable::LongLog { bytes: extract.len() });
        }
        let root = workspace.root();
        let trace = tally.trace(root, &origin(&root)).ok_or(Unsealable::Changed)?;
        let artifacts = stored(&source, &tally)?;
        let report = match tally.report().filter(|hash| artifacts.contains_key(hash)) {
            // One that nobody would read is not handed on.
            Some(hash) => Some(read_artifact(&source, &hash)?)
                .filter(|report| report.len() as u64 <= REPORT_BYTES_MAX),
            None => None,
        };
        let capsule = capsule(&trace);
        let mut listed = vec![member_of(members::EXTRACT, &extract)];
        listed.extend(report.as_deref().map(|bytes| member_of(members::REPORT, bytes)));
        let (sha256, size) = hash_of(&mut File::open(&source.events)?)?;
        listed.push(CapMember { name: members::EVENTS.to_owned(), sha256, size });
        let (size, sha256) = tally.action_lines();
        listed.push(CapMember { name: members::ACTIONS.to_owned(), sha256, size });
        listed.push(member_of(members::CAPSULE, &capsule));
        listed.extend(artifacts.iter().map(|(sha256, size)| CapMember {
            name: format!("{}{sha256}", members::ARTIFACTS),
            sha256: *sha256,
            size: *size,
        }));
        let manifest = CapManifest::of(&trace, listed);
        Ok(Self { id, source, tally, manifest, extract, report, capsule })
    }

    fn write(&self, file: &File) -> Result<u64, Unsealable> {
        let mut cap = CapWriter::begin(BufWriter::with_capacity(PIECE_BYTES, file))?;
        cap.whole(members::MANIFEST, &self.manifest.to_bytes())?;
        cap.whole(members::EXTRACT, &self.extract)?;
        if let Some(report) = &self.report {
            cap.whole(members::REPORT, report)?;
        }
        for member in &self.manifest.members {
            if matches!(member.name.as_str(), members::EXTRACT | members::REPORT) {
                continue;
            }
            cap.member(&member.name, member.size)?;
            match member.name.as_str() {
                members::EVENTS => copy(&mut File::open(&self.source.events)?, member, &mut cap)?,
                members::ACTIONS => self.write_actions(&mut cap)?,
                members::CAPSULE => cap.data(&self.capsule)?,
                // Everything else is an artifact, under its hash.
                _ => match self.source.artifact(&member.sha256)? {
                    StoredArtifact::Bytes(mut bytes) => copy(&mut *bytes, member, &mut cap)?,
                    _ => return Err(Unsealable::Changed),
                },
            }
        }
        let (mut inner, length) = cap.finish()?;
        inner.flush()?;
        Ok(length)
    }

    fn write_actions(&self, cap: &mut CapWriter<BufWriter<&File>>) -> Result<(), Unsealable> {
        let (mut line, mut written) = (String::new(), Ok(()));
        each_event(&self.source.events, LedgerId::Trace(self.id), |event| {
            if written.is_ok() && action_line(&event, self.tally.audit(), &mut line) {
                written = cap.data(line.as_bytes());
            }
        })?
        .map_err(|_| Unsealable::Changed)?;
        Ok(written?)
    }
}

fn tally(events: &Path, id: Ulid) -> Result<CapTally, Unsealable> {
    let mut tally = CapTally::default();
    let read = each_event(events, LedgerId::Trace(id), |event: Event| tally.meet(&event))?;
    match read {
        Ok(_) => Ok(tally),
        Err(bad) => Err(Unsealable::BadLine { index: bad.index, what: bad.what }),
    }
}

/// Nothing is handed on that does not hold; whether the evidence is there is for the receiver to see.
fn holds(source: &FileSource, id: Ulid) -> Result<(), Unsealable> {
    let options = Options {
        trusted_roots: std::collections::BTreeSet::new(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: Some(id.to_string()),
        expect_head: None,
        expect_count: None,
        report_id: String::new(),
        now: Timestamp::EPOCH,
    };
    let report = verify_prefix(source, &options)?;
    match report.verification_status {
        VerificationStatus::Fail => Err(Unsealable::Broken(report.failures)),
        _ => Ok(()),
    }
}

/// The artifacts of the trace that are there and whole, with their sizes.
fn stored(source: &FileSource, tally: &CapTally) -> Result<BTreeMap<Hash, u64>, Unsealable> {
    let mut found = BTreeMap::new();
    for hash in tally.artifacts() {
        let StoredArtifact::Bytes(mut bytes) = source.artifact(hash)? else { continue };
        let (computed, size) = hash_of(&mut *bytes)?;
        if computed == *hash {
            found.insert(*hash, size);
        }
    }
    Ok(found)
}

fn read_artifact(source: &FileSource, hash: &Hash) -> Result<Vec<u8>, Unsealable> {
    let StoredArtifact::Bytes(stored) = source.artifact(hash)? else {
        return Err(Unsealable::Changed);
    };
    let mut bytes = Vec::new();
    BufReader::new(stored).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn member_of(name: &str, bytes: &[u8]) -> CapMember {
    CapMember { name: name.to_owned(), sha256: Hash::of(bytes), size: bytes.len() as u64 }
}

fn hash_of(reader: &mut dyn Read) -> io::Result<(Hash, u64)> {
    let (mut hasher, mut size) = (Sha256::new(), 0);
    pieces(reader, &mut |piece| {
        size += piece.len() as u64;
        hasher.update(piece);
        Ok(())
    })?;
    Ok((Hash::from_bytes(hasher.finalize().into()), size))
}

/// Copies the bytes of a member, which must still be those that the manifest lists.
fn copy(
    reader: &mut dyn Read,
    member: &CapMember,
    cap: &mut CapWriter<BufWriter<&File>>,
) -> Result<(), Unsealable> {
    let mut hasher = Sha256::new();
    // A ledger may have grown since.
    pieces(&mut reader.take(member.size), &mut |piece| {
        hasher.update(piece);
        cap.data(piece)
    })?;
    match Hash::from_bytes(hasher.finalize().into()) == member.sha256 {
        true => Ok(()),
        false => Err(Unsealable::Changed),
    }
}

fn pieces(reader: &mut dyn Read, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut room = vec![0; PIECE_BYTES];
    loop {
        match reader.read(&mut room) {
            Ok(0) => return Ok(()),
            Ok(got) => take(room.get(..got).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Puts a file in its place as a whole, for everybody to read.
fn replace(
    to: &Path,
    write: impl FnOnce(&File) -> Result<u64, Unsealable>,
) -> Result<u64, Unsealable> {
    let dir = to.parent().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let (temp, file) = create_beside(dir)?;
    let done = write(&file).and_then(|length| {
        file.sync_all()?;
        // If we die here, only the name of a temporary file is left behind.
        fs::rename(&temp, to)?;
        File::open(dir)?.sync_all()?;
        Ok(length)
    });
    if done.is_err() {
        let _ = fs::remove_file(&temp);
    }
    done
}

/// A new file with a name that no other writer uses.
fn create_beside(dir: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0u32;
    loop {
        let path = dir.join(format!(".tmp-seal-{}-{number}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1_000 => {
                number += 1;
            }
            opened => return opened.map(|file| (path, file)),
        }
    }
}
