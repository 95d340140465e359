// The published vectors, read by the second verifier. The same in Node and in a browser: `bytes`
// fetches a file of the repository by its path (null if it is not there), `base` is where the
// verifier lies.

const VECTORS = 'docs/formats/vectors';
const CASES = 'tests/cases/hostile-json.jsonl';

const decode = (bytes) => new TextDecoder().decode(bytes);
const encode = (text) => new TextEncoder().encode(text);
const fromBase64 = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

/** What disagrees with the vectors, and how many of each were looked at. */
export async function checkVectors(base, bytes) {
  const load = (name) => import(new URL(name, base).href);
  const parts = {};
  const names = ['bytes', 'check', 'ed25519', 'event', 'json', 'merkle', 'note', 'verify'];
  for (const name of names) Object.assign(parts, await load(`${name}.mjs`));
  const vector = async (name) => JSON.parse(decode(await bytes(`${VECTORS}/${name}`)));
  const tally = new Tally();
  canonical(parts, await vector('canonical.json'), tally);
  hostile(parts, decode(await bytes(CASES)), tally);
  malformed(parts, await vector('malformed-events.json'), tally);
  await events(parts, await vector('event.json'), tally);
  await signatures(parts, await vector('ed25519.json'), tally);
  merkle(parts, await vector('merkle.json'), tally);
  await checkpoints(parts, await vector('checkpoint.json'), tally);
  return { counts: tally.counts, disagreements: tally.disagreements };
}

class Tally {
  counts = {};
  disagreements = [];

  same(group, name, found, wanted) {
    this.counts[group] = (this.counts[group] ?? 0) + 1;
    const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (a !== b) this.disagreements.push(`${group}: ${name}: found ${a}, wanted ${b}`);
  }
}

/** What the strict reader makes of bytes: why it refuses them, or what it read. */
function attempt({ read, Refusal }, bytes) {
  try {
    return read(bytes);
  } catch (error) {
    if (error instanceof Refusal) return { reason: error.reason };
    throw error;
  }
}

function input(parts, { input: text, input_hex: digits, input_parts: pairs, line }) {
  if (digits !== undefined) return parts.unhex(digits);
  if (pairs !== undefined) return encode(pairs.map(([part, times]) => part.repeat(times)).join(''));
  return encode(text ?? line);
}

function canonical(parts, { accepted, refused, not_canonical_lines: lines }, tally) {
  const { hex, sha256, utf8, write } = parts;
  for (const one of accepted) {
    const found = attempt(parts, input(parts, one));
    const form = found.reason === undefined ? write(found.value) : found.reason;
    tally.same('canonical', one.name, hex(sha256(utf8(form))), one.sha256);
    if (one.canonical !== undefined) tally.same('canonical', one.name, form, one.canonical);
  }
  for (const one of refused) {
    tally.same('canonical', one.name, attempt(parts, input(parts, one)).reason, one.reason);
  }
  for (const one of lines) {
    const found = attempt(parts, input(parts, one));
    const isLine = found.canonical && found.value instanceof Map;
    tally.same('canonical', one.name, [isLine, write(found.value)], [false, one.canonical]);
  }
}

function hostile(parts, text, tally) {
  for (const line of text.trimEnd().split('\n')) {
    const { name, layer, expect, bytes_b64: encoded, canonical_b64: form } = JSON.parse(line);
    const bytes = fromBase64(encoded);
    const found = attempt(parts, bytes);
    const read = found.reason === undefined;
    if (['json', 'canon', 'render'].includes(layer)) {
      // Text rules are an event's matter; of the rest, an unsafe magnitude is refused.
      const accept = expect === 'accept' || (expect === 'policy' && name !== 'num-halfway');
      tally.same('hostile', name, read, accept);
      if (read && form !== undefined) tally.same('hostile', name, parts.write(found.value), decode(fromBase64(form)));
    } else if (layer === 'ledger-line') {
      tally.same('hostile', name, read && found.value instanceof Map && found.canonical, expect === 'accept');
    } else if (layer === 'schema:event') {
      // The cases are events of schema 1.0 with faults of their own; in 1.1 each is refused, too.
      const faults = read ? faultsOf(parts, found.value) : [''];
      tally.same('hostile', name, faults.length > 0, true);
    }
  }
}

/** Pointers to everything that is wrong in a document, its signature included. */
function faultsOf({ eventFaults, signatureFaults, dialectOf }, value) {
  const faults = eventFaults(value).map(({ pointer }) => pointer);
  if (!(value instanceof Map)) return faults;
  if (!value.has('signature')) return [...faults, '/signature'];
  const own = signatureFaults(value.get('signature'), dialectOf(value), '/signature');
  return [...faults, ...own.map(({ pointer }) => pointer)];
}

function malformed(parts, { cases }, tally) {
  for (const { name, line, pointers } of cases) {
    const found = attempt(parts, encode(line));
    // Where the strict reader refuses, it is enough that it does.
    if (found.reason !== undefined) tally.same('malformed', name, true, pointers.length > 0);
    else tally.same('malformed', name, faultsOf(parts, found.value).sort(), [...pointers].sort());
  }
}

async function events(parts, { events: sealed, tampered, public_key: encoded }, tally) {
  const { VerifyingKey, hex, sha256, takeApart, unbase64 } = parts;
  const key = new VerifyingKey(unbase64(encoded));
  const judge = async (line) => {
    const reading = takeApart(encode(line));
    const signature = reading.value.get('signature');
    const stated = (name) => reading.value.get(name);
    const signed = await key.verify(reading.signedBytes, unbase64(signature.get('signature_b64')) ?? new Uint8Array());
    const fits = signature.get('signed_bytes_hash') === hex(sha256(reading.signedBytes));
    const codes = [];
    if (stated('payload_hash') !== reading.payloadHash || stated('event_hash') !== reading.eventHash) {
      codes.push('HASH_MISMATCH');
    }
    if (!signed || !fits || reading.value.get('actor').get('agent_id') !== 'planner') codes.push('SIG_INVALID');
    return { reading, codes };
  };
  for (const [at, one] of sealed.entries()) {
    const { reading, codes } = await judge(one.line);
    const found = [reading.payloadHash, reading.eventHash, hex(reading.signedBytes), codes];
    tally.same('events', at, found, [one.payload_hash, one.event_hash, one.signed_bytes_hex, []]);
  }
  for (const { changed, line, codes } of tampered) {
    tally.same('events', changed, (await judge(line)).codes, codes);
  }
}

async function signatures({ VerifyingKey, isPublicKey, unhex }, { cases }, tally) {
  for (const one of cases) {
    const key = unhex(one.public_key_hex);
    const valid = isPublicKey(key)
      && await new VerifyingKey(key).verify(unhex(one.message_hex), unhex(one.signature_hex));
    tally.same('ed25519', one.name, valid, one.valid);
  }
}

function merkle({ Frontier, isConsistent, isIncluded, unhex }, vectors, tally) {
  const { leaves, roots, inclusion, consistency, bad_inclusion: notIn, bad_consistency: notConsistent } = vectors;
  const tree = new Frontier();
  tally.same('merkle', 'no leaves', tree.root(), roots[0]);
  leaves.forEach((leaf, at) => {
    tree.push(unhex(leaf));
    tally.same('merkle', `${at + 1} leaves`, tree.root(), roots[at + 1]);
  });
  const nodes = (proof) => proof.map(unhex);
  for (const { index, size, proof } of inclusion) {
    const holds = isIncluded(unhex(leaves[index]), index, size, nodes(proof), unhex(roots[size]));
    tally.same('merkle', `${index} of ${size}`, holds, true);
  }
  for (const { name, leaf, index, size, proof, root } of notIn) {
    tally.same('merkle', name, isIncluded(unhex(leaf), index, size, nodes(proof), unhex(root)), false);
  }
  for (const { old_size: old, new_size: now, proof } of consistency) {
    const holds = isConsistent(old, unhex(roots[old]), now, unhex(roots[now]), nodes(proof));
    tally.same('merkle', `${old} in ${now}`, holds, true);
  }
  for (const { name, old_size: old, old_root: before, new_size: now, new_root: after, proof } of notConsistent) {
    tally.same('merkle', name, isConsistent(old, unhex(before), now, unhex(after), nodes(proof)), false);
  }
}

async function checkpoints(parts, vectors, tally) {
  const { VerifyingKey, hex, isSigned, keyHash, parseCheckpoint, unbase64 } = parts;
  const raw = unbase64(vectors.verifier_key.split('+').slice(2).join('+')).slice(1);
  const key = new VerifyingKey(raw);
  tally.same('checkpoint', 'key hash', hex(keyHash(vectors.origin, raw)), vectors.key_hash_hex);
  for (const note of [vectors.note, vectors.with_a_witness]) {
    const found = parseCheckpoint(encode(note));
    const values = [found.origin, found.size, found.root, decode(found.signed), await isSigned(found, [key])];
    const wanted = [vectors.origin, vectors.size, vectors.root, vectors.signed_text, true];
    tally.same('checkpoint', 'signed', values, wanted);
  }
  for (const { name, note } of vectors.refused) {
    const found = parseCheckpoint(encode(note));
    tally.same('checkpoint', name, found !== null && await isSigned(found, [key]), false);
  }
}

/** The codes of every ledger of the published workspaces, as `expected.json` has them. */
export async function judgeHomes(base, bytes) {
  const { verify, verifyLog } = await import(new URL('verify.mjs', base).href);
  const homes = `${VECTORS}/homes`;
  const expected = JSON.parse(decode(await bytes(`${homes}/expected.json`)));
  const once = (codes) => [...new Set(codes)];
  const found = {};
  for (const [name, ledgers] of Object.entries(expected)) {
    found[name] = {};
    const home = `${homes}/${name}`;
    for (const ledger of Object.keys(ledgers)) {
      const isLog = ledger === 'log';
      const source = {
        events: () => bytes(isLog ? `${home}/log/events.jsonl` : `${home}/traces/${ledger}/events.jsonl`),
        log: () => bytes(`${home}/log/events.jsonl`),
        checkpoints: async () => [await bytes(`${home}/log/checkpoint`)].filter((note) => note !== null),
        artifact: (hash) => bytes(`${home}/artifacts/sha256/${hash.slice(0, 2)}/${hash.slice(2, 4)}/${hash}`),
      };
      const report = isLog ? await verifyLog(source) : await verify(source, { expectTrace: ledger });
      found[name][ledger] = {
        failures: once(report.failures.map((failure) => failure.failure_code)),
        warnings: once(report.warnings.map((warning) => warning.warning_code)),
      };
    }
  }
  return found;
}
