//! Sealed files, as they come and member by member: no change of one that is ours goes unnoticed.

use std::io::{self, Cursor, Read, Write as _};

use countersign_format::cap::{CAP_MAGIC, CapError, CapManifest, CapMember, CapReader, check_name};
use countersign_format::hash::Hash;
use countersign_format::report::VerificationStatus;
use countersign_verify::cap::{CapOwner, CapVerdict, OpenedCap, cap_contents, members, verify_cap};
use flate2::{Compression, Crc, write::DeflateEncoder};

use crate::Target;
use crate::proof::{NothingKept, options};

pub(crate) const FILE: Target = Target {
    name: "cap_file",
    holds: |data| file_holds(data, holds_up),
    twin: |data| file_holds(data, says_so),
    tries: 1_500,
    words: "\u{1f}·\0·\u{8}·countersign·PK·ustar",
};

pub(crate) const MEMBERS: Target = Target {
    name: "cap_members",
    holds: |data| members_hold(data, holds_up),
    twin: |data| members_hold(data, is_readable),
    tries: 400,
    words: "manifest.json·events.jsonl·../·/·\\·.·\0·ustar·0000644·7777777·path=·30 path=../x\n·\
        {·}·\"·é·A·a·\"actions\":·0·9·\n·null",
};

/// What we sealed: the only file of ours that can hold up, since nobody else has its keys.
const SEALED: &[u8] = include_bytes!("../../../fuzz/corpus/cap_file/sealed.cap");

/// Whether a file is said to be one of ours with nothing wrong.
type HoldsUp = fn(&[u8]) -> bool;

fn verdict(file: &[u8]) -> CapVerdict {
    let open = || Ok(Box::new(Cursor::new(file.to_vec())) as OpenedCap);
    verify_cap(&open, &NothingKept, &options()).expect("bytes in memory can be read")
}

fn holds_up(file: &[u8]) -> bool {
    let verdict = verdict(file);
    let status = verdict.report.verification_status;
    assert_eq!(status == VerificationStatus::Fail, !verdict.report.failures.is_empty());
    verdict.owner == CapOwner::Countersign && status != VerificationStatus::Fail
}

/// What a reader would say that believes the seal in the header.
fn says_so(file: &[u8]) -> bool {
    let seal = |file| CapReader::open(file).ok().and_then(|it| it.gzip_header().seal());
    seal(Cursor::new(file)).is_some_and(|stated| seal(Cursor::new(SEALED)) == Some(stated))
}

/// What a reader would say that looks at the container and the manifest alone.
fn is_readable(file: &[u8]) -> bool {
    let read = unpacked(Cursor::new(file));
    let manifest = read.as_ref().ok().and_then(|members| members.first());
    manifest.is_some_and(|(_, bytes)| CapManifest::read(bytes).is_ok())
}

type Members = Vec<(String, Vec<u8>)>;

fn unpacked(file: impl Read) -> Result<Members, CapError> {
    const MEMBER_BYTES_MAX: u64 = 8 << 20;
    let mut reader = CapReader::open(file)?;
    let mut members = Members::new();
    while let Some(member) = reader.next_member()? {
        let bytes = reader.read_member(MEMBER_BYTES_MAX)?;
        assert_eq!(bytes.len() as u64, member.size, "a member of another size");
        assert_eq!(check_name(&member.name), Ok(()), "a member of this name");
        members.push((member.name, bytes));
    }
    Ok(members)
}

/// Gives few bytes at a time.
struct Slow<'d>(&'d [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(1 + self.0.len() % 7);
        self.0.read(into.get_mut(..most).unwrap_or_default())
    }
}

fn file_holds(file: &[u8], holds_up: HoldsUp) {
    let slowly = unpacked(Slow(file)).ok();
    let read = unpacked(Cursor::new(file)).ok();
    assert_eq!(read, slowly, "read slowly it holds something else");
    sealed_or_refused(file, read, holds_up);
}

/// A file that holds up is the one that we sealed.
fn sealed_or_refused(file: &[u8], read: Option<Members>, holds_up: HoldsUp) {
    let _ = cap_contents(Cursor::new(file));
    if holds_up(file) {
        let sealed = unpacked(Cursor::new(SEALED)).ok();
        assert_eq!(read, sealed, "a changed file holds up");
    }
}

fn members_hold(tar: &[u8], holds_up: HoldsUp) {
    let tar = with_checksums(tar);
    let file = packed(&tar);
    let read = unpacked(Cursor::new(&file)).ok();
    sealed_or_refused(&file, read.clone(), holds_up);
    // Whoever changes a member of a file can also write its manifest anew.
    let Some(forged) = read.and_then(with_manifest) else { return };
    if holds_up(&packed(&archive(&forged))) {
        let sealed = unpacked(Cursor::new(SEALED)).expect("ours can be read");
        for name in [members::EVENTS, members::ACTIONS] {
            let of = |members: &Members| members.iter().find(|it| it.0 == name).cloned();
            assert_eq!(of(&forged), of(&sealed), "a changed `{name}` holds up");
        }
    }
}

/// The members with a manifest of ours that lists them as they are.
fn with_manifest(mut all: Members) -> Option<Members> {
    let (first, rest) = all.split_first_mut()?;
    let mut manifest = CapManifest::read(&first.1).ok()?;
    manifest.members = rest
        .iter()
        .map(|(name, bytes)| CapMember {
            name: name.clone(),
            sha256: Hash::of(bytes),
            size: bytes.len() as u64,
        })
        .collect();
    first.1 = manifest.to_bytes();
    Some(all)
}

const BLOCK: usize = 512;

/// As `tar`, every header with the checksum that it should have: it protects from accidents only.
fn with_checksums(tar: &[u8]) -> Vec<u8> {
    let mut tar = tar.to_vec();
    for block in tar.chunks_exact_mut(BLOCK) {
        if block.get(257..262) == Some(b"ustar") {
            write_checksum(block);
        }
    }
    tar
}

fn write_checksum(block: &mut [u8]) {
    let mut put = |bytes: &[u8]| {
        let place = block.get_mut(148..156).into_iter().flatten();
        place.zip(bytes).for_each(|(to, from)| *to = *from);
        block.iter().map(|byte| u32::from(*byte)).sum::<u32>()
    };
    let sum = put(b"        ");
    put(format!("{sum:06o}\0 ").as_bytes());
}

/// The tar of these members.
fn archive(members: &Members) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, bytes) in members {
        let mut header = vec![0; BLOCK];
        let fields: [(usize, &[u8]); 5] = [
            (0, name.as_bytes()),
            (100, b"0000644\x000000000\x000000000\0"),
            (124, &format!("{:011o}\0", bytes.len()).into_bytes()),
            (136, b"00000000000\0"),
            (156, b"0"),
        ];
        for (at, text) in fields.into_iter().chain([(257, b"ustar\x0000".as_slice())]) {
            header.iter_mut().skip(at).zip(text).for_each(|(to, from)| *to = *from);
        }
        write_checksum(&mut header);
        tar.extend(header);
        tar.extend(bytes);
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
    tar.resize(tar.len() + 2 * BLOCK, 0);
    tar
}

/// A tar as a file with a seal that fits.
fn packed(tar: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(tar).expect("memory takes bytes");
    let mut body = encoder.finish().expect("memory takes bytes");
    let mut crc = Crc::new();
    crc.update(tar);
    body.extend(crc.sum().to_le_bytes());
    body.extend(crc.amount().to_le_bytes());
    let [one, two, method] = CAP_MAGIC;
    let mut file = vec![one, two, method, 16, 0, 0, 0, 0, 0, 255];
    file.extend(format!("{SEAL_PREFIX}{}\0", Hash::of(&body).to_hex()).into_bytes());
    file.extend(body);
    file
}

const SEAL_PREFIX: &str = "countersign sha256:";
