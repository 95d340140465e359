// Files that are opened in the browser: dropped or chosen, read and judged without any upload.

import { createHash } from 'node:crypto';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32, deflateRawSync, gunzipSync } from 'node:zlib';
import { same, so } from './viewer_judge.mjs';

const INTEROP = join(dirname(fileURLToPath(import.meta.url)), '../cases/interop');

export async function run(bench) {
  const server = await bench.server();
  const check = (name, work) => bench.check(`files: ${name}`, work);
  const { caps, traces } = bench.names;
  const dir = bench.workspace.dir;
  const verdictOf = `(document.querySelector('.verdict')?.innerText ?? '')`;
  const sent = (page) => page.requests.filter(({ url, method }) => method !== 'GET' || url.includes('/api/v1/traces/'));

  await check('a dropped .cap is verified and shown without upload',
    () => bench.visit(server, '/traces', async (page) => {
    page.forget();
    await page.drop(caps.good);
    await page.wait(`/✓\\s+pass/.test(${verdictOf})`, { ms: 30_000, what: 'its verdict' });
    await page.waitText('Show that the calculator\'s tests pass');
    so(sent(page).length === 0, `it asked the server: ${JSON.stringify(sent(page))}`);
    await page.eval('location.hash = "#/file"');
    await page.waitText('11 of 11 shown');
    await page.eval('location.hash = "#/file/events/7"');
    await page.waitText('All unit tests of the calculator pass');
    same(sent(page), []);
  }));

  await check('a .cap that is chosen by the button is shown, and its artifacts too',
    () => bench.visit(server, '/open', async (page) => {
    await page.wait('document.querySelector("input[type=file]")');
    await page.setFiles('input[type=file]', [caps.evidence]);
    await page.wait(`/✓\\s+pass/.test(${verdictOf})`, { ms: 30_000, what: 'its verdict' });
    await page.eval('location.hash = "#/file?view=executions"');
    await page.waitText('seq');
    await page.eval(`location.hash = '#/file/artifacts/${await pictureOf(bench, traces.evidence)}'`);
    await page.wait('[...document.querySelectorAll("main img")].some((image) => image.naturalWidth === 96)',
      { what: 'the picture' });
  }));

  await check('no token is needed to open a file', () => bench.visit(server, '/open', async (page) => {
    await page.drop(caps.good);
    await page.wait(`/✓\\s+pass/.test(${verdictOf})`, { ms: 30_000, what: 'its verdict' });
    same(page.requests.filter(({ url }) => url.includes('/api/')), []);
  }, { token: false }));

  await check('a .cap whose bytes were changed is refused in words', async () => {
    const bytes = await readFile(caps.good);
    bytes[Math.floor(bytes.length / 2)] ^= 1;
    const file = join(dir, 'flipped.cap');
    await writeFile(file, bytes);
    await bench.visit(server, '/open', async (page) => {
      await page.drop(file);
      await page.wait('document.querySelector("main .notice-failed") !== null', { ms: 30_000, what: 'a refusal' });
      so(!await page.eval(`/✓\\s+pass/.test(${verdictOf})`), 'it was passed');
    });
  });

  await check('a .cap that was repacked with an edited event fails at that event', async () => {
    const file = join(dir, 'edited.cap');
    await writeFile(file, repacked(await readFile(caps.good)));
    await bench.visit(server, '/open', async (page) => {
      await page.drop(file);
      await page.wait(`/✗\\s+fail/.test(${verdictOf})`, { ms: 30_000, what: 'its verdict' });
      await page.wait('document.querySelector(".verdict a[href=\\"#/file/events/7\\"]") !== null',
        { what: 'a finding at event 7' });
    });
  });

  await check('a file of CapSeal\'s is told apart: what agrees is said, and that anyone could have written it',
    () => bench.visit(server, '/open', async (page) => {
    await page.drop(join(INTEROP, 'gated.cap'));
    await page.waitText('anyone could have written them', { ms: 30_000 });
    await page.waitText('What this does not prove');
    await page.waitText('unsigned');
    so(!await page.eval('/✓/.test(document.querySelector("main").innerText)'), 'it looks as if it had passed');
  }));

  await check('every file of CapSeal\'s that was changed is refused, with the reason', async () => {
    const attacks = (await readdir(join(INTEROP, 'attacks'))).sort();
    so(attacks.length >= 9, `only ${attacks.length} files`);
    await bench.visit(server, '/open', async (page) => {
      for (const name of attacks) {
        await page.drop(join(INTEROP, 'attacks', name));
        await page.waitText(name, { selector: 'main .notice-failed', ms: 30_000 });
        const said = await page.eval('document.querySelector("main .notice-failed .reasons").innerText');
        so(said.trim() !== '', `${name} is refused without a reason`);
      }
    });
  });

  await check('a file that is no .cap is refused in words', async () => {
    const file = join(dir, 'letter.cap');
    await writeFile(file, 'dear reader\n');
    await bench.visit(server, '/open', async (page) => {
      await page.drop(file);
      await page.waitText('This is no sealed file', { ms: 30_000 });
    });
  });
}

async function pictureOf(bench, trace) {
  const [first] = await bench.workspace.events(trace);
  return first.artifacts.find((one) => one.encoding === 'binary').artifact_hash;
}

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
const BLOCK = 512;

/** The same container with one word of an event changed, and every sum around it made right again. */
function repacked(bytes) {
  const tar = gunzipSync(bytes);
  const at = tar.indexOf('All unit tests of the calculator pass');
  const { from, to } = memberAround(tar, at);
  const before = sha256(tar.subarray(from, to));
  tar.write('All unit tests of the calculator fail', at);
  const stated = tar.indexOf(before);
  if (stated >= 0) tar.write(sha256(tar.subarray(from, to)), stated);
  const end = Buffer.alloc(8);
  end.writeUInt32LE(crc32(tar), 0);
  end.writeUInt32LE(tar.length, 4);
  const body = Buffer.concat([deflateRawSync(tar), end]);
  const head = Buffer.from([0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0, 0, 0xff]);
  return Buffer.concat([head, Buffer.from(`countersign sha256:${sha256(body)}\0`, 'latin1'), body]);
}

/** Where the content of the member lies that holds this place. */
function memberAround(tar, place) {
  for (let at = 0; at < tar.length;) {
    const size = parseInt(tar.toString('latin1', at + 124, at + 136), 8);
    const from = at + BLOCK;
    if (!Number.isFinite(size)) break;
    if (place >= from && place < from + size) return { from, to: from + size };
    at = from + Math.ceil(size / BLOCK) * BLOCK;
  }
  throw new Error('the event is not where it was thought to be');
}
