//! Archives as anybody could build them.

use std::io::{Cursor, Write as _};

use countersign_format::cap::{CapReader, CapWriter};
use flate2::{Compression, GzBuilder};

/// A member of an archive, and how its header lies.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) kind: u8,
    /// What is written over the header before its checksum is taken.
    pub(crate) over: Vec<(usize, Vec<u8>)>,
}

impl Entry {
    pub(crate) fn file(name: &str, data: &[u8]) -> Self {
        Self { name: name.into(), data: data.to_vec(), kind: b'0', over: Vec::new() }
    }

    pub(crate) fn kind(self, kind: u8) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn over(mut self, at: usize, bytes: &[u8]) -> Self {
        self.over.push((at, bytes.to_vec()));
        self
    }

    fn header(&self) -> [u8; 512] {
        let mut block = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, b"0000644\x000000000\x000000000\0");
        put(124, format!("{:011o}\0", self.data.len()).as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[self.kind]);
        put(257, b"ustar\x0000");
        for (at, bytes) in &self.over {
            put(*at, bytes);
        }
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }
}

/// The blocks of the members, without an end.
pub(crate) fn blocks(entries: &[Entry]) -> Vec<u8> {
    let mut tar = Vec::new();
    for entry in entries {
        tar.extend_from_slice(&entry.header());
        tar.extend_from_slice(&entry.data);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar
}

/// A tar with its end.
pub(crate) fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut tar = blocks(entries);
    tar.resize(tar.len() + 1024, 0);
    tar
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder =
        GzBuilder::new().mtime(1).filename("x.cap").write(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) type Members = Vec<(String, Vec<u8>)>;

/// All members of a file.
pub(crate) fn members(file: &[u8]) -> Members {
    let mut reader = CapReader::open(Cursor::new(file)).unwrap();
    let mut found = Vec::new();
    while let Some(member) = reader.next_member().unwrap() {
        found.push((member.name, reader.read_member(1 << 30).unwrap()));
    }
    found
}

/// An archive as others write it.
pub(crate) fn packed(members: &Members) -> Vec<u8> {
    let entries: Vec<Entry> = members.iter().map(|(name, data)| Entry::file(name, data)).collect();
    gzip(&tar(&entries))
}

/// An archive as we write it, whatever is in it.
pub(crate) fn sealed(members: &Members) -> Vec<u8> {
    let mut writer = CapWriter::begin(Cursor::new(Vec::new())).unwrap();
    for (name, data) in members {
        writer.whole(name, data).unwrap();
    }
    writer.finish().unwrap().0.into_inner()
}

pub(crate) fn member<'a>(members: &'a mut Members, name: &str) -> &'a mut Vec<u8> {
    &mut members.iter_mut().find(|(found, _)| found == name).unwrap().1
}

/// Replaces the first occurrence of a text that must be there.
pub(crate) fn replace(data: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(data.clone()).unwrap();
    assert!(text.contains(from), "{from}");
    *data = text.replacen(from, to, 1).into_bytes();
}

pub(crate) fn interop(name: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/");
    std::fs::read(format!("{dir}{name}")).unwrap()
}
