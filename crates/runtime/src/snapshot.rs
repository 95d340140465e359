//! Snapshots: derived state, so that a short-lived process need not replay a long ledger.
//!
//! A snapshot is signed by the recorder and bound to the ledger's last line and to the version of
//! the state. One that does not fit is thrown away; the verifier never reads any. Losing one costs time
//! only, so it is not synced.

use countersign_format::event::SCHEMA_VERSION;
use countersign_format::hash::Hash;
use countersign_format::key::{PublicKey, Signature};
use countersign_protocol::State;
use countersign_protocol::chain::Chain;
use countersign_protocol::log::LogState;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::disk::{Durability, replace_file};
use crate::keyring::SigningKey;
use crate::log::OpenPages;
use crate::replica::Replica;
use crate::store::{FileStore, Head, LedgerId};

/// Bytes that a snapshot may have; a larger one is not worth reading.
const SNAPSHOT_BYTES_MAX: u64 = 64 << 20;
/// Sets what is signed here apart from everything else that the recorder signs.
const DOMAIN: &[u8] = b"countersign-snapshot\n";

/// What is signed. Whoever asks for less than the state passes over it.
#[derive(Debug, Serialize, Deserialize)]
struct Body<S> {
    schema_version: String,
    state_version: u32,
    ledger: String,
    bytes: u64,
    last_line: u64,
    first: Option<Hash>,
    chain: Chain,
    state: S,
    /// The open traces of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<OpenPages>,
}

/// The first line of the file, before the body: who vouches for the body's bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Voucher {
    key_id: String,
    signature: String,
}

fn message(body: &[u8]) -> Vec<u8> {
    [DOMAIN, Hash::of(body).as_bytes()].concat()
}

/// Stores a snapshot of `replica`, which is durable: what power loss can take does not belong into
/// a file that may survive it. A failure is no loss.
pub(crate) fn store<S: State>(
    store: &FileStore,
    ledger: LedgerId,
    replica: &Replica<S>,
    key: &SigningKey,
) {
    write(store, ledger, replica, None, key);
}

/// As [`store`], for the log, whose open traces lie in `pages`.
pub(crate) fn store_log(
    store: &FileStore,
    replica: &Replica<LogState>,
    pages: OpenPages,
    key: &SigningKey,
) {
    write(store, LedgerId::Log, replica, Some(pages), key);
}

fn write<S: State>(
    store: &FileStore,
    ledger: LedgerId,
    replica: &Replica<S>,
    open: Option<OpenPages>,
    key: &SigningKey,
) {
    let body = Body {
        schema_version: SCHEMA_VERSION.to_owned(),
        state_version: S::VERSION,
        ledger: ledger.to_string(),
        bytes: replica.head.bytes,
        last_line: replica.last_line.bytes,
        first: replica.first,
        chain: replica.chain.clone(),
        state: &replica.state,
        open,
    };
    let Ok(body) = serde_json::to_vec(&body) else { return };
    let voucher = Voucher {
        key_id: key.public_key().key_id().to_string(),
        signature: key.sign(&message(&body)).to_string(),
    };
    let Ok(voucher) = serde_json::to_vec(&voucher) else { return };
    let bytes = [&voucher, &b"\n"[..], &body].concat();
    let path = store.ledger_dir(ledger).join("snapshot");
    let _ = replace_file(&**store.disk(), &path, &bytes, Durability::Cached);
}

/// The snapshot of `ledger`, if there is one that fits. `recorder` gives the public half of one of
/// this workspace's own recorder keys.
pub(crate) fn load<S: State>(
    store: &FileStore,
    ledger: LedgerId,
    recorder: impl FnOnce(&str) -> Option<PublicKey>,
) -> Option<Replica<S>> {
    replica_of(body(store, ledger, recorder)?)
}

/// The snapshot of the log, without its open traces, and where these lie.
pub(crate) fn load_log(
    store: &FileStore,
    recorder: impl FnOnce(&str) -> Option<PublicKey>,
) -> Option<(Replica<LogState>, OpenPages)> {
    let body = body(store, LedgerId::Log, recorder)?;
    let open = body.open?;
    Some((replica_of(body)?, open))
}

fn replica_of<S: State>(body: Body<S>) -> Option<Replica<S>> {
    (body.state_version == S::VERSION).then(|| Replica {
        chain: body.chain,
        state: body.state,
        head: Head::at(body.bytes),
        last_line: Head::at(body.last_line),
        durable: false,
        first: body.first,
    })
}

/// The head and where its last line starts, for whoever does not care what the events come to.
pub(crate) fn load_chain(
    store: &FileStore,
    ledger: LedgerId,
    recorder: impl FnOnce(&str) -> Option<PublicKey>,
) -> Option<(Chain, Head, Head)> {
    let body: Body<IgnoredAny> = body(store, ledger, recorder)?;
    Some((body.chain, Head::at(body.bytes), Head::at(body.last_line)))
}

fn body<S: DeserializeOwned>(
    store: &FileStore,
    ledger: LedgerId,
    recorder: impl FnOnce(&str) -> Option<PublicKey>,
) -> Option<Body<S>> {
    let path = store.ledger_dir(ledger).join("snapshot");
    let file = store.disk().open(&path, crate::disk::Access::Read).ok()?;
    let len = file.stat().ok()?.len;
    if len > SNAPSHOT_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    let read = crate::disk::read_full(&*file, 0, &mut bytes).ok()?;
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let (voucher, body) = (bytes.get(..end)?, bytes.get(end + 1..read)?);
    let voucher: Voucher = serde_json::from_slice(voucher).ok()?;
    let signature: Signature = voucher.signature.parse().ok()?;
    // Nothing of the body is looked at before it is known whose it is.
    recorder(&voucher.key_id)?.verify(&message(body), &signature).ok()?;
    let body: Body<S> = serde_json::from_slice(body).ok()?;
    (body.ledger == ledger.to_string() && body.schema_version == SCHEMA_VERSION).then_some(body)
}
