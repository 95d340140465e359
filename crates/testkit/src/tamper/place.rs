//! Where a verifier finds a scene: in memory, or in files as a workspace keeps them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use countersign_format::event::artifact::storage_uri;
use countersign_format::hash::Hash;
use countersign_format::shape::Dialect;
use countersign_verify::{FileSource, Options, Profile, Source, StoredArtifact};

use super::scene::{Blob, Scene};
use crate::home::options;

impl Scene {
    /// The options of a reader who trusts the root, or for schema 1.0 has the keys.
    #[must_use]
    pub fn options(&self, profile: Profile) -> Options {
        let usual = Options {
            expect_trace: Some(self.trace_id.clone()),
            ..options(&[Self::root()], profile)
        };
        match self.dialect {
            Dialect::V1_1 => usual,
            Dialect::V1_0 => {
                let records = self.registry.holders.iter().map(|holder| holder.record.clone());
                let keys = records.map(|record| serde_json::from_value(record).unwrap()).collect();
                Options { keys, ..usual }
            }
        }
    }

    /// Writes everything below `home`; gives what reads it.
    #[must_use]
    pub fn write_to(&self, home: &Path) -> FileSource {
        let events = home.join("traces").join(&self.trace_id).join("events.jsonl");
        write(&events, &self.ledger());
        if self.dialect == Dialect::V1_1 {
            write(&home.join("log/events.jsonl"), &self.log_bytes());
        }
        if let Some(checkpoint) = &self.checkpoint {
            write(&home.join("log/checkpoint"), checkpoint);
        }
        for (hash, blob) in &self.blobs {
            let path = home.join(storage_uri(hash));
            match blob {
                Blob::Bytes(bytes) => write(&path, bytes),
                Blob::Directory => fs::create_dir_all(&path).unwrap(),
                Blob::Link(bytes) => {
                    let elsewhere = home.join("elsewhere").join(hash.to_hex());
                    write(&elsewhere, bytes);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::os::unix::fs::symlink(elsewhere, path).unwrap();
                }
            }
        }
        for (path, bytes) in &self.beside {
            write(&home.join(path), bytes);
        }
        FileSource::in_home(home, events)
    }

    /// Every file below `home` with its bytes, to see whether anything was changed.
    #[must_use]
    pub fn files(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut left = vec![home.to_owned()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    left.push(path);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    found.insert(path, bytes);
                }
            }
        }
        found
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

impl Source for Scene {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(io::Cursor::new(self.ledger())))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        let log = io::Cursor::new(self.log_bytes());
        Ok((self.dialect == Dialect::V1_1).then(|| Box::new(log) as Box<dyn BufRead>))
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(self.checkpoint.clone().into_iter().collect())
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        Ok(match self.blobs.get(hash) {
            Some(Blob::Bytes(bytes)) => StoredArtifact::Bytes(Box::new(bytes.as_slice())),
            Some(Blob::Link(_) | Blob::Directory) => StoredArtifact::NotAFile,
            None => StoredArtifact::Absent,
        })
    }
}
