// Work: the board by phase with leases that tick, a board that is too long to be shown at once, and an item
// with its evidence, commits, sessions and the decisions of people.

import { holds, same, so } from './viewer_judge.mjs';
import { tabTo } from './viewer_access.mjs';

const text = (selector) => `document.querySelector(${JSON.stringify(selector)})?.innerText`;
const oneLine = (selector) => `document.querySelector(${JSON.stringify(selector)})?.textContent.replace(/\\s+/g, ' ')`;
const column = (phase) => `[data-phase="${phase}"]`;
const cards = (phase) => `document.querySelectorAll('${column(phase)} .card').length`;
const MANY = 60;

export async function run(bench) {
  const server = await bench.server();
  const { items } = bench.names;
  const check = (name, work) => bench.check(`work: ${name}`, work);
  const on = (place, look, options) => () => bench.visit(server, place, look, options);

  await check('the board has the items by phase, leases that tick, expired and blocked ones with the reason',
    on('/work', async (page) => {
    await page.waitText('Describe the formats in one page');
    holds(await page.eval(text(column('IMPLEMENTATION'))), 'agent-b');
    holds(await page.eval(text(column('IMPLEMENTATION'))), 'lease ran out');
    holds(await page.eval(text(column('BLOCKED'))), 'who is greeted?');
    holds(await page.eval(text(column('COMPLETED'))), 'Say hello');
    const lease = `document.querySelector('[data-item="${items.review}"] .ticking').textContent`;
    const before = await page.eval(lease);
    await page.wait(`${lease} !== ${JSON.stringify(before)}`, { ms: 3000, what: 'the lease to tick' });
    same(await page.eval(text('#work-summary')), '8 items, 2 held, 1 blocked');
  }, { height: 2000 }));

  await check('an item has its history with evidence, commits, CI and the pull request',
    on(`/work/${items.completed}`, async (page) => {
    await page.waitText('out of memory');
    const commit = await bench.workspace.git('rev-parse', 'HEAD');
    const said = await page.eval(oneLine('.history'));
    for (const words of ['passed exit status 0 on commit', commit.slice(0, 12), 'Evidence',
      'evidence/work/W-101/phase_implementation.yaml', 'https://github.com/example/hello/pull/1',
      'on the descriptor made for it', 'as the last thing printed, the weaker channel']) holds(said, words);
    const events = (await bench.workspace.events(items.completed)).length;
    holds(await page.eval(text('.counting')), `${events} of ${events} events shown`);
    same(await page.eval('document.querySelector(".history a[href*=\\"/events/\\"]") !== null'), true);
    await page.click('.grounds a[href*="/artifacts/"]');
    await page.wait('location.hash.startsWith("#/artifacts/")', { what: 'the bundle' });
    await page.waitText('computed here: same');
    await page.waitText('W-101');
  }));

  await check('the sessions of an item are listed with how they ended, each a link',
    on(`/work/${items.completed}`, async (page) => {
    await page.waitText('Sessions');
    const rows = await page.eval('[...document.querySelectorAll("[data-session]")].map((row) => row.innerText)');
    so(rows.length >= 7, `only ${rows.length} sessions`);
    const failed = rows.filter((row) => row.includes('not achieved'));
    same(failed.length, 1);
    holds(failed[0], 'IMPLEMENTATION');
    holds(failed[0], 'let go: was ended by signal 6');
    holds(rows[0], 'left as completed, on to Implementation');
    await page.click('[data-session] a');
    await page.wait('location.hash.startsWith("#/traces/")');
    await page.waitText('shown');
  }));

  await check('that a person unblocked an item is among the decisions, with how the word was given',
    on(`/traces/${items.unblocked}?view=decisions`, async (page) => {
    await page.waitText('unblocked: back to Draft');
    const card = await page.eval(text('.entry'));
    for (const words of ['Blocked in Draft', 'what counts as deleted?', 'moving to the bin counts too', 'a person',
      'unprotected-key', 'with a key without passphrase']) holds(card, words);
    await page.eval(`location.hash = ${JSON.stringify(`#/work/${items.unblocked}`)}`);
    await page.waitText('unblocked by an operator');
    holds(await page.eval(text('.history')), 'with a key without passphrase');
  }));

  await check('an item that is blocked waits among the decisions',
    on(`/traces/${items.blocked}?view=decisions&which=open`, async (page) => {
    await page.waitText('Nobody has decided about it.');
    holds(await page.eval(text('.entry')), 'who is greeted?');
  }));

  await long(bench, check);
}

async function long(bench, check) {
  const { workspace, server } = await bench.copy(async (copied) => {
    for (let at = 0; at < MANY; at += 1) await copied.run(['work', 'open', `Errand number ${at}`]);
  });
  const total = MANY + 8;
  const drafts = MANY + 2;
  const heading = `${text(`${column('DRAFT')} h2`)}.trim()`;

  await check('a board that is long is read in parts, and its counts are of all',
    () => bench.visit(server, '/work', async (page) => {
    await page.waitText(`${total} items`);
    same(await page.eval(cards('DRAFT')), 40);
    holds(await page.eval(heading), String(drafts));
    const asked = page.requests.filter(({ url }) => url.includes('/api/v1/work?'));
    so(asked.every(({ url }) => url.includes('limit=40')), 'all of it was asked for at once');
    await tabTo(page, `${column('DRAFT')} button`);
    await page.press('Enter');
    await page.wait(`${cards('DRAFT')} === ${drafts}`, { what: 'the rest of the column' });
    await page.wait(`document.activeElement.closest('[data-item]')?.innerText.includes('Errand number 38')`,
      { what: 'the first new card to have the focus' });
    // What is recorded elsewhere neither closes the column again nor takes the focus away.
    await workspace.run(['work', 'open', 'One more errand']);
    await page.waitText(`${total + 1} items`);
    await page.wait(`${cards('DRAFT')} === ${drafts + 1}`, { what: 'the new item' });
    holds(await page.eval('document.activeElement.innerText'), 'Errand number 38');
  }));

  await check('a search narrows the board, and stands in the address',
    () => bench.visit(server, '/work?text=errand%20NUMBER%207', async (page) => {
    await page.waitText(`1 of ${total + 1} items`);
    same(await page.eval(cards('DRAFT')), 1);
    await page.press('/');
    await page.press('End');
    await page.type('7 and nothing else');
    await page.waitText(`0 of ${total + 1} items`);
    same(await page.eval('new URLSearchParams(location.hash.split("?")[1]).get("text")'),
      'errand NUMBER 77 and nothing else');
  }));
}
