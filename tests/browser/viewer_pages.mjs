// Each page on a real workspace, with what must be seen on it.

import { holds, same } from './viewer_judge.mjs';

const text = (selector) => `document.querySelector(${JSON.stringify(selector)})?.innerText`;
const all = (selector) => `[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => one.innerText)`;

export async function run(bench) {
  const server = await bench.server();
  const { traces, questions } = bench.names;
  const on = (place, look, options) => () => bench.visit(server, place, look, options);
  const check = (name, work) => bench.check(`pages: ${name}`, work);

  await check('the traces are listed with status, kind, verdict, duration and counts', on('/traces', async (page) => {
    const title = 'calculator-tests';
    const row = await page.wait(`[...document.querySelectorAll('.vrow')].map((one) => one.innerText)
      .find((one) => one.includes(${JSON.stringify(title)}) && one.includes('pinned'))`,
    { ms: 60_000, what: 'the row of the session with its verdict' });
    for (const word of ['succeeded', 'session', 'closed', 'pinned', '11']) holds(row, word);
    if (!/\d (ms|s|min)\b/.test(row)) throw new Error(`no duration in ${row}`);
    const kinds = (await page.eval(all('.vrow'))).join('\n');
    for (const kind of ['session', 'recording', 'work', 'flow']) holds(kinds, kind);
  }, { height: 2600 }));

  await check('search and filters of the list lie in the address', on('/traces?text=calculator-tests', async (page) => {
    await page.wait('document.querySelectorAll(".vrow").length === 1', { what: 'one row' });
    await page.waitText('1 of ');
    await page.eval('location.hash = "#/traces?kind=work"');
    await page.waitText('Describe the formats in one page');
    same(await page.eval('[...document.querySelectorAll(".vrow")].every((row) => row.innerText.includes("work"))'),
      true);
  }));

  await check('typing in the search field filters and changes the address', on('/traces', async (page) => {
    await page.press('/');
    await page.type('greeting-file');
    await page.wait('location.hash.includes("text=greeting-file")');
    await page.wait('document.querySelectorAll(".vrow").length === 1', { what: 'one row' });
  }));

  await check('a trace shows a lane for each role, every event as a sentence and how many are verified',
    on(`/traces/${traces.tests}`, async (page) => {
      await page.waitText('11 of 11 shown');
      await page.waitText('11 verified', { ms: 30_000 });
      same(await page.eval('document.querySelectorAll(".vrow").length'), 11);
      const body = await page.eval(text('main'));
      for (const role of ['planner', 'critic', 'executor', 'auditor']) holds(body, role);
      holds(body, 'All unit tests of the calculator pass');
    }));

  await check('a filtered timeline says how many of how many are shown and verified',
    on(`/traces/${traces.tests}?type=claim_issued`, async (page) => {
      await page.waitText('1 of 11 shown');
      await page.waitText('11 verified', { ms: 30_000 });
      same(await page.eval('document.querySelectorAll(".vrow").length'), 1);
    }));

  await check('both verifiers judge a good trace alike, and what is not proven stands beside it',
    on(`/traces/${traces.tests}`, async (page) => {
      await page.wait(agreement, { ms: 30_000, what: 'two verdicts that agree' });
      await page.waitText('that a claim is true', { selector: 'main' });
    }));

  await check('what is not proven stands beside the verdict on a narrow page too',
    on(`/traces/${traces.tests}`, (page) => page.waitText('that a claim is true', { selector: '.verdict' }),
      { width: 400 }));

  await check('claims are joined to their evidence', on(`/traces/${traces.tests}?view=claims`, async (page) => {
    await page.waitText('All unit tests of the calculator pass');
    await page.wait('document.querySelector(\'main a[href*="/artifacts/"]\')', { what: 'a link to the evidence' });
  }));

  await check('gate decisions show their reasons and who decided',
    on(`/traces/${traces.recording}?view=decisions`, async (page) => {
    await page.waitText('delete-everything');
    const body = await page.eval(text('main'));
    holds(body.toLowerCase(), 'blocked');
    holds(body, 'rm -rf /');
  }));

  await check('a rejected proposal shows why', on(`/traces/${traces.blocked}?view=decisions`, async (page) => {
    await page.waitText('download-run');
  }));

  await check('executions show what ran and what it printed',
    on(`/traces/${traces.tests}?view=executions`, async (page) => {
    await page.waitText('unittest');
    await page.waitText('OK');
  }));

  await check('the kept report is shown', on(`/traces/${traces.tests}?view=report`, async (page) => {
    await page.waitText('every hash is that of the bytes');
  }));

  await check('an event shows its payload, links both ways, its bytes and hashes recomputed here',
    on(`/traces/${traces.tests}/events/4`, async (page) => {
      await page.waitText('no guard objects');
      await page.wait(`document.querySelector('main a[href*="/events/3"]')`, { what: 'a link to the intent' });
      await page.wait(`document.querySelector('main a[href*="/events/5"]')`,
        { what: 'a link to what follows from it' });
      const [event] = (await bench.workspace.events(traces.tests)).slice(4);
      await page.wait(`document.querySelector('main').innerText.includes(${JSON.stringify(event.event_hash)})
        || document.querySelector('main [title*="${event.event_hash}"]') !== null`, { what: 'its hash' });
      await page.press(']');
      await page.wait('location.hash.includes("/events/5")', { what: 'the next event' });
      await page.waitText('event 5 of 11');
      await page.press('[');
      await page.wait('location.hash.includes("/events/4")', { what: 'the event before' });
    }));

  await artifacts(bench, server, check);

  await check('flows are listed, and one has its graph, its steps and the detail of a step',
    on('/flows', async (page) => {
    await page.waitText('review');
    await page.click(`a[href="#/flows/${traces.specify}"]`);
    await page.wait('document.querySelector("img.graph-picture")?.naturalWidth > 100', { what: 'the graph' });
    holds(await page.eval(text('.steps')), 'asks a person');
    await page.click('[data-step="validate"] a');
    await page.waitText('missing: Edge cases', { selector: '.step-detail' });
    holds(await page.eval(text('.step-detail')), 'specs/005-user-auth/report.json');
    same(await page.eval('document.querySelector(".step-detail a[href*=\\"/artifacts/\\"]") !== null'), true);
    same(await page.eval('location.hash.includes("step=validate")'), true);
  }));

  await check('questions show the exact action, why, the risk, and a deadline that ticks',
    on('/questions', async (page) => {
    const card = (id) => `[data-question="${id}"]`;
    await page.waitText('chmod -R 777 examples/calculator && ls -l examples/calculator',
      { selector: `${card(questions.session)} pre` });
    const session = await page.eval(text(card(questions.session)));
    for (const word of ['world-writable', 'risk: elevated', 'the build server runs as another user',
      'left, then silence is a no']) {
      holds(session, word);
    }
    holds(await page.eval(text(card(questions.push))), 'git push origin main');
    holds(await page.eval(text(card(questions.recording))), 'after.txt');
    holds(await page.eval(text(card(questions.choice))), 'rework');
    holds(await page.eval(text('main')), 'whatever runs under this user could answer too');
  }));

  await check('the log has its entries, its checkpoint and its verdict', on('/log', async (page) => {
    await page.waitText('entries shown');
    await page.waitText('Checkpoint');
    await page.wait(agreement, { ms: 60_000, what: 'two verdicts on the log that agree' });
    await page.eval('location.hash = "#/log?type=key_added"');
    await page.waitText('6 of ');
    const [, of, verified] = /of (\d+) entries shown, (\d+) verified/.exec(await page.eval(text('.counting'))) ?? [];
    same([of, Number(of) > 6], [verified, true]);
    await page.eval('location.hash = "#/log?at=0"');
    await page.waitText('Entry 0');
  }));
}

const agreement = 'document.querySelector(".verdict")?.innerText.includes("Both verifiers agree")';

async function artifacts(bench, server, check) {
  const { evidence } = bench.names.traces;
  const events = await bench.workspace.events(evidence);
  const stored = events.flatMap((event) => event.artifacts);
  const bytesOf = async (one) => Buffer.from(await (await server.api(`/artifacts/${one.artifact_hash}`)).arrayBuffer());
  const found = {};
  for (const one of stored) {
    const bytes = await bytesOf(one);
    if (bytes[0] === 0x89) found.picture ??= one;
    else if (bytes.includes('@@ -1,4 +1,5 @@')) found.diff ??= one;
    else if (bytes.length > 200_000) found.long ??= one;
    else if (bytes.includes('[redacted:') && bytes.includes('greeting') && bytes[0] === 0x7b
      && !bytes.includes('argv')) found.secret ??= one;
  }
  const place = ({ artifact_hash: hash, media_type: media }) => (
    `/artifacts/${hash}?media=${encodeURIComponent(media)}&trace=${evidence}`);
  const on = (one, look) => async () => {
    if (!one) throw new Error('the workspace has no such artifact');
    await bench.visit(server, place(one), look);
  };
  await check('a picture is shown as one', on(found.picture, async (page) => {
    await page.wait('[...document.querySelectorAll("main img")].some((image) => image.naturalWidth === 96)',
      { what: 'the picture' });
  }));
  await check('a diff is shown line by line', on(found.diff, async (page) => {
    await page.wait(`[...document.querySelectorAll('table.diff tr.d-added .d-line')]
      .some((line) => line.textContent.includes('five'))`, { what: 'a line that was added' });
  }));
  await check('JSON is shown, and what was redacted in it is explained', on(found.secret, async (page) => {
    await page.waitText('greeting');
    await page.waitText('Secrets were replaced');
  }));
  await check('a long artifact is fetched in parts', on(found.long, async (page) => {
    await page.waitText('100');
    const size = found.long.byte_size;
    const whole = page.requests.filter(({ url }) => url.includes(found.long.artifact_hash)).length;
    if (whole === 0) throw new Error('it was not fetched at all');
    const shown = await page.eval('document.querySelector("main").innerText.length');
    if (shown >= size) throw new Error('all of it is in the document at once');
  }));
}
