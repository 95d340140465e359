// Taking a line apart: what it says, and the bytes that its hashes and its signature cover
// (docs/formats/event.md#hashes-and-signed-bytes).

import { hex, sha256, utf8 } from './bytes.mjs';
import { dialectOf, text } from './check.mjs';
import { isHash } from './forms.mjs';
import { Refusal, read, readText, write } from './json.mjs';

/**
 * What a line without its line feed says. Throws a `Refusal` where nothing can be read from it.
 * `payloadHash` and `eventHash` are computed, not those that it states.
 */
export function takeApart(bytes) {
  const found = read(bytes);
  if (!(found.value instanceof Map)) throw new Refusal('not an object');
  // Stored bytes are cut, not written anew; only a line that is not canonical has to be.
  const line = found.canonical ? found : readText(write(found.value));
  const dialect = dialectOf(found.value);
  const payload = found.value.get('payload');
  const payloadHash = payload === undefined || payload === null
    ? null : hex(sha256(utf8(slice(line, 'payload'))));
  const stated = text(found.value, 'payload_hash');
  const computed = payloadHash !== null && stated !== undefined && isHash(stated) ? payloadHash : null;
  return {
    value: found.value,
    dialect,
    notCanonical: dialect === '1.1' && !found.canonical,
    payloadHash,
    eventHash: hex(sha256(utf8(without(line, ['event_hash'])))),
    signedBytes: utf8(without(line, ['event_hash', 'payload', 'signature'], computed)),
  };
}

/** A member of the reading that is a hash, else null. */
export function hashMember(reading, name) {
  const stated = text(reading.value, name);
  return stated !== undefined && isHash(stated) ? stated : null;
}

function slice(line, name) {
  const [key, start, end] = line.members.find(([member]) => member === name);
  return line.text.slice(start + write(key).length + 1, end);
}

/** The object without some of its own members, and with this `payload_hash` if one is given. */
function without(line, names, payloadHash = null) {
  const kept = [];
  for (const [key, start, end] of line.members) {
    if (names.includes(key)) continue;
    const replaced = key === 'payload_hash' && payloadHash !== null;
    kept.push(replaced ? `"payload_hash":"${payloadHash}"` : line.text.slice(start, end));
  }
  return `{${kept.join(',')}}`;
}
