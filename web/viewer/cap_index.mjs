// A ledger that lies in memory, cut into lines: each found by its number, all of them by type, role, actor and
// text. What is kept of a line is a few numbers; lines are read again when they are shown.

const LONG_LINE = 16_384;
const TEXT_KEPT = 200;
const LINES_AT_ONCE = 2_000;
const NAMES_MAX = 4_096;
const REFERENCES_MAX = 2_000_000;
const DEPTH_MAX = 64;
const PEOPLE_LINES = 500;
const PEOPLE_MAX = 64;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The names that occur, each with a number. Beyond a bound they are one name. */
class Names {
  #numbers = new Map();
  names = [];
  counts = [];

  number(name) {
    let known = this.#numbers.get(name);
    if (known === undefined) {
      if (this.names.length >= NAMES_MAX) return this.number('…');
      known = this.names.length;
      this.#numbers.set(name, known);
      this.names.push(name);
      this.counts.push(0);
    }
    this.counts[known] += 1;
    return known;
  }

  facet() {
    return this.names.map((name, at) => ({ name, count: this.counts[at] }))
      .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
  }
}

/** Every `{ event_id, seq }` in a value, with the name of the member that holds it. */
export function referencesIn(value, name = 'payload', depth = 0, found = []) {
  if (value === null || typeof value !== 'object' || depth > DEPTH_MAX) return found;
  if (Array.isArray(value)) {
    for (const element of value) referencesIn(element, name, depth + 1, found);
    return found;
  }
  if (typeof value.event_id === 'string' && Number.isInteger(value.seq)) {
    found.push({ rel: name, eventId: value.event_id, seq: value.seq });
  }
  for (const [key, member] of Object.entries(value)) referencesIn(member, key, depth + 1, found);
  return found;
}

/** Gives others their turn. */
const breathe = () => new Promise((resolve) => {
  setTimeout(resolve, 0);
});

/** The lines of a ledger. */
export class LedgerIndex {
  #bytes;
  #starts;
  #scanned = null;

  constructor(bytes) {
    this.#bytes = bytes;
    const starts = [];
    for (let start = 0; start < bytes.length;) {
      starts.push(start);
      const end = bytes.indexOf(10, start);
      start = end < 0 ? bytes.length : end + 1;
    }
    this.#starts = Float64Array.from(starts);
  }

  /** How many lines there are. */
  get total() {
    return this.#starts.length;
  }

  /** The bytes of a line, without its line feed. */
  line(index) {
    const start = this.#starts[index];
    const next = this.#starts[index + 1] ?? this.#bytes.length;
    const end = this.#bytes[next - 1] === 10 ? next - 1 : next;
    return this.#bytes.subarray(start, end);
  }

  /** `{ event, unreadable }` of a line. */
  read(index) {
    try {
      const event = JSON.parse(decoder.decode(this.line(index)));
      if (event === null || typeof event !== 'object' || Array.isArray(event)) throw new Error('it is no object');
      return { event, unreadable: null };
    } catch (error) {
      return { event: null, unreadable: `the line is no event: ${error.message}` };
    }
  }

  /** A line as lists show it: long ones with the plain members of their payload only. */
  item(index) {
    const { event, unreadable } = this.read(index);
    const bytes = this.line(index).length + 1;
    const cut = event !== null && bytes > LONG_LINE;
    return { index, bytes, event: cut ? { ...event, payload: shortened(event.payload) } : event, cut, unreadable };
  }

  /** Who acts in the first lines: each agent with each of its roles. */
  people() {
    const found = new Map();
    for (let index = 0; index < Math.min(this.total, PEOPLE_LINES); index += 1) {
      const { role, agent_id: agent } = this.read(index).event?.actor ?? {};
      const known = typeof agent === 'string' && found.size < PEOPLE_MAX;
      if (known) found.set(`${agent} ${role}`, { agent_id: agent, role });
    }
    return [...found.values()];
  }

  /** Looks at every line once: types, roles, actors, and which event names which. */
  scan(signal) {
    this.#scanned ??= this.#scan();
    return signal ? abortable(this.#scanned, signal) : this.#scanned;
  }

  async #scan() {
    const { total } = this;
    const [types, roles, actors] = [new Names(), new Names(), new Names()];
    const columns = [types, roles, actors].map(() => new Uint16Array(total));
    const references = [];
    for (let index = 0; index < total; index += 1) {
      const { event } = this.read(index);
      const { role, agent_id: agent } = event?.actor ?? {};
      columns[0][index] = types.number(String(event?.event_type ?? ''));
      columns[1][index] = roles.number(String(role ?? ''));
      columns[2][index] = actors.number(String(agent ?? ''));
      if (references.length < REFERENCES_MAX) {
        for (const { rel, seq } of referencesIn(event?.payload)) references.push([seq, index, rel]);
      }
      if (index % LINES_AT_ONCE === LINES_AT_ONCE - 1) await breathe();
    }
    return { types, roles, actors, columns, references };
  }

  /** The places of the lines that fit a filter; null for all. */
  async matching({ type = [], role = [], actor = [], text = '' }, signal) {
    const wanted = [type, role, actor].map((one) => (Array.isArray(one) ? one : [one]).filter((name) => name));
    const sought = text === '' ? null : lowered(new TextEncoder().encode(text));
    if (sought === null && wanted.every((one) => one.length === 0)) return null;
    const { types, roles, actors, columns } = await this.scan(signal);
    const numbers = [types, roles, actors]
      .map(({ names }, at) => new Set(wanted[at].map((name) => names.indexOf(name))));
    const found = [];
    for (let index = 0; index < this.total; index += 1) {
      const fits = columns.every((column, at) => wanted[at].length === 0 || numbers[at].has(column[index]));
      if (fits && (sought === null || holds(this.line(index), sought))) found.push(index);
      if (index % LINES_AT_ONCE === LINES_AT_ONCE - 1) {
        await breathe();
        signal?.throwIfAborted();
      }
    }
    return found;
  }
}

const abortable = (promise, signal) => promise.then((value) => {
  signal.throwIfAborted();
  return value;
});

const lower = (byte) => (byte >= 65 && byte <= 90 ? byte + 32 : byte);
const lowered = (bytes) => bytes.map(lower);

/** Whether a line holds a text, with ASCII letters of either case. */
function holds(line, sought) {
  const last = line.length - sought.length;
  for (let at = 0; at <= last; at += 1) {
    let same = 0;
    while (same < sought.length && lower(line[at + same]) === sought[same]) same += 1;
    if (same === sought.length) return true;
  }
  return false;
}

/** The plain members of a payload, their texts shortened. */
export function shortened(payload) {
  const members = Object.entries(payload ?? {}).filter(([, value]) => value === null || typeof value !== 'object');
  return Object.fromEntries(members.map(([key, value]) =>
    [key, typeof value === 'string' ? [...value.slice(0, 2 * TEXT_KEPT)].slice(0, TEXT_KEPT).join('') : value]));
}
