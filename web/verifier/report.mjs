// What a run collects on its way, and the report that it comes to (docs/formats/report.md).

import { hex, sha256, utf8 } from './bytes.mjs';
import { write } from './json.mjs';

const LISTED_MAX = 1_000;

/** The checks, in the order of the report. */
export const CHECKS = {
  CHK_SCHEMA_CONFORMANCE: 'every line is a valid event in its canonical bytes',
  CHK_EVENT_HASH_INTEGRITY: 'every hash is that of the bytes',
  CHK_CHAIN_CONTINUITY: 'every event follows the one before',
  CHK_SIGNATURE_VALIDITY: 'every signature verifies',
  CHK_KEY_STATUS: 'every key could sign when it did',
  CHK_LOG: 'the workspace log knows this trace so',
  CHK_ARTIFACT_EXISTENCE: 'every artifact is there',
  CHK_ARTIFACT_HASH_MATCH: 'every artifact has the bytes that were recorded',
  CHK_RECEIPT_CHAIN: 'every action has its receipt, and each names the one before',
  CHK_CLAIM_EVIDENCE_SUFFICIENCY: 'every claim has its evidence',
  CHK_ROLE_POLICY_CONFORMANCE: 'every event was allowed when it was recorded',
  CHK_SEPARATION_OF_DUTIES: 'who acts, who reviews and who audits are not the same',
  CHK_FINALIZATION_INTEGRITY: 'the final statement and the audit are in order',
};

/** The failure codes: how severe each is, and what to do about it. */
const CODES = {
  SCHEMA_INVALID: ['medium', 'look at the line itself: it is not what a recorder writes'],
  HASH_MISMATCH: ['critical', 'compare this event with another copy: it was changed'],
  CHAIN_BREAK: ['critical', 'compare with another copy or with a checkpoint kept elsewhere'],
  SIG_INVALID: ['critical', 'do not rely on this event; ask the signer for the original'],
  SIG_MISSING: ['critical', 'ask for the trace as it was signed'],
  ROLE_POLICY_VIOLATION: ['medium', 'find out why this was recorded although it may not be'],
  ARTIFACT_MISSING: ['high', 'ask for the missing artifact'],
  ARTIFACT_HASH_MISMATCH: ['high', 'restore the artifact from another copy'],
};

/** The profiles, as far as they concern what is checked here. */
export const PROFILES = {
  strict: {
    name: 'strict', everyEventSigned: true, timeNeverFalls: true, compromiseCountsBack: true, rulesMustHold: true,
  },
  default: {
    name: 'default', everyEventSigned: false, timeNeverFalls: false, compromiseCountsBack: false, rulesMustHold: true,
  },
  lenient: {
    name: 'lenient', everyEventSigned: false, timeNeverFalls: false, compromiseCountsBack: false, rulesMustHold: false,
  },
};

/** What no verdict of this reader shows. */
export const NOT_PROVEN = [
  'that every event was allowed when it was recorded, that duties were separate, that claims have '
    + 'their evidence, or that an audit says what its report says: this reader does not replay rules',
  'that a claim is true',
  'that nothing happened outside the channel that was recorded',
  'which model acted',
  'that roles were separate people or processes',
  "when something happened, beyond the signer's word and a checkpoint kept elsewhere",
  'anything against someone who holds the keys and the disk, since that checkpoint',
];

/** What receipts alone do not show either. */
const UNSIGNED = [
  'who wrote these receipts: they are unsigned, and anyone could have written them',
  'that this is the whole session: a shorter one could be sealed just so',
  'descriptions, file names and other metadata: they lie outside the hashes',
];

/** Everything that was found so far. A place is `{ index, eventId, artifact }`, each optional. */
export class Findings {
  failures = [];
  warnings = [];
  unlisted = 0;
  #failed = new Set();
  #warned = new Set();
  #skipped = new Map();
  #scopes = new Map();
  #evidence = new Map();
  #doubtedKeys = new Set();
  #run = null;

  fail(check, code, place, message) {
    const first = !this.#failed.has(check);
    this.#failed.add(check);
    // The first of each check is always listed: no check fails without a word.
    if (!first && this.failures.length >= LISTED_MAX) {
      this.unlisted += 1;
      return;
    }
    const [severity, action] = CODES[code];
    this.failures.push({
      failure_code: code,
      severity,
      check_id: check,
      event_id: place.eventId ?? null,
      index: place.index ?? null,
      artifact_hash: place.artifact ?? null,
      message,
      suggested_action: action,
    });
  }

  /** A signature that fails: told at the first of several events in a row, which are counted. */
  failSignature(code, place, message) {
    if (this.#run !== null && this.#run.code === code && this.#run.last + 1 === place.index) {
      this.#run.last = place.index;
      this.#run.more += 1;
      return;
    }
    this.endRun();
    this.#run = { code, told: this.failures.length, last: place.index, more: 0 };
    this.fail('CHK_SIGNATURE_VALIDITY', code, place, message);
  }

  /** Says how many signatures in a row failed, where the first of them is told. */
  endRun() {
    const run = this.#run;
    this.#run = null;
    if (run === null || run.more === 0 || run.told >= this.failures.length) return;
    this.failures[run.told].message += `; and so for the next ${run.more} up to event ${run.last}`;
  }

  warn(check, code, place, message) {
    this.#warned.add(check);
    if (this.warnings.length >= LISTED_MAX) this.unlisted += 1;
    else this.warnings.push({ warning_code: code, event_id: place.eventId ?? null, message });
  }

  /** Something that is no fault of the bytes: where only those count, it is worth knowing. */
  brokenRule(check, code, profile, place, message) {
    if (profile.rulesMustHold) this.fail(check, code, place, message);
    else this.warn(check, code, place, message);
  }

  /** Whether a key is doubted for the first time: that is said once. */
  isFirstOfKey(keyId) {
    const first = !this.#doubtedKeys.has(keyId);
    this.#doubtedKeys.add(keyId);
    return first;
  }

  /** Whether some event could not be taken at its word, or does not stand in its place. */
  inDoubt() {
    return ['CHK_SCHEMA_CONFORMANCE', 'CHK_EVENT_HASH_INTEGRITY', 'CHK_CHAIN_CONTINUITY']
      .some((check) => this.#failed.has(check));
  }

  /** Says that there was nothing to run a check with. */
  skip(check, why) {
    this.#skipped.set(check, why);
  }

  /** Says the same of every check but some. */
  skipAll(why, but = []) {
    for (const check of Object.keys(CHECKS)) if (!but.includes(check)) this.skip(check, why);
  }

  scope(check, text) {
    this.#scopes.set(check, text);
  }

  evidence(check, text) {
    this.#evidence.set(check, [...(this.#evidence.get(check) ?? []), text]);
  }

  /** What was found in the log, put into the report on a trace: one check of it. */
  takeFromLog(own) {
    own.endRun();
    for (const { failure_code: code, event_id: eventId, index, message } of own.failures) {
      const entry = index === null ? '' : ` entry ${index}`;
      this.fail('CHK_LOG', code, { eventId }, `workspace log${entry}: ${message}`);
    }
    for (const { warning_code: code, message } of own.warnings) {
      this.warn('CHK_LOG', code, {}, `workspace log: ${message}`);
    }
    this.unlisted += own.unlisted;
    for (const text of own.#evidence.get('CHK_LOG') ?? []) this.evidence('CHK_LOG', text);
  }

  status() {
    if (this.#failed.size > 0) return 'fail';
    return this.#warned.size > 0 ? 'pass-with-warnings' : 'pass';
  }

  checks() {
    return Object.entries(CHECKS).map(([id, name]) => ({
      check_id: id,
      name,
      status: this.#statusOf(id),
      scope: this.#skipped.get(id) ?? this.#scopes.get(id) ?? '',
      evidence: this.#evidence.get(id) ?? [],
    }));
  }

  #statusOf(id) {
    if (this.#failed.has(id)) return 'fail';
    if (this.#skipped.has(id)) return 'not-checked';
    return this.#warned.has(id) ? 'warn' : 'pass';
  }
}

/** The report on what `run` came to. */
export function reportOf(run, findings, options) {
  findings.endRun();
  for (const check of ['CHK_SCHEMA_CONFORMANCE', 'CHK_EVENT_HASH_INTEGRITY', 'CHK_CHAIN_CONTINUITY']) {
    findings.scope(check, `${run.metrics.events} events`);
  }
  findings.scope('CHK_SIGNATURE_VALIDITY', `${run.metrics.signatures_verified} signatures`);
  if (run.root !== null) findings.evidence('CHK_SIGNATURE_VALIDITY', `root ${run.root}`);
  const report = {
    schema_version: '1.1.0',
    report_id: options.reportId ?? newUlid(options.now ?? new Date()),
    trace_id: run.traceId,
    kind: run.kind,
    head: run.head,
    verified_at: (options.now ?? new Date()).toISOString(),
    verification_status: findings.status(),
    closed: run.closed,
    signer: isPinned(run, options) ? 'pinned' : 'unpinned',
    root: run.root,
    profile: run.profile.name,
    summary: summary(run, findings),
    checks: findings.checks(),
    failures: run.advice === undefined ? findings.failures
      : findings.failures.map((failure) => ({ ...failure, suggested_action: run.advice })),
    warnings: findings.warnings,
    approvals: run.approvals,
    ...(run.coverage ? { coverage: run.coverage } : {}),
    not_proven: notProven(run),
    metrics: { ...run.metrics, elapsed_ms: 0 },
  };
  report.report_digest = digestOf(report);
  return report;
}

function notProven(run) {
  return [
    ...(run.unsigned ? UNSIGNED : []),
    ...NOT_PROVEN,
    ...(run.artifactsRead ? [] : ['that the artifacts are there and whole: they were not read']),
  ];
}

/** Who trusts a root trusts what it vouches for: every event, and not those of somebody else. */
function isPinned({ root, metrics: { events, signatures_verified: vouched } }, options) {
  return events > 0 && vouched === events && root !== null && (options.trust ?? []).includes(root);
}

/** The same for the same bytes and options, whenever it was computed. */
function digestOf(report) {
  const { report_id: _id, verified_at: _at, metrics: { elapsed_ms: _ms, ...metrics }, ...rest } = report;
  return hex(sha256(utf8(write({ ...rest, metrics }))));
}

function summary(run, findings) {
  const count = findings.failures.length;
  let text = `${count} failures`;
  if (count === 1) text = '1 failure';
  if (count === 0 && run.summary !== undefined) return run.summary;
  if (count === 0 && !run.signaturesChecked) {
    text = 'the bytes agree with themselves, but no signature was checked';
  } else if (count === 0) {
    text = run.ended === null ? 'intact as far as it goes' : `intact; the trace ended: ${run.ended}`;
  }
  if (findings.unlisted > 0) text += ` and ${findings.unlisted} more findings that are not listed`;
  return text;
}

const ULID_DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';

function newUlid(now) {
  let value = BigInt(now.getTime());
  for (const byte of crypto.getRandomValues(new Uint8Array(10))) value = (value << 8n) | BigInt(byte);
  let text = '';
  for (let i = 0; i < 26; i += 1, value >>= 5n) text = ULID_DIGITS[Number(value & 31n)] + text;
  return text;
}
