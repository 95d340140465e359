// Whether two verdicts say the same, as far as both verifiers look: the browser's does not replay the rules of
// traces, so what only the rules show is no difference.

/** The checks that both run. */
const SHARED = new Set(['CHK_SCHEMA_CONFORMANCE', 'CHK_EVENT_HASH_INTEGRITY', 'CHK_CHAIN_CONTINUITY',
  'CHK_SIGNATURE_VALIDITY', 'CHK_KEY_STATUS', 'CHK_LOG', 'CHK_ARTIFACT_EXISTENCE', 'CHK_ARTIFACT_HASH_MATCH',
  'CHK_RECEIPT_CHAIN']);
/** The warnings that both give. */
const WARNINGS = new Set(['TORN_TAIL', 'MISSING_FINAL_NEWLINE', 'CLOCK_REGRESSION', 'SIG_ABSENT', 'KEY_COMPROMISED',
  'REDACTION_LIMITED', 'LOG_ENTRY_MISSING', 'LOG_ABSENT', 'CHECKPOINT_UNREADABLE']);
/** From so many failures on, a report lists only the first; which those are is not compared. */
const LISTED_MAX = 1_000;
const DIFFERENCES_SHOWN = 8;

const failed = (report) => report.failures.filter(({ check_id: check }) => SHARED.has(check));
const placed = ({ check_id: check, failure_code: code, index }) => `${check} ${code} ${index ?? ''}`.trim();

function words(key) {
  const [check, code, index] = key.split(' ');
  return `${code ?? 'a failure'} in ${check}${index === undefined ? '' : ` at event ${index}`}`;
}

/** What the checks that both ran came to, where it is not the same; and a verdict that nothing bears out. */
function statuses(server, own) {
  const found = [];
  const of = (report, id) => report.checks?.find((one) => one.check_id === id)?.status ?? 'not-checked';
  for (const id of SHARED) {
    const [one, other] = [of(server, id), of(own, id)];
    if (one === 'not-checked' || other === 'not-checked' || one === other) continue;
    found.push(`${id}: the server says ${one}, this browser ${other}`);
  }
  const [theirs, ours] = [server, own].map((report) => report.verification_status);
  // Whatever this browser checks, the server checks too: it may only find more, and must say what.
  const more = server.failures.some(({ check_id: check }) => !SHARED.has(check));
  if (ours === 'fail' && theirs !== 'fail') found.push(`verdict: the server says ${theirs}, this browser fail`);
  if (theirs === 'fail' && ours !== 'fail' && !more) found.push(`verdict: the server says fail, this browser ${ours}`);
  return found;
}

/** The codes of warnings that only one of them gives, of those that both know. */
function warned(server, own) {
  const codes = (report) => new Set((report.warnings ?? []).map((one) => one.warning_code)
    .filter((code) => WARNINGS.has(code)));
  const [first, second] = [codes(server), codes(own)];
  return [...[...first].filter((code) => !second.has(code)).map((code) => `only the server warns of ${code}`),
    ...[...second].filter((code) => !first.has(code)).map((code) => `only this browser warns of ${code}`)];
}

/**
 * `{ state, differences, partial }`: `agree`; `disagree` with what differs, in words; or `apart` where one verifier
 * saw more events than the other, because the trace has grown meanwhile. `partial` where not all were compared.
 */
export function compare(server, own) {
  const [theirs, ours] = [server.metrics?.events ?? 0, own.metrics?.events ?? 0];
  const differences = [];
  const sets = [failed(server), failed(own)];
  const partial = [server, own].some((report) => report.failures.length >= LISTED_MAX);
  const [first, second] = sets.map((failures) => new Set(failures.map(partial ? (one) => one.check_id : placed)));
  for (const key of first) if (!second.has(key)) differences.push(`only the server found ${words(key)}`);
  for (const key of second) if (!first.has(key)) differences.push(`only this browser found ${words(key)}`);
  // Nothing wrong in either, and more to see for one of them: the trace went on. One that has ended does not.
  const ended = [server, own].some((report) => ['yes', 'aborted'].includes(report.closed));
  if (theirs !== ours && !ended && first.size === 0 && second.size === 0) {
    return { state: 'apart', differences: [], partial };
  }
  const facts = [['events', theirs, ours], ['head', server.head, own.head], ['closed', server.closed, own.closed],
    ['signer', server.signer, own.signer], ['root key', server.root, own.root]];
  for (const [name, one, other] of facts) {
    if (one !== other) differences.push(`${name}: the server says ${one ?? 'none'}, this browser ${other ?? 'none'}`);
  }
  differences.push(...statuses(server, own), ...warned(server, own));
  const shown = differences.slice(0, DIFFERENCES_SHOWN);
  if (differences.length > shown.length) shown.push(`and ${differences.length - shown.length} more`);
  return { state: differences.length === 0 ? 'agree' : 'disagree', differences: shown, partial };
}

/** What says most comes first: a changed event is mostly no event any more as well. */
const RANKS = { HASH_MISMATCH: 0, SIG_INVALID: 1, SIG_MISSING: 1, CHAIN_BREAK: 2, SCHEMA_INVALID: 4 };
const rank = (one) => RANKS[one.failure_code] ?? 3;

/** Everything that both found, once, each with who found it; ordered by event. */
export function merged(server, own) {
  const all = new Map();
  const take = (report, who) => {
    for (const failure of report?.failures ?? []) {
      const known = all.get(placed(failure));
      if (known === undefined) all.set(placed(failure), { ...failure, by: [who] });
      else if (!known.by.includes(who)) known.by.push(who);
    }
  };
  take(own, 'browser');
  take(server, 'server');
  const last = (one) => one.index ?? Infinity;
  return [...all.values()].sort((a, b) => (last(a) === last(b) ? rank(a) - rank(b) : last(a) < last(b) ? -1 : 1));
}
