// Strict JSON and its canonical form (docs/formats/canonical-json.md).
//
// A value is null, a boolean, a string, an Array, a Map, a Number for an integer token, or a `Real`
// for any other number: `1.0` and `1` are the same number, but only one of them is an integer.

/** Bytes of one JSON text, and of one line of a ledger. */
export const TEXT_BYTES_MAX = 1 << 20;
const DEPTH_MAX = 64;
const ELEMENTS_MAX = 100_000;
const RESERVED = '$serde_json::private::';

/** Why the strict reader refuses a text; `reason` is the one that the vectors name. */
export class Refusal extends Error {
  constructor(reason) {
    super(`not strict JSON: ${reason}`);
    this.reason = reason;
  }
}

/** A number that is not written as an integer. */
export class Real {
  constructor(value) {
    this.value = value;
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Reads one JSON text: `{ value, text, canonical, members }`. `canonical` says whether the bytes
 * are the canonical form; `members` are those of an outermost object, as `[key, start, end]` with
 * the places in `text` where the key begins and the value ends.
 */
export function read(bytes, limit = TEXT_BYTES_MAX, elements = ELEMENTS_MAX) {
  if (bytes.length > limit) throw new Refusal('too-long');
  let text;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw new Refusal('invalid-utf8');
  }
  return readText(text, elements);
}

/** As `read`, of a text whose length and characters are known to be fine. */
export function readText(text, elements = ELEMENTS_MAX) {
  const reader = new Reader(text, elements);
  const value = reader.document();
  return { value, text, canonical: reader.canonical, members: reader.members };
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
// Everything that may stand in a string as it is. Lone surrogates cannot come from UTF-8.
// eslint-disable-next-line no-control-regex
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const WORDS = [['true', true], ['false', false], ['null', null]];

class Reader {
  constructor(text, elementsMax) {
    this.text = text;
    this.elementsMax = elementsMax;
    this.at = 0;
    this.depth = 0;
    this.elements = 0;
    this.canonical = true;
    this.members = [];
  }

  document() {
    if (this.text.startsWith('\ufeff')) throw new Refusal('byte-order-mark');
    this.space();
    const value = this.value();
    this.space();
    if (this.at < this.text.length) throw new Refusal('text-after-value');
    return value;
  }

  space() {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x09 && code !== 0x0a && code !== 0x0d) return;
      this.canonical = false;
      this.at += 1;
    }
  }

  value() {
    const char = this.text[this.at];
    switch (char) {
      case '{': return this.object();
      case '[': return this.array();
      case '"': return this.string();
      default: return char === '-' || (char >= '0' && char <= '9') ? this.number() : this.word();
    }
  }

  word() {
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    throw new Refusal('syntax');
  }

  number() {
    NUMBER.lastIndex = this.at;
    const token = NUMBER.exec(this.text)?.[0];
    if (token === undefined) throw new Refusal('syntax');
    this.at += token.length;
    // `1.`, `1e` and `01` begin like numbers and are none.
    if (/[0-9.eE+-]/.test(this.text[this.at] ?? '')) throw new Refusal('syntax');
    const value = Number(token);
    if (String(value === 0 ? 0 : value) !== token) this.canonical = false;
    if (!/[.eE]/.test(token)) {
      if (!Number.isSafeInteger(value)) throw new Refusal('integer-range');
      return value === 0 ? 0 : value;
    }
    if (!Number.isFinite(value)) throw new Refusal('overflow');
    if (value === 0 && /[1-9]/.test(token.split(/[eE]/)[0])) throw new Refusal('underflow');
    const size = Math.abs(value);
    if (Number.isInteger(value) && size > Number.MAX_SAFE_INTEGER && size < 1e21) {
      throw new Refusal('integer-range');
    }
    return new Real(value);
  }

  string() {
    const start = this.at;
    this.at += 1;
    let value = '';
    let escaped = false;
    for (;;) {
      PLAIN.lastIndex = this.at;
      const plain = PLAIN.exec(this.text)[0];
      value += plain;
      this.at += plain.length;
      const char = this.text[this.at];
      if (char === undefined) throw new Refusal('syntax');
      if (char === '"') break;
      if (char !== '\\') throw new Refusal('raw-control-character');
      escaped = true;
      value += this.escape();
    }
    this.at += 1;
    if (escaped && string(value) !== this.text.slice(start, this.at)) this.canonical = false;
    return value;
  }

  escape() {
    const kind = this.text[this.at + 1];
    if (kind === undefined) throw new Refusal('syntax');
    if (kind !== 'u') {
      if (!Object.hasOwn(ESCAPES, kind)) throw new Refusal('unknown-escape');
      this.at += 2;
      return ESCAPES[kind];
    }
    const unit = this.unit();
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    if (unit > 0xdbff || !this.text.startsWith('\\u', this.at)) throw new Refusal('lone-surrogate');
    const low = this.unit();
    if (low < 0xdc00 || low > 0xdfff) throw new Refusal('lone-surrogate');
    return String.fromCharCode(unit, low);
  }

  unit() {
    const digits = this.text.slice(this.at + 2, this.at + 6);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new Refusal('syntax');
    this.at += 6;
    return parseInt(digits, 16);
  }

  open() {
    this.depth += 1;
    if (this.depth > DEPTH_MAX) throw new Refusal('too-deep');
    this.at += 1;
    this.space();
  }

  element() {
    this.elements += 1;
    if (this.elements > this.elementsMax) throw new Refusal('too-many-elements');
  }

  /** After an element: whether another one follows. */
  more(close) {
    this.space();
    const char = this.text[this.at];
    if (char !== ',' && char !== close) throw new Refusal('syntax');
    this.at += 1;
    if (char === close) return false;
    this.space();
    return true;
  }

  array() {
    this.open();
    const value = [];
    if (this.text[this.at] === ']') this.at += 1;
    else do {
      this.element();
      value.push(this.value());
    } while (this.more(']'));
    this.depth -= 1;
    return value;
  }

  object() {
    this.open();
    const value = new Map();
    const outermost = this.depth === 1;
    let last = null;
    if (this.text[this.at] === '}') this.at += 1;
    else do {
      if (this.text[this.at] !== '"') throw new Refusal('syntax');
      this.element();
      const start = this.at;
      const key = this.string();
      if (key.startsWith(RESERVED)) throw new Refusal('reserved-key');
      if (value.has(key)) throw new Refusal('duplicate-key');
      // Strings compare by UTF-16 code units here, as the canonical order asks.
      if (last !== null && !(last < key)) this.canonical = false;
      last = key;
      this.space();
      if (this.text[this.at] !== ':') throw new Refusal('syntax');
      this.at += 1;
      this.space();
      value.set(key, this.value());
      if (outermost) this.members.push([key, start, this.at]);
    } while (this.more('}'));
    this.depth -= 1;
    return value;
  }
}

const SHORT = { '"': '\\"', '\\': '\\\\', '\b': '\\b', '\t': '\\t', '\n': '\\n', '\f': '\\f', '\r': '\\r' };

/** The canonical form of a string. */
export function string(text) {
  // eslint-disable-next-line no-control-regex
  const escaped = text.replace(/["\\\u0000-\u001f]/g, (char) =>
    SHORT[char] ?? `\\u00${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `"${escaped}"`;
}

const number = (value) => String(value === 0 ? 0 : value);

/** The canonical form of a value; plain objects of this program count as objects. */
export function write(value) {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return string(value);
  if (typeof value === 'number') return number(value);
  if (value instanceof Real) return number(value.value);
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
  const members = value instanceof Map ? [...value] : Object.entries(value);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([key, member]) => `${string(key)}:${write(member)}`).join(',')}}`;
}

/** Objects and lists in a JSON text, counted without reading it. */
export function containers(bytes) {
  let count = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === 0x7b || byte === 0x5b) count += 1;
    if (byte !== 0x22) continue;
    for (at += 1; at < bytes.length && bytes[at] !== 0x22; at += 1) if (bytes[at] === 0x5c) at += 1;
  }
  return count;
}
