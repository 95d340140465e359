// Cutting a ledger into lines, in bounded memory (docs/formats/canonical-json.md#ledger-lines).

import { TEXT_BYTES_MAX } from './json.mjs';

const NOTHING = new Uint8Array();

/** The pieces of whatever a source gives: bytes, a stream, or anything that can be iterated. */
export async function* pieces(given) {
  if (given instanceof Uint8Array) {
    yield given;
  } else if (typeof given.getReader === 'function') {
    const reader = given.getReader();
    try {
      for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
    } finally {
      await reader.cancel();
    }
  } else {
    yield* given;
  }
}

/** Bytes of a line in which its end is looked for. What a crash leaves is shorter. */
const SOUGHT_MAX = TEXT_BYTES_MAX + (64 << 20);

/** Lines of a batch: enough to keep the platform busy, few enough to hold. */
const BATCH_LINES = 256;

/**
 * The lines, some at a time: `{ kind: 'line' | 'tail' | 'long' | 'endless', bytes }`. A `tail` is what no
 * line feed follows; it has no bytes if it is longer than a line may be. A `long` line's bytes are skipped;
 * nothing follows an `endless` one. The bytes of a batch hold until the next one is asked for.
 */
export async function* batches(given) {
  let held = [];
  let length = 0;
  let long = false;
  const take = (bytes) => {
    length += bytes.length;
    if (length > TEXT_BYTES_MAX) {
      long = true;
      held = [];
    }
    if (!long && bytes.length > 0) held.push(bytes);
  };
  const finish = () => {
    const line = held.length === 1 ? held[0] : join(held);
    held = [];
    length = 0;
    return line;
  };
  let batch = [];
  for await (const piece of pieces(given)) {
    let start = 0;
    for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, start)) {
      take(piece.subarray(start, end));
      if (length > SOUGHT_MAX) break;
      batch.push({ kind: long ? 'long' : 'line', bytes: finish() });
      long = false;
      start = end + 1;
      if (batch.length >= BATCH_LINES) {
        yield batch;
        batch = [];
      }
    }
    if (batch.length > 0) yield batch;
    batch = [];
    // What is kept must not be overwritten by a source that uses its buffer again.
    if (length <= SOUGHT_MAX) take(piece.slice(start));
    if (length > SOUGHT_MAX) {
      yield [{ kind: 'endless', bytes: NOTHING }];
      return;
    }
  }
  if (long || length > 0) yield [{ kind: 'tail', bytes: finish() }];
}

/** The lines one by one. */
export async function* lines(given) {
  for await (const batch of batches(given)) yield* batch;
}

function join(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
