// One gzip stream with nothing behind it (docs/formats/cap.md#container): its header, its checksum, its
// seal, and how much it may inflate to.

import { Sha256, hex } from './bytes.mjs';
import { Corrupt, Inflate } from './inflate.mjs';

const READ_BYTES = 1 << 20;
const TEXT_BYTES_MAX = 255;
const FLAG_NAME = 8;
const FLAG_COMMENT = 16;
const SEAL = /^countersign sha256:([0-9a-f]{64})$/;
/** Bytes that may be inflated from however few, and how many times those that were read beyond that. */
const INFLATED_FREE = 64 << 20;
const RATIO_MAX = 100;
/** What a page can hold; larger files are for the binary. */
export const INFLATED_MAX = 1 << 30;

/** Why a container is refused: something is wrong with it. */
export class CapRefusal extends Error {}

/** Why a container is not looked at: it is more than this reader takes. */
export class TooLarge extends Error {}

/** Bytes, or anything that is sliced like a Blob, from the beginning on. */
class Input {
  bytes = new Uint8Array();
  at = 0;
  end = 0;
  ended = false;
  #given;
  #size;
  #read = 0;
  #progress;
  /** Everything before this place of `bytes` was hashed. */
  #hashed = 0;
  hasher = null;

  constructor(given, progress) {
    this.#given = given;
    this.#size = given instanceof Uint8Array ? given.length : given.size;
    this.#progress = progress;
  }

  get size() {
    return this.#size;
  }

  /** Bytes that were taken so far. */
  get taken() {
    return this.#read - (this.end - this.at);
  }

  async more(count) {
    while (this.end - this.at < count && !this.ended) {
      this.hash();
      const next = await this.#slice();
      const left = this.bytes.subarray(this.at, this.end);
      const joined = new Uint8Array(left.length + next.length);
      joined.set(left);
      joined.set(next, left.length);
      [this.bytes, this.at, this.end, this.#hashed] = [joined, 0, joined.length, 0];
      this.ended = this.#read >= this.#size;
      this.#progress?.(this.#read, this.#size);
    }
  }

  async #slice() {
    const [from, to] = [this.#read, Math.min(this.#read + READ_BYTES, this.#size)];
    this.#read = to;
    if (this.#given instanceof Uint8Array) return this.#given.subarray(from, to);
    const next = new Uint8Array(await this.#given.slice(from, to).arrayBuffer());
    if (next.length !== to - from) throw new Error('the file changed while it was read');
    return next;
  }

  /** Hashes what was taken since the last time. */
  hash() {
    this.hasher?.update(this.bytes.subarray(this.#hashed, this.at));
    this.#hashed = this.at;
  }

  async byte(within) {
    await this.more(1);
    if (this.at >= this.end) throw new CapRefusal(`the file ends within the ${within}`);
    return this.bytes[this.at++];
  }
}

async function readHeader(input) {
  const within = 'gzip header';
  for (const wanted of [0x1f, 0x8b, 8]) {
    await input.more(1);
    if (input.at >= input.end || input.bytes[input.at++] !== wanted) throw new CapRefusal('the file is not gzip');
  }
  const flags = await input.byte(within);
  if ((flags & ~(FLAG_NAME | FLAG_COMMENT)) !== 0) {
    throw new CapRefusal(`the gzip header has the flags ${flags}: only a name and a comment may be there`);
  }
  let plain = true;
  // Time, effort and system, as files of ours have them.
  for (const wanted of [0, 0, 0, 0, 0, 255]) plain = await input.byte(within) === wanted && plain;
  const text = async (what) => {
    let found = '';
    for (let byte = await input.byte(within); byte !== 0; byte = await input.byte(within)) {
      if (found.length === TEXT_BYTES_MAX) throw new CapRefusal(`the ${what} in the gzip header is too long`);
      found += String.fromCharCode(byte);
    }
    return found;
  };
  if (flags & FLAG_NAME) await text('name');
  const comment = flags & FLAG_COMMENT ? await text('comment') : '';
  const seal = plain && !(flags & FLAG_NAME) ? SEAL.exec(comment) : null;
  return { seal: seal === null ? null : seal[1] };
}

const CRC = Int32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit += 1) rest = (rest >>> 1) ^ (rest & 1 ? 0xedb88320 : 0);
  return rest;
});

function crc32(sum, bytes) {
  let rest = ~sum;
  for (let at = 0; at < bytes.length; at += 1) rest = CRC[(rest ^ bytes[at]) & 255] ^ (rest >>> 8);
  return ~rest;
}

/**
 * Opens a gzip stream: `{ seal, pieces }`. `seal` is the hash that the header of a file of ours states,
 * else null. What `pieces` gives was not checked before it has ended.
 */
export async function openGzip(given, progress) {
  const input = new Input(given, progress);
  if (input.size > INFLATED_MAX) throw new TooLarge('the file is larger than 1 GiB');
  const { seal } = await readHeader(input);
  if (seal !== null) {
    input.hash();
    input.hasher = new Sha256();
  }
  return { seal, pieces: pieces(input, seal) };
}

async function* pieces(input, seal) {
  let [sum, inflated] = [0, 0];
  // The last piece is given once everything was checked: of a small file nothing is seen before.
  let held = null;
  try {
    for await (const piece of new Inflate(input).pieces()) {
      sum = crc32(sum, piece);
      inflated += piece.length;
      if (inflated > INFLATED_FREE && Math.floor(inflated / RATIO_MAX) > input.taken) {
        throw new CapRefusal(`${inflated} bytes come from ${input.taken}: that is a bomb`);
      }
      if (inflated > INFLATED_MAX) throw new TooLarge('the file inflates to more than 1 GiB');
      if (held !== null) yield held;
      held = piece;
    }
  } catch (error) {
    if (error instanceof Corrupt) throw new CapRefusal(`the compressed bytes are broken: ${error.message}`);
    throw error;
  }
  await checkEnd(input, sum, inflated, seal);
  if (held !== null) yield held;
}

/** Checksum and length, then nothing; and everything since the header is what the header says. */
async function checkEnd(input, sum, inflated, seal) {
  const number = async () => {
    let value = 0;
    for (let shift = 0; shift < 32; shift += 8) value |= await input.byte('gzip trailer') << shift;
    return value;
  };
  if (await number() !== sum) throw new CapRefusal('the checksum of the gzip stream is wrong');
  if (await number() !== (inflated | 0)) throw new CapRefusal('the length of the gzip stream is wrong');
  await input.more(1);
  if (input.at < input.end) throw new CapRefusal('bytes follow the gzip stream');
  if (seal === null) return;
  input.hash();
  if (hex(input.hasher.digest()) !== seal) {
    throw new CapRefusal('the file is not the one that was sealed: its header states another hash');
  }
}
