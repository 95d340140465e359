// Bytes, their spellings, and SHA-256.
//
// SHA-256 is written out because WebCrypto hashes only what lies in memory as a whole: an artifact
// may be larger than that. It also answers at once, which matters for a few hundred bytes.

const encoder = new TextEncoder();

/** The UTF-8 bytes of a text. */
export const utf8 = (text) => encoder.encode(text);

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Bytes as lowercase hexadecimal digits. */
export function hex(bytes) {
  let text = '';
  for (const byte of bytes) text += DIGITS[byte];
  return text;
}

/** The bytes of an even number of hexadecimal digits. */
export function unhex(text) {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const SEXTETS = new Int8Array(128).fill(-1);
for (let at = 0; at < 64; at += 1) SEXTETS[ALPHABET.charCodeAt(at)] = at;

/** The bytes of padded standard base64 in its one spelling, else null. */
export function unbase64(text) {
  if (text.length % 4 !== 0) return null;
  const padding = text.endsWith('==') ? 2 : Number(text.endsWith('='));
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  const end = text.length - padding;
  let [held, bits, to] = [0, 0, 0];
  for (let at = 0; at < end; at += 1) {
    const sextet = SEXTETS[text.charCodeAt(at)] ?? -1;
    if (sextet < 0) return null;
    held = (held << 6) | sextet;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[to++] = held >> bits;
      held &= (1 << bits) - 1;
    }
  }
  // Bits that the padding leaves unused must be zero.
  return held === 0 ? bytes : null;
}

/** Whether two sequences of bytes are the same. */
export const same = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);

// The first 32 bits of the fractional parts of the cube roots (rounds) and square roots (start) of
// the first primes, as FIPS 180-4 defines them.
function fractions(count, root) {
  const found = [];
  for (let n = 2; found.length < count; n += 1) {
    let prime = true;
    for (let d = 2; d * d <= n; d += 1) if (n % d === 0) prime = false;
    if (prime) found.push(fraction(n, root));
  }
  return Int32Array.from(found);
}

/** floor(2^32 * n^(1/root)) without its whole part, in whole numbers only. */
function fraction(n, root) {
  const target = BigInt(n) << BigInt(32 * root);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(root) <= target) low = middle;
    else high = middle;
  }
  return Number(BigInt.asIntN(32, low));
}

const ROUNDS = fractions(64, 3);
const START = fractions(8, 2);
const schedule = new Int32Array(64);

/** Writes a number of 32 bits, the largest byte first. */
function put(bytes, at, word) {
  bytes[at] = word >>> 24;
  bytes[at + 1] = word >>> 16;
  bytes[at + 2] = word >>> 8;
  bytes[at + 3] = word;
}

/** SHA-256 of bytes that come in pieces. */
export class Sha256 {
  #state = Int32Array.from(START);
  #block = new Uint8Array(64);
  #filled = 0;
  #length = 0;

  /** Takes further bytes in. */
  update(bytes) {
    this.#length += bytes.length;
    let at = 0;
    if (this.#filled > 0) {
      at = Math.min(64 - this.#filled, bytes.length);
      for (let from = 0; from < at; from += 1) this.#block[this.#filled + from] = bytes[from];
      this.#filled += at;
      if (this.#filled < 64) return this;
      this.#compress(this.#block, 0);
      this.#filled = 0;
    }
    for (; at + 64 <= bytes.length; at += 64) this.#compress(bytes, at);
    this.#filled = bytes.length - at;
    for (let from = 0; from < this.#filled; from += 1) this.#block[from] = bytes[at + from];
    return this;
  }

  /** The hash of everything taken in, 32 bytes. Nothing can be taken in afterwards. */
  digest() {
    const bits = this.#length * 8;
    const block = this.#block;
    block[this.#filled] = 0x80;
    block.fill(0, this.#filled + 1);
    if (this.#filled >= 56) {
      this.#compress(block, 0);
      block.fill(0);
    }
    put(block, 56, Math.floor(bits / 2 ** 32));
    put(block, 60, bits >>> 0);
    this.#compress(block, 0);
    const out = new Uint8Array(32);
    for (let at = 0; at < 8; at += 1) put(out, 4 * at, this.#state[at]);
    return out;
  }

  /** Begins anew. */
  reset() {
    this.#state.set(START);
    this.#filled = 0;
    this.#length = 0;
    return this;
  }

  #compress(bytes, offset) {
    const w = schedule;
    for (let i = 0, at = offset; i < 16; i += 1, at += 4) {
      w[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    }
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    const state = this.#state;
    let a = state[0];
    let b = state[1];
    let c = state[2];
    let d = state[3];
    let e = state[4];
    let f = state[5];
    let g = state[6];
    let h = state[7];
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  }
}

const once = new Sha256();

/** SHA-256 of one or more sequences of bytes, one after the other. */
export function sha256(...pieces) {
  once.reset();
  for (const piece of pieces) once.update(piece);
  return once.digest();
}
