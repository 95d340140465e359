// What happens while the page is open must be on it within a second, by the page's own clock.

import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { runTask } from './workspace.mjs';
import { holds, so } from './viewer_judge.mjs';

const LATEST_MS = 1000;

/** Has the page note when something is first so; `seen()` gives that time. */
export async function noticing(page, expression, ms = 20_000) {
  await page.eval(`window.__seen = new Promise((done) => {
    const look = () => {
      let found = false;
      try { found = Boolean(${expression}); } catch {}
      if (found) { observer.disconnect(); done(Date.now()); }
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  }); true`);
  return () => page.eval(`Promise.race([window.__seen, new Promise((done) => setTimeout(() => done(null), ${ms}))])`);
}

export const soon = (seen, recorded, what) => {
  so(seen !== null, `${what} was never shown`);
  const late = seen - Date.parse(recorded);
  so(late <= LATEST_MS, `${what} was shown ${late} ms after it was recorded`);
};

const rowOf = (name) => `[...document.querySelectorAll('.vrow')].some((row) => row.innerText.includes('${name}'))`;
const isLive = 'document.querySelector(".live-state.on") !== null';

export async function run(bench) {
  const { workspace, server } = await bench.copy();
  const { traces, questions } = bench.names;
  const check = (name, work) => bench.check(`live: ${name}`, work);
  const action = (command) => ({ type: 'shell_exec', tool: 'shell', command, arguments: { cmd: command } });
  const ask = (call, command) => workspace.hook({ event: 'before', client: 'nightly-agent', session: 'refactoring',
    call, action: action(command) });

  await check('a session that begins is in the list within a second',
    () => bench.visit(server, '/traces', async (page) => {
    await page.wait(isLive);
    const seen = await noticing(page,
      `document.querySelector('main').innerText.includes('nobody-expected')`);
    const id = await runTask(workspace, 'unexpected', task('nobody-expected', 'Come without warning'));
    const [first] = await workspace.events(id);
    soon(await seen(), first.created_at, 'the session');
    await page.wait(`[...document.querySelectorAll('.vrow')].some((row) => row.innerText.includes('nobody-expected')
      && row.innerText.includes('succeeded'))`, { what: 'how it ended' });
  }));

  await check('an event of an open trace is on its page within a second',
    () => bench.visit(server, `/traces/${traces.recording}`, async (page) => {
    await page.wait(isLive);
    await page.waitText('shown');
    const before = (await workspace.events(traces.recording)).length;
    const seen = await noticing(page,
      `document.querySelector('main').innerText.includes('${before + 2} of ${before + 2} shown')`);
    await ask('live-1', 'ls -la live-marker');
    const events = await workspace.events(traces.recording);
    soon(await seen(), events[before + 1].created_at, 'the event');
  }));

  await check('a question that comes is shown and counted within a second',
    () => bench.visit(server, '/questions', async (page) => {
    await page.wait(isLive);
    const seen = await noticing(page,
      `document.querySelector('.questions').innerText.includes('git push live origin')`);
    const { question } = await ask('live-2', 'git push live origin');
    const asked = (await workspace.events(traces.recording)).find((event) => event.event_id === question);
    soon(await seen(), asked.created_at, 'the question');
    const count = await page.eval('document.querySelectorAll("[data-question]").length');
    await page.wait(`document.querySelector('.waiting-count').textContent === '${count}'`);
  }));

  await check('a question that is answered elsewhere goes away, and what is typed in another stays',
    () => bench.visit(server, '/questions', async (page) => {
    await page.wait(isLive);
    const field = `[data-question="${questions.session}"] .answer input`;
    await page.click(field);
    await page.type('half a sentence');
    await workspace.run(['approve', questions.recording, '--no']);
    await page.wait(`document.querySelector('[data-question="${questions.recording}"]') === null`,
      { what: 'the question to go away' });
    holds(await page.eval(`document.querySelector(${JSON.stringify(field)}).value`), 'half a sentence');
    so(await page.eval(`document.activeElement === document.querySelector(${JSON.stringify(field)})`),
      'the focus was lost');
    await page.waitText('Answered elsewhere');
  }));

  await check('a lease that is claimed is on the board within a second',
    () => bench.visit(server, '/work', async (page) => {
    await page.wait(isLive);
    const { draft } = bench.names.items;
    const seen = await noticing(page,
      `document.querySelector('[data-item="${draft}"]').innerText.includes('agent-live')`);
    await workspace.run(['work', 'claim', draft, '--as', 'agent-live', '--for', '5m']);
    const events = await workspace.events(draft);
    soon(await seen(), events.at(-1).created_at, 'the lease');
  }));

  await check('a trace that is removed leaves the list, and is named as gone',
    () => bench.visit(server, '/traces', async (page) => {
    await page.wait(isLive);
    await page.wait(rowOf('count-lines'), { what: 'its row' });
    await rm(dirname(workspace.ledger(traces.fallback)), { recursive: true });
    await page.waitText('1 trace that the log knows is gone');
    await page.wait(`!${rowOf('count-lines')}`, { what: 'its row to leave' });
  }, { height: 2600 }));

  await check('a flow goes on before the eyes of who looks at it',
    () => bench.visit(server, `/flows/${traces.specify}`, async (page) => {
    await page.wait(isLive);
    await page.waitText('asks a person');
    const before = await page.wait('document.querySelector("img.graph-picture")?.src');
    const seen = await noticing(page, `document.querySelector('[data-step="approve"]').innerText.includes('done')`);
    await workspace.run(['approve', questions.approval, '--yes']);
    const given = (await workspace.events(traces.specify)).find((event) => event.event_type === 'answer_given');
    soon(await seen(), given.created_at, 'the answer');
    await page.wait(`document.querySelector("img.graph-picture").src !== ${JSON.stringify(before)}`,
      { what: 'a new picture of the graph' });
    await workspace.run(['flow', 'resume', traces.specify]);
    await page.wait(`document.querySelector('[data-step="accept"]').innerText.includes('done')`,
      { what: 'the last step' });
  }));
}

const task = (id, objective) => `task_id = "${id}"
objective = "${objective}"

[[steps]]
id = "look"
objective = "Look around"
expected_evidence = ["a list"]
actions = [{ tool = "exec", argv = ["ls"] }]
`;
