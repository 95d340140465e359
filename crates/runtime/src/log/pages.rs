//! The open traces of the log as pages of a file, so that one can be looked up without reading all.
//!
//! A page holds traces, or names pages, in the order of ids. Whoever names a page gives its hash, and
//! the snapshot of the log, which is signed, names the first one: so no page can be made up. Pages
//! are never changed; what changed is added at the end of the file, with the pages that lead there.

use std::collections::BTreeMap;

use countersign_format::hash::Hash;
use countersign_protocol::log::{OpenChange, OpenTrace};
use serde::{Deserialize, Serialize};

use crate::disk::{DiskFile, read_full};

/// Traces in a page, or pages that one names.
const PAGE_ENTRIES_MAX: usize = 32;
/// Bytes of a page; a longer one was not made here.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Where a page lies, and what it must hash to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageRef {
    at: u64,
    bytes: u64,
    hash: Hash,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Page {
    Traces(Vec<(String, OpenTrace)>),
    /// Each with the first id in it.
    Pages(Vec<(String, PageRef)>),
}

/// A page that is not what its reference says.
#[derive(Debug)]
pub(super) struct BadPage;

fn read(file: &dyn DiskFile, page: PageRef) -> Result<Page, BadPage> {
    if page.bytes > PAGE_BYTES_MAX {
        return Err(BadPage);
    }
    let mut bytes = vec![0; usize::try_from(page.bytes).map_err(|_| BadPage)?];
    let length = read_full(file, page.at, &mut bytes).map_err(|_| BadPage)?;
    if length != bytes.len() || Hash::of(&bytes) != page.hash {
        return Err(BadPage);
    }
    serde_json::from_slice(&bytes).map_err(|_| BadPage)
}

/// The trace of this id below a page.
pub(super) fn find(
    file: &dyn DiskFile,
    mut at: PageRef,
    trace_id: &str,
) -> Result<Option<OpenTrace>, BadPage> {
    loop {
        match read(file, at)? {
            Page::Traces(traces) => {
                let place = traces.binary_search_by(|(id, _)| id.as_str().cmp(trace_id));
                return Ok(place.ok().and_then(|place| traces.into_iter().nth(place)).map(second));
            }
            Page::Pages(pages) => {
                let behind = pages.partition_point(|(first, _)| first.as_str() <= trace_id);
                match behind.checked_sub(1).and_then(|place| pages.get(place)) {
                    Some((_, below)) => at = *below,
                    None => return Ok(None),
                }
            }
        }
    }
}

fn second<A, B>((_, second): (A, B)) -> B {
    second
}

/// All traces below a page.
pub(super) fn all(
    file: &dyn DiskFile,
    at: PageRef,
    into: &mut BTreeMap<String, OpenTrace>,
) -> Result<(), BadPage> {
    match read(file, at)? {
        Page::Traces(traces) => into.extend(traces),
        Page::Pages(pages) => {
            for (_, below) in pages {
                all(file, below, into)?;
            }
        }
    }
    Ok(())
}

/// Pages to be added behind the `at` bytes that a file has.
#[derive(Debug)]
pub(super) struct Addition {
    at: u64,
    pub(super) bytes: Vec<u8>,
}

type Named = Vec<(String, PageRef)>;

impl Addition {
    pub(super) const fn behind(at: u64) -> Self {
        Self { at, bytes: Vec::new() }
    }

    /// The pages for all of these traces; gives the first one, if there are any traces.
    pub(super) fn of_all(&mut self, traces: BTreeMap<String, OpenTrace>) -> Option<PageRef> {
        let pages = self.put_traces(traces.into_iter().collect());
        self.lead_to(pages)
    }

    /// The pages for what is below `root` after `changes`; gives the new first one.
    pub(super) fn of_changes(
        &mut self,
        file: &dyn DiskFile,
        root: PageRef,
        changes: &BTreeMap<&str, &OpenChange>,
    ) -> Result<Option<PageRef>, BadPage> {
        let changes: Vec<(&str, &OpenChange)> = changes.iter().map(|(id, it)| (*id, *it)).collect();
        if changes.is_empty() {
            return Ok(Some(root));
        }
        let pages = self.changed(file, root, &changes)?;
        Ok(self.lead_to(pages))
    }

    /// What stands in a page's place, one level up, after changes that all belong below it.
    fn changed(
        &mut self,
        file: &dyn DiskFile,
        at: PageRef,
        changes: &[(&str, &OpenChange)],
    ) -> Result<Named, BadPage> {
        match read(file, at)? {
            Page::Traces(traces) => {
                let mut traces: BTreeMap<String, OpenTrace> = traces.into_iter().collect();
                for (trace_id, change) in changes {
                    if let Some(open) = change.on(traces.remove(*trace_id)) {
                        traces.insert((*trace_id).to_owned(), open);
                    }
                }
                Ok(self.put_traces(traces.into_iter().collect()))
            }
            Page::Pages(pages) => {
                let mut named = Named::with_capacity(pages.len());
                let mut rest = changes;
                let ends = pages.iter().skip(1).map(|(first, _)| Some(first.as_str()));
                for ((first, below), end) in pages.iter().zip(ends.chain([None])) {
                    let here = rest.partition_point(|(id, _)| end.is_none_or(|end| *id < end));
                    let (here, behind) = rest.split_at(here);
                    rest = behind;
                    if here.is_empty() {
                        named.push((first.clone(), *below));
                    } else {
                        named.extend(self.changed(file, *below, here)?);
                    }
                }
                Ok(self.put_pages(&named))
            }
        }
    }

    /// Names pages by pages until one names all.
    fn lead_to(&mut self, mut pages: Named) -> Option<PageRef> {
        while pages.len() > 1 {
            pages = self.put_pages(&pages);
        }
        pages.first().map(|(_, page)| *page)
    }

    fn put_traces(&mut self, traces: Vec<(String, OpenTrace)>) -> Named {
        let pages = traces.chunks(PAGE_ENTRIES_MAX).map(<[_]>::to_vec);
        pages.filter_map(|page| self.put(page, Page::Traces)).collect()
    }

    fn put_pages(&mut self, pages: &[(String, PageRef)]) -> Named {
        let pages = pages.chunks(PAGE_ENTRIES_MAX).map(<[_]>::to_vec);
        pages.filter_map(|page| self.put(page, Page::Pages)).collect()
    }

    fn put<T>(
        &mut self,
        entries: Vec<(String, T)>,
        page: impl FnOnce(Vec<(String, T)>) -> Page,
    ) -> Option<(String, PageRef)> {
        let first = entries.first()?.0.clone();
        let bytes = serde_json::to_vec(&page(entries)).ok()?;
        let at = self.at + self.bytes.len() as u64;
        let put = PageRef { at, bytes: bytes.len() as u64, hash: Hash::of(&bytes) };
        self.bytes.extend_from_slice(&bytes);
        self.bytes.push(b'\n');
        Some((first, put))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use countersign_format::event::TraceKind;
    use proptest::prelude::*;

    use super::*;
    use crate::disk::{Access, Disk as _, OsDisk};

    fn open(size: u64) -> OpenTrace {
        let kind = TraceKind::Work;
        OpenTrace { kind, first_event_hash: Hash::of(&size.to_be_bytes()), size }
    }

    fn file(path: &Path) -> Box<dyn DiskFile> {
        OsDisk.open(path, Access::Create).unwrap()
    }

    fn id(number: u16) -> String {
        format!("id{number:05}")
    }

    fn change() -> impl Strategy<Value = OpenChange> {
        prop_oneof![
            (0..100_u64).prop_map(|size| OpenChange::Opened(open(size))),
            (0..100_u64).prop_map(OpenChange::Grown),
            Just(OpenChange::Closed),
        ]
    }

    fn changes() -> impl Strategy<Value = BTreeMap<u16, OpenChange>> {
        proptest::collection::btree_map(0..2_000_u16, change(), 0..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn pages_say_what_a_map_would(
            begun in proptest::collection::btree_set(0..2_000_u16, 0..1_500),
            rounds in proptest::collection::vec(changes(), 1..6),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let file = file(&dir.path().join("open"));
            let mut model: BTreeMap<String, OpenTrace> =
                begun.iter().map(|&number| (id(number), open(number.into()))).collect();
            let mut addition = Addition::behind(0);
            let mut root = addition.of_all(model.clone());
            file.write_all_at(0, &addition.bytes).unwrap();
            for round in rounds {
                let named: BTreeMap<String, OpenChange> =
                    round.into_iter().map(|(number, change)| (id(number), change)).collect();
                for (id, change) in &named {
                    if let Some(open) = change.on(model.remove(id)) {
                        model.insert(id.clone(), open);
                    }
                }
                let changes = named.iter().map(|(id, change)| (id.as_str(), change)).collect();
                let length = file.stat().unwrap().len;
                let mut addition = Addition::behind(length);
                root = match root {
                    Some(root) => addition.of_changes(&*file, root, &changes).unwrap(),
                    None => addition.of_all(model.clone()),
                };
                file.write_all_at(length, &addition.bytes).unwrap();
                let mut found = BTreeMap::new();
                if let Some(root) = root {
                    all(&*file, root, &mut found).unwrap();
                    for number in (0..2_000).step_by(7) {
                        let found = find(&*file, root, &id(number)).unwrap();
                        prop_assert_eq!(found.as_ref(), model.get(&id(number)));
                    }
                }
                prop_assert_eq!(&found, &model);
            }
        }
    }

    #[test]
    fn a_lookup_reads_few_pages_and_a_change_writes_few() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir.path().join("open"));
        let mut addition = Addition::behind(0);
        let traces = (0..10_000).map(|number| (id(number), open(1))).collect();
        let root = addition.of_all(traces).unwrap();
        file.write_all_at(0, &addition.bytes).unwrap();
        let whole = addition.bytes.len();
        let ended = id(5_000);
        let changes = BTreeMap::from([(ended.as_str(), &OpenChange::Closed)]);
        let mut addition = Addition::behind(whole as u64);
        let root = addition.of_changes(&*file, root, &changes).unwrap().unwrap();
        assert!(addition.bytes.len() * 50 < whole, "{} of {whole}", addition.bytes.len());
        file.write_all_at(whole as u64, &addition.bytes).unwrap();
        // Every page that does not lead to the other trace is spoiled.
        assert_eq!(find(&*file, root, &ended).unwrap(), None);
        file.write_all_at(0, &vec![b' '; whole / 3]).unwrap();
        assert_eq!(find(&*file, root, &id(9_999)).unwrap(), Some(open(1)));
        assert!(find(&*file, root, &id(0)).is_err());
    }

    #[test]
    fn no_byte_of_a_page_can_be_changed_unseen() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir.path().join("open"));
        let mut addition = Addition::behind(0);
        let root = addition.of_all(BTreeMap::from([(id(1), open(1)), (id(2), open(2))])).unwrap();
        for place in 0..addition.bytes.len() - 1 {
            let mut bytes = addition.bytes.clone();
            bytes[place] ^= 1;
            file.write_all_at(0, &bytes).unwrap();
            assert!(find(&*file, root, &id(1)).is_err(), "byte {place}");
        }
    }
}
