// Agents' sessions that CapSeal sealed (docs/formats/cap.md#files-of-capseals): every receipt hash computed again,
// and every copy of a fact compared. Nothing in such a file is signed.

import { hex, sha256, unhex, utf8 } from './bytes.mjs';
import { disagreements, halves } from './capseal_facts.mjs';
import { isHash } from './forms.mjs';
import { CapRefusal } from './gzip.mjs';
import { containers } from './json.mjs';
import { compact, loads } from './python.mjs';
import { HASHED } from './receipts.mjs';
import { OBJECTS } from './shapes.mjs';

const ACTIONS_MAX = 200_000;
const DOCUMENT_BYTES_MAX = 64 << 10;
const ACTION_BYTES_MAX = 256 << 10;
const HEAVY_BYTES = 8 << 10;
const CONTAINERS_MAX = 1_024;
const TOLD_MAX = 20;
const COLUMNS = 14;

const RECORDS = 'actions.jsonl';
const LISTED = 'actions.json';
const CAPSULE = 'agent_capsule.json';
const PROOF = 'proof.json';
const METADATA = 'run_metadata.json';
const ROWS = 'row_archive/rows.json';
const LEVELS = 'row_archive/merkle_levels.json';
const SMALL = [CAPSULE, PROOF, METADATA];
const KNOWN = [RECORDS, LISTED, ...SMALL, ROWS, LEVELS];

const FIELDS = OBJECTS.AgentAction.map(([name]) => name);
const CHOICES = new Map(OBJECTS.AgentAction.flatMap(([name, , form]) => {
  const choice = form.one_of ?? form.null_or?.one_of;
  return choice === undefined ? [] : [[name, choice]];
}));
const TWELVE = HASHED.map(([name]) => name);
const THIRTEEN = [...TWELVE, 'policy_verdict'];

const refuse = (message) => { throw new CapRefusal(message); };

/** What a document is not. */
class Fault extends Error {}

const fault = (message) => { throw new Fault(message); };

function readObject(name, bytes) {
  if (bytes.length > DOCUMENT_BYTES_MAX) refuse(`member \`${name}\` is too long`);
  let value;
  try {
    value = loads(bytes);
  } catch (error) {
    return refuse(`\`${name}\` cannot be read: ${error.message}`);
  }
  return value instanceof Map ? value : refuse(`\`${name}\` is no object`);
}

/** The id of the session, if the file is of a kind in which anything can be checked. */
function sessionOf(manifest) {
  const word = (name) => (typeof manifest.get(name) === 'string' ? manifest.get(name) : '');
  const [schema, run] = [word('schema'), word('run_type')];
  // A report is a text that every reader takes: what stands alone of a pair of surrogates cannot be in it.
  if (schema === 'agent_cap_v1' || (schema === 'run_cap_v1' && run === 'mcp')) return word('trace_id').toWellFormed();
  return refuse('nothing in the file can be checked: no receipt covers what it holds');
}

const isText = (value) => typeof value === 'string';
const TYPES = {
  success: (value) => typeof value === 'boolean',
  duration_ms: (value) => typeof value === 'bigint',
  gate_score: (value) => value === null || typeof value === 'bigint' || typeof value === 'number',
  metadata: (value) => value === null || value instanceof Map,
};
const OPTIONAL = ['parent_action_id', 'parent_receipt_hash', 'gate_score', 'gate_decision', 'policy_verdict',
  'metadata'];

/** The fourteen fields of an action; `more` are names that may stand beside them. */
function actionOf(members, more = []) {
  for (const key of members.keys()) if (!FIELDS.includes(key) && !more.includes(key)) fault(`\`${key}\` is unknown`);
  const action = new Map();
  for (const name of FIELDS) {
    const optional = OPTIONAL.includes(name);
    const value = members.has(name) ? members.get(name) : null;
    if (!members.has(name) && !optional) fault(`\`${name}\` is missing`);
    const fits = TYPES[name] ?? ((one) => isText(one) || (optional && one === null));
    if (!fits(value)) fault(`\`${name}\` has another type`);
    const unknown = isText(value) && CHOICES.has(name) && !CHOICES.get(name).includes(value);
    if (unknown) fault(`\`${name}\` is none that is known`);
    action.set(name, value);
  }
  return action;
}

function document(bytes) {
  if (bytes.length > HEAVY_BYTES && containers(bytes) > CONTAINERS_MAX) fault('it has too many objects and lists');
  let members;
  try {
    members = loads(bytes);
  } catch (error) {
    return fault(error.message);
  }
  return members instanceof Map ? members : fault('it is no object');
}

const covered = (action, names) => new Map(names.map((name) => [name, action.get(name)]));
/** By which two copies of an action are the same: all fourteen fields. */
const digestOf = (action) => hex(sha256(utf8(compact(action))));

/** A line of `actions.jsonl`: `{ digest, receipt, parent, leaves }`. */
function recordOf(index, bytes) {
  const members = document(bytes);
  const action = actionOf(members, ['receipt_hash', 'canonical_fields']);
  const [receipt, canonical] = [members.get('receipt_hash'), members.get('canonical_fields')];
  if (!isText(receipt) || !isHash(receipt)) fault('`receipt_hash` is no hash');
  if (!(canonical instanceof Map)) fault('`canonical_fields` are missing');
  const names = canonical.has('policy_verdict') ? THIRTEEN : TWELVE;
  if (canonical.size !== names.length || !names.every((name) => canonical.has(name))) {
    fault('`canonical_fields` are neither the twelve nor the thirteen');
  }
  for (const name of names) {
    const same = compact(canonical.get(name)) === compact(action.get(name));
    if (!same) fault(`\`${name}\` is another in \`canonical_fields\``);
  }
  if (hex(sha256(utf8(compact(canonical)))) !== receipt) fault('`receipt_hash` is not that of the fields');
  const parent = action.get('parent_receipt_hash');
  for (const name of ['instruction_hash', 'input_hash', 'output_hash', 'parent_receipt_hash']) {
    const value = action.get(name);
    const none = value === null && name === 'parent_receipt_hash';
    if (!none && !isHash(value)) fault(`\`${name}\` is no SHA-256`);
  }
  return { digest: digestOf(action), receipt, parent, leaves: leavesOf(index, action, receipt) };
}

/** An element of `actions.json`: its digest. */
function listedOf(bytes) {
  const members = document(bytes);
  const exactly = (names) => members.size === names.length && names.every((name) => members.has(name));
  if (exactly(TWELVE) || exactly(THIRTEEN)) fault('it is no action');
  return digestOf(actionOf(members));
}

/** The leaf of a row: with the gate taken for asked where it decided, and where it gave a score. */
function leavesOf(index, action, receipt) {
  const kind = action.get('action_type');
  const row = [BigInt(index)];
  const hashes = [hex(sha256(utf8(kind))), action.get('instruction_hash'), action.get('input_hash'),
    action.get('output_hash'), action.get('parent_receipt_hash') ?? '0'.repeat(64), receipt];
  for (const one of hashes) row.push(...halves(one));
  const leaf = (asked) => {
    const bits = [action.get('success'), action.get('gate_decision') !== 'skip', asked,
      action.get('policy_verdict') !== null, kind === 'tool_call', kind === 'code_gen'];
    return leafOf(index, [...row, bits.reduce((sum, bit, place) => sum | (BigInt(bit) << BigInt(place)), 0n)]);
  };
  return [leaf(action.get('gate_decision') !== null), leaf(action.get('gate_score') !== null)];
}

/** The place in eight bytes, every number in sixteen, big-endian. */
function leafOf(index, row) {
  const bytes = new DataView(new ArrayBuffer(8 + 16 * row.length));
  bytes.setBigUint64(0, BigInt(index));
  row.forEach((number, at) => bytes.setBigUint64(8 + 16 * at + 8, number));
  return sha256(new Uint8Array(bytes.buffer));
}

/** The level above: the last node of an odd one is doubled. */
function above(level) {
  const next = [];
  for (let at = 0; at < level.length; at += 2) next.push(sha256(level[at], level[at + 1] ?? level[at]));
  return next;
}

function rootOf(leaves) {
  let level = leaves;
  while (level.length > 1) level = above(level);
  return level.length === 0 ? null : hex(level[0]);
}

/** The lines of a member, all of which end. */
function linesOf(bytes) {
  if (bytes.length > 0 && bytes.at(-1) !== 10) refuse(`\`${RECORDS}\`: its last line has no end`);
  const found = [];
  for (let start = 0; start < bytes.length;) {
    const end = bytes.indexOf(10, start);
    found.push(bytes.subarray(start, end));
    start = end + 1;
  }
  return found;
}

const isBlank = (byte) => byte === 0x20 || byte === 9 || byte === 10 || byte === 13;

/** The objects of an array, cut out without being read. */
function objectsOf(bytes) {
  const found = [];
  let at = 0;
  const space = () => { while (isBlank(bytes[at])) at += 1; };
  const none = () => refuse(`\`${LISTED}\`: it is no array of objects`);
  space();
  if (bytes[at++] !== 0x5b) none();
  space();
  if (bytes[at] === 0x5d) at += 1;
  else for (;;) {
    if (bytes[at] !== 0x7b) none();
    const end = endOfObject(bytes, at);
    if (end === null) none();
    found.push(bytes.subarray(at, end));
    at = end;
    space();
    const next = bytes[at++];
    if (next === 0x5d) break;
    if (next !== 0x2c) none();
    space();
  }
  space();
  return at >= bytes.length ? found : none();
}

function endOfObject(bytes, start) {
  let depth = 0;
  for (let at = start; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === 0x22) {
      for (at += 1; at < bytes.length && bytes[at] !== 0x22; at += 1) if (bytes[at] === 0x5c) at += 1;
    } else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
    } else if (byte === 0x7d || byte === 0x5d) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return null;
}

/** An array of arrays of numbers or plain strings, as lists of texts. */
function nestedOf(name, bytes) {
  const none = () => refuse(`\`${name}\`: it is no array of arrays`);
  const whole = new TextDecoder('latin1').decode(bytes);
  const token = /[ \t\n\r]*(?:([[\],])|"([^"\\]{0,128})"|([0-9]{1,128}))[ \t\n\r]*/y;
  const next = () => token.exec(whole) ?? none();
  const list = (element) => {
    const found = [];
    const first = next();
    if (first[1] === ']') return found;
    for (let one = first; ; one = next()) {
      found.push(element(one));
      const mark = next()[1];
      if (mark === ']') return found;
      if (mark !== ',') none();
    }
  };
  const item = (one) => one[2] ?? one[3] ?? none();
  if (next()[1] !== '[') none();
  const found = list((one) => (one[1] === '[' ? list(item) : none()));
  return token.lastIndex === whole.length ? found : none();
}

function rowsOf(bytes) {
  const number = (text) => {
    const value = /^[0-9]+$/.test(text) ? BigInt(text) : 1n << 64n;
    return value < 1n << 64n ? value : refuse(`\`${ROWS}\`: one of its rows is none`);
  };
  return nestedOf(ROWS, bytes).map((row, index) => {
    if (row.length !== COLUMNS) refuse(`\`${ROWS}\`: one of its rows is none`);
    return leafOf(index, row.map(number));
  });
}

/** `{ leaves, root }` of the levels of a tree, each of which must follow from the one below. */
function levelsOf(bytes) {
  const none = (message) => refuse(`\`${LEVELS}\`: ${message}`);
  const levels = nestedOf(LEVELS, bytes).map((level) => level.map((node) => (isHash(node) ? node : none('no hash'))));
  if (levels.some((level) => level.length === 0)) none('its levels are not those of a tree');
  levels.forEach((level, at) => {
    if (at === 0) return;
    if (levels[at - 1].length === 1) none('its levels are not those of a tree');
    const follows = above(levels[at - 1].map(unhex)).map(hex).join() === level.join();
    if (!follows) none('a level does not follow from the one below');
  });
  const last = levels.at(-1);
  return { leaves: levels[0]?.length ?? null, root: last?.length === 1 ? last[0] : null };
}

/** The members of the session, whole. */
async function membersOf(tar) {
  const members = new Map();
  for (let member = await tar.next(); member !== null; member = await tar.next()) {
    if (!KNOWN.includes(member.name)) refuse(`member \`${member.name}\` is none of an agent's session`);
    const parts = [];
    for (let piece = await tar.piece(); piece !== null; piece = await tar.piece()) parts.push(piece);
    members.set(member.name, new Uint8Array(await new Blob(parts).arrayBuffer()));
  }
  return members;
}

/** One of the two lists of actions: what each comes to, or why it comes to nothing. */
function eachOf(name, documents, look, faults) {
  if (documents.length > ACTIONS_MAX) refuse(`\`${name}\` has more than ${ACTIONS_MAX} actions`);
  if (documents.some((one) => one.length > ACTION_BYTES_MAX)) refuse(`\`${name}\`: one of its documents is too long`);
  return documents.map((bytes, index) => {
    try {
      return look(bytes, index);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      faults.push({ index, message: `\`${name}\` ${index}: ${error.message}` });
      return null;
    }
  });
}

/** What the receipts of a session come to: `{ traceId, actions, faults }`. `bytes` are those of the manifest. */
export async function readSession(tar, bytes) {
  const manifest = readObject('manifest.json', bytes);
  const traceId = sessionOf(manifest);
  const members = await membersOf(tar);
  const documents = { manifest };
  for (const name of SMALL) if (members.has(name)) documents[name] = readObject(name, members.get(name));
  const faults = [];
  const missing = (name) => members.has(name) || refuse(`member \`${name}\` is missing`);
  [RECORDS, LISTED, CAPSULE, METADATA].forEach(missing);
  const records = eachOf(RECORDS, linesOf(members.get(RECORDS)), (one, index) => recordOf(index, one), faults);
  const listed = eachOf(LISTED, objectsOf(members.get(LISTED)), listedOf, faults);
  const rows = members.has(ROWS) ? rowsOf(members.get(ROWS)) : null;
  const levels = members.has(LEVELS) ? levelsOf(members.get(LEVELS)) : null;
  const capsule = documents[CAPSULE];
  if (capsule.get('proof')?.get?.('proof_hash') !== undefined) missing(PROOF);
  if (capsule.get('commitment')?.get?.('row_root') !== undefined) [ROWS, LEVELS].forEach(missing);
  compareLists(records, listed, faults);
  const last = followed(records, faults);
  const told = faults.sort((a, b) => a.index - b.index).slice(0, TOLD_MAX);
  const wrong = (message) => told.push({ index: undefined, message });
  if (listed.length !== records.length) wrong(`\`${LISTED}\` and \`${RECORDS}\` have not as many actions`);
  if (records.length === 0) wrong('there are no actions');
  if (last !== null) {
    const seen = records.filter((one) => one !== null);
    const roots = [0, 1].map((which) => rootOf(seen.map((one) => one.leaves[which])));
    const proofHash = members.has(PROOF) ? hex(sha256(members.get(PROOF))) : null;
    disagreements(documents, { actions: records.length, last, roots, proofHash }).forEach(wrong);
    const fits = (count, root) => count === records.length && roots.includes(root);
    if (rows !== null && !fits(rows.length, rootOf(rows))) wrong(`\`${ROWS}\` is not what the actions give`);
    if (levels !== null && !fits(levels.leaves, levels.root)) wrong(`\`${LEVELS}\` is not what the actions give`);
  }
  return { traceId, actions: records.length, faults: told.slice(0, TOLD_MAX) };
}

function compareLists(records, listed, faults) {
  for (let index = 0; index < Math.min(records.length, listed.length); index += 1) {
    const [one, other] = [records[index], listed[index]];
    if (one !== null && other !== null && one.digest !== other) {
      faults.push({ index, message: `action ${index} is not the same in \`${LISTED}\` and in \`${RECORDS}\`` });
    }
  }
}

/** Whether each receipt names the one before; the hash of the last one, null if nothing is known of it. */
function followed(records, faults) {
  let last = null;
  records.forEach((record, index) => {
    // What is wrong with the action before was told.
    const blind = index > 0 && last === null;
    if (record !== null && !blind && record.parent !== last) {
      faults.push({ index, message: `\`${RECORDS}\` ${index} does not follow the action before` });
    }
    last = record?.receipt ?? null;
  });
  return last;
}
