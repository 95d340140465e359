// A sealed file as a source of pages: answers from the bytes that the browser has what a server answers for its
// own traces.

import { takeApart } from '../verifier/event.mjs';
import { LedgerIndex, referencesIn, shortened } from './cap_index.mjs';

const GENESIS = '0'.repeat(64);
const PAGE_MAX = 200;
const FILTERS_KEPT = 4;
const RUN = /; and so for the next \d+ up to event (\d+)$/;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const textOf = (value) => (typeof value === 'string' ? value : null);
const hashOf = (event, name) => textOf(event?.[name]);

/** The base64 text of bytes. */
function base64(bytes) {
  let binary = '';
  for (let at = 0; at < bytes.length; at += 32_768) binary += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(binary);
}

/** How a trace ended, by its last events; null if it goes on. */
function outcomeOf(kind, event) {
  const { event_type: type, payload } = event ?? {};
  if (type === 'session_aborted') return 'aborted';
  if (type === 'session_failed') return 'failed';
  if (type === 'verification_run_completed') return payload?.verification_status === 'fail' ? 'failed' : 'succeeded';
  if (kind === 'work' && type === 'agent_session_completed' && payload?.next_phase === 'COMPLETED') return 'succeeded';
  if (type === 'flow_finished') return new Map([['completed', 'succeeded'], ['aborted', 'aborted']]).get(payload?.outcome) ?? 'failed';
  return null;
}

/** What was opened: `cap` as the worker gives it, with the report that it came to. */
export class CapTrace {
  base = '#/file';
  /** Nothing more comes. */
  live = null;
  #cap;
  #report;
  #index;
  #matches = new Map();

  constructor(cap, report, name) {
    this.#cap = cap;
    this.#report = report;
    this.#index = new LedgerIndex(cap.ledger);
    this.id = cap.about.traceId;
    this.name = name;
  }

  /** The report of this browser. */
  own() {
    return this.#report;
  }

  /** The report for somebody who trusts this root: pinned if every event is signed under it. */
  pin(root) {
    const { events, signatures_verified: vouched } = this.#report.metrics;
    const pinned = events > 0 && vouched === events && this.#report.root === root;
    if (pinned) this.#report = { ...this.#report, signer: 'pinned' };
    return this.#report;
  }

  /** No server has said anything of it. */
  async verdict() {
    return null;
  }

  async about() {
    const index = this.#index;
    const { event: first } = index.total > 0 ? index.read(0) : { event: null };
    const last = index.total > 0 ? index.read(index.total - 1).event : null;
    const { about } = this.#cap;
    const payload = first?.payload ?? {};
    const outcome = this.#outcome();
    const started = textOf(first?.created_at);
    const ended = textOf(last?.created_at);
    const tampered = this.#report.verification_status === 'fail';
    return {
      trace_id: about.traceId,
      kind: about.kind,
      status: tampered ? 'tampered' : outcome ?? 'running',
      closed: this.#report.closed !== 'no',
      outcome,
      title: textOf(payload.objective) ?? textOf(payload.title) ?? this.name,
      task_id: textOf(payload.task_id),
      started_at: started,
      last_at: ended,
      ended_at: outcome === null ? null : ended,
      duration_ms: started !== null && ended !== null ? Date.parse(ended) - Date.parse(started) : null,
      events: index.total,
      artifacts: this.#cap.artifacts.size,
      bytes: this.#cap.ledger.length,
      head: hashOf(last, 'event_hash'),
      participants: index.people(),
      unreadable: null,
      verdict: null,
      log: null,
      links: payload.links ?? null,
      opened: shortened(payload),
      reports: this.#cap.report === null ? 0 : 1,
    };
  }

  /** The first event that ends a trace of this kind counts. Ends stand at the end: few lines are looked at. */
  #outcome() {
    const index = this.#index;
    for (let at = index.total - 1; at >= 0 && at >= index.total - PAGE_MAX; at -= 1) {
      const outcome = outcomeOf(this.#cap.about.kind, index.read(at).event);
      if (outcome !== null) return outcome;
    }
    return null;
  }

  async facets({ signal } = {}) {
    const { types, roles, actors } = await this.#index.scan(signal);
    return { total: this.#index.total, types: types.facet(), roles: roles.facet(), actors: actors.facet() };
  }

  async events(filter, offset = 0, limit = 100, { signal } = {}) {
    const index = this.#index;
    const places = await this.#matching(filter ?? {}, signal);
    const matched = places === null ? index.total : places.length;
    const items = [];
    for (let at = offset; at < Math.min(matched, offset + Math.min(limit, PAGE_MAX)); at += 1) {
      items.push(index.item(places === null ? at : places[at]));
    }
    return { items, offset, matched, total: index.total };
  }

  async #matching(filter, signal) {
    const key = JSON.stringify([filter.type, filter.role, filter.actor, filter.text]);
    if (!this.#matches.has(key)) {
      const places = await this.#index.matching(filter, signal);
      this.#matches.set(key, places);
      if (this.#matches.size > FILTERS_KEPT) this.#matches.delete(this.#matches.keys().next().value);
      return places;
    }
    return this.#matches.get(key);
  }

  async event(index, { signal } = {}) {
    const ledger = this.#index;
    if (!(index >= 0 && index < ledger.total)) {
      throw Object.assign(new Error(`the file has no event ${index}`), { code: 'not_found', status: 404 });
    }
    const { event, unreadable } = ledger.read(index);
    const bytes = ledger.line(index);
    const { references } = await ledger.scan(signal);
    const named = (place, rel) => {
      const other = place < ledger.total ? ledger.read(place).event : null;
      return { rel, index: place, event_id: textOf(other?.event_id), event_type: textOf(other?.event_type) };
    };
    const to = referencesIn(event?.payload).slice(0, PAGE_MAX).map(({ rel, eventId, seq }) => {
      const found = named(seq, rel);
      return found.event_id === eventId ? found : { rel, index: null, event_id: eventId, event_type: null };
    });
    const from = references.filter(([seq, by]) => seq === index && by !== index).slice(0, PAGE_MAX)
      .map(([, by, rel]) => named(by, rel));
    const listed = Array.isArray(event?.artifacts) ? event.artifacts : [];
    return {
      index,
      total: ledger.total,
      event,
      unreadable,
      line: lineText(bytes),
      line_b64: base64(bytes),
      checks: this.#checks(index, bytes, event),
      findings: this.#report.failures.filter((one) => one.index === index),
      links: { to, from },
      artifacts: listed.map((one) => ({ ...one, present: this.#cap.artifacts.has(one?.artifact_hash) })),
    };
  }

  #checks(index, bytes, event) {
    if (event === null) return null;
    let reading;
    try {
      reading = takeApart(bytes);
    } catch {
      return null;
    }
    const before = index === 0 ? null : this.#index.read(index - 1).event;
    return {
      canonical: !reading.notCanonical,
      payload_hash: { stated: hashOf(event, 'payload_hash'), computed: reading.payloadHash },
      event_hash: { stated: hashOf(event, 'event_hash'), computed: reading.eventHash },
      previous: {
        stated: hashOf(event, 'prev_event_hash'), computed: index === 0 ? GENESIS : hashOf(before, 'event_hash'),
      },
      signature: this.#signature(index, event),
    };
  }

  /** What the report says of a signature: it tells at the first of several in a row that they fail. */
  #signature(index, event) {
    const found = this.#report.failures.find((one) => {
      if (!['CHK_SIGNATURE_VALIDITY', 'CHK_KEY_STATUS'].includes(one.check_id) || one.index === null) return false;
      const last = RUN.exec(one.message);
      return index >= one.index && index <= (last === null ? one.index : Number(last[1]));
    });
    const known = { key_id: textOf(event.actor?.key_id), agent_id: textOf(event.actor?.agent_id) };
    if (found !== undefined) {
      const unknown = found.message.startsWith('the key is not known');
      const status = found.failure_code === 'SIG_MISSING' ? 'missing' : unknown ? 'unknown-key' : 'invalid';
      return { ...known, status, reason: found.message };
    }
    const missing = event.signature === undefined || event.signature === null;
    return { ...known, status: missing ? 'missing' : 'valid', reason: null };
  }

  async artifact(hash, { from = 0, to = null } = {}) {
    const kept = this.#cap.artifacts.get(hash);
    if (kept === undefined) return null;
    const size = kept instanceof Blob ? kept.size : kept.length;
    const part = kept.slice(from, to ?? size);
    return { bytes: part instanceof Blob ? new Uint8Array(await part.arrayBuffer()) : part, size };
  }

  async ledger() {
    return new Blob([this.#cap.ledger]).stream();
  }
}

function lineText(bytes) {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}
