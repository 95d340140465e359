//! Making a line of an event, against the signature alone: as `ed25519-dalek` makes it, with which we
//! verify, and as AWS-LC does, with which we sign.

use std::time::Duration;

use countersign_format::event::{
    Actor, ArtifactDescriptor, Draft, EventType, RedactionStatus, Sealer, artifact::storage_uri,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::{SIGNATURE_BYTES, SecretKey, Signs};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_runtime::keyring::SigningKey;
use ed25519_dalek::Signer as _;
use serde_json::{Map, json};

use super::clock::{Clock, best_of_both, per_second, time};
use super::{Measured, Target};

const ROUNDS: u32 = 60;
/// Events a round: some ten milliseconds, so that a few rounds are not interrupted.
const EVENTS: usize = 500;
/// Drafts that are made at a time.
const FRESH: usize = 16;
const SEED: [u8; 32] = [7; 32];
const NOW: Timestamp = Timestamp::EPOCH;

/// Seals the same event over and over.
pub(super) struct Bench<K> {
    secret: K,
    actor: Actor,
    draft: Draft,
}

/// Signs as the keyring does.
pub(super) fn ours() -> Result<Bench<SigningKey>, String> {
    SigningKey::from_seed(&SEED).map(Bench::new).map_err(|error| error.to_string())
}

/// Signs with `ed25519-dalek`.
pub(super) fn reference() -> Bench<SecretKey> {
    Bench::new(SecretKey::from_seed(&SEED))
}

impl<K: Signs> Bench<K> {
    fn new(secret: K) -> Self {
        let key_id = secret.public_key().key_id().to_string();
        let actor = Actor {
            agent_id: "recorder".to_owned(),
            key_id,
            role: Role::Recorder,
            unknown: Map::new(),
        };
        Self { secret, actor, draft: draft() }
    }

    fn sealer(&self, seq: u64) -> Sealer<'_> {
        let event_id = Ulid::from_parts(NOW, u128::from(seq));
        Sealer {
            trace_id: Ulid::from_parts(NOW, 1),
            event_id,
            seq,
            prev: Hash::of(b"before"),
            created_at: NOW,
            raw_clock: None,
            actor: &self.actor,
        }
    }

    /// How long it takes to make lines of `count` events.
    pub(super) fn seal(&self, count: usize, clock: Clock) -> Result<Duration, String> {
        let mut taken = Duration::ZERO;
        let mut left = count;
        while left > 0 {
            // A few at a time: in a recorder a draft is as fresh as its command.
            let drafts = vec![self.draft.clone(); left.min(FRESH)];
            left -= drafts.len();
            taken += time(clock, || self.seal_all(drafts))?;
        }
        Ok(taken)
    }

    fn seal_all(&self, drafts: Vec<Draft>) -> Result<(), String> {
        for (draft, seq) in drafts.into_iter().zip(0..) {
            let sealed = self
                .sealer(seq)
                .seal(draft, |bytes| *self.secret.sign(bytes).as_bytes())
                .map_err(|error| error.to_string())?;
            drop(std::hint::black_box(sealed));
        }
        Ok(())
    }

    /// How long `sign` takes for the same bytes, as often.
    fn sign<T>(&self, count: usize, sign: impl Fn(&[u8]) -> T) -> Result<Duration, String> {
        let mut signed = Vec::new();
        let sealed = self.sealer(0).seal(self.draft.clone(), |bytes| {
            signed = bytes.to_vec();
            *self.secret.sign(bytes).as_bytes()
        });
        sealed.map_err(|error| error.to_string())?;
        time(Clock::Thread, || {
            for _ in 0..count {
                std::hint::black_box(sign(std::hint::black_box(&signed)));
            }
            Ok(())
        })
    }
}

/// What an agent's tool call looks like: a payload of several members, and the stored input.
fn draft() -> Draft {
    let artifact_hash = Hash::of(b"input");
    let artifact = ArtifactDescriptor {
        artifact_hash,
        hash_algorithm: "sha256".to_owned(),
        media_type: "application/json".to_owned(),
        encoding: "utf-8".to_owned(),
        byte_size: 1234,
        created_at: NOW,
        producer_event_id: Ulid::from_parts(NOW, 2).to_string(),
        storage_uri: storage_uri(&artifact_hash),
        redaction_status: RedactionStatus::None,
        unknown: Map::new(),
    };
    let payload = json!({
        "tool_name": "edit_file",
        "normalized_input_hash": artifact_hash,
        "safety_classification": "standard",
        "justification": "the test expects another order of members",
        "on_behalf_of": { "agent_id": "coding-agent" },
    });
    Draft::new(EventType::ToolIntentSigned, payload).with_artifacts(vec![artifact])
}

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let bench = ours()?;
    // The library's own call, which expands the private key each time.
    let library = ed25519_dalek::SigningKey::from_bytes(&SEED);
    let against = |name, target, signs: &dyn Fn(&[u8]) -> [u8; SIGNATURE_BYTES]| {
        let seal = || bench.seal(EVENTS, Clock::Thread);
        let (sealed, signed) = best_of_both(ROUNDS, seal, || bench.sign(EVENTS, signs))?;
        let (value, bound) = (per_second(EVENTS, sealed), per_second(EVENTS, signed));
        Ok::<_, String>(Measured { name, value, unit: "events/s", bound, target })
    };
    Ok(vec![
        against("seal", Target::AtLeast(0.8), &|bytes| library.sign(bytes).to_bytes())?,
        against("seal-own", Target::None, &|bytes| *bench.secret.sign(bytes).as_bytes())?,
    ])
}
