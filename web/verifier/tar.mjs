// The members of a tar, one after the other: plain files with harmless names, and nothing else
// (docs/formats/cap.md#container). Nothing is ever extracted.

import { same, utf8 } from './bytes.mjs';
import { CapRefusal } from './gzip.mjs';

const BLOCK = 512;
const RECORD = 10_240;
const MEMBERS_MAX = 80_000;
const NAME_BYTES_MAX = 255;
const EXTENDED_BYTES_MAX = 1_024;
const USTAR = 'ustar\u000000';
const OLD = '\u0000'.repeat(8);

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const latin = (bytes) => String.fromCharCode(...bytes);
const isZero = (bytes) => bytes.every((byte) => byte === 0);
const refuse = (message) => { throw new CapRefusal(message); };

/** Characters that are obeyed or cannot be seen, which no name may hold: from, to. */
const UNSEEN = [[0, 0x1f], [0x7f, 0xa0], [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160],
  [0x1680, 0x1680], [0x17b4, 0x17b5], [0x180b, 0x180f], [0x2000, 0x200f], [0x2028, 0x202f], [0x205f, 0x206f],
  [0x2800, 0x2800], [0x3000, 0x3000], [0x3164, 0x3164], [0xe000, 0xf8ff], [0xfdd0, 0xfdef], [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb], [0x110bd, 0x110bd], [0x110cd, 0x110cd],
  [0x13430, 0x1345f], [0x1bca0, 0x1bca3], [0x1d173, 0x1d17a], [0xe0000, 0x10ffff]];

const isUnseen = (code) => (code & 0xfffe) === 0xfffe || UNSEEN.some(([from, to]) => code >= from && code <= to);

/** What is wrong with a name; null if nothing is. */
function nameFault(name) {
  if (name === '') return 'is empty';
  if (utf8(name).length > NAME_BYTES_MAX) return 'is too long';
  if (name.startsWith('/')) return 'is absolute';
  if (name.includes('\\')) return 'holds a backslash';
  for (const step of name.split('/')) {
    if (step === '' || step === '.') return 'has an empty step or a `.`';
    if (step === '..') return 'leads upwards';
  }
  return [...name].some((char) => isUnseen(char.codePointAt(0))) ? 'holds a character that cannot be seen' : null;
}

/** The same for names that some file system takes for one. */
const folded = (name) => name.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC');

/** A number in octal digits, behind blanks perhaps, ended by blanks or zeros; null if it is none. */
function octal(bytes) {
  // eslint-disable-next-line no-control-regex
  const found = /^[\t\n\f\r ]*([0-7]+)[\u0000 ]*$/.exec(latin(bytes));
  return found === null ? null : parseInt(found[1], 8);
}

function textOf(bytes) {
  const length = bytes.indexOf(0) < 0 ? bytes.length : bytes.indexOf(0);
  if (!isZero(bytes.subarray(length))) refuse('a tar header has bytes behind the end of a name');
  return bytes.subarray(0, length);
}

/** `{ name, size, extended }` of a header. */
function parse(block) {
  const field = (start, length) => block.subarray(start, start + length);
  const stored = field(148, 8);
  const sum = block.reduce((all, byte) => all + byte, 0) - stored.reduce((all, byte) => all + byte, 0) + 8 * 32;
  if (octal(stored) !== sum) refuse('the checksum of a tar header is wrong');
  const magic = latin(field(257, 8));
  const old = magic === OLD && isZero(field(345, 155));
  if (magic !== USTAR && !old) refuse('a tar header is in no dialect that is read here');
  const prefix = old ? new Uint8Array() : textOf(field(345, 155));
  const bare = textOf(field(0, 100));
  const size = octal(field(124, 12));
  const kind = block[156] === 0 ? '0' : latin(field(156, 1));
  if (kind === 'x') {
    return { extended: true, size: size ?? refuse('the size of an extended header is no octal number') };
  }
  if (kind !== '0') refuse('a member is no plain file');
  if (textOf(field(157, 100)).length > 0) refuse('a member has the target of a link');
  const name = nameOf(prefix, bare);
  if (size === null) refuse(`the size of member \`${name}\` is no octal number`);
  const fault = nameFault(name);
  if (fault !== null) refuse(`the name of a member ${fault}`);
  return { extended: false, name, size };
}

function nameOf(prefix, bare) {
  const parts = prefix.length === 0 ? [...bare] : [...prefix, 47, ...bare];
  try {
    return decoder.decode(Uint8Array.from(parts));
  } catch {
    return refuse('the name of a member is not UTF-8');
  }
}

/** The one header that a file of ours has for a member; null where it has none. */
function plainHeader(name, size) {
  if (size >= 2 ** 33) return null;
  const block = new Uint8Array(BLOCK);
  const bytes = utf8(name);
  // Every name of ours fits into its field.
  if (bytes.length > 100) return null;
  const put = (start, text) => block.set(utf8(text), start);
  block.set(bytes);
  put(100, '0000644\u00000000000\u00000000000\u0000');
  put(124, `${size.toString(8).padStart(11, '0')}\u000000000000000\u0000`);
  put(148, '        0');
  put(257, USTAR);
  const sum = block.reduce((all, byte) => all + byte, 0);
  put(148, `${sum.toString(8).padStart(6, '0')}\u0000 `);
  return block;
}

/** Whether an extended header says nothing but a time. */
function extendedFault(body) {
  let rest = body;
  while (rest.length > 0) {
    const digits = /^([0-9]{0,4}) /.exec(latin(rest.subarray(0, 5)));
    const length = digits === null || digits[1] === '' ? null : Number(digits[1]);
    if (length === null || length > rest.length || length <= digits[0].length) return 'cannot be read';
    const record = latin(rest.subarray(digits[0].length, length));
    const parts = /^([^=]*)=([^]*)\n$/.exec(record);
    if (parts === null) return 'cannot be read';
    if (parts[1] !== 'mtime') return 'sets more than a time';
    if (!/^[0-9.-]{1,32}$/.test(parts[2])) return 'has a time that is no number';
    rest = rest.subarray(length);
  }
  return null;
}

/** Reads a tar out of pieces of bytes. What it gave before it reached the end may still be refused. */
export class Tar {
  #pieces;
  #held = new Uint8Array();
  #at = 0;
  #offset = 0;
  #left = 0;
  #names = new Set();
  #folded = new Set();
  #ended = false;

  constructor(pieces) {
    this.#pieces = pieces[Symbol.asyncIterator]();
  }

  async #fill() {
    while (this.#at >= this.#held.length) {
      const { value, done } = await this.#pieces.next();
      if (done) return false;
      this.#held = value;
      this.#at = 0;
    }
    return true;
  }

  #advance(count) {
    const taken = this.#held.subarray(this.#at, this.#at + count);
    this.#at += taken.length;
    this.#offset += taken.length;
    return taken;
  }

  /** Up to `count` bytes, as many as there are. */
  async #read(count) {
    const bytes = new Uint8Array(count);
    let length = 0;
    while (length < count && await this.#fill()) {
      const taken = this.#advance(count - length);
      bytes.set(taken, length);
      length += taken.length;
    }
    return bytes.subarray(0, length);
  }

  async #block() {
    const block = await this.#read(BLOCK);
    if (block.length === 0) return null;
    return block.length === BLOCK ? block : refuse('the file ends within a block of its tar');
  }

  async #padding(what) {
    const wanted = (BLOCK - (this.#offset % BLOCK)) % BLOCK;
    const filling = await this.#read(wanted);
    if (filling.length < wanted) refuse(`the file ends within ${what}`);
    if (!isZero(filling)) refuse(`the padding of ${what} is not zero`);
  }

  /** The next member: `{ name, size, plain }`; null at the end, which was then checked. */
  async next() {
    while (this.#left > 0) await this.piece();
    if (this.#ended) return null;
    await this.#padding('a member');
    let block = await this.#block();
    if (block === null) refuse('the tar has no end');
    if (isZero(block)) return this.#end();
    let header = parse(block);
    const { extended } = header;
    if (extended) {
      block = await this.#extended(header.size);
      header = parse(block);
      if (header.extended) refuse('an extended header follows another one');
    }
    const { name, size } = header;
    this.#meet(name);
    this.#left = size;
    const own = plainHeader(name, size);
    return { name, size, plain: !extended && own !== null && same(own, block) };
  }

  /** The next bytes of the member; null at its end. */
  async piece() {
    if (this.#left === 0) return null;
    if (!await this.#fill()) refuse('the file ends within a member');
    const piece = this.#advance(this.#left);
    this.#left -= piece.length;
    return piece;
  }

  async #extended(size) {
    if (size > EXTENDED_BYTES_MAX) refuse(`an extended header has ${size} bytes`);
    const body = await this.#read(size);
    if (body.length < size) refuse('the file ends within an extended header');
    await this.#padding('an extended header');
    const fault = extendedFault(body);
    if (fault !== null) refuse(`an extended header ${fault}`);
    const block = await this.#block();
    return block === null || isZero(block) ? refuse('an extended header belongs to nothing') : block;
  }

  #meet(name) {
    if (this.#names.size >= MEMBERS_MAX) refuse(`the file has more than ${MEMBERS_MAX} members`);
    if (this.#names.has(name)) refuse(`two members are called \`${name}\``);
    if (this.#folded.has(folded(name))) refuse(`another member has a name like \`${name}\``);
    this.#names.add(name);
    this.#folded.add(folded(name));
  }

  /** A second block of zeros, at most a record of them, and the end of the stream. */
  async #end() {
    const block = await this.#block();
    if (block === null) refuse('the tar ends with one block of zeros: two are needed');
    if (!isZero(block)) refuse('something stands behind the end of the tar');
    const behind = this.#offset;
    while (await this.#fill()) {
      if (!isZero(this.#advance(Infinity))) refuse('something stands behind the end of the tar');
      if (this.#offset - behind > RECORD) refuse('too many zeros stand behind the end of the tar');
    }
    this.#ended = true;
    if (this.#offset % BLOCK !== 0) refuse('the file ends within a block of its tar');
    return null;
  }
}
