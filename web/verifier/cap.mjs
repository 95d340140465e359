// Sealed files (docs/formats/cap.md): what is in a `.cap`, and whether it holds. Read as a stream, never
// extracted; everything is kept in memory, so this reader takes no more than 1 GiB.

import { noApprovals } from './approvals.mjs';
import { Sha256, hex } from './bytes.mjs';
import { readSession } from './capseal.mjs';
import { text } from './check.mjs';
import { Copies } from './copies.mjs';
import { readCanonical, readExtract, viewOfExtract } from './extract.mjs';
import { isHash, isTime, isVersion, textFault } from './forms.mjs';
import { CapRefusal, TooLarge, openGzip } from './gzip.mjs';
import { containers } from './json.mjs';
import { viewBeside } from './kept.mjs';
import { Findings, reportOf } from './report.mjs';
import { Tar } from './tar.mjs';
import { firstEvent, judge, pinOf, profileOf } from './verify.mjs';

export { CapRefusal, TooLarge };

const MANIFEST = 'manifest.json';
const EXTRACT = 'log/extract.json';
const REPORT = 'report.json';
const EVENTS = 'trace/events.jsonl';
const ACTIONS = 'actions.jsonl';
const CAPSULE = 'agent_capsule.json';
const ARTIFACTS = 'artifacts/sha256/';

const MANIFEST_BYTES_MAX = 16 << 20;
const MANIFEST_ELEMENTS_MAX = 400_000;
const OTHER_BYTES_MAX = 1 << 20;
const LIMITS = { [EXTRACT]: 8 << 20, [REPORT]: 4 << 20, [CAPSULE]: 64 << 10 };
const REPORT_CONTAINERS_MAX = 16_384;
const LINE_CONTAINERS_MAX = 8_192;
const NO_EVENTS_MAX = 100;
/** Artifacts up to this size are kept as bytes, larger ones as a Blob, which a browser need not hold in memory. */
const BYTES_KEPT = 1 << 20;

const refuse = (message) => { throw new CapRefusal(message); };

const heavy = (line) => line.length > LINE_CONTAINERS_MAX && containers(line) > LINE_CONTAINERS_MAX;

/** The members of a manifest, each with what it must be. */
const count = (value) => typeof value === 'number' && value >= 0;
const word = (value) => typeof value === 'string' && textFault(value) === null;
const name = (value) => word(value) && value !== '';
const hash = (value) => typeof value === 'string' && isHash(value);
const just = (...all) => (value) => all.includes(value);
const flag = (value) => typeof value === 'boolean';
const KINDS = just('session', 'recording', 'work', 'flow');
const ORIGIN = { head: hash, kind: KINDS, origin: name, root: hash, size: count };
const MEMBER = { name, sha256: hash, size: count };
const SHAPE = {
  actions_count: count,
  agent: word,
  archive_format: just('json'),
  backend: just('countersign'),
  capsule_id: word,
  chain_hash: word,
  countersign: (value) => fits(value, ORIGIN) === null,
  created_at: (value) => typeof value === 'string' && isTime(value),
  members: (value) => Array.isArray(value) && value.every((member) => fits(member, MEMBER) === null),
  num_chunks: count,
  policy_hash: word,
  policy_id: word,
  proof_generated: flag,
  proof_size: count,
  proof_type: just('recomputation'),
  proof_verified: flag,
  root_hex: word,
  run_id: name,
  run_type: just('mcp'),
  schema: just('run_cap_v1'),
  schema_version: (value) => typeof value === 'string' && isVersion(value),
  session_name: word,
  total_rounds: count,
  trace_id: name,
  verification_profile: just('receipt_chain'),
};

/** The first member that is missing, too many or wrong; null if there is none. */
function fits(value, shape) {
  if (!(value instanceof Map)) return 'it';
  const unknown = [...value.keys()].find((key) => !Object.hasOwn(shape, key));
  return unknown ?? Object.keys(shape).find((key) => !value.has(key) || !shape[key](value.get(key))) ?? null;
}

function readManifest(bytes) {
  let found;
  try {
    found = readCanonical(bytes, MANIFEST_BYTES_MAX, MANIFEST_ELEMENTS_MAX);
  } catch (error) {
    return refuse(`\`${MANIFEST}\`: ${error.message}`);
  }
  const wrong = fits(found.value, SHAPE);
  if (wrong !== null) refuse(`\`${MANIFEST}\`: \`${wrong}\` is missing, unknown or wrong`);
  const [, start, end] = found.members.find(([key]) => key === 'members');
  if (bytes.length - (end - start) > OTHER_BYTES_MAX) refuse(`\`${MANIFEST}\` is too long`);
  return found.value;
}

/** Whether bytes mean to be a manifest of ours rather than one of CapSeal's. */
function isOurs(bytes) {
  try {
    const value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return typeof value === 'object' && value !== null && Object.hasOwn(value, 'countersign');
  } catch {
    return false;
  }
}

/** The members that a manifest lists: those before the artifacts as they must be, the artifacts in order. */
function listedMembers(manifest) {
  const listed = manifest.get('members').map((member) => ({
    name: text(member, 'name'), size: member.get('size'), sha256: text(member, 'sha256'),
  }));
  const wanted = [EXTRACT, REPORT, EVENTS, ACTIONS, CAPSULE];
  let last = '';
  for (const member of listed) {
    if (wanted[0] === REPORT && member.name !== REPORT) wanted.shift();
    if (wanted.length > 0) {
      const expected = wanted.shift();
      if (member.name !== expected) refuse(`\`${MANIFEST}\` lists \`${member.name}\` where \`${expected}\` must be`);
      continue;
    }
    const found = member.name.startsWith(ARTIFACTS) ? member.name.slice(ARTIFACTS.length) : '';
    if (!isHash(found)) refuse(`\`${MANIFEST}\` lists \`${member.name}\`, which is no member of a sealed file`);
    if (found !== member.sha256) refuse(`\`${MANIFEST}\` lists \`${member.name}\` with another hash`);
    if (found <= last) refuse(`\`${MANIFEST}\` lists \`${member.name}\` out of order`);
    last = found;
  }
  const missing = wanted.find((one) => one !== REPORT);
  if (missing !== undefined) refuse(`\`${MANIFEST}\` does not list \`${missing}\``);
  return listed;
}

/** The members as they come, each held against the manifest. */
class Intake {
  #next = 0;

  constructor(tar, listed) {
    this.tar = tar;
    this.listed = listed;
  }

  peek() {
    return this.listed[this.#next]?.name ?? null;
  }

  /** The next member; null at the end, which was then checked. */
  async begin() {
    const member = await this.tar.next();
    const listed = this.listed[this.#next];
    this.#next += 1;
    if (member === null) return listed === undefined ? null : refuse(`member \`${listed.name}\` is missing`);
    if (listed?.name !== member.name) refuse(`member \`${member.name}\` is not where \`${MANIFEST}\` lists it`);
    if (listed.size !== member.size) refuse(`member \`${member.name}\` has another size than \`${MANIFEST}\` says`);
    plain(member);
    return listed;
  }

  async beginNamed(wanted) {
    const member = await this.begin();
    return member?.name === wanted ? member : refuse(`member \`${wanted}\` is not in its place`);
  }

  /** The pieces of the member, which was begun. */
  async pieces(member) {
    if (member.size > (LIMITS[member.name] ?? Infinity)) refuse(`member \`${member.name}\` is too long`);
    const hasher = new Sha256();
    const parts = [];
    for (let piece = await this.tar.piece(); piece !== null; piece = await this.tar.piece()) {
      hasher.update(piece);
      parts.push(piece);
    }
    if (hex(hasher.digest()) !== member.sha256) {
      refuse(`member \`${member.name}\` has another hash than \`${MANIFEST}\` says`);
    }
    return parts;
  }

  async bytes(member) {
    return join(await this.pieces(member), member.size);
  }

  async named(wanted) {
    return this.bytes(await this.beginNamed(wanted));
  }
}

function plain(member) {
  if (!member.plain) refuse(`the tar header of member \`${member.name}\` is not that of a sealed file`);
}

function join(parts, size) {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * Opens a sealed file, given as bytes or as a Blob: `{ manifest, extract, report, ledger, actions, capsule,
 * artifacts }`, with `manifest` as a Map and `extract` as it was read, the others as bytes (`report` null if
 * there is none) and `artifacts` as a Map from hashes to bytes or Blobs. Throws a `CapRefusal` where the
 * container is refused, `TooLarge` where it is more than this reader takes. Of a session of CapSeal's it
 * gives `{ session }`.
 */
export async function openCap(given, { progress, signal, atExtract } = {}) {
  const tell = progress === undefined ? undefined : (done, total) => {
    signal?.throwIfAborted();
    progress({ done, total, what: 'reading' });
  };
  const gzip = await openGzip(given, tell);
  const tar = new Tar(gzip.pieces);
  const first = await tar.next();
  if (first === null) refuse(`the file is empty: there is no \`${MANIFEST}\``);
  if (first.name !== MANIFEST) refuse(`the first member is \`${first.name}\`, not \`${MANIFEST}\``);
  const bytes = await wholeMember(tar, first, MANIFEST_BYTES_MAX);
  if (!isOurs(bytes)) return { session: await readSession(tar, bytes) };
  if (gzip.seal === null) refuse('the gzip header is not that of a sealed file');
  plain(first);
  const manifest = readManifest(bytes);
  return readMembers(new Intake(tar, listedMembers(manifest)), manifest, atExtract);
}

async function wholeMember(tar, { name: own, size }, limit) {
  if (size > limit) refuse(`member \`${own}\` is too long`);
  const parts = [];
  for (let piece = await tar.piece(); piece !== null; piece = await tar.piece()) parts.push(piece);
  return join(parts, size);
}

async function readMembers(intake, manifest, atExtract) {
  const extract = extractOf(await intake.named(EXTRACT));
  const report = intake.peek() === REPORT ? await intake.named(REPORT) : null;
  if (report !== null && containers(report) > REPORT_CONTAINERS_MAX) {
    refuse(`\`${REPORT}\` has too many objects and lists`);
  }
  const events = await intake.beginNamed(EVENTS);
  await atExtract?.(manifest, extract);
  const ledger = await intake.bytes(events);
  refuseHeavyLines(ledger);
  const actions = await intake.named(ACTIONS);
  const capsule = await intake.named(CAPSULE);
  const artifacts = new Map();
  for (let member = await intake.begin(); member !== null; member = await intake.begin()) {
    const parts = await intake.pieces(member);
    const kept = member.size <= BYTES_KEPT ? join(parts, member.size) : new Blob(parts);
    artifacts.set(member.sha256, kept);
  }
  return { manifest, extract, report, ledger, actions, capsule, artifacts };
}

function extractOf(bytes) {
  let extract;
  try {
    extract = readExtract(bytes);
  } catch (error) {
    return refuse(`\`${EXTRACT}\`: ${error.message}`);
  }
  const encoder = new TextEncoder();
  const tooHeavy = extract.entries.find(({ line }) => heavy(encoder.encode(line)));
  if (tooHeavy !== undefined) refuse(`\`${EXTRACT}\`: entry ${tooHeavy.index} has too many objects and lists`);
  return extract;
}

function refuseHeavyLines(ledger) {
  for (let start = 0; start < ledger.length;) {
    const end = ledger.indexOf(10, start) < 0 ? ledger.length : ledger.indexOf(10, start);
    // A line that is too long is not read at all.
    const line = ledger.subarray(start, end);
    if (line.length <= OTHER_BYTES_MAX && heavy(line)) refuse(`\`${EVENTS}\`: a line has too many objects and lists`);
    start = end + 1;
  }
}

/** Carries a report out of the reading of a file that is not read any further. */
class Settled extends Error {
  constructor(report) {
    super('settled');
    this.report = report;
  }
}

/**
 * Verifies a sealed file, given as bytes or as a Blob. Options as of `verify`, without `keys`; and `opened`, which is
 * told what `openCap` gives, and `kept`, what the reader has of the log: `log()` and `checkpoints()` as of a source.
 * Throws `TooLarge` where the file is more than this reader takes; whatever is wrong with
 * the file is in the report.
 */
export async function verifyCap(given, options = {}) {
  const profile = profileOf(options);
  const { signal } = options;
  const findings = new Findings();
  let held = null;
  const atExtract = async (manifest, extract) => {
    held = await viewOfExtract(extract, text(manifest, 'trace_id'), findings);
    if (held !== null) return;
    throw new Settled(bareReport(text(manifest, 'trace_id'), findings, 'the log\'s extract does not hold', options));
  };
  try {
    const cap = await openCap(given, { progress: options.progress, signal, atExtract });
    if (cap.session !== undefined) return receiptsReport(cap.session, options);
    options.opened?.(cap);
    return await judgeCap(cap, held, { ...options, profile }, findings);
  } catch (error) {
    if (error instanceof Settled) return error.report;
    if (!(error instanceof CapRefusal)) throw error;
    const own = new Findings();
    own.fail('CHK_SCHEMA_CONFORMANCE', 'SCHEMA_INVALID', {}, error.message);
    return bareReport('', own, 'the file was refused', options);
  }
}

async function judgeCap(cap, held, options, findings) {
  const { profile, signal } = options;
  const { manifest, ledger, artifacts, report, capsule } = cap;
  const members = manifest.get('members');
  const listed = (wanted) => text(members.find((one) => text(one, 'name') === wanted), 'sha256') ?? null;
  const reportHash = listed(REPORT);
  const stated = { manifest, capsule, report: reportHash, artifacts, actions: listed(ACTIONS) };
  const source = {
    events: async () => ledger,
    artifact: async (wanted) => {
      const found = artifacts.get(wanted) ?? (wanted === reportHash ? report : null);
      return found instanceof Blob ? found.stream() : found;
    },
    proven: (wanted) => sizeOf(artifacts.get(wanted)),
  };
  const pin = pinOf(await firstEvent(source));
  if (pin !== null) held.view.pinHolds = held.holds(pin);
  const { root, origin } = held.view;
  const wanted = { traceId: text(manifest, 'trace_id'), pin, profile, signal };
  const view = await viewBeside(held, cap.extract, options.kept ?? {}, wanted, findings);
  const copies = new Copies(stated, root, origin);
  const onlooker = {
    line: (event) => {
      copies.line(event);
      if (copies.strange <= NO_EVENTS_MAX) return;
      refuse(`\`${EVENTS}\` has more than ${NO_EVENTS_MAX} lines that are no events`);
    },
    end: (found) => copies.end(found),
  };
  const total = manifest.get('countersign').get('size');
  const progress = (step) => options.progress?.({ ...step, total: step.total ?? Math.max(step.done, total) });
  const own = { ...options, profile: profile.name, progress, expectTrace: text(manifest, 'trace_id') };
  return judge(source, own, { profile, pin, checkpoints: [], view, keys: view.book, findings, onlooker });
}

const sizeOf = (kept) => (kept === undefined ? undefined : kept.size ?? kept.length);

const ADVICE = 'do not rely on this file; ask for it again where it was sealed';

function bareVerdict(traceId, closed, profile) {
  return {
    traceId,
    kind: null,
    head: null,
    ended: null,
    closed,
    root: null,
    profile,
    approvals: noApprovals(),
    coverage: null,
    artifactsRead: true,
    signaturesChecked: false,
    metrics: { events: 0, signatures_verified: 0, log_entries: 0, trusted_events: 0 },
    advice: ADVICE,
  };
}

/** A report that says only what is wrong. */
function bareReport(traceId, findings, why, options) {
  findings.skipAll(why);
  return reportOf(bareVerdict(traceId, 'no', profileOf(options)), findings, options);
}

/** What receipts without signatures come to. */
function receiptsReport(session, options) {
  const findings = new Findings();
  findings.skipAll('a file of CapSeal\'s has nothing of the kind', ['CHK_RECEIPT_CHAIN']);
  for (const { index, message } of session.faults) {
    findings.fail('CHK_RECEIPT_CHAIN', 'HASH_MISMATCH', { index }, message);
  }
  findings.scope('CHK_RECEIPT_CHAIN', `${session.actions} actions, all copies of them`);
  const verdict = {
    ...bareVerdict(session.traceId, 'yes', profileOf(options)),
    unsigned: true,
    summary: `a session of CapSeal's: the receipts of ${session.actions} actions and all copies of them agree; `
      + 'they are unsigned, and anyone could have written them',
  };
  return reportOf(verdict, findings, options);
}
