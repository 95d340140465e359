// The page must not believe its server: where the two verdicts differ it says so loudly, and where only the server
// can know something, it says whose word that is. Each judgement must object to a page that believes everything.

import { readFile, writeFile } from 'node:fs/promises';
import { holds, so } from './viewer_judge.mjs';

const verdictOf = 'document.querySelector(".verdict")?.innerText ?? ""';
const pattern = '*/verdict';

/** The server's report, with something else in it. */
const lying = (change) => [{ pattern, change: (text) => JSON.stringify(change(JSON.parse(text))) }];
const failing = (check, code, index) => (report) => ({
  ...report,
  verification_status: 'fail',
  summary: 'something is wrong',
  checks: report.checks.map((one) => (one.check_id === check ? { ...one, status: 'fail' } : one)),
  failures: [...report.failures, {
    check_id: check, failure_code: code, severity: 'error', index, event_id: null, artifact_hash: null,
    message: 'a word of the server', suggested_action: '',
  }],
});

const LIES = [
  ['that says pass of a trace that was changed', (report) => ({
    ...report, verification_status: 'pass', failures: [], summary: 'all is well',
    checks: report.checks.map((one) => ({ ...one, status: 'pass' })),
  }), { tampered: true, wanted: 'this browser fail' }],
  ['that finds what is not there', failing('CHK_EVENT_HASH_INTEGRITY', 'HASH_MISMATCH', 3),
    { wanted: 'only the server found HASH_MISMATCH' }],
  ['that names another head', (report) => ({ ...report, head: '0'.repeat(64) }), { wanted: 'head: the server says' }],
  ['that says pinned of a signer nobody trusts', (report) => ({ ...report, signer: report.signer === 'pinned'
    ? 'unpinned' : 'pinned' }), { wanted: 'signer: the server says' }],
];

async function disagrees(page, wanted) {
  await page.wait(`(${verdictOf}).includes('The two verifiers disagree')`, { ms: 15_000, what: 'a loud disagreement' });
  const said = await page.eval(verdictOf);
  holds(said, wanted);
  so(!said.includes('Both verifiers agree'), `it says that they agree as well: ${said}`);
}

export async function run(bench) {
  const { tests } = bench.names.traces;
  const honest = await bench.server();
  const { server: tampered } = await bench.copy((workspace) => changed(workspace, tests));
  const check = (name, work) => bench.check(`doubt: ${name}`, work);
  const place = `/traces/${tests}`;

  for (const [name, lie, { tampered: damaged, wanted }] of LIES) {
    await check(`a server ${name} is contradicted`, () => bench.visit(damaged ? tampered : honest, place,
      (page) => disagrees(page, wanted), { overrides: lying(lie) }));
  }
  await bench.check('twin: a page that agrees with whatever the server says is caught', async () => {
    const gullible = { pattern: '*/viewer/verdict_compare.mjs', change: (code) => code.replace(
      'export function compare(server, own) {',
      "export function compare() {\n  return { state: 'agree', differences: [], partial: false };\n}\n"
      + 'function honest(server, own) {') };
    const found = await bench.visit(tampered, place, (page) => disagrees(page, 'fail'),
      { overrides: [...lying(LIES[0][1]), gullible] }).then(() => null, (error) => error);
    so(found !== null && /disagreement/.test(found.message), `the page was not caught: ${found?.message}`);
  });

  await check('what only the server checks is told as its word alone', () => bench.visit(honest, place,
    async (page) => {
    await page.wait(`(${verdictOf}).includes('the server says so, of rules that this browser does not check')`,
      { ms: 15_000, what: 'whose word it is' });
    const said = await page.eval(verdictOf);
    holds(said, 'found by the server only');
    so(!said.includes('both verifiers say so'), `it says that both found it: ${said}`);
  }, { overrides: lying(failing('CHK_ROLE_POLICY_CONFORMANCE', 'ROLE_POLICY_VIOLATION', 3)) }));
}

async function changed(workspace, trace) {
  const file = workspace.ledger(trace);
  const words = 'All unit tests of the calculator';
  await writeFile(file, (await readFile(file, 'utf8')).replace(`${words} pass`, `${words} fail`));
}
