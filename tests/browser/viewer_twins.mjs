// Broken copies of the page, each of which the checks of another group must object to: a check that no page
// can fail shows nothing.

import { focusSeen, unnamed } from './viewer_access.mjs';
import { so } from './viewer_judge.mjs';
import { noticing, soon } from './viewer_live.mjs';
import { lines, markedAt } from './viewer_tamper.mjs';

const CLAIM = 7;

/** A file of the page with one thing in it changed, which must be there. */
const exchanged = (file, old, now) => ({
  pattern: `*/viewer/${file}`,
  change(text) {
    if (!text.includes(old)) throw new Error(`${file} has no \`${old}\` any more`);
    return text.replace(old, now);
  },
});

export async function run(bench) {
  const server = await bench.server();
  const { traces } = bench.names;
  const caught = (name, { on = server, place, overrides, look = async () => {}, wanted }) => {
    const work = async () => {
      const found = await bench.visit(on, place, look, { overrides }).then(() => null, (error) => error);
      so(found !== null, 'the broken page was not caught');
      so(wanted.test(found.message), `it was caught for another reason: ${found.message}`);
    };
    return bench.check(`twin: ${name}`, work);
  };

  await caught('a page that asks somebody else is caught', {
    place: '/work', wanted: /content policy|requests elsewhere|console/,
    overrides: [exchanged('work.mjs', 'await load();', "await load(); fetch('http://127.0.0.1:9/x').catch(() => {});")],
  });
  await caught('a page with an error on its console is caught', {
    place: '/work', wanted: /console/,
    overrides: [exchanged('work.mjs', 'await load();', "await load(); console.error('broken');")],
  });
  await caught('a button without a name is caught', {
    place: '/work', wanted: /without a name/, look: unnamed,
    overrides: [exchanged('work.mjs', "h('h1', null, 'Work')",
      "h('h1', null, 'Work'), h('button', { type: 'button' })")],
  });
  await caught('a focus that cannot be seen is caught', {
    place: '/work', wanted: /focus cannot be seen/, look: focusSeen,
    overrides: [exchanged('style.css', ':focus-visible', ':focus-visible { outline: none !important; }\n:nowhere')],
  });

  const { server: tampered } = await bench.copy((workspace) => lines(workspace, traces.tests,
    (all) => all.map((line, at) => (at === CLAIM ? line.replace('calculator pass', 'calculator fail') : line))));
  await caught('a page that marks every event as sound is caught', {
    on: tampered, place: `/traces/${traces.tests}`, wanted: /mark of failure/,
    look: async (page) => {
      await page.waitText('both verifiers say so', { selector: '.verdict', ms: 30_000 });
      await markedAt(page, CLAIM);
    },
    overrides: [exchanged('timeline.mjs', "if (own.some((one) => one.failure_code)) return 'failed';", "return 'ok';")],
  });

  const { workspace, server: changing } = await bench.copy();
  await caught('a page that is not told of changes is caught', {
    on: changing, place: '/work', wanted: /never shown/,
    look: async (page) => {
      const { draft } = bench.names.items;
      const seen = await noticing(page,
        `document.querySelector('[data-item="${draft}"]').innerText.includes('agent-late')`, 3000);
      await workspace.run(['work', 'claim', draft, '--as', 'agent-late', '--for', '5m']);
      soon(await seen(), (await workspace.events(draft)).at(-1).created_at, 'the lease');
    },
    overrides: [exchanged('work.mjs', '{ work: load, hello: load }', '{}')],
  });
}
