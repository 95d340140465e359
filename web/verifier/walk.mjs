// One line after the other: bytes, schema, hashes, chain, time (docs/formats/report.md). The same
// for traces and for the log.

import { unhex } from './bytes.mjs';
import { eventFaults, text } from './check.mjs';
import { hashMember, takeApart } from './event.mjs';
import { isTime, isUlid } from './forms.mjs';
import { Refusal } from './json.mjs';
import { Frontier } from './merkle.mjs';

const GENESIS = '0'.repeat(64);
const FAULTS_SHOWN = 8;
/** Ids that are remembered behind a break, to tell a repeated event from one that was moved. */
const IDS_AFTER_BREAK_MAX = 4_096;

/** A line with what it says, as `reading`, or why nothing can be read from it, as `refusal`. */
export function examine({ kind, bytes }) {
  if (kind !== 'line' && kind !== 'tail') return { kind, reading: null, refusal: null };
  try {
    return { kind, reading: takeApart(bytes), refusal: null };
  } catch (error) {
    if (error instanceof Refusal) return { kind, reading: null, refusal: error };
    throw error;
  }
}

/** Where the walk through a ledger stands. */
export class Walk {
  /** Lines seen. */
  index = 0;
  /** Stated hash of the last event. */
  head = GENESIS;
  /** The tree over the stated hashes. */
  tree = new Frontier();
  /** Place of the first event that does not follow. */
  firstBreak = null;
  /** Whether every event so far could be taken at its word: rules are replayed no further. */
  sound = true;
  /** The first line with something wrong in its bytes, hashes, order, time or, told by the caller, signature. */
  #firstFault = Infinity;
  /** The last such line. */
  #lastFault = null;
  /** Whether there are lines of which nothing is known, here or behind the last one. */
  blind = false;
  dialect = null;
  /** The latest time of all events so far. */
  lastAt = null;
  #lastId = null;
  /** `#lastId` as it was before the present event. */
  #idBefore = null;
  /** Ids since the break, of a trace of schema 1.0 all ids. */
  #seenIds = new Set();

  constructor(profile, findings, traceId) {
    this.profile = profile;
    this.findings = findings;
    this.traceId = traceId;
  }

  /** Takes the next line in, as `examine` gives it: a step, or null where nothing can be read from it. */
  line({ kind, reading, refusal }) {
    if (kind === 'tail') return this.#tail(reading);
    if (kind === 'long') return this.#unreadable('the line is longer than an event may be');
    if (kind === 'endless') return this.#unreadable('the line is too long to look for its end: nothing more was read');
    return reading === null ? this.#unreadable(refusal.message) : this.#step(reading);
  }

  /** The last bytes of a ledger. A whole event that only lacks its line feed counts. */
  #tail(reading) {
    const place = { index: this.index };
    if (reading === null || reading.notCanonical || hashMember(reading, 'event_hash') !== reading.eventHash) {
      const message = 'an incomplete line at the end, which is no event';
      this.findings.warn('CHK_SCHEMA_CONFORMANCE', 'TORN_TAIL', place, message);
      return null;
    }
    const message = 'the last line has no line feed';
    this.findings.warn('CHK_SCHEMA_CONFORMANCE', 'MISSING_FINAL_NEWLINE', place, message);
    return this.#step(reading);
  }

  #fault(index) {
    this.#firstFault = Math.min(this.#firstFault, index);
    this.#lastFault = index;
  }

  /** Notes that the signature of the line that was read last is not in order. */
  signatureFailed() {
    this.#fault(this.index - 1);
  }

  /** Whether something was wrong with one of the first `count` lines. */
  failedWithin(count) {
    return this.#firstFault < count;
  }

  /** Whether something was wrong with this line, the last one that was read. */
  failedAt(index) {
    return this.#lastFault === index;
  }

  #unreadable(message) {
    this.findings.fail('CHK_SCHEMA_CONFORMANCE', 'SCHEMA_INVALID', { index: this.index }, message);
    this.sound = false;
    this.#fault(this.index);
    this.blind = true;
    this.index += 1;
    return null;
  }

  #step(reading) {
    const { index } = this;
    const place = { index, eventId: text(reading.value, 'event_id') };
    const { event, foreign } = this.#schema(reading, place);
    this.#hashes(reading, place);
    this.#chain(reading, place);
    this.#time(reading, place);
    this.index += 1;
    return { index, place, reading, event, foreign };
  }

  /** The event, if its form holds and it belongs here, and whether it is of another trace. One cause, one failure. */
  #schema(reading, place) {
    const own = reading.notCanonical ? ['not the canonical bytes of its content'] : [];
    const faults = eventFaults(reading.value);
    own.push(...faults.slice(0, FAULTS_SHOWN).map(({ pointer, message }) => `${pointer}: ${message}`));
    this.dialect ??= reading.dialect;
    if (this.dialect !== reading.dialect) own.push('/schema_version: not that of the first event');
    const stated = text(reading.value, 'trace_id');
    this.traceId ??= stated ?? null;
    this.#idBefore = this.#lastId;
    const foreign = stated !== undefined && stated !== this.traceId;
    own.push(...(foreign ? [`/trace_id: this trace is ${this.traceId}`] : this.#id(reading)));
    if (own.length > 0) {
      this.sound = false;
      this.#fault(this.index);
      this.findings.fail('CHK_SCHEMA_CONFORMANCE', 'SCHEMA_INVALID', place, own.join('; '));
    }
    return { event: faults.length === 0 && !foreign ? reading.value : null, foreign };
  }

  /** Ids rise; behind a break, where order means nothing any more, none comes twice. */
  #id(reading) {
    const id = text(reading.value, 'event_id');
    if (id === undefined) return [];
    if (this.dialect === '1.0' || this.firstBreak !== null) {
      if (this.dialect === '1.1' && !isUlid(id, '1.1')) return [];
      const used = this.#seenIds.has(id)
        || (this.dialect === '1.1' && this.#lastId !== null && id <= this.#lastId);
      if (this.dialect === '1.0' || this.#seenIds.size < IDS_AFTER_BREAK_MAX) this.#seenIds.add(id);
      return used ? ['/event_id: used before in this trace'] : [];
    }
    if (!isUlid(id, '1.1')) return [];
    const falls = this.#lastId !== null && id <= this.#lastId;
    this.#lastId = id;
    return falls ? ['/event_id: ids must increase within a trace'] : [];
  }

  #hashes(reading, place) {
    const payload = hashMember(reading, 'payload_hash');
    const event = hashMember(reading, 'event_hash');
    let message = null;
    if (payload !== null && reading.payloadHash !== null && payload !== reading.payloadHash) {
      message = `the payload hashes to ${reading.payloadHash}, the event states ${payload}`;
    } else if (event !== null && event !== reading.eventHash) {
      message = `the event hashes to ${reading.eventHash}, it states ${event}`;
    }
    if (message === null) return;
    this.sound = false;
    this.#fault(this.index);
    this.findings.fail('CHK_EVENT_HASH_INTEGRITY', 'HASH_MISMATCH', place, message);
  }

  /** Only the first break is told: everything after it is out of order for the same cause. */
  #chain(reading, place) {
    const previous = hashMember(reading, 'prev_event_hash');
    const seq = reading.value.get('seq');
    let message = null;
    if (previous !== null && previous !== this.head) {
      message = `expected previous ${this.head}, found ${previous}`;
    } else if (typeof seq === 'number' && seq >= 0 && seq !== this.index) {
      message = `event ${this.index} says that it is number ${seq}`;
    }
    if (message !== null && this.firstBreak === null) {
      const last = this.index === 0 ? 'no event is in order' : `the last event in order is ${this.index - 1}`;
      this.findings.fail('CHK_CHAIN_CONTINUITY', 'CHAIN_BREAK', place, `${message}; ${last}`);
      this.firstBreak = this.index;
      // Ids behind the break are above those before it; this event's own is the first of them.
      if (this.#lastId !== this.#idBefore) this.#seenIds.add(this.#lastId);
      this.#lastId = this.#idBefore;
      this.sound = false;
      this.#fault(this.index);
    }
    this.head = hashMember(reading, 'event_hash') ?? reading.eventHash;
    this.tree.push(unhex(this.head));
  }

  #time(reading, place) {
    const at = text(reading.value, 'created_at');
    if (at === undefined || !isTime(at)) return;
    if (this.lastAt !== null && at < this.lastAt) {
      const message = `the event says ${at}, one before ${this.lastAt}`;
      if (this.profile.timeNeverFalls) {
        this.#fault(this.index);
        this.findings.fail('CHK_SCHEMA_CONFORMANCE', 'SCHEMA_INVALID', place, message);
      } else {
        this.findings.warn('CHK_SCHEMA_CONFORMANCE', 'CLOCK_REGRESSION', place, message);
      }
    }
    if (this.lastAt === null || at > this.lastAt) this.lastAt = at;
  }
}
