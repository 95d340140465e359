// Signed notes and the checkpoints in them (docs/formats/log-and-checkpoint.md#checkpoint).

import { hex, same, sha256, unbase64, utf8 } from './bytes.mjs';

const NOTE_BYTES_MAX = 262_144;
const SIGNATURES_MAX = 100;
const NAME_BYTES_MAX = 1_024;
const SIZE_MAX = 2n ** 63n;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// White space as Unicode has it: `\s` also takes U+FEFF, and leaves U+0085 out.
const isName = (name) => name !== '' && utf8(name).length <= NAME_BYTES_MAX
  // eslint-disable-next-line no-control-regex
  && !/[+\u0000-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/.test(name);

/** A checkpoint in its note, nothing verified yet; null where the bytes are none. */
export function parseCheckpoint(bytes) {
  if (bytes.length > NOTE_BYTES_MAX) return null;
  let whole;
  try {
    whole = decoder.decode(bytes);
  } catch {
    return null;
  }
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u0009\u000b-\u001f]/.test(whole) || !whole.endsWith('\n')) return null;
  const body = whole.slice(0, -1);
  const cut = body.lastIndexOf('\n\n');
  if (cut < 0) return null;
  const signatures = parseSignatures(body.slice(cut + 2));
  const checkpoint = parseText(body.slice(0, cut));
  if (signatures === null || checkpoint === null) return null;
  return { ...checkpoint, signatures, signed: utf8(`${body.slice(0, cut)}\n`) };
}

function parseText(text) {
  const lines = text.split('\n');
  if (lines.length < 3 || lines.some((line) => line === '')) return null;
  const [origin, size, root] = lines;
  if (!/^(?:0|[1-9][0-9]{0,18})$/.test(size) || BigInt(size) >= SIZE_MAX) return null;
  const bytes = unbase64(root);
  if (bytes?.length !== 32) return null;
  // A size that no log has is larger than that of every log, which is all that is asked of it.
  return { origin, size: Number(size), root: hex(bytes) };
}

function parseSignatures(text) {
  const lines = text.split('\n');
  if (lines.length > SIGNATURES_MAX) return null;
  const signatures = [];
  for (const line of lines) {
    const parts = line.split(' ');
    if (parts.length !== 3 || parts[0] !== '\u2014' || !isName(parts[1])) return null;
    const bytes = unbase64(parts[2]);
    if (bytes === null || bytes.length <= 4) return null;
    signatures.push({ name: parts[1], hash: bytes.slice(0, 4), bytes: bytes.slice(4) });
  }
  return signatures;
}

/** The four bytes by which a note names a key. */
export const keyHash = (name, key) =>
  sha256(utf8(name), Uint8Array.of(0x0a, 0x01), key).slice(0, 4);

/**
 * Whether one of `keys` signed the note under the name of its origin, and no line that names one
 * of them is wrong.
 */
export async function isSigned(checkpoint, keys) {
  let found = false;
  for (const key of keys) {
    const hash = keyHash(checkpoint.origin, key.bytes);
    for (const signature of checkpoint.signatures) {
      if (signature.name !== checkpoint.origin || !same(signature.hash, hash)) continue;
      if (!await key.verify(checkpoint.signed, signature.bytes)) return false;
      found = true;
    }
  }
  return found;
}
