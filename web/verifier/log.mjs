// The workspace log, read for one trace: its own rules, the keys, and what it says of the trace
// (docs/formats/log-and-checkpoint.md).

import { text, typeOf } from './check.mjs';
import { VerifyingKey } from './ed25519.mjs';
import { KeyBook, checkSignature, parseIdentity, recordFault, signAhead, tellsOfCompromise } from './keys.mjs';
import { batches } from './lines.mjs';
import { isSigned, parseCheckpoint } from './note.mjs';
import { PROFILES } from './report.mjs';
import { Walk, examine } from './walk.mjs';

const GENESIS = '0'.repeat(64);
export const KEY_EVENTS = ['log_opened', 'key_added', 'key_rotated', 'key_revoked'];
/** Every entry is signed, whatever the profile: the trust in everything else hangs on it. */
export const LOG_PROFILE = { ...PROFILES.strict, compromiseCountsBack: false };
const EXTENTS = ['trace_checkpointed', 'trace_closed'];

/** A step's event with what is asked of it all the time. */
export function factOf(step) {
  const { event } = step;
  // A payload of schema 1.0 may lie elsewhere.
  const payload = event.get('payload') ?? new Map();
  return {
    type: text(event, 'event_type'),
    actor: event.get('actor'),
    at: text(event, 'created_at'),
    hash: text(event, 'event_hash'),
    payload,
    word: (name) => text(payload, name),
    size: payload.get('size') ?? 0,
    identity: parseIdentity(payload.get('identity'), '1.1'),
  };
}

/** What the log's events come to, by which the next one is judged. */
export class Rules {
  origin = '';
  rootKeyId = '';
  keysHead = null;
  keys = new Map();
  #open = new Map();

  /** Why this event may not stand here; null if it may. */
  refusal(fact) {
    return this.refusedPlace(fact) ?? this.refusedHead(fact) ?? this.refusedKeys(fact) ?? this.refusedTrace(fact);
  }

  /** It stands where such an event may stand, by whom it may be recorded. */
  refusedPlace(fact) {
    if ((this.keysHead === null) !== (fact.type === 'log_opened')) return 'a log begins with log_opened, and only once';
    const roles = typeOf(fact.type).kinds.log ?? [];
    if (roles.length === 0) return `${fact.type} may not stand in a log`;
    return roles.includes(text(fact.actor, 'role')) ? null : 'not recorded by the recorder';
  }

  /** Its signer, and what it says of keys. */
  refusedKeys(fact) {
    return this.#refusedSigner(fact) ?? this.#refusedChange(fact)
      ?? (fact.type === 'log_opened' ? refusedOpening(fact) : null);
  }

  /** It names the last key event. */
  refusedHead({ type, word }) {
    if (type === 'log_opened') return null;
    const member = KEY_EVENTS.includes(type) ? 'prev_key_event' : 'keys_head';
    return word(member) === (this.keysHead ?? GENESIS) ? null : `${member} is not the last key event`;
  }

  #refusedSigner({ type, actor, identity }) {
    const keyId = text(actor, 'key_id');
    if (KEY_EVENTS.includes(type)) {
      const root = type === 'log_opened' ? identity?.keyId : this.rootKeyId;
      return keyId === root ? null : 'a key event is signed by the root';
    }
    if (keyId === this.rootKeyId) return 'the root signs key events and nothing else';
    return this.#isActive(keyId) ? null : 'the key is not active';
  }

  #refusedChange(fact) {
    const { type, word, identity } = fact;
    if (type === 'key_added') return this.#refusedKey(identity);
    if (type === 'key_rotated') {
      const old = word('rotated_key_id');
      return this.#refusedKey(identity) ?? this.#refusedEnd(fact, old, word('rotated_at'))
        ?? (this.keys.get(old).agentId === identity.agentId ? null : 'the new key is of another agent');
    }
    return type === 'key_revoked' ? this.#refusedEnd(fact, word('key_id'), word('revoked_at')) : null;
  }

  #refusedKey(identity) {
    if (identity === null) return 'the record of the key cannot be used';
    return recordFault(identity) ?? (this.keys.has(identity.keyId) ? 'the key is in the log already' : null);
  }

  #refusedEnd(fact, keyId, at) {
    if (at < fact.at) return 'a key ends before the event that ends it';
    if (keyId === this.rootKeyId) return 'the root does not end';
    return this.#isActive(keyId) ? null : 'the key that ends is not active';
  }

  #isActive(keyId) {
    return this.keys.get(keyId)?.active === true;
  }

  /** What it says of a trace. */
  refusedTrace({ type, word, size }) {
    const known = this.#open.get(word('trace_id'));
    if (type === 'trace_opened') return known === undefined ? null : 'the trace is open';
    if (type === 'trace_closed' && known === undefined) return 'the trace is not open';
    if (!EXTENTS.includes(type) || known === undefined) return null;
    const enough = type === 'trace_closed' ? size >= known : size > known;
    return enough ? null : `the log had ${known} events of the trace`;
  }

  /** Takes an event in, allowed or not. */
  apply(fact) {
    const { type, word, size, identity } = fact;
    if (type === 'log_opened') {
      this.origin = word('origin');
      this.rootKeyId = text(fact.actor, 'key_id');
    }
    this.#end(type === 'key_rotated' ? word('rotated_key_id') : null);
    this.#end(type === 'key_revoked' ? word('key_id') : null);
    if (KEY_EVENTS.includes(type)) {
      this.keysHead = fact.hash;
      if (identity !== null) {
        this.keys.set(identity.keyId, { ...identity, active: text(identity.record, 'status') === 'active' });
      }
    }
    const traceId = word('trace_id');
    if (type === 'trace_opened') this.#open.set(traceId, 1);
    if (type === 'trace_closed') this.#open.delete(traceId);
    if (type === 'trace_checkpointed' && this.#open.has(traceId)) {
      this.#open.set(traceId, Math.max(size, this.#open.get(traceId)));
    }
  }

  #end(keyId) {
    const known = this.keys.get(keyId);
    if (known !== undefined) known.active = false;
  }
}

function refusedOpening({ word, identity }) {
  return recordFault(identity)
    ?? (word('origin') === `countersign/${identity.fingerprint}` ? null : 'the origin is not that of the root');
}

/** Traces only grow, whatever else became doubtful. */
export class Sizes {
  #traces = new Map();

  /** Why the log may not say this of the trace; null if it may. */
  refusal({ type, word, size }) {
    const opens = type === 'trace_opened';
    if (!opens && !EXTENTS.includes(type)) return null;
    const known = this.#traces.get(word('trace_id')) ?? { opened: false, size: 0 };
    if (opens && known.opened) return 'the trace is opened a second time';
    if (!opens && size < known.size) return 'the trace has become shorter';
    const grown = { opened: known.opened || opens, size: Math.max(known.size, size) };
    this.#traces.set(word('trace_id'), grown);
    return null;
  }
}

/** What a log says of one trace. */
export class LogView {
  /** Which key could sign what in the trace. */
  book = new KeyBook();
  /** Which key could sign what in the log itself. */
  logBook = new KeyBook();
  /** Fingerprint of the root. */
  root = null;
  /** Hash of the trace's first event, as the log has it. */
  opened = null;
  /** How far the trace had come, each time that the log was told. */
  extents = [];
  closed = false;
  /** Whether the log is as it was when the trace began; null if it never was that long. */
  pinHolds = null;
  signatures = 0;

  /** The root is named by the first event, which it signs itself. */
  meetRoot(step, fact) {
    if (step.index === 0 && fact.type === 'log_opened' && fact.identity !== null) this.logBook.add(fact.identity);
  }

  /** Keys change with events that the root really signed. */
  learnKeys(step, fact, rootKeyId) {
    const first = step.index === 0 && fact.type === 'log_opened';
    if (!KEY_EVENTS.includes(fact.type) || !(first || text(fact.actor, 'key_id') === rootKeyId)) return;
    if (fact.type === 'key_revoked') {
      this.#retire(fact.word('key_id'), fact.word('revoked_at'), tellsOfCompromise(fact.word('reason')));
    }
    if (fact.type === 'key_rotated') this.#retire(fact.word('rotated_key_id'), fact.word('rotated_at'), false);
    if (fact.identity === null) return;
    this.logBook.add(fact.identity);
    // The root signs key events of the log, and nothing in a trace.
    if (first) this.root = fact.identity.fingerprint;
    else this.book.add(fact.identity);
  }

  #retire(keyId, at, compromised) {
    const least = this.opened === null ? 0 : 1;
    const told = this.extents.reduce((most, { size }) => Math.max(most, size), least);
    this.book.retire(keyId, { at, size: told, compromised });
    this.logBook.retire(keyId, { at, size: Infinity, compromised });
  }

  collect({ type, word, size }, entry, traceId) {
    if (word('trace_id') !== traceId) return;
    if (type === 'trace_opened') this.opened ??= word('first_event_hash');
    if (!EXTENTS.includes(type)) return;
    this.extents.push({
      entry, size, head: word('head'), merkleRoot: word('merkle_root'), lastEventAt: word('last_event_at'),
    });
    this.closed ||= type === 'trace_closed';
  }
}

/** Reads a whole log for the trace that is `wanted`: `{ traceId, pin, checkpoints, profile, signal, progress }`. */
export async function readLog(given, wanted, findings) {
  const walk = new Walk(wanted.profile, findings, null);
  const view = new LogView();
  const rules = new Rules();
  const sizes = new Sizes();
  const kept = parseCheckpoints(wanted.checkpoints, findings);
  const take = async (line) => {
    const step = walk.line(line);
    if (step === null) return;
    const fact = step.event === null ? null : factOf(step);
    if (fact !== null) view.meetRoot(step, fact);
    const verified = await checkSignature(step, view.logBook, LOG_PROFILE, findings) === 'counts';
    view.signatures += Number(verified);
    if (fact !== null) {
      if (verified) view.learnKeys(step, fact, rules.rootKeyId);
      const refusal = (walk.sound ? rules.refusal(fact) : null) ?? sizes.refusal(fact);
      if (refusal !== null) {
        findings.fail('CHK_ROLE_POLICY_CONFORMANCE', 'ROLE_POLICY_VIOLATION', step.place, refusal);
      }
      if (walk.sound) rules.apply(fact);
      view.collect(fact, step.index, wanted.traceId);
    }
    if (wanted.pin?.size === walk.index) {
      const keysHead = rules.keysHead === wanted.pin.keysHead || !walk.sound;
      view.pinHolds = wanted.pin.head === walk.head && keysHead;
    }
    for (const one of kept.filter(({ size }) => size === walk.index)) one.rootThen = walk.tree.root();
  };
  for await (const batch of batches(given)) {
    wanted.signal?.throwIfAborted();
    const examined = batch.map(examine);
    signAhead(examined, view.logBook);
    for (const line of examined) await take(line);
    wanted.progress?.({ done: walk.index, total: null, what: 'events' });
  }
  if (walk.index === 0) findings.fail('CHK_SCHEMA_CONFORMANCE', 'SCHEMA_INVALID', {}, 'the log holds no events');
  view.entries = walk.index;
  view.head = walk.index > 0 ? walk.head : null;
  view.traceId = walk.traceId;
  view.origin = rules.origin;
  view.firstBreak = walk.firstBreak;
  for (const one of kept) await checkCheckpoint(one, view, rules, findings);
  return view;
}

function parseCheckpoints(all, findings) {
  const kept = [];
  for (const bytes of all) {
    const one = parseCheckpoint(bytes);
    // One that cannot be read says as little as one that was deleted.
    if (one === null) {
      findings.warn('CHK_LOG', 'CHECKPOINT_UNREADABLE', {}, 'the checkpoint is none, or no signed note');
    } else {
      kept.push({ ...one, rootThen: null });
    }
  }
  return kept;
}

async function checkCheckpoint(one, view, rules, findings) {
  const broken = (message) => findings.fail('CHK_LOG', 'CHAIN_BREAK', {}, message);
  // First the size: of a log that was cut, the keys may be missing as well.
  if (one.size > view.entries) {
    return broken(`the checkpoint is of ${one.size} entries, the log has ${view.entries}`);
  }
  if (one.origin !== rules.origin) return broken('the checkpoint is of another log');
  // A key that ended since counts too: otherwise whoever rewrites a log would only have to revoke
  // the key that signed what was kept elsewhere.
  const recorders = [...rules.keys.values()]
    .filter((key) => key.roles.includes('recorder') && key.keyId !== rules.rootKeyId)
    .map((key) => new VerifyingKey(key.bytes));
  if (!await isSigned(one, recorders)) {
    return findings.fail('CHK_LOG', 'SIG_INVALID', {}, 'the checkpoint is not signed by a recorder key of this log');
  }
  if (one.rootThen === null) return undefined;
  if (one.rootThen !== one.root) return broken(`the first ${one.size} entries are not those of the checkpoint`);
  return findings.evidence('CHK_LOG', `checkpoint at entry ${one.size}`);
}
