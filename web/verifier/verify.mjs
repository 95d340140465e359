// A second verifier: reads a trace and its workspace log as bytes and says what holds, by the pages
// in docs/formats alone. Checks bytes, hashes, chain, signatures, keys, the log, artifacts and receipts;
// does not replay the rules of sessions, recordings, work items and flows.
//
// A source has `events()`, `log()`, `checkpoints()` and `artifact(hash)`, all async; README.md says
// what they give. `events()` is called twice, each time from the beginning.

import { ApprovalCount, noApprovals } from './approvals.mjs';
import { Artifacts } from './artifacts.mjs';
import { dialectOf, text, typeOf } from './check.mjs';
import { KeyBook, checkSignature, readKeyFile, signAhead } from './keys.mjs';
import { batches, lines } from './lines.mjs';
import { readLog } from './log.mjs';
import { Receipts } from './receipts.mjs';
import { Findings, PROFILES, reportOf } from './report.mjs';
import { Walk, examine } from './walk.mjs';

const NOT_REPLAYED = 'not run: this reader does not replay the rules of traces';
const NOTHING = new Uint8Array();

/**
 * Verifies a trace. Options: `trust` (fingerprints of roots), `profile` (its name), `keys` (the bytes
 * of a file of keys), `expectTrace`, `expectHead`, `expectCount`, `reportId`, `now` (a Date), `progress` (told
 * `{ done, total, what }`: how many of the events or artifacts were looked at), `signal` (an AbortSignal).
 * Throws where something cannot be read; whatever is wrong with what was read is in the report.
 */
export async function verify(source, options = {}) {
  const findings = new Findings();
  const profile = profileOf(options);
  const first = await firstEvent(source);
  const pin = pinOf(first);
  const log = await source.log?.() ?? null;
  const checkpoints = await source.checkpoints?.() ?? [];
  let view = null;
  if (log !== null) {
    const own = new Findings();
    const traceId = options.expectTrace ?? text(first, 'trace_id') ?? '';
    view = await readLog(log, { traceId, pin, checkpoints, profile, signal: options.signal }, own);
    findings.takeFromLog(own);
  }
  const keys = view?.book ?? (options.keys ? readKeyFile(options.keys) : null);
  return judge(source, options, { profile, pin, checkpoints, view, keys, findings });
}

/**
 * Judges a trace by what the log says of it, which is known already: `against` has `profile`, `pin`,
 * `checkpoints`, `view`, `keys`, `findings`, and perhaps an `onlooker`, who sees each line's event, or null,
 * in `line(event)`, and adds in `end(findings)` what it found.
 */
export async function judge(source, options, against) {
  const { profile, pin, checkpoints, view, keys, findings, onlooker } = against;
  const run = new Run(options, profile, keys, view, findings);
  for await (const batch of batches(await source.events() ?? NOTHING)) {
    options.signal?.throwIfAborted();
    const examined = batch.map(examine);
    if (run.signaturesChecked) signAhead(examined, run.keys);
    for (const line of examined) {
      const step = run.walk.line(line);
      onlooker?.line(step?.event ?? null);
      if (step !== null) await run.step(step);
    }
    options.progress?.({ done: run.walk.index, total: null, what: 'events' });
  }
  run.finish(pin, checkpoints);
  onlooker?.end(findings);
  run.artifactsRead = await run.artifacts.check(source, options);
  if (!run.artifactsRead) {
    findings.skip('CHK_ARTIFACT_EXISTENCE', 'no store of artifacts was given');
    findings.skip('CHK_ARTIFACT_HASH_MATCH', 'no store of artifacts was given');
    if (run.artifacts.areNamed()) {
      const message = 'the evidence was not looked at: no store of artifacts was given';
      findings.warn('CHK_ARTIFACT_EXISTENCE', 'ARTIFACTS_UNREAD', {}, message);
    }
  }
  return reportOf(run.verdict(), findings, options);
}

/** Verifies a workspace log by itself: its lines are the events of the source. */
export async function verifyLog(source, options = {}) {
  const findings = new Findings();
  const profile = profileOf(options);
  const checkpoints = await source.checkpoints?.() ?? [];
  const { signal, progress } = options;
  const wanted = { traceId: null, pin: null, checkpoints, profile, signal, progress };
  const view = await readLog(await source.events() ?? NOTHING, wanted, findings);
  if (view.firstBreak === null) expectations(options, view.head, view.entries, findings);
  for (const check of ['CHK_ARTIFACT_EXISTENCE', 'CHK_ARTIFACT_HASH_MATCH', 'CHK_RECEIPT_CHAIN',
    'CHK_CLAIM_EVIDENCE_SUFFICIENCY', 'CHK_SEPARATION_OF_DUTIES', 'CHK_FINALIZATION_INTEGRITY']) {
    findings.skip(check, 'a log has nothing of the kind');
  }
  const verdict = {
    traceId: view.traceId ?? '',
    kind: 'log',
    head: view.head,
    ended: null,
    closed: 'no',
    root: view.root,
    profile,
    approvals: noApprovals(),
    artifactsRead: true,
    signaturesChecked: true,
    metrics: {
      events: view.entries,
      signatures_verified: view.signatures,
      log_entries: view.entries,
      trusted_events: view.firstBreak ?? view.entries,
    },
  };
  return reportOf(verdict, findings, options);
}

export function profileOf({ profile = 'default' }) {
  if (!Object.hasOwn(PROFILES, profile)) throw new Error(`no profile is called ${profile}`);
  return PROFILES[profile];
}

/** The first event, if it is one. */
export async function firstEvent(source) {
  const walk = new Walk(PROFILES.lenient, new Findings(), null);
  for await (const line of lines(await source.events() ?? NOTHING)) return walk.line(examine(line))?.event ?? null;
  return null;
}

/** The log as the trace's first event names it. */
export function pinOf(first) {
  const pin = first?.get('payload')?.get('log');
  // Schema 1.0 names no log, whatever stands there.
  if (!(pin instanceof Map) || dialectOf(first) === '1.0') return null;
  return {
    origin: text(pin, 'origin'), size: pin.get('size'), head: text(pin, 'head'), keysHead: text(pin, 'keys_head'),
  };
}

/** What the reader expects of the last event and of their number. */
function expectations({ expectHead, expectCount }, head, count, findings) {
  if (expectHead !== undefined && expectHead !== head) {
    findings.fail('CHK_CHAIN_CONTINUITY', 'CHAIN_BREAK', {}, `the head is ${head}, expected ${expectHead}`);
  }
  if (expectCount !== undefined && expectCount !== count) {
    findings.fail('CHK_CHAIN_CONTINUITY', 'CHAIN_BREAK', {}, `there are ${count} events, expected ${expectCount}`);
  }
}

/** The kind of trace that an event begins; null if it can begin none. */
export function kindOf(event) {
  // Schema 1.0 has sessions only, and no member that would say so.
  const kind = dialectOf(event) === '1.0' ? 'session' : text(event.get('payload'), 'kind') ?? 'session';
  return typeOf(text(event, 'event_type')).opens.includes(kind) ? kind : null;
}

/** How the trace stands after this event, if that ends it; else null. */
export function endingOf(kind, event) {
  const word = (name) => text(event.get('payload'), name);
  const type = text(event, 'event_type');
  if (kind === 'session' || kind === 'recording') {
    if (type === 'session_aborted') return 'aborted';
    if (type === 'session_failed') return 'failed';
    if (type !== 'verification_run_completed') return null;
    return word('verification_status') === 'fail' ? 'failed' : 'succeeded';
  }
  if (kind === 'work') {
    return type === 'agent_session_completed' && word('next_phase') === 'COMPLETED' ? 'succeeded' : null;
  }
  if (kind !== 'flow' || type !== 'flow_finished') return null;
  return { completed: 'succeeded', aborted: 'aborted' }[word('outcome')] ?? 'failed';
}

/** One pass over a trace. */
class Run {
  kind = null;
  ended = null;
  approvals = new ApprovalCount();
  coverage = null;
  artifactsRead = true;
  #signatures = 0;
  #firstHash = null;
  #extentsMet = 0;
  #contradicted = false;
  #logAbsent = false;

  constructor(options, profile, keys, view, findings) {
    this.options = options;
    this.profile = profile;
    this.view = view;
    this.keys = keys ?? new KeyBook();
    // A log that names no keys vouches for none: every signature is then one of a stranger.
    this.signaturesChecked = keys !== null;
    this.findings = findings;
    this.walk = new Walk(profile, findings, options.expectTrace ?? null);
    this.artifacts = new Artifacts(findings);
    this.receipts = new Receipts(findings);
  }

  async step(step) {
    if (step.index === 0) this.#begin(step);
    // Nobody answers for an event without a signature that counts: it ends, permits and excuses nothing.
    let vouched = true;
    if (this.signaturesChecked) {
      const signature = await checkSignature(step, this.keys, this.profile, this.findings);
      vouched = signature === 'counts';
      this.#signatures += Number(vouched);
      if (signature === 'failed') this.walk.signatureFailed();
    }
    // What belongs to another trace says nothing about this one.
    if (!step.foreign) this.artifacts.meetPayload(step);
    if (step.event !== null && this.kind !== null) {
      if (vouched) {
        this.ended ??= endingOf(this.kind, step.event);
        this.approvals.take(step.event);
        this.#keepCoverage(step.event);
      }
      this.artifacts.meet(step.event, step.place, this.kind, vouched);
      if (!this.walk.failedAt(step.index)) {
        this.receipts.meet(step.event, step.place, this.kind, this.walk.failedWithin(step.index));
      }
    }
    if (this.view !== null) this.#meetExtents();
  }

  #begin({ event, place }) {
    this.#firstHash = this.walk.head;
    this.kind = event === null ? null : kindOf(event);
    if (event !== null && this.kind === null) {
      const message = `a trace cannot begin with ${text(event, 'event_type')}`;
      this.findings.fail('CHK_SCHEMA_CONFORMANCE', 'SCHEMA_INVALID', place, message);
    }
  }

  /** What the coverage report with the most gaps says; of several, the last. */
  #keepCoverage(event) {
    if (text(event, 'event_type') !== 'coverage_reported') return;
    const payload = event.get('payload');
    const gaps = payload.get('gaps') ?? 0;
    if (this.coverage && this.coverage.gaps > gaps) return;
    const sources = payload.get('sources') ?? [];
    this.coverage = { event_id: text(event, 'event_id'), gaps, sources };
  }

  /** Compares the trace, at each size of which the log speaks, with what the log says. */
  #meetExtents() {
    const { walk, view } = this;
    for (; this.#extentsMet < view.extents.length; this.#extentsMet += 1) {
      const extent = view.extents[this.#extentsMet];
      if (extent.size > walk.index) return;
      const same = extent.size === walk.index && extent.head === walk.head
        && extent.merkleRoot === walk.tree.root() && extent.lastEventAt === walk.lastAt;
      // An event that failed already is the cause, and was told.
      if (same || this.#contradicted || walk.failedWithin(extent.size)) continue;
      this.#contradicted = true;
      const message = `the log's entry ${extent.entry} has ${extent.size} other events of this trace`;
      this.findings.fail('CHK_LOG', 'CHAIN_BREAK', { index: Math.max(extent.size - 1, 0) }, message);
    }
  }

  /** What can be said once the last line was read. */
  finish(pin, checkpoints) {
    const { findings, walk, view } = this;
    if (walk.index === 0) findings.fail('CHK_SCHEMA_CONFORMANCE', 'SCHEMA_INVALID', {}, 'the trace holds no events');
    if (!this.signaturesChecked) {
      findings.skip('CHK_SIGNATURE_VALIDITY', 'no keys: neither a workspace log nor a file of keys was given');
      findings.skip('CHK_KEY_STATUS', 'no keys: neither a workspace log nor a file of keys was given');
    }
    for (const check of ['CHK_CLAIM_EVIDENCE_SUFFICIENCY', 'CHK_ROLE_POLICY_CONFORMANCE',
      'CHK_SEPARATION_OF_DUTIES', 'CHK_FINALIZATION_INTEGRITY']) {
      findings.skip(check, NOT_REPLAYED);
    }
    this.receipts.finish();
    if (view === null) this.#withoutLog(pin, checkpoints);
    else this.#againstLog(pin);
    this.#expectations();
  }

  #againstLog(pin) {
    const { findings, walk, view } = this;
    const broken = (message) => findings.fail('CHK_LOG', 'CHAIN_BREAK', {}, message);
    if (pin !== null && pin.origin !== view.origin) broken('the trace belongs to another log');
    else if (pin !== null && view.pinHolds !== true) broken('the log does not extend what the trace names');
    const other = view.opened !== null && this.#firstHash !== null && view.opened !== this.#firstHash;
    if (other && !walk.failedWithin(1)) {
      this.#contradicted = true;
      broken('the log opened this trace with another event');
    }
    const longest = view.extents.reduce((most, { size }) => Math.max(most, size), 0);
    // A trace with a hole is shorter for that cause.
    const explained = this.#contradicted || walk.firstBreak !== null || walk.blind;
    if (longest > walk.index && !explained) {
      this.#contradicted = true;
      broken(`the log knows ${longest} events of this trace, here are ${walk.index}`);
    }
    const missing = (message) => findings.warn('CHK_LOG', 'LOG_ENTRY_MISSING', {}, message);
    if (view.opened === null && this.kind !== 'log') missing('the log does not say that this trace was opened');
    if (this.ended !== null && !view.closed) missing('the trace has ended, but the log does not say so yet');
    findings.scope('CHK_LOG', `keys as of log entry ${view.entries}`);
  }

  #withoutLog(pin, checkpoints) {
    const { findings } = this;
    findings.skip('CHK_LOG', 'no workspace log was given');
    this.#logAbsent = pin !== null;
    if (this.#logAbsent) {
      findings.warn('CHK_LOG', 'LOG_ABSENT', {}, 'the trace names a workspace log, and none was given');
    }
    if (checkpoints.length > 0) {
      findings.warn('CHK_LOG', 'CHECKPOINT_UNUSED', {}, 'a checkpoint was given, but no log to compare it with');
    }
  }

  /** What the reader expects. A cut or a hole that was told is the cause of this as well. */
  #expectations() {
    const { options: { expectHead, expectCount }, walk, findings } = this;
    if (this.#contradicted || walk.firstBreak !== null) return;
    expectations({ expectHead, expectCount }, walk.head, walk.index, findings);
  }

  verdict() {
    const { walk, view } = this;
    const unknown = this.#logAbsent || (view !== null && !view.closed);
    let closed = 'no';
    if (this.ended !== null && !unknown) closed = this.ended === 'aborted' ? 'aborted' : 'yes';
    return {
      traceId: walk.traceId ?? '',
      kind: this.kind,
      head: walk.index > 0 ? walk.head : null,
      ended: this.ended,
      closed,
      root: view?.root ?? null,
      profile: this.profile,
      approvals: this.approvals.counts,
      coverage: this.coverage,
      artifactsRead: this.artifactsRead,
      signaturesChecked: this.signaturesChecked,
      metrics: {
        events: walk.index,
        signatures_verified: this.#signatures,
        log_entries: view?.entries ?? 0,
        trusted_events: walk.firstBreak ?? walk.index,
      },
    };
  }
}
