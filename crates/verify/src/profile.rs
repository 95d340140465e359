//! How strict the reader is, as data.

/// A set of rules that go beyond what always holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Its name in reports.
    pub name: &'static str,
    /// Whether every event must be signed, or only the six mandatory types.
    pub every_event_signed: bool,
    /// Whether time that runs backwards is a failure.
    pub time_never_decreases: bool,
    /// Whether something that the rules do not allow is a failure.
    pub rules_must_hold: bool,
    /// Whether a key that was revoked because it was compromised never counted.
    pub compromise_counts_back: bool,
    /// Whether a claim that was challenged must have got new evidence since.
    pub disputes_settled: bool,
    /// Whether a claim needs evidence whose bytes can still be read.
    pub evidence_unredacted: bool,
}

impl Profile {
    /// Whatever can be doubted fails.
    pub const STRICT: Self = Self {
        name: "strict",
        every_event_signed: true,
        time_never_decreases: true,
        compromise_counts_back: true,
        rules_must_hold: true,
        disputes_settled: true,
        evidence_unredacted: true,
    };
    /// What the specifications ask for.
    pub const DEFAULT: Self = Self {
        name: "default",
        every_event_signed: false,
        time_never_decreases: false,
        compromise_counts_back: false,
        disputes_settled: false,
        evidence_unredacted: false,
        ..Self::STRICT
    };
    /// Integrity only: bytes, hashes, chain, signatures, keys and log.
    pub const LENIENT: Self = Self { name: "lenient", rules_must_hold: false, ..Self::DEFAULT };

    /// The profile of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::STRICT, Self::DEFAULT, Self::LENIENT].into_iter().find(|it| it.name == name)
    }
}
