// Sealed files with one thing done to them: bytes of the stream, headers of the container, members that are
// packed again with a manifest that fits or does not. Every choice comes from the dice, so that a seed
// names a file.

import { createHash } from 'node:crypto';
import { crc32, deflateRawSync, gunzipSync } from 'node:zlib';
import { read, write } from '../../web/verifier/json.mjs';

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex');
const BLOCK = 512;

/** Numbers that look like chance and are the same for the same seed. */
export class Dice {
  constructor(seed) {
    this.state = BigInt(seed) * 0x9e3779b97f4a7c15n + 1n;
  }

  below(limit) {
    this.state = (this.state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((this.state >> 33n) % BigInt(Math.max(limit, 1)));
  }

  one(list) {
    return list[this.below(list.length)];
  }
}

/** The members of a file, as `{ name, bytes }`. */
export function unpack(file) {
  const tar = gunzipSync(file);
  const members = [];
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0;) {
    const name = tar.toString('utf8', at, at + 100).replace(/\0.*$/s, '');
    const size = parseInt(tar.toString('latin1', at + 124, at + 135), 8);
    // Python puts an extended header before each file.
    const isFile = tar.toString('latin1', at + 156, at + 157) !== 'x';
    if (isFile) members.push({ name, bytes: Buffer.from(tar.subarray(at + BLOCK, at + BLOCK + size)) });
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return members;
}

/** The header of a member; `change` may spoil it before its checksum is made. */
function header(name, size, change = () => {}) {
  const block = Buffer.alloc(BLOCK);
  block.write(name, 0, 'utf8');
  block.write('0000644\x000000000\x000000000\x00', 100, 'latin1');
  block.write(`${size.toString(8).padStart(11, '0')}\x0000000000000\x00`, 124, 'latin1');
  block.write('        0', 148, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  change(block);
  block.write('        ', 148, 'latin1');
  const sum = block.reduce((all, byte) => all + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\x00 `, 148, 'latin1');
  return block;
}

/** The bytes of a tar. `change(index, block)` may spoil headers, `filling` what fills the last block. */
function tarOf(members, { change = () => {}, filling = 0, end = Buffer.alloc(2 * BLOCK), before = () => null } = {}) {
  const parts = [];
  members.forEach(({ name, bytes }, index) => {
    const extra = before(index);
    if (extra !== null) parts.push(extra);
    parts.push(header(name, bytes.length, (block) => change(index, block)), bytes);
    const rest = (BLOCK - (bytes.length % BLOCK)) % BLOCK;
    parts.push(Buffer.alloc(rest, index === filling - 1 ? 1 : 0));
  });
  return Buffer.concat([...parts, end]);
}

/** The gzip stream around a tar. */
function gzipOf(tar, change = {}) {
  const { level = 6, strategy = 0, seal = null, flags = 16, time = 0, trailing = Buffer.alloc(0), sum = 0 } = change;
  const body = deflateRawSync(tar, { level, strategy });
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE((crc32sum(tar) + sum) >>> 0, 0);
  trailer.writeUInt32LE(tar.length % 2 ** 32, 4);
  const digest = seal ?? sha256(body, trailer);
  const head = Buffer.from([0x1f, 0x8b, 8, flags, time, 0, 0, 0, 0, 255]);
  const name = flags & 8 ? Buffer.from('a.tar\0') : Buffer.alloc(0);
  const comment = flags & 16 ? Buffer.from(`countersign sha256:${digest}\0`) : Buffer.alloc(0);
  return Buffer.concat([head, name, comment, body, trailer, trailing]);
}

// Older versions of Node have no `crc32`.
function crc32sum(bytes) {
  if (crc32 !== undefined) return crc32(bytes);
  let rest = -1;
  for (const byte of bytes) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit += 1) rest = (rest >>> 1) ^ (rest & 1 ? 0xedb88320 : 0);
  }
  return ~rest >>> 0;
}

const parse = (bytes) => read(new Uint8Array(bytes.subarray(0, bytes.length - 1)), 64 << 20, 1_000_000).value;
const canonical = (value) => Buffer.from(`${write(value)}\n`);

/** Makes the manifest list the members as they are; `change` may spoil it. */
function listAgain(members, change = () => {}) {
  const manifest = parse(members[0].bytes);
  const listed = members.slice(1).map(({ name, bytes }) => new Map([
    ['name', name], ['sha256', sha256(bytes)], ['size', bytes.length],
  ]));
  manifest.set('members', listed);
  change(manifest);
  return [{ name: members[0].name, bytes: canonical(manifest) }, ...members.slice(1)];
}

const place = (members, name) => members.findIndex((member) => member.name === name);
const isArtifact = ({ name }) => name.startsWith('artifacts/');

function flipped(bytes, dice, times = 1) {
  const changed = Buffer.from(bytes);
  for (let i = 0; i < times && changed.length > 0; i += 1) changed[dice.below(changed.length)] ^= 1 << dice.below(8);
  return changed;
}

/** Another text in place of one somewhere in a value. */
function spoilValue(value, dice) {
  const places = [];
  const look = (inside) => {
    const entries = inside instanceof Map ? [...inside] : inside.map((element, at) => [at, element]);
    for (const [key, member] of entries) {
      places.push([inside, key]);
      if (member instanceof Map || Array.isArray(member)) look(member);
    }
  };
  look(value);
  if (places.length === 0) return;
  const [inside, key] = dice.one(places);
  const old = inside instanceof Map ? inside.get(key) : inside[key];
  const text = typeof old === 'string' ? old : '';
  const next = dice.one([
    () => (text.length > 0 ? text.slice(0, -1) + (text.endsWith('0') ? '1' : '0') : 'x'),
    () => (typeof old === 'number' ? old + 1 : null),
    () => '', () => 0, () => new Map(), () => [], () => true, () => `${text}\u202e`,
    () => (typeof old === 'number' ? -1 : `${text}e\u0301`),
  ])();
  if (dice.below(12) === 0 && inside instanceof Map) inside.delete(key);
  else if (inside instanceof Map) inside.set(key, next);
  else inside[key] = next;
}

/** The hash of the signed bytes is one that anybody can make fit: then the signature alone objects. */
function signedToFit(event) {
  const signature = event.get('signature');
  if (!(signature instanceof Map)) return;
  const signed = new Map([...event].filter(([name]) => !['event_hash', 'payload', 'signature'].includes(name)));
  signature.set('signed_bytes_hash', sha256(write(signed)));
}

/** Hashes of an event and of all that follow made to fit; nobody has the keys to sign them. */
function fitHashes(lines, from) {
  let previous = null;
  return lines.map((line, at) => {
    if (at < from) {
      previous = JSON.parse(line).event_hash;
      return line;
    }
    const event = parse(Buffer.from(`${line}\n`));
    if (previous !== null) event.set('prev_event_hash', previous);
    if (event.get('payload') instanceof Map) event.set('payload_hash', sha256(write(event.get('payload'))));
    event.delete('event_hash');
    signedToFit(event);
    previous = sha256(write(event));
    event.set('event_hash', previous);
    return write(event);
  });
}

const LEDGER = {
  'a byte flipped': (lines, dice, bytes) => flipped(bytes, dice),
  'an event changed': (lines, dice) => changedEvent(lines, dice, (all) => all),
  'an event changed, hashes made to fit': (lines, dice) => changedEvent(lines, dice, fitHashes),
  'a line dropped': (lines, dice) => joined(lines.toSpliced(dice.below(lines.length), 1)),
  'a line dropped, hashes made to fit': (lines, dice) => {
    const at = dice.below(lines.length);
    return joined(fitHashes(lines.toSpliced(at, 1), at));
  },
  'a line repeated': (lines, dice) => {
    const at = dice.below(lines.length);
    return joined(lines.toSpliced(at, 0, lines[at]));
  },
  'two lines swapped': (lines, dice) => {
    const [a, b] = [dice.below(lines.length), dice.below(lines.length)];
    return joined(lines.with(a, lines[b]).with(b, lines[a]));
  },
  'the end cut': (lines, dice) => joined(lines.slice(0, dice.below(lines.length))),
  'the last line feed cut': (lines) => Buffer.from(lines.join('\n')),
  'the tail torn': (lines, dice, bytes) => bytes.subarray(0, bytes.length - 2 - dice.below(200)),
  'lines that are none': (lines, dice) => joined([...lines, ...Array(dice.one([1, 99, 100, 101, 150])).fill('{}')]),
  'a heavy line': (lines, dice) => joined([...lines, `[${'[],'.repeat(dice.one([8_000, 8_300]))}0]`]),
};

const joined = (lines) => Buffer.from(lines.map((line) => `${line}\n`).join(''));

function changedEvent(lines, dice, fit) {
  const at = dice.below(lines.length);
  const event = parse(Buffer.from(`${lines[at]}\n`));
  spoilValue(event, dice);
  let changed = lines.with(at, write(event));
  try {
    changed = fit(changed, at);
  } catch {
    // What cannot be made to fit stays as it is.
  }
  return joined(changed);
}

const EXTRACT = {
  'a byte flipped': (extract, dice, bytes) => flipped(bytes, dice),
  'a value changed': (extract, dice) => {
    spoilValue(extract, dice);
    return canonical(extract);
  },
  'an entry dropped': (extract, dice) => {
    const entries = extract.get('entries');
    entries.splice(dice.below(entries.length), 1);
    return canonical(extract);
  },
  'two entries swapped': (extract, dice) => {
    const entries = extract.get('entries');
    const [a, b] = [dice.below(entries.length), dice.below(entries.length)];
    [entries[a], entries[b]] = [entries[b], entries[a]];
    return canonical(extract);
  },
  'a path changed': (extract, dice) => {
    const path = dice.one(extract.get('entries')).get('path');
    if (path.length > 0 && dice.below(2) === 0) path.splice(dice.below(path.length), 1);
    else path.push(sha256('x'));
    return canonical(extract);
  },
  'an event of an entry changed, hashes made to fit': (extract, dice) => {
    const entry = dice.one(extract.get('entries'));
    const event = parse(Buffer.from(`${entry.get('line')}\n`));
    spoilValue(event, dice);
    entry.set('line', write(event));
    try {
      entry.set('line', fitHashes([write(event)], 0)[0]);
    } catch {
      // What cannot be made to fit stays as it is.
    }
    return canonical(extract);
  },
  'the checkpoint changed': (extract, dice) => {
    const lines = extract.get('checkpoint').split('\n');
    const at = dice.below(lines.length);
    lines[at] = dice.one(['', 'x', '7', `${lines[at]}x`, lines[at].slice(0, -1), lines[at].replace('A', 'B')]);
    extract.set('checkpoint', lines.join('\n'));
    return canonical(extract);
  },
  'a line feed more': (extract, dice, bytes) => Buffer.concat([bytes, Buffer.from('\n')]),
};

/** Changes of one member, each with the bytes that it makes. */
function changedMember(members, dice, others) {
  const kind = dice.one(['ledger', 'ledger', 'ledger', 'extract', 'extract', 'other', 'document']);
  const at = kind === 'ledger' ? place(members, 'trace/events.jsonl')
    : kind === 'extract' ? place(members, 'log/extract.json') : 1 + dice.below(members.length - 1);
  const { name, bytes } = members[at];
  let [what, changed] = ['a byte flipped', flipped(bytes, dice)];
  if (kind === 'ledger') {
    what = dice.one(Object.keys(LEDGER));
    changed = LEDGER[what](bytes.toString().trimEnd().split('\n'), dice, bytes);
  } else if (kind === 'extract') {
    what = dice.one(Object.keys(EXTRACT));
    changed = EXTRACT[what](parse(bytes), dice, bytes);
  } else if (kind === 'document') {
    const other = dice.one(others.filter(isOurs)).find((member) => member.name === name);
    [what, changed] = other === undefined ? ['emptied', Buffer.alloc(0)] : ['that of another file', other.bytes];
  }
  return [`${name}: ${what}`, members.with(at, { name, bytes: changed })];
}

/** Members that come, go or trade places. */
function changedList(members, dice) {
  const artifacts = members.filter(isArtifact);
  const at = 1 + dice.below(members.length - 1);
  const strange = Buffer.from(`strange ${dice.below(1000)}`);
  const named = { name: `artifacts/sha256/${sha256(strange)}`, bytes: strange };
  const sorted = (list) => [...list.filter((one) => !isArtifact(one)),
    ...list.filter(isArtifact).sort((a, b) => (a.name < b.name ? -1 : 1))];
  const choices = {
    'a member dropped': () => members.toSpliced(at, 1),
    'a member twice': () => members.toSpliced(at, 0, members[at]),
    'two members swapped': () => {
      const to = 1 + dice.below(members.length - 1);
      return members.with(at, members[to]).with(to, members[at]);
    },
    'a strange artifact': () => sorted([...members, named]),
    'a strange artifact out of order': () => members.toSpliced(at, 0, named),
    'a strange member': () => {
      const name = dice.one(['x', '../x', '/x', 'a//b', 'a\\b', 'A', 'x\u202e']);
      return [...members, { name, bytes: strange }];
    },
    'an artifact with other bytes': () => artifacts.length === 0 ? members
      : members.map((one) => (one === artifacts[0] ? { ...one, bytes: strange } : one)),
    'the report dropped': () => members.filter(({ name }) => name !== 'report.json'),
    'another report': () => artifacts.length === 0 ? members
      : members.map((one) => (one.name === 'report.json' ? { ...one, bytes: dice.one(artifacts).bytes } : one)),
  };
  const what = dice.one(Object.keys(choices));
  return [what, choices[what]()];
}

/** The container around members that are right. */
function changedContainer(members, dice) {
  const at = dice.below(members.length);
  const put = (offset, text) => ({
    change: (index, block) => {
      if (index === at) block.write(text, offset, 'latin1');
    },
  });
  const pax = (record) => ({
    before: (index) => {
      if (index !== at) return null;
      const block = header('x', record.length, (inside) => inside.write('x', 156, 'latin1'));
      return Buffer.concat([block, Buffer.from(record), Buffer.alloc(BLOCK - record.length)]);
    },
  });
  const tars = {
    'another mode': put(100, '0000600'),
    'an owner': put(108, '0000001'),
    'a time': put(136, '00000000001'),
    'no type': put(156, '\0'),
    'a link': put(156, '2'),
    'a directory': put(156, '5'),
    "GNU's magic": put(257, 'ustar  \0'),
    'no magic': put(257, '\0'.repeat(8)),
    'a binary size': put(124, '\x80\0\0\0'),
    'a size in blanks': put(124, '         17 '),
    'a link target': put(157, 'x'),
    'bytes behind the name': put(98, '\0x'),
    'a prefix': put(345, 'p'),
    'an owner name': put(265, 'root'),
    'padding': { filling: at + 1 },
    'one block at the end': { end: Buffer.alloc(BLOCK) },
    'no end': { end: Buffer.alloc(0) },
    'more zeros': { end: Buffer.alloc(BLOCK * dice.one([3, 20, 22, 23, 40])) },
    'zeros that are no block': { end: Buffer.alloc(2 * BLOCK + 7) },
    'bytes behind the end': { end: Buffer.concat([Buffer.alloc(2 * BLOCK), Buffer.alloc(BLOCK, 1)]) },
    'an extended header': pax('19 mtime=1234567890\n'.replace('19', '20')),
    'an extended header that names': pax('10 path=x\n'),
  };
  const gzips = {
    'packed in another way': { level: dice.below(10), strategy: dice.below(5) },
    'stored': { level: 0 },
    'a seal of something else': { seal: sha256('x') },
    'no seal': { flags: 0 },
    'a name': { flags: dice.one([8, 24]) },
    'other flags': { flags: dice.one([1, 2, 4, 18, 20, 32, 128]) },
    'a time in the header': { time: 1 },
    'another checksum': { sum: 1 },
    'bytes behind': { trailing: Buffer.from(dice.one(['x', '\0', '\x1f\x8b\x08']), 'latin1') },
  };
  if (dice.below(5) < 3) {
    const what = dice.one(Object.keys(tars));
    return [`tar: ${what}`, gzipOf(tarOf(members, tars[what]))];
  }
  const what = dice.one(Object.keys(gzips));
  return [`gzip: ${what}`, gzipOf(tarOf(members), gzips[what])];
}

/** Junk between the compressed bytes and a trailer that fits; everything is sealed anew. */
function junkBehindStream(members) {
  const tar = tarOf(members);
  const whole = gzipOf(tar);
  const start = whole.indexOf(0, 10) + 1;
  const rest = Buffer.concat([whole.subarray(start, -8), Buffer.from('junk'), whole.subarray(-8)]);
  const head = Buffer.from([0x1f, 0x8b, 8, 16, 0, 0, 0, 0, 0, 255]);
  return Buffer.concat([head, Buffer.from(`countersign sha256:${sha256(rest)}\0`), rest]);
}

/** Another number or text in place of one that a document of CapSeal's holds. */
function changedText(bytes, dice) {
  const text = bytes.toString('latin1');
  const places = [...text.matchAll(/"[^"\\]*"|-?[0-9][0-9.e+-]*|true|false|null/g)];
  if (places.length === 0) return bytes;
  const { 0: token, index } = dice.one(places);
  const next = dice.one(['null', 'true', '0', '1.0', '1e400', 'NaN', '-0.0', '"x"', '"\\ud800"', '{}', '[]', '00',
    token.replace(/[0-9a-f](?="?$)/, (digit) => (digit === '1' ? '2' : '1')), `${token} `, '123456789012345678901']);
  return Buffer.from(text.slice(0, index) + next + text.slice(index + token.length), 'latin1');
}

/** A session of CapSeal's with one thing done to it. Nothing lists its members. */
function changedSession(members, dice) {
  const at = dice.below(members.length);
  const { name, bytes } = members[at];
  const lines = bytes.toString('latin1').split('\n');
  const put = (changed) => members.with(at, { name, bytes: changed });
  const choices = {
    'a byte flipped': () => put(flipped(bytes, dice)),
    'a value changed': () => put(changedText(bytes, dice)),
    'another value changed': () => put(changedText(bytes, dice)),
    'one more value changed': () => put(changedText(bytes, dice)),
    'a line dropped': () => put(Buffer.from(lines.toSpliced(dice.below(lines.length), 1).join('\n'), 'latin1')),
    'a line repeated': () => {
      const line = dice.below(lines.length);
      return put(Buffer.from(lines.toSpliced(line, 0, lines[line]).join('\n'), 'latin1'));
    },
    'cut': () => put(bytes.subarray(0, dice.below(bytes.length))),
    'dropped': () => members.toSpliced(at, 1),
    'at another place': () => members.toSpliced(at, 1).toSpliced(dice.below(members.length), 0, members[at]),
    'and a strange one': () => [...members, { name: dice.one(['x', 'A/b']), bytes }],
  };
  const what = dice.one(Object.keys(choices));
  return [`${name} ${what}`, gzipOf(tarOf(choices[what]()), { flags: dice.one([0, 0, 0, 8]) })];
}

/** Whether a file is of ours. */
export const isOurs = ([manifest]) => manifest.bytes.includes('"countersign"');

/** A file with one thing done to it: what, and the bytes. `files` are all that there are, unpacked. */
export function mutate(file, files, dice) {
  const members = unpack(file);
  const kind = dice.below(20);
  if (kind < 2) return ['bits flipped in the file', flipped(file, dice, 1 + dice.below(3))];
  if (kind === 2) return ['the file cut', file.subarray(0, dice.below(file.length))];
  if (kind === 3) return ['bytes put into the file', Buffer.concat([file, Buffer.from([dice.below(256)])])];
  if (kind === 4) return ['as it was', file];
  if (!isOurs(members)) return kind < 6 ? changedContainer(members, dice) : changedSession(members, dice);
  if (kind < 8) return changedContainer(members, dice);
  if (kind === 8 && dice.below(3) === 0) return ['junk behind the stream', junkBehindStream(members)];
  if (kind < 10) {
    const inner = dice.below(2) === 1;
    const spoilt = listAgain(members, (manifest) => spoilValue(inner ? manifest.get('countersign') : manifest, dice));
    return ['manifest.json: a value changed', gzipOf(tarOf(spoilt))];
  }
  const [what, changed] = kind < 18 ? changedMember(members, dice, files) : changedList(members, dice);
  // Mostly the manifest is made to fit: what it lists is looked at before anything else.
  if (dice.below(4) === 0) return [`${what}, as listed before`, gzipOf(tarOf(changed))];
  return [`${what}, listed anew`, gzipOf(tarOf(listAgain(changed)), dice.below(8) === 0 ? { seal: sha256('') } : {})];
}
