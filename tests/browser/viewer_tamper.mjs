// What was changed after it was recorded: both verifiers must find it, at the right event.

import { readFile, rm, writeFile } from 'node:fs/promises';
import { holds, so } from './viewer_judge.mjs';

const CLAIM = 7;

export async function lines(workspace, trace, change) {
  const file = workspace.ledger(trace);
  const all = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
  await writeFile(file, `${change(all).join('\n')}\n`);
}

/** Both verdicts are a fail, they agree, and a finding leads to the event. */
export async function bothFindIt(page, index) {
  await page.wait(`(() => {
    const panel = document.querySelector('.verdict')?.innerText ?? '';
    return /Server\\s+✗\\s+fail/.test(panel) && /This browser\\s+✗\\s+fail/.test(panel)
      && panel.includes('both verifiers say so');
  })()`, { ms: 30_000, what: 'both verifiers to fail it and to agree' });
  await page.wait(`document.querySelector('.verdict a[href$="/events/${index}"]') !== null`,
    { what: `a finding that leads to event ${index}` });
}

/** That the row of an event is marked as failed, and those of its badges that must be; the one before it is not. */
export async function markedAt(page, index, ...badges) {
  await page.wait(`document.querySelector('.vrow[data-place="${index}"]')?.innerText.includes('✗')`,
    { what: `a mark of failure on row ${index}` });
  for (const badge of badges) {
    await page.wait(`document.querySelector('.vrow[data-place="${index}"]').textContent.includes('${badge} failed')`,
      { what: `the badge ${badge} of row ${index} to fail` });
  }
  const before = await page.eval(`document.querySelector('.vrow[data-place="${index - 1}"]').innerText`);
  so(!before.includes('✗'), `event ${index - 1} is marked as well: ${before}`);
}

export async function run(bench) {
  const { tests, evidence } = bench.names.traces;
  const check = (name, work) => bench.check(`tampering: ${name}`, work);

  await check('an edited payload is found at its event by both verifiers', async () => {
    const { server } = await bench.copy((workspace) => lines(workspace, tests, (all) => all.map((line, at) => (
      at === CLAIM ? line.replace('All unit tests of the calculator pass', 'All unit tests of the calculator fail')
        : line))));
    await bench.visit(server, `/traces/${tests}`, async (page) => {
      await bothFindIt(page, CLAIM);
      await markedAt(page, CLAIM, 'hash');
    });
    await bench.visit(server, `/traces/${tests}/events/${CLAIM}`, async (page) => {
      await page.waitText('All unit tests of the calculator fail');
      await page.wait('/differ|not the same|✗/i.test(document.querySelector("main").innerText)',
        { what: 'hashes that differ' });
    });
    await bench.visit(server, '/traces', async (page) => {
      await page.wait(`[...document.querySelectorAll('.vrow')].some((row) => row.innerText.includes('calculator-tests')
        && /\\bfail\\b/.test(row.innerText))`, { ms: 30_000, what: 'the list to show the failure' });
    }, { height: 2600 });
  });

  await check('a deleted event is found where it is missing by both verifiers', async () => {
    const { server } = await bench.copy((workspace) => lines(workspace, tests,
      (all) => all.filter((_, at) => at !== CLAIM)));
    await bench.visit(server, `/traces/${tests}`, async (page) => {
      await bothFindIt(page, CLAIM);
      await page.waitText('10 of 10 shown');
    });
  });

  await check('an event that was put elsewhere is found', async () => {
    const { server } = await bench.copy((workspace) => lines(workspace, tests, (all) => {
      const next = [...all];
      [next[4], next[5]] = [next[5], next[4]];
      return next;
    }));
    await bench.visit(server, `/traces/${tests}`, (page) => bothFindIt(page, 4));
  });

  await check('a line that cannot be read is shown as such, and the others still are', async () => {
    const { server } = await bench.copy((workspace) => lines(workspace, tests, (all) => all.map((line, at) => (
      at === CLAIM ? line.slice(0, -20) : line))));
    await bench.visit(server, `/traces/${tests}`, async (page) => {
      await page.waitText('11 of 11 shown');
      const row = `document.querySelector('.vrow[data-place="${CLAIM}"]')`;
      await page.wait(`/unreadable|cannot be read/i.test(${row}?.innerText)`,
        { what: 'the row that cannot be read' });
      await bothFindIt(page, CLAIM);
    });
  });

  await check('a changed artifact is found, and shows that its hash is another', async () => {
    let changed = null;
    let at = 0;
    const { server } = await bench.copy(async (workspace) => {
      const events = await workspace.events(evidence);
      at = events.findIndex((event) => event.event_type === 'tool_execution_completed');
      changed = events[at].artifacts[0].artifact_hash;
      const file = workspace.artifact(changed);
      const bytes = await readFile(file);
      await rm(file, { force: true });
      await writeFile(file, Buffer.concat([bytes.subarray(0, -1), Buffer.from('!')]));
    });
    await bench.visit(server, `/traces/${evidence}`, async (page) => {
      await bothFindIt(page, at);
    });
    await bench.visit(server, `/artifacts/${changed}?trace=${evidence}`, async (page) => {
      await page.wait('/other|differ|not the same|✗/i.test(document.querySelector("main").innerText)',
        { what: 'words about the hash' });
    });
  });

  await check('a removed trace is named where traces are listed, in the log and at its address', async () => {
    const { server } = await bench.copy((workspace) => rm(workspace.ledger(tests).replace(/\/[^/]*$/, ''),
      { recursive: true }));
    for (const place of ['/traces', '/log']) {
      await bench.visit(server, place, async (page) => {
        await page.waitText('1 trace that the log knows is gone');
        holds(await page.eval('document.querySelector("main").innerText'), tests.slice(0, 12));
      });
    }
    await bench.visit(server, `/traces/${tests}`, (page) => page.waitText('it is gone'), { allowed: [/404/] });
  });
}
