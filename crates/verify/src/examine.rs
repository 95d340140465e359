//! What can be said of one line by itself: its bytes, its shape, its hashes, and whether its
//! signature verifies under the key that it names.
//!
//! Knows nothing of the lines before, so that many can be looked at at once. Whether a key counts
//! here, and whether the line stands where it should, is for others to say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use countersign_format::event::{
    Event, EventType, Reading, SIGNATURE, SignatureFaults, WholeLine, event_faults,
};
use countersign_format::hash::Hash;
use countersign_format::key::{PreparedKey, PublicKey, Signature};
use countersign_format::receipt;
use countersign_format::shape::{Checker, Dialect, Shape};
use countersign_format::time::Timestamp;
use serde_json::Value;

use crate::findings::Place;

/// Faults of one event that its finding spells out; `check event` lists the others.
const FAULTS_SHOWN: usize = 8;

/// Signatures after which it pays to make a key ready for more.
const USES_BEFORE_PREPARED: u32 = 32;

/// Keys that are made ready; a trace in which thousands sign must not take memory for each.
const PREPARED_MAX: u32 = 48;

/// Public keys by the names under which events refer to them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ring {
    keys: BTreeMap<String, Arc<RingKey>>,
    prepared: Arc<AtomicU32>,
}

impl Ring {
    pub(crate) fn insert(&mut self, key_id: &str, public: PublicKey) {
        let key = RingKey {
            public,
            uses: AtomicU32::new(0),
            ready: OnceLock::new(),
            prepared: Arc::clone(&self.prepared),
        };
        self.keys.insert(key_id.to_owned(), Arc::new(key));
    }

    fn get(&self, key_id: &str) -> Option<&RingKey> {
        self.keys.get(key_id).map(AsRef::as_ref)
    }
}

/// A public key to try signatures with.
#[derive(Debug)]
struct RingKey {
    public: PublicKey,
    uses: AtomicU32,
    /// The key made ready; nothing where there were too many already.
    ready: OnceLock<Option<PreparedKey>>,
    /// How many of its ring were.
    prepared: Arc<AtomicU32>,
}

impl RingKey {
    fn verifies(&self, message: &[u8], signature: &Signature) -> bool {
        let ready = self.ready.get().or_else(|| {
            let often = self.uses.fetch_add(1, Ordering::Relaxed) >= USES_BEFORE_PREPARED;
            often.then(|| self.ready.get_or_init(|| self.prepare()))
        });
        let verified = match ready {
            Some(Some(prepared)) => prepared.verify(message, signature),
            _ => self.public.verify(message, signature),
        };
        verified.is_ok()
    }

    fn prepare(&self) -> Option<PreparedKey> {
        let room = self.prepared.fetch_add(1, Ordering::Relaxed) < PREPARED_MAX;
        room.then(|| PreparedKey::new(self.public))
    }
}

/// A line, looked at by itself.
#[derive(Debug)]
pub(crate) enum Examined {
    /// Longer than a line may be.
    TooLong,
    /// So long that nothing after it was read.
    Endless,
    /// The last bytes of a ledger, which are no event.
    Torn,
    /// Nothing can be read from it, for this reason.
    Unreadable(String),
    /// Something that can be read, be it right or wrong.
    Line(Box<Step>),
}

/// A line that could be read.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) dialect: Dialect,
    /// Whether a line break follows.
    pub(crate) terminated: bool,
    /// Whether the bytes are those that its content is written with, where they must be.
    canonical: bool,
    /// What is wrong with its bytes and its shape.
    pub(crate) faults: Vec<String>,
    /// The event, if its schema holds.
    pub(crate) event: Option<Event>,
    /// Whether it belongs to another trace.
    left_out: bool,
    /// The content, where it is no event.
    value: Value,
    /// What the line states of its own hash and that of its payload.
    pub(crate) stated: Hashes,
    /// What they are.
    pub(crate) computed: Hashes,
    /// The hash of the event before, as it is stated.
    pub(crate) previous: Option<Hash>,
    pub(crate) seq: Option<u64>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) signed: Signed,
    /// The receipt hash of the action in its payload, computed.
    pub(crate) receipt: Option<Hash>,
}

/// The hashes of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashes {
    pub(crate) event: Option<Hash>,
    pub(crate) payload: Option<Hash>,
}

/// What stands where the signature belongs.
#[derive(Debug)]
pub(crate) enum Signed {
    Missing,
    Misshapen(String),
    Given(Box<Given>),
}

/// A signature that has its members.
#[derive(Debug)]
pub(crate) struct Given {
    signature: Signature,
    /// Whether `signed_bytes_hash` is that of the signed bytes.
    pub(crate) hash_fits: bool,
    /// The key that it was tried with, and whether it verifies.
    tried: Option<(PublicKey, bool)>,
    /// What is signed, where no key was at hand to try.
    signed_bytes: Vec<u8>,
}

impl Given {
    /// Whether the signature verifies under `key`.
    pub(crate) fn verifies(&self, key: &PublicKey) -> bool {
        match &self.tried {
            Some((tried, verifies)) if tried == key => *verifies,
            _ => key.verify(&self.signed_bytes, &self.signature).is_ok(),
        }
    }

    fn new(
        signature: Signature,
        stated: &Hash,
        signed_bytes: Vec<u8>,
        key: Option<&RingKey>,
    ) -> Box<Self> {
        let hash_fits = Hash::of(&signed_bytes) == *stated;
        let tried = key.map(|key| (key.public, key.verifies(&signed_bytes, &signature)));
        // Whoever finds another key under this name later must be able to try again.
        Box::new(Self { signature, hash_fits, tried, signed_bytes })
    }
}

/// Looks at one line, given without its line break.
pub(crate) fn examine(bytes: &[u8], ring: &Ring) -> Examined {
    if let Some(whole) = WholeLine::of(bytes) {
        return Examined::Line(Box::new(Step::of_whole(whole, ring)));
    }
    match Reading::of(bytes) {
        Ok(reading) => Examined::Line(Box::new(Step::of_reading(reading, ring))),
        Err(fault) => Examined::Unreadable(fault.to_string()),
    }
}

/// Looks at the last bytes of a ledger, which no line break follows. A whole event that only lacks
/// it counts; anything else is what a crash leaves behind, and no event.
pub(crate) fn examine_rest(bytes: &[u8], ring: &Ring) -> Examined {
    let Examined::Line(mut step) = examine(bytes, ring) else { return Examined::Torn };
    step.terminated = false;
    let whole = step.canonical && step.stated.event == step.computed.event;
    if whole { Examined::Line(step) } else { Examined::Torn }
}

impl Step {
    fn of_whole(whole: WholeLine, ring: &Ring) -> Self {
        let WholeLine { event, event_hash, payload_hash, signed_bytes, signature } = whole;
        let signed = match signature {
            None => Signed::Missing,
            Some(found) => Signed::Given(Given::new(
                found.signature,
                &found.signed_bytes_hash,
                signed_bytes,
                ring.get(&event.actor.key_id),
            )),
        };
        Self {
            dialect: Dialect::V1_1,
            terminated: true,
            canonical: true,
            left_out: false,
            faults: Vec::new(),
            value: Value::Null,
            stated: Hashes { event: Some(event.event_hash), payload: Some(event.payload_hash) },
            computed: Hashes { event: Some(event_hash), payload: Some(payload_hash) },
            previous: Some(event.prev_event_hash),
            seq: event.seq,
            created_at: Some(event.created_at),
            signed,
            receipt: receipt_in(&event),
            event: Some(event),
        }
    }

    fn of_reading(reading: Reading, ring: &Ring) -> Self {
        let member = |name: &str| reading.value.get(name).and_then(Value::as_str);
        let hash = |name: &str| member(name).and_then(|text| text.parse::<Hash>().ok());
        let stated = Hashes { event: hash("event_hash"), payload: hash("payload_hash") };
        let previous = hash("prev_event_hash");
        let created_at = member("created_at").and_then(|text| text.parse().ok());
        let canonical = reading.fault.is_none();
        let mut faults: Vec<String> = reading.fault.iter().map(ToString::to_string).collect();
        let shape = event_faults(&reading.value, SignatureFaults::LeftOut, FAULTS_SHOWN);
        faults.extend(shape.listed().map(ToString::to_string));
        if shape.count() > FAULTS_SHOWN {
            faults.push(format!("and {} more", shape.count() - FAULTS_SHOWN));
        }
        let event = if shape.is_empty() { reading.event() } else { None };
        let signed = signed(&reading, ring);
        let Reading { value, dialect, event_hash, payload_hash, .. } = reading;
        Self {
            dialect,
            terminated: true,
            canonical,
            left_out: false,
            faults,
            seq: value.get("seq").and_then(Value::as_u64),
            value: if event.is_some() { Value::Null } else { value },
            receipt: event.as_ref().and_then(receipt_in),
            event,
            stated,
            computed: Hashes { event: Some(event_hash), payload: payload_hash },
            previous,
            created_at,
            signed,
        }
    }

    pub(crate) fn event_id(&self) -> Option<&str> {
        self.text(|event| &event.event_id, "/event_id")
    }

    pub(crate) fn trace_id(&self) -> Option<&str> {
        self.text(|event| &event.trace_id, "/trace_id")
    }

    pub(crate) fn agent_id(&self) -> Option<&str> {
        self.text(|event| &event.actor.agent_id, "/actor/agent_id")
    }

    pub(crate) fn key_id(&self) -> Option<&str> {
        self.text(|event| &event.actor.key_id, "/actor/key_id")
    }

    pub(crate) fn role(&self) -> Option<&str> {
        self.text(|event| event.actor.role.as_str(), "/actor/role")
    }

    pub(crate) fn event_type(&self) -> Option<EventType> {
        self.text(|event| event.event_type.as_str(), "/event_type").and_then(EventType::parse)
    }

    /// Forgets the event, but not what was seen of its bytes.
    pub(crate) fn leave_out(&mut self) {
        self.left_out = true;
        if let Some(event) = self.event.take() {
            self.value = serde_json::to_value(event).unwrap_or_default();
        }
    }

    /// The payload that lies elsewhere, where no artifact of the event has its hash.
    pub(crate) fn payload_without_place(&self) -> Option<Hash> {
        if self.left_out {
            return None;
        }
        let absent = match &self.event {
            Some(event) => event.payload.is_null(),
            None => self.value.get("payload").is_some_and(Value::is_null),
        };
        let wanted = self.stated.payload.filter(|_| absent)?;
        let listed = match &self.event {
            Some(event) => event.artifacts.iter().any(|it| it.artifact_hash == wanted),
            None => {
                let wanted = wanted.to_hex();
                let listed = self.value.get("artifacts").and_then(Value::as_array);
                listed.into_iter().flatten().any(|artifact| {
                    artifact.get("artifact_hash").and_then(Value::as_str) == Some(&wanted)
                })
            }
        };
        (!listed).then_some(wanted)
    }

    /// Where it stands, for a finding.
    pub(crate) fn place(&self, index: u64) -> Place {
        Place::event(index, self.event_id().map(str::to_owned))
    }

    /// A text of the line, be it an event or not.
    fn text<'a>(
        &'a self,
        of_event: impl Fn(&'a Event) -> &'a str,
        pointer: &str,
    ) -> Option<&'a str> {
        match &self.event {
            Some(event) => Some(of_event(event)),
            None => self.value.pointer(pointer).and_then(Value::as_str),
        }
    }
}

/// The receipt hash of the action that an event carries.
fn receipt_in(event: &Event) -> Option<Hash> {
    event.payload.get("action").and_then(receipt::recompute)
}

/// What stands where the signature belongs.
fn signed(reading: &Reading, ring: &Ring) -> Signed {
    let signature = match reading.value.get("signature") {
        None | Some(Value::Null) => return Signed::Missing,
        Some(signature) => signature,
    };
    let mut checker = Checker::new(reading.dialect);
    checker.check(&Shape::Object(&SIGNATURE), signature);
    if let Some(fault) = checker.into_faults().into_iter().next() {
        return Signed::Misshapen(format!("the signature is misshapen: {fault}"));
    }
    let member = |name: &str| signature.get(name).and_then(Value::as_str).unwrap_or_default();
    let bytes = member("signature_b64").parse::<Signature>();
    let stated = member("signed_bytes_hash").parse::<Hash>();
    let (Ok(bytes), Ok(stated)) = (bytes, stated) else {
        return Signed::Misshapen("the signature is misshapen".to_owned());
    };
    let key_id = reading.value.pointer("/actor/key_id").and_then(Value::as_str);
    let key = key_id.and_then(|key_id| ring.get(key_id));
    Signed::Given(Given::new(bytes, &stated, reading.signed_bytes.clone(), key))
}

#[cfg(test)]
mod tests {
    use countersign_format::key::SecretKey;

    use super::*;

    /// How many keys of a ring are ready, and whether all say what is true, after many signatures.
    fn ready_of(keys: u8, signatures: u32) -> (usize, bool) {
        let secrets: Vec<_> = (0..keys).map(|seed| SecretKey::from_seed(&[seed; 32])).collect();
        let mut ring = Ring::default();
        for (name, secret) in secrets.iter().enumerate() {
            ring.insert(&name.to_string(), secret.public_key());
        }
        let mut right = true;
        for (name, secret) in secrets.iter().enumerate() {
            let (key, good) = (ring.get(&name.to_string()).unwrap(), secret.sign(b"message"));
            for _ in 0..signatures {
                right &= key.verifies(b"message", &good) && !key.verifies(b"another", &good);
            }
        }
        let ready = |key: &&Arc<RingKey>| matches!(key.ready.get(), Some(Some(_)));
        (ring.keys.values().filter(ready).count(), right)
    }

    #[test]
    fn a_key_is_made_ready_once_it_has_signed_often() {
        assert_eq!(ready_of(2, USES_BEFORE_PREPARED / 2), (0, true));
        assert_eq!(ready_of(2, USES_BEFORE_PREPARED), (2, true));
    }

    #[test]
    fn of_many_keys_only_some_take_memory_and_all_are_checked() {
        let many = u8::try_from(PREPARED_MAX + 3).unwrap();
        assert_eq!(ready_of(many, USES_BEFORE_PREPARED), (PREPARED_MAX as usize, true));
    }
}
