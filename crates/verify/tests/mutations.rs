//! Every small change of a closed session is found: in its ledger, byte by byte, event by event and
//! member by member, and in its artifacts.

#![cfg(test)]

use std::io::{self, BufRead, Write as _};

use countersign_format::hash::Hash;
use countersign_format::report::{VerificationReport, VerificationStatus};
use countersign_format::shape::Dialect;
use countersign_testkit::mutation::{MutationKind, Mutations, Tally, strike};
use countersign_testkit::tamper::Scene;
use countersign_verify::{
    KnownLog, OpenTraces, Options, Profile, Source, StoredArtifact, exit_status, verify,
};

/// How many of each kind there are at least, so that none shrinks unnoticed.
const FLOORS: [(MutationKind, usize); 12] = [
    (MutationKind::BitFlipped, 112_000),
    (MutationKind::ByteDeleted, 14_000),
    (MutationKind::Truncated, 14_000),
    (MutationKind::EventDeleted, 12),
    (MutationKind::EventDuplicated, 156),
    (MutationKind::EventsSwapped, 66),
    (MutationKind::EventMoved, 132),
    (MutationKind::EventSpliced, 156),
    (MutationKind::FieldEdited, 1_500),
    (MutationKind::ArtifactChanged, 2_000),
    (MutationKind::ArtifactShortened, 2_000),
    (MutationKind::ArtifactDeleted, 3),
];

fn session() -> (Scene, Mutations) {
    let scene = Scene::new(Dialect::V1_1);
    let mutations = Mutations::of(&scene, &Scene::another(Dialect::V1_1));
    (scene, mutations)
}

/// Whether a mutation fails, as it must: an exit status that only asks for more is not enough.
fn fails(source: &dyn Source, options: &Options) -> Result<(), String> {
    judged(verify(source, options))
}

fn judged(verified: io::Result<VerificationReport>) -> Result<(), String> {
    let report = verified.map_err(|error| error.to_string())?;
    let status = exit_status(&report, OpenTraces::Accepted);
    if status != 3 || report.failures.is_empty() {
        return Err(format!("exit status {status}, {}", report.summary));
    }
    Ok(())
}

fn every(mutations: &Mutations, kind: MutationKind) -> Vec<usize> {
    (0..mutations.count(kind)).collect()
}

#[test]
fn every_small_change_of_a_closed_session_is_found() {
    let (scene, mutations) = session();
    let options = scene.options(Profile::DEFAULT);
    let untouched = verify(&scene, &options).unwrap();
    assert_eq!(untouched.verification_status, VerificationStatus::Pass, "{untouched:?}");
    assert_eq!(exit_status(&untouched, OpenTraces::Incomplete), 0);
    // No mutation changes the log: it is read once.
    let log = KnownLog::read(&scene, options.profile).unwrap().unwrap();
    assert_eq!(log.verify(&scene, &options).unwrap().report_digest, untouched.report_digest);
    let mut counts = String::new();
    for (kind, floor) in FLOORS {
        let Tally { tried, missed, .. } =
            strike(&mutations, kind, &every(&mutations, kind), |it| {
                judged(log.verify(it, &options))
            });
        counts += &format!("{kind}: {tried}\n");
        assert!(tried >= floor, "{kind}: only {tried}");
        let shown: Vec<_> = missed.iter().take(20).collect();
        assert!(missed.is_empty(), "{kind}: {} of {tried} not found: {shown:#?}", missed.len());
    }
    // Shown with `--nocapture`; the floors say what must be in it.
    io::stdout().write_all(counts.as_bytes()).unwrap();
}

/// A reader that was given neither log nor keys, and so checks no signature.
struct Blind<'s>(&'s dyn Source);

impl Source for Blind<'_> {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        self.0.events()
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(None)
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        self.0.artifact(hash)
    }
}

/// A rig that finds everything may look at nothing: with a verifier that lets things through it says
/// what went through.
#[test]
fn a_weakened_verifier_lets_changes_through_and_the_rig_says_which() {
    let (scene, mutations) = session();
    let options = scene.options(Profile::DEFAULT);
    let edited = strike(
        &mutations,
        MutationKind::FieldEdited,
        &every(&mutations, MutationKind::FieldEdited),
        |it| fails(&Blind(it), &options),
    );
    let text = "/signature of event 11 Removed, hashes made to fit: ";
    assert!(edited.missed.iter().any(|missed| missed.starts_with(text)), "{edited:?}");
    let cut: Vec<usize> =
        every(&mutations, MutationKind::Truncated).into_iter().step_by(11).collect();
    let cut = strike(&mutations, MutationKind::Truncated, &cut, |it| fails(&Blind(it), &options));
    assert!(cut.missed.len() > 1_000, "{}", cut.missed.len());
    let panics = strike(&mutations, MutationKind::EventDeleted, &[3], |_| panic!("on purpose"));
    assert_eq!(panics.missed, ["event 3 deleted: the verifier panicked"]);
}

/// A receipt is bound by more than signatures and the log: whoever edits one and makes all hashes of
/// events fit is told so by the receipts alone. What no event says goes through, as does a member that
/// nobody knows, and that a member is null or absent is the same.
#[test]
fn an_edited_receipt_is_found_without_any_key() {
    let (scene, mutations) = session();
    let options = scene.options(Profile::DEFAULT);
    let kind = MutationKind::FieldEdited;
    let edited = strike(&mutations, kind, &every(&mutations, kind), |it| {
        let report = verify(&Blind(it), &options).unwrap();
        let checks = ["CHK_RECEIPT_CHAIN", "CHK_SCHEMA_CONFORMANCE"];
        let told = report.failures.iter().any(|it| checks.contains(&it.check_id.as_str()));
        if told { Ok(()) } else { Err(report.summary) }
    });
    let of_receipt = |missed: &&String| {
        missed.starts_with("/payload/action") || missed.starts_with("/payload/receipt_hash")
    };
    let free = |missed: &String| {
        let absent = ["parent_action_id", "parent_receipt_hash", "gate_score", "gate_decision"];
        let removed =
            |name: &str| missed.starts_with(&format!("/payload/action/{name} of event 6 Rem"));
        let other = [
            "/payload/action/metadata",
            "/payload/action_index",
            "/payload/action_type",
            "/payload/action of event 6 Joined",
        ];
        absent.into_iter().any(removed) || other.iter().any(|it| missed.starts_with(it))
    };
    let missed = edited.missed.iter().filter(of_receipt);
    let (through, missed): (Vec<_>, Vec<_>) = missed.partition(|missed| free(missed));
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(through.len() > 4, "{through:#?}");
}

#[test]
fn a_sample_is_decided_by_its_seed() {
    let (_, mutations) = session();
    let drawn = |seed| mutations.sample(&MutationKind::ALL, seed, 60).collect::<Vec<_>>();
    let first = drawn(1);
    assert_eq!(first, drawn(1));
    assert_ne!(first, drawn(2));
    assert!(MutationKind::ALL.iter().all(|kind| first.iter().any(|(drawn, _)| drawn == kind)));
}
