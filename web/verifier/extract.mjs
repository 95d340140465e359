// An extract of a log, taken at its word as far as it proves itself (docs/formats/proof.md#extract-of-the-log).
// What lies between its entries is not looked at: nobody can.

import { unhex, utf8 } from './bytes.mjs';
import { eventFaults, text } from './check.mjs';
import { VerifyingKey } from './ed25519.mjs';
import { hashMember, takeApart } from './event.mjs';
import { isHash } from './forms.mjs';
import { Refusal, read } from './json.mjs';
import { checkSignature } from './keys.mjs';
import { KEY_EVENTS, LOG_PROFILE, LogView, Rules, Sizes, factOf } from './log.mjs';
import { isIncluded } from './merkle.mjs';
import { isSigned, parseCheckpoint } from './note.mjs';
import { Findings } from './report.mjs';

const BYTES_MAX = 8 << 20;
const ELEMENTS_MAX = 400_000;
const ENTRIES_MAX = 100_000;
const PATH_MAX = 64;
const GENESIS = '0'.repeat(64);

const isObjectOf = (value, names) => value instanceof Map && value.size === names.length
  && names.every((name) => value.has(name));

/** Reads the bytes of an extract: `{ checkpoint, entries }`. Throws an Error that says what it is not. */
export function readExtract(bytes) {
  const found = readCanonical(bytes, BYTES_MAX, ELEMENTS_MAX);
  const { value } = found;
  if (!isObjectOf(value, ['checkpoint', 'entries'])) throw new Error('it has other members than an extract');
  const [checkpoint, entries] = [text(value, 'checkpoint'), value.get('entries')];
  if (!checkpoint || !Array.isArray(entries)) throw new Error('it has no checkpoint or no entries');
  if (entries.length > ENTRIES_MAX) throw new Error(`it has more than ${ENTRIES_MAX} entries`);
  return { checkpoint, entries: entries.map(readEntry) };
}

/** The value of canonical JSON that a line feed follows. */
export function readCanonical(bytes, limit, elements) {
  if (bytes.at(-1) !== 10) throw new Error('no line feed ends it');
  let found;
  try {
    found = read(bytes.subarray(0, -1), limit, elements);
  } catch (error) {
    if (error instanceof Refusal) throw new Error(error.message);
    throw error;
  }
  if (!found.canonical) throw new Error('it is not in its canonical bytes');
  return found;
}

function readEntry(entry) {
  if (!isObjectOf(entry, ['index', 'line', 'path'])) throw new Error('an entry has other members than it may');
  const [index, line, path] = [entry.get('index'), text(entry, 'line'), entry.get('path')];
  if (typeof index !== 'number' || index < 0 || !line || !Array.isArray(path)) {
    throw new Error('an entry is misshapen');
  }
  if (path.length > PATH_MAX) throw new Error('a path is too long');
  if (!path.every((node) => typeof node === 'string' && isHash(node))) throw new Error('a path is none');
  return { index, line, path };
}

/** What is wrong with an entry or the whole; ends the reading. */
class Broken extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const broken = (code, message) => { throw new Broken(code, message); };

/** A valid event of schema 1.1 with right hashes, as a step. */
function soundLine(line) {
  const invalid = (message) => broken('SCHEMA_INVALID', message);
  let reading;
  try {
    reading = takeApart(utf8(line));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    invalid(error.message);
  }
  if (reading.notCanonical) invalid('not the canonical bytes of its content');
  const [fault] = eventFaults(reading.value);
  if (fault !== undefined) invalid(`${fault.pointer}: ${fault.message}`);
  if (reading.dialect !== '1.1') invalid('/schema_version: entries are of schema 1.1');
  if (hashMember(reading, 'payload_hash') !== reading.payloadHash) {
    broken('HASH_MISMATCH', 'the payload has another hash');
  }
  if (hashMember(reading, 'event_hash') !== reading.eventHash) broken('HASH_MISMATCH', 'the event has another hash');
  const index = reading.value.get('seq');
  if (typeof index !== 'number') invalid('/seq: missing');
  return { index, place: { index, eventId: text(reading.value, 'event_id') }, reading, event: reading.value };
}

class ExtractWalk {
  view = new LogView();
  #rules = new Rules();
  #sizes = new Sizes();
  #logId = '';
  #last = null;
  /** Hashes of all entries, and of the key events among them, by place. */
  hashes = new Map();
  #keyEvents = [];

  constructor(traceId, tree) {
    this.traceId = traceId;
    this.tree = tree;
  }

  async entry(entry) {
    const step = soundLine(entry.line);
    this.#place(entry, step);
    const fact = factOf(step);
    this.view.meetRoot(step, fact);
    await this.#signature(step);
    this.#obey(fact);
    this.view.learnKeys(step, fact, this.#rules.rootKeyId);
    this.view.collect(fact, step.index, this.traceId);
    if (KEY_EVENTS.includes(fact.type)) this.#keyEvents.push({ index: step.index, hash: fact.hash });
    this.#rules.apply(fact);
  }

  /** It is where it says, in the log that the checkpoint is of. */
  #place({ index, path }, step) {
    const misplaced = (message) => broken('CHAIN_BREAK', message);
    const [id, hash] = [step.place.eventId, text(step.event, 'event_hash')];
    const previous = text(step.event, 'prev_event_hash');
    if (step.index !== index) misplaced(`the event says that it is number ${step.index}`);
    if (index === 0) this.#logId = id;
    if (this.#last === null) {
      if (index !== 0) misplaced('the entries before are missing');
      if (previous !== GENESIS) misplaced('the first entry follows another one');
    } else {
      if (index <= this.#last.index || id <= this.#last.id) misplaced('entries and their ids must rise');
      const next = index === this.#last.index + 1;
      if (next && previous !== this.#last.hash) misplaced('it does not follow the one before');
    }
    if (text(step.event, 'trace_id') !== this.#logId) broken('SCHEMA_INVALID', '/trace_id: not that of the log');
    const { size, root } = this.tree;
    if (!isIncluded(unhex(hash), index, size, path.map(unhex), unhex(root))) {
      misplaced('not in the tree of the checkpoint');
    }
    this.#last = { index, hash, id };
    this.hashes.set(index, hash);
  }

  async #signature(step) {
    const found = new Findings();
    const outcome = await checkSignature(step, this.view.logBook, LOG_PROFILE, found);
    const [failure] = found.failures;
    if (failure !== undefined) broken(failure.failure_code, failure.message);
    if (outcome !== 'counts') broken('SIG_INVALID', 'the signature does not count');
  }

  /** The rules of the log. Of other traces not all entries are here, so what is said of them is left out. */
  #obey(fact) {
    const refused = (message) => (message === null ? null : broken('ROLE_POLICY_VIOLATION', message));
    refused(this.#rules.refusedPlace(fact));
    const head = this.#rules.refusedHead(fact);
    // This is what shows that no key event was left out.
    if (head !== null) broken('CHAIN_BREAK', head);
    refused(this.#rules.refusedKeys(fact));
    if (fact.word('trace_id') === this.traceId) refused(this.#rules.refusedTrace(fact) ?? this.#sizes.refusal(fact));
  }

  /** Nothing is missing at the end, and the checkpoint speaks for this log. */
  async end(checkpoint) {
    const { size, origin } = this.tree;
    if (size === 0 || this.#last?.index !== size - 1) {
      broken('CHAIN_BREAK', `the last of the log's ${size} entries is not there: a key event could be missing`);
    }
    if (origin !== this.#rules.origin) broken('CHAIN_BREAK', 'the checkpoint is of another log');
    // All hangs on this note: a key that was retired does not count.
    if (!await isSigned(checkpoint, this.recorders((key) => key.active))) {
      broken('SIG_INVALID', 'the checkpoint is not signed by an active recorder key of this log');
    }
    this.view.origin = origin;
    this.view.entries = size;
  }

  /** The recorder keys that count. */
  recorders(counts = () => true) {
    return [...this.#rules.keys.values()]
      .filter((key) => counts(key) && key.roles.includes('recorder') && key.keyId !== this.#rules.rootKeyId)
      .map((key) => new VerifyingKey(key.bytes));
  }

  /** Whether the log is as it was when a trace began that names it so. */
  holds(pin) {
    const keysHead = this.#keyEvents.filter(({ index }) => index < pin.size).at(-1)?.hash;
    return this.hashes.get(pin.size - 1) === pin.head && keysHead === pin.keysHead;
  }
}

/**
 * What an extract says of a trace, as `readLog` says it of a log: `{ view, holds(pin), checkpoint, hashes,
 * recorders }`, with the hashes of all entries by place, and all recorder keys; null if it does not hold, which
 * is then among the findings.
 */
export async function viewOfExtract(extract, traceId, findings) {
  const fail = (code, message) => findings.fail('CHK_LOG', code, {}, message);
  const checkpoint = parseCheckpoint(utf8(extract.checkpoint));
  if (checkpoint === null) {
    fail('SCHEMA_INVALID', 'the checkpoint of the extract is none, or no signed note');
    return null;
  }
  const walk = new ExtractWalk(traceId, checkpoint);
  let at = null;
  try {
    for (const entry of extract.entries) {
      at = entry.index;
      await walk.entry(entry);
    }
    at = null;
    await walk.end(checkpoint);
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    fail(error.code, at === null ? error.message : `log entry ${at}: ${error.message}`);
    return null;
  }
  const { view, hashes } = walk;
  return { view, holds: (pin) => walk.holds(pin), checkpoint, hashes, recorders: walk.recorders() };
}
