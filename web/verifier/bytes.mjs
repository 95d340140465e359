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

/** The bytes of padded standard base64 in its one spelling, else null. */
export function unbase64(text) {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) return null;
  const binary = atob(text);
  // Bits that the padding leaves unused must be zero.
  if (btoa(binary) !== text) return null;
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
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
      this.#block.set(bytes.subarray(0, at), this.#filled);
      this.#filled += at;
      if (this.#filled < 64) return this;
      this.#compress(this.#block, 0);
      this.#filled = 0;
    }
    for (; at + 64 <= bytes.length; at += 64) this.#compress(bytes, at);
    this.#block.set(bytes.subarray(at), 0);
    this.#filled = bytes.length - at;
    return this;
  }

  /** The hash of everything taken in, 32 bytes. Nothing can be taken in afterwards. */
  digest() {
    const bits = this.#length * 8;
    const padding = new Uint8Array(((this.#filled < 56 ? 56 : 120) - this.#filled) + 8);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(padding.length - 4, bits >>> 0);
    this.update(padding);
    const out = new Uint8Array(32);
    const words = new DataView(out.buffer);
    this.#state.forEach((word, at) => words.setInt32(4 * at, word));
    return out;
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
    let [a, b, c, d, e, f, g, h] = state;
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

/** SHA-256 of one or more sequences of bytes, one after the other. */
export function sha256(...pieces) {
  const hash = new Sha256();
  for (const piece of pieces) hash.update(piece);
  return hash.digest();
}
