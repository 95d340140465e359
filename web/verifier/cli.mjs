#!/usr/bin/env node
// The verifier on files, for Node: finds what belongs to a trace, never writes, prints the report.

import { constants } from 'node:fs';
import { lstat, open, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { verifyCap } from './cap.mjs';
import { isUlid } from './forms.mjs';
import { verify, verifyLog } from './verify.mjs';

const USAGE = `usage: node cli.mjs TARGET [--trust FINGERPRINT]... [--profile strict|default|lenient]
       [--keys FILE] [--expect-head HASH] [--expect-count N] [--log FILE]... [--store DIR] [--allow-open]
       node cli.mjs --batch
TARGET is a trace's directory or its events.jsonl, a workspace's log directory, or a sealed file (.cap).
--batch reads one JSON request a line: {"target": …, "trust": […], "profile": …, "keys": …,
"expect_head": …, "expect_count": …, "log": […], "store": …}, and prints one report a line.
`;
const CHECKPOINT_BYTES_MAX = 262_145;
const BUFFER_BYTES = 256 << 10;

const exists = (path) => lstat(path).then(() => true, () => false);

/** The bytes of a regular file, in pieces. Anything else could block, or never end. */
async function* contents(path) {
  if (!(await stat(path)).isFile()) throw new Error(`${path} is not a regular file`);
  const file = await open(path, 'r');
  try {
    yield* chunks(file);
  } finally {
    await file.close();
  }
}

async function* chunks(file) {
  const buffer = new Uint8Array(BUFFER_BYTES);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** A small file as a whole. */
async function whole(path, limit) {
  const parts = [];
  let length = 0;
  for await (const piece of contents(path)) {
    parts.push(piece.slice());
    length += piece.length;
    if (length > limit) break;
  }
  return new Uint8Array(Buffer.concat(parts));
}

/** An artifact in its place, or among the new ones that may not be in theirs yet. */
async function artifactIn(store, hash) {
  const place = ['artifacts', 'sha256', hash.slice(0, 2), hash.slice(2, 4)];
  // In its place last, too: it may be taken there between the first look and the second.
  for (const steps of [place, ['artifacts', 'new'], place]) {
    const found = await artifactAt(store, steps, hash);
    if (found !== null) return found;
  }
  return null;
}

/** What lies in a directory under this name. No link below the store is followed, no pipe waited for. */
async function artifactAt(store, steps, hash) {
  let path = store;
  for (const step of steps) {
    path = join(path, step);
    const found = await lstat(path).catch(absent);
    if (found === null) return null;
    if (!found.isDirectory()) return 'not-a-file';
  }
  path = join(path, hash);
  const found = await lstat(path).catch(absent);
  if (found === null) return null;
  if (!found.isFile()) return 'not-a-file';
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(absent);
  if (file === null) return null;
  return (async function* bytes() {
    try {
      yield* chunks(file);
    } finally {
      await file.close();
    }
  }());
}

function absent(error) {
  if (error.code === 'ENOENT') return null;
  throw error;
}

/** Where everything that belongs to a target lies. */
async function locate(target) {
  let path = resolve(target);
  if ((await stat(path).catch(absent))?.isFile()) {
    if (basename(path) !== 'events.jsonl') return { events: path, home: null, traceId: null };
    path = dirname(path);
  }
  const events = join(path, 'events.jsonl');
  if (basename(path) === 'log') return { events, home: dirname(path), traceId: null, isLog: true };
  const traceId = basename(path);
  const home = dirname(dirname(path));
  if (basename(dirname(path)) === 'traces' && isUlid(traceId, '1.1')) return { events, home, traceId };
  return { events, home: null, traceId: null };
}

/** Of several logs the longest counts, and the others must be what it begins with. */
async function longestLog(paths) {
  const sized = await Promise.all(paths.map(async (path) => ({ path, size: (await stat(path)).size })));
  sized.sort((a, b) => b.size - a.size);
  for (const { path, size } of sized.slice(1)) {
    if (!await begins(sized[0].path, path, size)) return { contradiction: [sized[0].path, path] };
  }
  return { path: sized[0]?.path ?? null };
}

async function begins(long, short, size) {
  const [a, b] = [await open(long, 'r'), await open(short, 'r')];
  try {
    const [left, right] = [Buffer.alloc(BUFFER_BYTES), Buffer.alloc(BUFFER_BYTES)];
    for (let at = 0; at < size; at += BUFFER_BYTES) {
      const length = Math.min(BUFFER_BYTES, size - at);
      await a.read(left, 0, length, at);
      await b.read(right, 0, length, at);
      if (left.compare(right, 0, length, 0, length) !== 0) return false;
    }
    return true;
  } finally {
    await Promise.all([a.close(), b.close()]);
  }
}

/** What was kept elsewhere: logs by their paths, checkpoints by their bytes. */
async function sorted(paths) {
  const kept = { logs: [], notes: [] };
  for (const path of paths) {
    const handle = await open(path, 'r');
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(12), 0, 12, 0).finally(() => handle.close());
    const isNote = buffer.toString('latin1', 0, bytesRead) === 'countersign/';
    if (isNote) kept.notes.push(await whole(path, CHECKPOINT_BYTES_MAX));
    else kept.logs.push(path);
  }
  return kept;
}

/** Whether a file begins as sealed files do. */
async function isCap(path) {
  if (!(await stat(path).catch(absent))?.isFile()) return false;
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(3), 0, 3, 0);
    return bytesRead === 3 && buffer.equals(Buffer.of(0x1f, 0x8b, 8));
  } finally {
    await file.close();
  }
}

/** A sealed file is sliced like a Blob. */
async function answerCap(request) {
  const unused = ['keys', 'store'].find((name) => request[name] !== undefined);
  if (unused !== undefined) throw new Error(`a sealed file has its own ${unused === 'keys' ? 'keys' : 'artifacts'}`);
  const kept = await sorted(request.log ?? []);
  const log = await longestLog(kept.logs);
  if (log.contradiction !== undefined) return log;
  const file = await open(request.target, 'r');
  const slice = (from, to) => ({
    arrayBuffer: async () => {
      const bytes = new Uint8Array(to - from);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
      return bytes.buffer.slice(0, bytesRead);
    },
  });
  try {
    return await verifyCap({ size: (await file.stat()).size, slice }, {
      trust: request.trust,
      profile: request.profile,
      expectHead: request.expect_head,
      expectCount: request.expect_count,
      kept: {
        log: async () => (log.path === null ? null : contents(log.path)),
        checkpoints: async () => kept.notes,
      },
    });
  } finally {
    await file.close();
  }
}

/** Answers one request with a report, or with `{ contradiction }`. */
async function answer(request) {
  if (request.target.endsWith('.cap') || await isCap(request.target)) return answerCap(request);
  const { events, home, traceId, isLog } = await locate(request.target);
  const own = home === null ? null : join(home, 'log/events.jsonl');
  const kept = await sorted(request.log ?? []);
  const logs = [...(own !== null && await exists(own) ? [own] : []), ...kept.logs];
  const log = await longestLog(logs);
  if (log.contradiction !== undefined) return log;
  const store = request.store ?? home;
  const checkpoint = home === null ? null : join(home, 'log/checkpoint');
  // A trace that is gone is a ledger without lines, where a log may know it.
  if (!await exists(events) && log.path === null) throw new Error(`${events} does not exist`);
  const source = {
    events: async () => (await exists(events) ? contents(events) : null),
    log: async () => (log.path === null ? null : contents(log.path)),
    checkpoints: async () => {
      const bytes = checkpoint !== null && await exists(checkpoint)
        ? [await whole(checkpoint, CHECKPOINT_BYTES_MAX)] : [];
      return [...bytes.filter((note) => note.length > 0), ...kept.notes];
    },
    artifact: async (hash) => (store === null ? undefined : artifactIn(store, hash)),
  };
  const options = {
    trust: request.trust,
    profile: request.profile,
    keys: request.keys === undefined ? undefined : new Uint8Array(await readFile(request.keys)),
    expectTrace: traceId ?? undefined,
    expectHead: request.expect_head,
    expectCount: request.expect_count,
  };
  return isLog ? verifyLog(source, options) : verify(source, options);
}

async function batch() {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const reply = await answer(JSON.parse(line)).catch((error) => ({ error: error.message }));
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
  return 0;
}

const SINGLE = {
  '--profile': 'profile', '--keys': 'keys', '--expect-head': 'expect_head', '--expect-count': 'expect_count', '--store': 'store',
};
const REPEATED = { '--trust': 'trust', '--log': 'log' };

/** The request that arguments stand for; null if they stand for none. */
function parse(given) {
  const request = { trust: [], log: [] };
  const rest = [...given];
  while (rest.length > 0) {
    const word = rest.shift();
    if (word === '--allow-open') {
      request.allow_open = true;
    } else if (Object.hasOwn(SINGLE, word) && rest.length > 0) {
      request[SINGLE[word]] = word === '--expect-count' ? Number(rest.shift()) : rest.shift();
    } else if (Object.hasOwn(REPEATED, word) && rest.length > 0) {
      request[REPEATED[word]].push(rest.shift());
    } else if (!word.startsWith('-') && request.target === undefined) {
      request.target = word;
    } else {
      return null;
    }
  }
  return request.target === undefined ? null : request;
}

function exitStatus(reply, allowOpen) {
  if (reply.contradiction !== undefined || reply.verification_status === 'fail') return 3;
  const unread = reply.warnings?.some(({ warning_code: code }) => code === 'ARTIFACTS_UNREAD');
  if ((reply.closed === 'no' && !allowOpen) || unread || reply.signer === 'unpinned') return 4;
  return 0;
}

async function main(given) {
  if (given.length === 1 && given[0] === '--batch') return batch();
  const request = parse(given);
  if (request === null) {
    process.stderr.write(USAGE);
    return 2;
  }
  try {
    const reply = await answer(request);
    process.stdout.write(`${JSON.stringify(reply, null, 2)}\n`);
    return exitStatus(reply, request.allow_open === true);
  } catch (error) {
    process.stderr.write(`error: ${error.message}\n`);
    return 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
