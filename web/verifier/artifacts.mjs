// Whether the evidence that a trace names is there, and is what it was
// (docs/formats/report.md#artifacts). What is kept grows with the number of different artifacts, of
// the claims that rest on them, and of tools that are under way.

import { Sha256, hex } from './bytes.mjs';
import { dialectOf, text } from './check.mjs';
import { hashMember } from './event.mjs';
import { Executions } from './executions.mjs';
import { isHash } from './forms.mjs';
import { pieces } from './lines.mjs';

/** The artifacts that events have named so far. */
export class Artifacts {
  #named = new Map();
  /** Claims, with the evidence that they name. */
  #claims = [];
  /** Tools of a session of schema 1.1; null elsewhere. */
  #executions = null;
  /** Place of the last audit, if that found nothing wrong. */
  #passed = null;

  constructor(findings) {
    this.findings = findings;
  }

  /** A payload that is stored elsewhere must be among what the event lists. */
  meetPayload({ place, reading }) {
    const hash = hashMember(reading, 'payload_hash');
    if (reading.value.get('payload') !== null || hash === null) return;
    const listed = reading.value.get('artifacts');
    if (Array.isArray(listed) && listed.some((one) => text(one, 'artifact_hash') === hash)) return;
    const message = 'the payload is not in the event, and no artifact that it lists is the payload';
    this.findings.fail('CHK_ARTIFACT_EXISTENCE', 'ARTIFACT_MISSING', { ...place, artifact: hash }, message);
  }

  /** Takes in what a valid event of a trace of this kind says of artifacts. */
  meet(event, place, kind, vouched) {
    const { index, eventId } = place;
    const type = text(event, 'event_type');
    const payload = event.get('payload');
    // The rules of schema 1.0 look at tools themselves.
    if (index === 0 && kind === 'session' && dialectOf(event) === '1.1') this.#executions = new Executions();
    for (const descriptor of event.get('artifacts')) {
      const hash = text(descriptor, 'artifact_hash');
      const size = descriptor.get('byte_size');
      const known = this.#named.get(hash);
      if (known === undefined) {
        this.#named.set(hash, { index, eventId, size, redacted: false, contradicted: false });
        continue;
      }
      known.redacted ||= vouched && index > known.index && redacts(event, descriptor);
      if (known.size !== size && !known.contradicted) {
        known.contradicted = true;
        const message = `the artifact has ${size} bytes here, and ${known.size} at event ${known.index}`;
        const place = { index, eventId, artifact: hash };
        this.findings.fail('CHK_ARTIFACT_HASH_MATCH', 'ARTIFACT_HASH_MISMATCH', place, message);
      }
    }
    this.#executions?.meet(event, place);
    if (type === 'artifact_redacted' && vouched) {
      const known = this.#named.get(text(payload, 'artifact_hash'));
      if (known !== undefined) known.redacted = true;
    }
    if (type === 'claim_issued') this.#claims.push({ place, evidence: evidenceOf(payload) });
    if (type === 'verification_run_completed') {
      const status = text(payload, 'verification_status') ?? 'fail';
      this.#passed = status === 'fail' ? null : place;
    }
  }

  /** Whether any artifact was named. */
  areNamed() {
    return this.#named.size > 0;
  }

  /** Looks at every artifact. False if there is no store to look into. */
  async check(source, { signal, progress } = {}) {
    const look = async (hash) => (source.artifact === undefined ? undefined : source.artifact(hash));
    let stored = true;
    let stale = false;
    let done = 0;
    source.expect?.([...this.#named.keys()]);
    for (const [hash, named] of this.#named) {
      signal?.throwIfAborted();
      progress?.({ done, total: this.#named.size, what: 'artifacts' });
      done += 1;
      const found = await look(hash);
      stored = found !== undefined;
      if (!stored) break;
      const lost = await this.#tell(hash, named, found, source.proven?.(hash));
      stale ||= lost && named.index < (this.#passed?.index ?? 0);
    }
    // Where order and content are in doubt, nobody can say what should be there.
    if (!this.findings.inDoubt()) {
      if (stored) await this.#checkUnlisted(look);
      this.#executions?.tell(this.findings);
    }
    if (stale) {
      const message = 'the audit recorded that nothing is wrong; evidence that it saw is not what it was';
      this.findings.warn('CHK_FINALIZATION_INTEGRITY', 'RECORDED_VERDICT_STALE', this.#passed, message);
    }
    if (!stored) return false;
    for (const check of ['CHK_ARTIFACT_EXISTENCE', 'CHK_ARTIFACT_HASH_MATCH']) {
      this.findings.scope(check, `${this.#named.size} artifacts`);
    }
    return true;
  }

  /** Evidence that no event lists and that is not in the store either. */
  async #checkUnlisted(look) {
    const told = new Set();
    for (const { place, evidence } of this.#claims) {
      for (const hash of evidence.filter((one) => !this.#named.has(one) && !told.has(one))) {
        const found = await look(hash);
        if (found !== null && found !== 'not-a-file') continue;
        told.add(hash);
        const message = 'no event lists the evidence, and it is not in the store';
        this.findings.fail('CHK_ARTIFACT_EXISTENCE', 'ARTIFACT_MISSING', { ...place, artifact: hash }, message);
      }
    }
  }

  /** Says what is wrong with an artifact; true if it is lost to those who rest on it. */
  async #tell(hash, named, stored, proven) {
    const place = { index: named.index, eventId: named.eventId, artifact: hash };
    if (stored === null || stored === 'not-a-file') {
      if (named.redacted) {
        const message = 'the artifact was redacted: its bytes are gone';
        this.findings.warn('CHK_ARTIFACT_EXISTENCE', 'REDACTION_LIMITED', place, message);
        return false;
      }
      const message = stored === null ? 'the artifact is not in the store' : 'the artifact is no regular file';
      this.findings.fail('CHK_ARTIFACT_EXISTENCE', 'ARTIFACT_MISSING', place, message);
      return true;
    }
    const wrong = await difference(stored, hash, named.size, proven);
    // Where sizes contradict each other, one of them is wrong, which was said before.
    if (wrong !== null && !named.contradicted) {
      this.findings.fail('CHK_ARTIFACT_HASH_MATCH', 'ARTIFACT_HASH_MISMATCH', place, wrong);
    }
    return wrong !== null;
  }
}

/**
 * Whether a descriptor says that the bytes were removed. Schema 1.0 has no event of its own for that:
 * the auditor records the artifact again.
 */
function redacts(event, descriptor) {
  return dialectOf(event) === '1.0' && text(event, 'event_type') === 'artifact_recorded'
    && text(event.get('actor'), 'role') === 'auditor' && text(descriptor, 'redaction_status') !== 'none';
}

/** The hashes that a claim names as evidence. */
function evidenceOf(payload) {
  const named = payload instanceof Map ? payload.get('evidence_artifacts') : null;
  return Array.isArray(named) ? named.filter((one) => typeof one === 'string' && isHash(one)) : [];
}

/**
 * How bytes differ from what is known of them; reads no further than it takes to know. `proven` is the size
 * of bytes that were hashed already, which are then not read again.
 */
async function difference(stored, hash, size, proven) {
  if (proven !== undefined) return proven === size ? null : `the artifact has ${proven} bytes, it should have ${size}`;
  const hasher = new Sha256();
  let length = 0;
  for await (const piece of pieces(stored)) {
    length += piece.length;
    if (length > size) return `the artifact has more than the ${size} bytes it should have`;
    hasher.update(piece);
  }
  if (length !== size) return `the artifact has ${length} bytes, it should have ${size}`;
  return hex(hasher.digest()) === hash ? null : 'the artifact has other bytes';
}
