// How far each proposal and each intent came: from sessions that really went so, and one that was killed.

import { holds, same } from './viewer_judge.mjs';
import { interrupted } from './workspace.mjs';

const PROPOSALS = '[...document.querySelectorAll(".entry")].map((one) => one.dataset.state)';
const INTENTS = '[...document.querySelectorAll(".intents tbody tr")].map((one) => one.dataset.state)';
const COURSES = `[...document.querySelectorAll('.course')].map((one) => [...one.querySelectorAll('li')]
  .map((state) => state.innerText.replace(/\\s+/g, ' ').trim()).join(', '))`;

export async function run(bench) {
  const server = await bench.server();
  const { traces } = bench.names;
  const check = (name, work) => bench.check(`states: ${name}`, work);
  const on = (trace, look) => () => bench.visit(server, `/traces/${trace}?view=states`, async (page) => {
    await page.wait('document.querySelector(".course") !== null', { what: 'states' });
    await look(page);
  });

  await check('a session, its proposal and its intent show every state with its event', on(traces.tests,
    async (page) => {
    same(await page.eval(COURSES), [
      'planning event 0, reviewing event 1, executing event 2, claiming event 6, auditing event 8, completed event 10',
      'proposed event 1, conditional event 2, running event 5, done event 6',
      'proposed event 3, approved event 4, running event 5, done event 6',
    ]);
    same([await page.eval(PROPOSALS), await page.eval(INTENTS)], [['done'], ['done']]);
    await page.waitText('11 verified');
    await page.click('.intents .course li:last-child a');
    await page.wait('location.hash.endsWith("/events/6")', { what: 'the event that brought it about' });
  }));

  await check('a rejected proposal stays rejected', on(traces.blocked, async (page) => {
    same((await page.eval(PROPOSALS))[0], 'rejected');
  }));

  await check('a step that failed and the one in its place are told apart', on(traces.fallback, async (page) => {
    same(await page.eval(PROPOSALS), ['failed', 'done']);
    same(await page.eval(INTENTS), ['failed', 'done']);
  }));

  await check('an intent that a person is asked about waits', on(traces.asking, async (page) => {
    same([await page.eval(PROPOSALS), await page.eval(INTENTS)], [['approved'], ['asked']]);
  }));

  await check('a recording has intents without proposals', on(traces.recording, async (page) => {
    same(await page.eval(PROPOSALS), []);
    same(await page.eval(INTENTS), ['done', 'blocked', 'done', 'done', 'asked', 'asked']);
    holds((await page.eval(COURSES))[0], 'open event 0');
  }));

  await check('what a crash cut off is running at first, and unknown afterwards', async () => {
    const { workspace, server: own, given } = await bench.copy((copied) => interrupted(copied));
    await bench.visit(own, `/traces/${given}?view=states`, async (page) => {
      await page.wait(`${INTENTS}.join() === 'running'`, { what: 'the execution that goes on' });
      same(await page.eval(PROPOSALS), ['running']);
      await workspace.untilItAsks(['run', '--resume', given]);
      await page.wait(`${INTENTS}[0] === 'unknown'`, { what: 'the unknown outcome' });
    });
  });

  await check('work and flows have no such view: their own pages say where they stand', async () => {
    for (const id of [bench.names.items.completed, traces.review]) {
      await bench.visit(server, `/traces/${id}?view=states`, async (page) => {
        await page.waitText('shown');
        same(await page.eval('[...document.querySelectorAll(".tabs a")].map((one) => one.innerText)'),
          ['Timeline', 'Claims', 'Decisions', 'Executions', 'Report']);
      });
    }
  });
}
