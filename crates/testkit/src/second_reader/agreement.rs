//! Both readers on many small changes of one session.

use std::collections::BTreeMap;
use std::fs;
use std::thread;

use countersign_format::shape::Dialect;
use countersign_verify::Profile;

use super::{Inquiry, SecondReader, Subject, difference, first_report};
use crate::mutation::{MutationKind, Mutations};
use crate::tamper::Scene;

/// Processes of the second reader that run at the same time.
const READERS: usize = 2;
const PROFILES: [Profile; 3] = [Profile::DEFAULT, Profile::STRICT, Profile::LENIENT];

/// What a comparison came to.
#[derive(Debug, Default)]
pub struct Agreement {
    /// How many changes of each kind were tried.
    pub tried: BTreeMap<MutationKind, usize>,
    /// What was done to the session where the readers disagree, and how they do.
    pub disagreements: Vec<String>,
}

/// Compares both readers on so many changes of the ledger of the closed session of twelve events,
/// drawn by `seed`, under each profile in turn, and with and without knowing its head and size. What is
/// left when `is_over` says so is not tried.
pub fn agreement(seed: u64, count: usize, is_over: impl Fn() -> bool + Sync) -> Agreement {
    let scene = Scene::new(Dialect::V1_1);
    let mutations = Mutations::of(&scene, &Scene::another(Dialect::V1_1));
    let part = |part: usize| agreement_of(&scene, &mutations, (seed, count), part, &is_over);
    let parts: Vec<Agreement> = thread::scope(|scope| {
        let part = &part;
        let readers: Vec<_> = (0..READERS).map(|of| scope.spawn(move || part(of))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let mut whole = Agreement::default();
    for part in parts {
        for (kind, tried) in part.tried {
            *whole.tried.entry(kind).or_default() += tried;
        }
        whole.disagreements.extend(part.disagreements);
    }
    whole
}

/// Every `READERS`th of the changes, from the one with this number on.
fn agreement_of(
    scene: &Scene,
    mutations: &Mutations,
    (seed, count): (u64, usize),
    part: usize,
    is_over: &dyn Fn() -> bool,
) -> Agreement {
    let home = tempfile::tempdir().unwrap();
    let source = scene.write_to(home.path());
    let mut inquiry = Inquiry {
        subject: Subject::InHome {
            home: home.path().to_owned(),
            ledger: scene.trace_id().to_owned(),
            root: Scene::root(),
        },
        profile: Profile::DEFAULT,
        expected: None,
    };
    let whole = first_report(&inquiry);
    let known = whole.head.map(|head| (head, whole.metrics.events));
    let mut second = SecondReader::start();
    let mut found = Agreement::default();
    let kinds = MutationKind::OF_LEDGER;
    let drawn = mutations.sample(&kinds, seed, count).enumerate();
    for (turn, (kind, mutation)) in drawn.filter(|(turn, _)| turn % READERS == part) {
        if is_over() {
            break;
        }
        fs::write(&source.events, &mutation.ledger).unwrap();
        // Kinds come in turn: each is tried in every way before the first way comes again.
        let way = turn / kinds.len();
        inquiry.profile = PROFILES[way % PROFILES.len()];
        inquiry.expected = known.filter(|_| (way / PROFILES.len()).is_multiple_of(2));
        *found.tried.entry(kind).or_default() += 1;
        if let Some(how) = difference(&mut second, &inquiry) {
            let (what, profile) = (&mutation.what, inquiry.profile.name);
            let expected = if inquiry.expected.is_some() { "known" } else { "not known" };
            found.disagreements.push(format!("{what} ({profile}, head {expected}):\n{how}"));
        }
    }
    found
}
