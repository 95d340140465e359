// Sealed files, judged by both verifiers: `node cap.mjs BINARY DIR_OF_CAPS COUNT SEED [VERIFIER] [KEEP]` does one
// thing to each of COUNT files and prints `{ compared, failed, disagreements }` as JSON. VERIFIER is the directory
// of the verifier that is compared, ours if there is none; KEEP a directory for the files on which they disagree.

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Dice, mutate, unpack } from './cap_mutate.mjs';

const LISTED_MAX = 20;
const DEADLINE_MS = 60_000;

/** The checks that both run. */
const SHARED = new Set(['CHK_SCHEMA_CONFORMANCE', 'CHK_EVENT_HASH_INTEGRITY', 'CHK_CHAIN_CONTINUITY',
  'CHK_SIGNATURE_VALIDITY', 'CHK_KEY_STATUS', 'CHK_LOG', 'CHK_ARTIFACT_EXISTENCE', 'CHK_ARTIFACT_HASH_MATCH',
  'CHK_RECEIPT_CHAIN']);
/** Warnings of the other checks. */
const NOT_SHARED = new Set(['DENIED_ACTION_RECORDED', 'RULES_NOT_REPLAYED', 'CLAIM_DISPUTED', 'ROLE_POLICY_VIOLATION',
  'CLAIM_UNPROVEN', 'SCHEMA_INVALID']);

/** What the reports of both have in common. Words and their order are not. */
function sharedOf(report) {
  const failures = report.failures.filter(({ check_id: check }) => SHARED.has(check))
    .map(({ check_id: check, failure_code: code, index }) => `${check} ${code} ${index}`);
  const warnings = report.warnings.map(({ warning_code: code }) => code).filter((code) => !NOT_SHARED.has(code));
  const once = (list) => [...new Set(list)].sort();
  const { events, signatures_verified: signed, log_entries: entries, trusted_events: trusted } = report.metrics;
  return {
    status: failures.length > 0 ? 'fail' : warnings.length > 0 ? 'pass-with-warnings' : 'pass',
    failures: once(failures),
    warnings: once(warnings),
    closed: report.closed,
    signer: report.signer,
    root: report.root,
    head: report.head,
    trace: report.trace_id,
    kind: report.kind,
    metrics: [events, signed, entries, trusted],
  };
}

/** What the binary says of a file. */
async function firstReport(binary, path, { trust, profile }, home) {
  const given = ['verify', path, '--json', '--profile', profile, ...trust.flatMap((root) => ['--trust', root])];
  const env = { PATH: process.env.PATH, HOME: home, COUNTERSIGN_CONFIG: home };
  const options = { cwd: home, env, timeout: DEADLINE_MS, maxBuffer: 64 << 20 };
  const { stdout } = await promisify(execFile)(binary, given, options).catch((error) => error);
  return JSON.parse(stdout);
}

const [binary, directory, count, seed, verifier, keep] = process.argv.slice(2);
const own = fileURLToPath(new URL('../../web/verifier/', import.meta.url));
const { verifyCap } = await import(new URL('cap.mjs', pathToFileURL(`${resolve(verifier || own)}/`)).href);
const names = (await readdir(directory)).filter((name) => name.endsWith('.cap')).sort();
const files = await Promise.all(names.map((name) => readFile(join(directory, name))));
const unpacked = files.map(unpack);
const roots = unpacked.map(([manifest]) => JSON.parse(manifest.bytes).countersign?.root ?? '0'.repeat(64));
const home = await mkdtemp(join(tmpdir(), 'caps-'));
const found = { compared: 0, failed: 0, disagreements: [] };
try {
  for (let at = 0; at < Number(count); at += 1) {
    const dice = new Dice(Number(seed) * 1_000_003 + at);
    const which = dice.below(files.length);
    const [what, bytes] = mutate(files[which], unpacked, dice);
    const options = {
      trust: dice.below(3) === 0 ? [] : [roots[which]],
      profile: dice.one(['default', 'default', 'strict', 'lenient']),
    };
    const path = join(home, 'file.cap');
    await writeFile(path, bytes);
    const first = sharedOf(await firstReport(resolve(binary), path, options, home));
    let second;
    try {
      second = sharedOf(await verifyCap(new Uint8Array(bytes), options));
    } catch (error) {
      second = { error: String(error.stack) };
    }
    found.compared += 1;
    found.failed += Number(first.status === 'fail');
    if (JSON.stringify(first) === JSON.stringify(second)) continue;
    if (keep !== undefined) await writeFile(join(keep, `${seed}-${at}.cap`), bytes);
    if (found.disagreements.length >= LISTED_MAX) break;
    found.disagreements.push({ at, file: names[which], what, ...options, first, second });
  }
} finally {
  await rm(home, { recursive: true, force: true });
}
process.stdout.write(`${JSON.stringify(found)}\n`);
