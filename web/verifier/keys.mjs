// Keys, who holds them, and when their signatures count (docs/formats/log-and-checkpoint.md#keys).

import { hex, sha256, unbase64 } from './bytes.mjs';
import { identityFaults, signatureFaults, text, typeOf } from './check.mjs';
import { VerifyingKey, isPublicKey } from './ed25519.mjs';
import { isTime } from './forms.mjs';
import { read } from './json.mjs';

const KEY_FILE_BYTES_MAX = 16 << 20;

/** The holder and the key of a record, or null where the record has another shape or its key is refused. */
export function parseIdentity(record, dialect) {
  if (identityFaults(record, dialect).length > 0) return null;
  const bytes = unbase64(text(record, 'public_key'));
  if (!isPublicKey(bytes)) return null;
  return {
    keyId: text(record, 'key_id'),
    agentId: text(record, 'agent_id'),
    roles: record.get('role_capabilities'),
    since: text(record, 'created_at'),
    fingerprint: hex(sha256(bytes)),
    bytes,
    record,
  };
}

/** What a record says that it may not say in schema 1.1, although every member has its form. */
export function recordFault(identity) {
  const { record, keyId, roles, fingerprint } = identity;
  const status = text(record, 'status');
  if (keyId !== fingerprint.slice(0, 32)) return 'the key id is not that of the key';
  if (roles.includes('recorder') && roles.length > 1) return 'a recorder key has no other role';
  const retired = record.has('revoked_at') || record.has('revoked_reason');
  if (retired && status !== 'revoked') return 'dated like a revoked key';
  if (record.has('rotated_at') && status === 'active') return 'dated like a rotated key';
  return null;
}

/** Keys by their id, and the limits within which their signatures count. */
export class KeyBook {
  #keys = new Map();

  add(identity) {
    this.#keys.set(identity.keyId, { ...identity, key: new VerifyingKey(identity.bytes), end: null });
  }

  /** Ends a key: `{ at, size, compromised }`, from `at` on, and for events from number `size` on. */
  retire(keyId, end) {
    const known = this.#keys.get(keyId);
    if (known !== undefined) known.end = end;
  }

  get(keyId) {
    return this.#keys.get(keyId);
  }
}

/** Whether a reason for revoking a key says that somebody else may have had it. */
export function tellsOfCompromise(reason = '') {
  const word = 'compromise';
  return reason.replace(/^\p{White_Space}+/u, '').slice(0, word.length).toLowerCase() === word;
}

/** The keys of a file, whose records carry their own end. Throws if the file cannot be used. */
export function readKeyFile(bytes) {
  const { value } = read(bytes, KEY_FILE_BYTES_MAX);
  if (!Array.isArray(value)) throw new Error('a file of keys is one JSON array');
  const book = new KeyBook();
  for (const record of value) {
    const identity = parseIdentity(record, '1.0');
    if (identity === null) throw new Error('a record of a key cannot be used');
    book.add(identity);
    const status = text(record, 'status');
    if (status !== 'active') {
      const at = text(record, `${status}_at`) ?? text(record, 'updated_at');
      const compromised = status === 'revoked' && tellsOfCompromise(text(record, 'revoked_reason'));
      book.retire(identity.keyId, { at, size: Infinity, compromised });
    }
  }
  return value.length > 0 ? book : null;
}

function couldSign({ since, end }, index, at) {
  if (at < since) return `the key exists since ${since}, the event says ${at}`;
  if (end !== null && at >= end.at) return `the key ended at ${end.at}, the event says ${at}`;
  if (end !== null && index >= end.size) return `the key ended when the log had ${end.size} events of this trace`;
  return null;
}

/**
 * Begins to verify the signatures of lines that were examined, with the keys as they are now: many at once
 * take less time than one after the other. `checkSignature` asks for the outcome where its key is the same.
 */
export function signAhead(examined, book) {
  for (const { reading } of examined) {
    if (reading === null) continue;
    const signature = text(reading.value.get('signature'), 'signature_b64');
    const known = book.get(text(reading.value.get('actor'), 'key_id') ?? '');
    const bytes = signature === undefined || known === undefined ? null : unbase64(signature);
    if (bytes === null) continue;
    const outcome = known.key.verify(reading.signedBytes, bytes);
    // Whoever asks for it is told; nobody has to.
    outcome.catch(() => {});
    reading.ahead = { key: known.key, outcome };
  }
}

/**
 * Checks the signature of a step against the keys of `book`: `counts`, `absent` where there need not
 * be one, or `failed`. The first thing that is wrong is the finding.
 */
export async function checkSignature(step, book, profile, findings) {
  const { index, place, reading } = step;
  const fail = (code, message, check = 'CHK_SIGNATURE_VALIDITY') => {
    if (check === 'CHK_SIGNATURE_VALIDITY') findings.failSignature(code, place, message);
    else findings.fail(check, code, place, message);
    return 'failed';
  };
  const invalid = (message) => fail('SIG_INVALID', message);
  const signature = reading.value.get('signature') ?? null;
  if (signature === null) {
    const type = typeOf(text(reading.value, 'event_type') ?? '');
    const message = 'the event is not signed';
    if (type === null || type.mandatory || profile.everyEventSigned) {
      return fail('SIG_MISSING', message);
    }
    findings.warn('CHK_SIGNATURE_VALIDITY', 'SIG_ABSENT', place, message);
    return 'absent';
  }
  if (signatureFaults(signature, reading.dialect).length > 0) return invalid('the signature is misshapen');
  const actor = reading.value.get('actor');
  const known = book.get(text(actor, 'key_id') ?? '');
  if (known === undefined) return invalid('the key is not known');
  if (text(actor, 'agent_id') !== known.agentId) return invalid(`the key belongs to ${known.agentId}`);
  const verified = reading.ahead?.key === known.key
    ? reading.ahead.outcome : known.key.verify(reading.signedBytes, unbase64(text(signature, 'signature_b64')));
  if (!await verified) return invalid('the signature does not verify');
  if (text(signature, 'signed_bytes_hash') !== hex(sha256(reading.signedBytes))) {
    return invalid('signed_bytes_hash is not that of the signed bytes');
  }
  const at = text(reading.value, 'created_at');
  // Without a time the schema check has failed already.
  if (at === undefined || !isTime(at)) return 'failed';
  const why = couldSign(known, index, at);
  if (why !== null) return fail('SIG_INVALID', why, 'CHK_KEY_STATUS');
  if (known.end?.compromised) {
    const message = `the key ${known.keyId} was compromised: what it signed before its end is in doubt`;
    if (findings.isFirstOfKey(known.keyId)) {
      if (profile.compromiseCountsBack) fail('SIG_INVALID', message, 'CHK_KEY_STATUS');
      else findings.warn('CHK_KEY_STATUS', 'KEY_COMPROMISED', place, message);
    }
    if (profile.compromiseCountsBack) return 'failed';
  }
  if (!known.roles.includes(text(actor, 'role'))) {
    const message = `the key of ${known.agentId} has no role ${text(actor, 'role')}`;
    findings.brokenRule('CHK_ROLE_POLICY_CONFORMANCE', 'ROLE_POLICY_VIOLATION', profile, place, message);
  }
  return 'counts';
}
