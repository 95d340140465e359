// What a claim rests on and what became of it, decisions in part, and artifacts in every form: bytes, parts,
// JSON as it stands there, and one that was taken away.

import { holds, same, so } from './viewer_judge.mjs';
import { TWO_FACED } from './workspace.mjs';

const text = (selector) => `document.querySelector(${JSON.stringify(selector)})?.innerText`;
const VERIFIED = /(\d+) of (\d+) decisions shown\. (\d+) of (\d+) events read, (\d+) verified/;

export async function run(bench) {
  const server = await bench.server();
  const { traces } = bench.names;
  const check = (name, work) => bench.check(`evidence: ${name}`, work);
  const on = (place, look, options) => () => bench.visit(server, place, look, options);

  await check('a claim is joined to the challenge that it met and to what replaced it',
    on(`/traces/${traces.doubted}?view=claims`, async (page) => {
    await page.waitText('challenged');
    const cards = await page.eval('[...document.querySelectorAll(".entry")].map((one) => one.innerText)');
    same(cards.length, 2);
    for (const words of ['superseded', 'all of its evidence is empty', 'Replaced by']) holds(cards[0], words);
    holds(cards[1], 'stands');
    so(!cards[1].includes('challenged'), `the second claim is challenged as well: ${cards[1]}`);
  }));

  await check('decisions in part say how many of how many are shown, and that all events are verified',
    on(`/traces/${traces.recording}?view=decisions`, async (page) => {
    const total = (await bench.workspace.events(traces.recording)).length;
    await page.waitText(`${total} verified`, { ms: 30_000 });
    const all = await page.eval('document.querySelectorAll(".entry").length');
    await page.click('.chips button:nth-of-type(2)');
    await page.wait('location.hash.includes("which=refused")', { what: 'the choice in the address' });
    const [, shown, of, , events, verified] = VERIFIED.exec(await page.eval(text('.counting'))) ?? [];
    same([Number(of), Number(events), Number(verified)], [all, total, total]);
    same(await page.eval('document.querySelectorAll(".entry").length'), Number(shown));
    so(Number(shown) < all, 'nothing is left out');
  }));

  await check('decisions in part are found again by their address',
    on(`/traces/${traces.recording}?view=decisions&which=refused`, async (page) => {
    await page.waitText('decisions shown');
    same(await page.eval(text('.chip[aria-pressed=true]')).then((one) => one.startsWith('Refused')), true);
  }));

  await artifacts(bench, server, check);
  await removed(bench, check);
}

async function artifacts(bench, server, check) {
  const { evidence } = bench.names.traces;
  const events = await bench.workspace.events(evidence);
  const all = events.flatMap((event) => event.artifacts);
  const read = async (one) => Buffer.from(await (await server.api(`/artifacts/${one.artifact_hash}`)).arrayBuffer());
  const whose = async (fits) => {
    for (const one of all) if (fits(await read(one))) return one;
    throw new Error('the workspace has no such artifact');
  };
  const place = (one, more = '') => `/artifacts/${one.artifact_hash}?trace=${evidence}${more}`;

  const twoFaced = async (overrides) => bench.visit(server,
    place(await whose((bytes) => bytes.equals(Buffer.from(TWO_FACED)))), async (page) => {
      await page.wait('document.querySelector(".chip[aria-pressed=true]")?.innerText === "JSON"', { what: 'JSON' });
      const said = await page.eval(text('.artifact-text'));
      holds(said, '"pay": "1"');
      holds(said, '"sum": 12345678901234567890');
      same(said.split('\n').length, 5);
    }, { overrides });
  await check('JSON is laid out as it stands there: names that are twice there, numbers in all their digits',
    () => twoFaced([]));
  await bench.check('twin: a page that parses JSON and writes it again is caught', async () => {
    const change = (code) => code.replace('JSON.parse(text);', 'return JSON.stringify(JSON.parse(text), null, 2);');
    const found = await twoFaced([{ pattern: '*/viewer/json_text.mjs', change }]).then(() => null, (error) => error);
    so(found !== null, 'the broken page was not caught');
  });

  await check('bytes are shown in hexadecimal, whatever they are', async () => {
    const picture = await whose((bytes) => bytes[0] === 0x89);
    await bench.visit(server, place(picture, '&as=hex'), async (page) => {
      await page.waitText('00000000  89 50 4e 47 0d 0a 1a 0a', { selector: '.hex' });
      await page.waitText('computed here: same');
    });
  });

  await check('a long artifact is read in parts, and hashed once all of it is there', async () => {
    const long = await whose((bytes) => bytes.length > 300_000);
    const size = long.byte_size;
    await bench.visit(server, place(long), async (page) => {
      await page.waitText('not computed');
      so(!(await page.eval(text('.artifact-text'))).includes('60000'), 'all of it is there at once');
      await page.click('.artifact-more button');
      await page.waitText('computed here: same');
      holds(await page.eval(text('.artifact-text')), '60000');
    });
    const response = await server.api(`/artifacts/${long.artifact_hash}`, { headers: { range: `bytes=${size - 6}-` } });
    same([response.status, await response.text()], [206, '60000\n']);
  });
}

async function removed(bench, check) {
  const { evidence } = bench.names.traces;
  const { workspace, server, given } = await bench.copy(async (copied) => {
    const [first] = await copied.events(evidence);
    const { artifact_hash: hash } = first.artifacts.find((one) => one.encoding === 'binary');
    await copied.run(['artifact', 'redact', hash, '--reason', 'a face can be seen in it']);
    return hash;
  });
  await check('an artifact that was taken away says so, by whom and why, and fails nothing', async () => {
    await bench.visit(server, `/artifacts/${given}?trace=${evidence}`, async (page) => {
      await page.waitText('Its bytes are not in the store');
      await page.waitText('a face can be seen in it');
      await page.waitText('Redacted: its bytes were removed from the store by');
    }, { allowed: [/404/] });
    await bench.visit(server, `/traces/${evidence}`, async (page) => {
      await page.waitText('REDACTION_LIMITED', { selector: '.verdict', ms: 30_000 });
      await page.waitText('Both verifiers agree', { selector: '.verdict' });
      const { length } = await workspace.events(evidence);
      await page.waitText(`${length} of ${length} shown`);
    });
  });
}
