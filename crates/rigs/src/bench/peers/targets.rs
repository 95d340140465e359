//! What the comparison must show.

use super::{Comparison, Signs, Standing};
use crate::bench::{Measured, Target};

/// Syncs for each record from which on somebody syncs each of them.
const SYNCS_EACH: f64 = 1.0;

/// Everything that is claimed, with what was found.
pub(in super::super) fn targets(found: &Comparison) -> Vec<Measured> {
    let [one, crowd, peers @ ..] = found.all.as_slice() else { return Vec::new() };
    let signing: Vec<&Standing> =
        peers.iter().filter(|peer| !matches!(peer.who.signs, Signs::Shared(_))).collect();
    let checked = one.verified.as_ref();
    let ours = checked.map_or(f64::NAN, |checked| checked.long.rate());
    let ours_one_core =
        checked.and_then(|checked| checked.one_core).map_or(f64::NAN, |checked| checked.rate());
    let best_verifier = most(signing.iter().filter_map(|peer| Some(peer.verified?.long.rate())));
    let best_recorder = most(signing.iter().map(|peer| peer.long.rate()));
    let best_synced = most(
        peers
            .iter()
            .filter(|peer| peer.syncs.is_some_and(|syncs| syncs >= SYNCS_EACH))
            .map(|peer| peer.long.rate()),
    );
    let smallest_verifier =
        least(peers.iter().filter_map(|peer| Some(peer.verified?.long.peak_mib)));
    let smallest_recorder = least(peers.iter().map(|peer| peer.long.peak_mib));
    let measured = |name, value, unit, bound, target| Measured { name, value, unit, bound, target };
    let at_least = Target::AtLeast;
    let at_most = Target::AtMost;
    vec![
        measured("verify-strict", ours, "records/s", found.bounds.strict_all, at_least(0.85)),
        measured("verify-core", ours_one_core, "records/s", best_verifier, at_least(1.5)),
        measured("verify-all", ours, "records/s", best_verifier, at_least(3.0)),
        measured("record-synced", one.long.rate(), "records/s", best_synced, at_least(1.0)),
        measured("record-64", crowd.long.rate(), "records/s", best_recorder, at_least(5.0)),
        measured(
            "verify-memory",
            checked.map_or(f64::NAN, |checked| checked.long.peak_mib),
            "MiB",
            smallest_verifier,
            at_most(1.0),
        ),
        measured("record-memory", one.long.peak_mib, "MiB", smallest_recorder, at_most(1.0)),
        measured(
            "record-growth",
            crowd.long.last_us,
            "us/record",
            crowd.long.first_us,
            at_most(1.25),
        ),
    ]
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NAN, f64::max)
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NAN, f64::min)
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    fn missed(found: &Comparison) -> Vec<&'static str> {
        targets(found).iter().filter(|it| !it.is_met()).map(|it| it.name).collect()
    }

    #[test]
    fn who_is_ahead_of_everybody_misses_nothing() {
        assert_eq!(missed(&example()), [] as [&str; 0]);
    }

    #[test]
    fn each_target_is_missed_by_who_falls_behind_in_it() {
        type Worse = fn(&mut Comparison);
        let table: &[(&str, Worse)] = &[
            ("verify-strict", |it| it.bounds.strict_all = 60_000.0),
            ("verify-core", |it| {
                let checked = it.all[0].verified.as_mut().unwrap();
                checked.one_core.as_mut().unwrap().seconds = 8.0;
            }),
            ("verify-all", |it| it.all[2].verified.as_mut().unwrap().long.seconds = 7.0),
            ("record-synced", |it| it.all[0].long.seconds = 300.0),
            ("record-64", |it| it.all[1].long.seconds = 60.0),
            ("verify-memory", |it| it.all[3].verified.as_mut().unwrap().long.peak_mib = 5.0),
            ("record-memory", |it| it.all[0].long.peak_mib = 500.0),
            ("record-growth", |it| it.all[1].long.last_us = 4_000.0),
        ];
        for (name, worse) in table {
            let mut found = example();
            worse(&mut found);
            assert!(missed(&found).contains(name), "{name}: {:?}", missed(&found));
        }
    }

    #[test]
    fn who_cannot_be_compared_with_anybody_is_not_ahead() {
        let mut found = example();
        found.all.truncate(2);
        let expected = [
            "verify-core",
            "verify-all",
            "record-synced",
            "record-64",
            "verify-memory",
            "record-memory",
        ];
        assert_eq!(missed(&found), expected);
    }
}
