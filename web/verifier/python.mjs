// JSON as Python reads and writes it, which receipts of CapSeal's are made of (docs/formats/receipts.md#reading).
//
// A value is null, a boolean, a string, an Array, a Map, a BigInt for an integer token, or a Number for any
// other number. Strings may hold lone surrogates, as Python's do.

import { float, string } from './receipts.mjs';

const TEXT_BYTES_MAX = 1 << 20;
const DEPTH_MAX = 64;
const ELEMENTS_MAX = 100_000;
const DIGITS_MAX = 4_300;
const FLOAT_BYTES_MAX = 16_384;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const NUMBER = /(-?)(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
// eslint-disable-next-line no-control-regex
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const WORDS = [['true', true], ['false', false], ['null', null], ['NaN', NaN], ['Infinity', Infinity],
  ['-Infinity', -Infinity]];

const refuse = (message) => { throw new SyntaxError(message); };

/** Reads one document as `json.loads` does. Throws a SyntaxError where it is none. */
export function loads(bytes) {
  if (bytes.length > TEXT_BYTES_MAX) refuse('it is too long');
  let text;
  try {
    text = decoder.decode(bytes);
  } catch {
    return refuse('it is not UTF-8');
  }
  if (text.startsWith('\ufeff')) refuse('it begins with a byte order mark');
  const reader = new Reader(text);
  return reader.document();
}

class Reader {
  #text;
  #at = 0;
  #depth = 0;
  #elements = 0;

  constructor(text) {
    this.#text = text;
  }

  document() {
    this.#space();
    const value = this.#value();
    this.#space();
    return this.#at === this.#text.length ? value : refuse('something follows the value');
  }

  #space() {
    while (' \t\n\r'.includes(this.#text[this.#at] ?? 'x')) this.#at += 1;
  }

  #value() {
    const char = this.#text[this.#at];
    if (char === '{') return this.#nested(() => this.#object());
    if (char === '[') return this.#nested(() => this.#array());
    if (char === '"') return this.#string();
    const found = WORDS.find(([word]) => this.#text.startsWith(word, this.#at));
    if (found === undefined) return this.#number();
    this.#at += found[0].length;
    return found[1];
  }

  #number() {
    NUMBER.lastIndex = this.#at;
    const found = NUMBER.exec(this.#text);
    if (found === null) refuse('a value is none');
    const [token, sign, whole, fraction, exponent] = found;
    this.#at += token.length;
    if (/[0-9.eE]/.test(this.#text[this.#at] ?? '')) refuse('a number is none');
    if (fraction === undefined && exponent === undefined) {
      if (whole.length > DIGITS_MAX) refuse('an integer has too many digits');
      return sign === '-' ? -BigInt(whole) : BigInt(whole);
    }
    return token.length > FLOAT_BYTES_MAX ? refuse('a number is too long') : Number(token);
  }

  #string() {
    this.#at += 1;
    let value = '';
    for (;;) {
      PLAIN.lastIndex = this.#at;
      const [plain] = PLAIN.exec(this.#text);
      value += plain;
      this.#at += plain.length;
      const char = this.#text[this.#at];
      this.#at += 1;
      if (char === '"') return value;
      if (char !== '\\') refuse('a string has no end, or holds a control character');
      value += this.#escape();
    }
  }

  #escape() {
    const kind = this.#text[this.#at] ?? '';
    this.#at += 1;
    if (kind !== 'u') return Object.hasOwn(ESCAPES, kind) ? ESCAPES[kind] : refuse('an escape is unknown');
    const digits = this.#text.slice(this.#at, this.#at + 4);
    this.#at += 4;
    return /^[0-9a-fA-F]{4}$/.test(digits) ? String.fromCharCode(parseInt(digits, 16)) : refuse('an escape is none');
  }

  #nested(inside) {
    this.#depth += 1;
    if (this.#depth > DEPTH_MAX) refuse('it is too deep');
    this.#at += 1;
    this.#space();
    const value = inside();
    this.#depth -= 1;
    return value;
  }

  #element() {
    this.#elements += 1;
    if (this.#elements > ELEMENTS_MAX) refuse('it has too many elements');
  }

  /** Whether another element follows. */
  #more(close) {
    this.#space();
    const char = this.#text[this.#at];
    this.#at += 1;
    if (char === close) return false;
    if (char !== ',') refuse('a list or an object has no end');
    this.#space();
    return true;
  }

  #array() {
    const value = [];
    if (this.#text[this.#at] === ']') {
      this.#at += 1;
      return value;
    }
    do {
      this.#element();
      value.push(this.#value());
    } while (this.#more(']'));
    return value;
  }

  #object() {
    const value = new Map();
    if (this.#text[this.#at] === '}') {
      this.#at += 1;
      return value;
    }
    do {
      this.#element();
      if (this.#text[this.#at] !== '"') refuse('a key is none');
      const key = this.#string();
      this.#space();
      if (this.#text[this.#at] !== ':') refuse('a key has no value');
      this.#at += 1;
      this.#space();
      // Of a key that is repeated the last value counts.
      value.set(key, this.#value());
    } while (this.#more('}'));
    return value;
  }
}

/** By code points: the order that Python has, and UTF-16 has not. */
function byCodePoints([a], [b]) {
  const [left, right] = [[...a], [...b]];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    if (left[at] !== right[at]) return left[at].codePointAt(0) - right[at].codePointAt(0);
  }
  return left.length - right.length;
}

function number(value) {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value < 0 ? '-Infinity' : 'Infinity';
  return Object.is(value, -0) ? '-0.0' : float(value);
}

/** As Python's `json.dumps(…, sort_keys=True)`; plain objects of this program count as objects. */
export function dumps(value, [comma, colon] = [', ', ': ']) {
  if (value === null || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (typeof value === 'string') return string(value);
  if (typeof value === 'number') return number(value);
  const inside = (one) => dumps(one, [comma, colon]);
  if (Array.isArray(value)) return `[${value.map(inside).join(comma)}]`;
  const members = value instanceof Map ? [...value] : Object.entries(value);
  return `{${members.sort(byCodePoints).map(([key, one]) => `${string(key)}${colon}${inside(one)}`).join(comma)}}`;
}

/** The same without blanks: what receipts hash. */
export const compact = (value) => dumps(value, [',', ':']);
