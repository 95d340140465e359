// The pictures of the README and the guide, from a real run: `node pictures.mjs BINARY BROWSER OUT_DIR`
// makes a workspace, opens the viewer on it and writes one PNG for each page, small enough to be kept.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Browser } from './chrome.mjs';
import { smaller } from './pictures_png.mjs';
import { serve } from './viewer_server.mjs';
import { makeWorkspace } from './workspace.mjs';

const BYTES_MAX = 150_000;
const WIDTH = 1280;

const [binary, executable, out] = process.argv.slice(2);
if (!binary || !executable || !out) {
  process.stderr.write('usage: node pictures.mjs BINARY BROWSER OUT_DIR\n');
  process.exit(2);
}

const has = (text) => `document.querySelector('main').innerText.includes(${JSON.stringify(text)})`;
const listed = `document.querySelectorAll('.vrow').length > 10 && !${has('not verified')}`;
const drawn = `document.querySelector('img.graph-picture')?.naturalWidth > 0
  && document.querySelector('.happenings') !== null`;
const still = 'Promise.all(document.getAnimations().map((one) => one.finished.catch(() => {}))).then(() => true)';
const verified = `/✓\\s+pass/.test(document.querySelector('.verdict')?.innerText ?? '')`;

/** Each picture: its name, the place, what must be there first, and the height of the window. */
function pictures({ traces, caps }) {
  return [
    ['traces', '/traces?order=oldest', { until: listed, height: 860 }],
    ['trace', `/traces/${traces.tests}`, { until: has('Both verifiers agree'), height: 880 }],
    ['event', `/traces/${traces.tests}/events/3`, { until: has('signature valid'), height: 900 }],
    ['questions', '/questions', { until: 'document.querySelectorAll("[data-question]").length > 1', height: 860 }],
    ['work', '/work', { until: 'document.querySelectorAll(".card").length > 4', height: 800 }],
    ['flow', `/flows/${traces.specify}?step=validate`, { until: drawn, height: 920 }],
    ['open', '/open', { until: verified, height: 880, drop: caps.good }],
  ];
}

const work = await mkdtemp(join(tmpdir(), 'pictures-'));
const browser = await Browser.start(executable, join(work, 'profile'));
let server = null;
try {
  await mkdir(resolve(out), { recursive: true });
  const { workspace, names } = await makeWorkspace(resolve(binary), join(work, 'run'), { name: 'calculator' });
  server = await serve(workspace);
  for (const [name, place, { until, height, drop }] of pictures(names)) {
    const page = await browser.page({ width: WIDTH, height });
    await page.goto(server.address(place));
    await page.wait('document.querySelector("main h1") && document.querySelector("main .loading") === null');
    if (drop) await page.drop(drop);
    await page.wait(until, { ms: 60_000, what: `${name} to be whole` });
    await page.eval(`document.activeElement?.blur?.(); scrollTo(0, 0); ${still}`);
    const bytes = smaller(await page.picture());
    if (bytes.length > BYTES_MAX) throw new Error(`${name}.png has ${bytes.length} bytes, the limit is ${BYTES_MAX}`);
    await writeFile(join(resolve(out), `${name}.png`), bytes);
    process.stdout.write(`${name}.png ${bytes.length}\n`);
    await page.close();
  }
} finally {
  await server?.close();
  await browser.close();
  await rm(work, { recursive: true, force: true });
}
