// A long trace in a real browser: `node large.mjs BROWSER PROFILE URL TRACE` opens it and prints, as JSON,
// after how many milliseconds its first rows were painted (counted from the request for the page), how long jumps
// through all of it took until the view had no holes, how many rows are in the document, and the heap of the page
// after the first rows and after much scrolling. Ends with 1 where something is never filled.

import { Browser } from './chrome.mjs';

const JUMPS = [0.1, 0.5, 0.77, 1, 0.33, 0];
const SCROLLS = 120;
const FILLED_MS = 20_000;

const [executable, profile, url, trace] = process.argv.slice(2);
const [origin, token] = url.split('#token=');
const about = await fetch(`${origin}api/v1/traces/${trace}`, { headers: { authorization: `Bearer ${token}` } });
const { events } = await about.json();

/** Notes in the page itself when the first rows were painted: the driver's own time does not count. */
const NOTE = `
  const rows = () => document.querySelectorAll('.e-grid .vrow[data-filled=yes]').length;
  const look = () => {
    if (window.__painted === undefined && rows() >= 5) {
      window.__painted = null;
      requestAnimationFrame(() => setTimeout(() => { window.__painted = performance.now(); }));
    }
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
`;

/** Every row in view is filled and follows the one above it without a gap. */
const WHOLE = `(() => {
  const inView = (row) => { const box = row.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; };
  const rows = [...document.querySelectorAll('.e-grid .vrow')].filter(inView);
  const tops = rows.map((row) => row.getBoundingClientRect());
  return rows.length > 5 && rows.every((row) => row.dataset.filled === 'yes')
    && tops.every((box, at) => at === 0 || Math.abs(box.top - tops[at - 1].bottom) < 1.5);
})()`;

const browser = await Browser.start(executable, profile);
try {
  const page = await browser.page({ width: 1280, height: 900 });
  await page.send('Page.addScriptToEvaluateOnNewDocument', { source: NOTE });
  await page.goto(`${url}&to=${encodeURIComponent(`/traces/${trace}`)}`);
  const painted = await page.wait('typeof window.__painted === "number" && window.__painted', { ms: FILLED_MS });
  const heap = async () => {
    await page.send('HeapProfiler.enable');
    await page.send('HeapProfiler.collectGarbage');
    return (await page.send('Runtime.getHeapUsage')).usedSize;
  };
  const before = await heap();
  const jumps = [];
  for (const part of JUMPS) {
    const started = Date.now();
    await page.eval(`scrollTo(0, ${part} * document.documentElement.scrollHeight)`);
    await page.wait(WHOLE, { ms: FILLED_MS, what: `no holes at ${part}` });
    jumps.push(Date.now() - started);
  }
  // As somebody scrolls: every frame another place. What is passed need not be filled, where it stops must be.
  await page.eval(`(async () => {
    const height = document.documentElement.scrollHeight;
    for (let at = 0; at < ${SCROLLS}; at += 1) {
      scrollTo(0, ((at * 37) % 100) / 100 * height);
      await new Promise((done) => requestAnimationFrame(done));
    }
  })()`);
  await page.wait(WHOLE, { ms: FILLED_MS, what: 'no holes after much scrolling' });
  await page.press('j');
  await page.press('End');
  await page.wait(`document.querySelector('#row-${events - 1}[data-filled=yes]')`, { ms: FILLED_MS });
  const told = {
    events, painted_ms: Math.round(painted), jumps_ms: jumps, rows: await page.eval('document.querySelectorAll(".vrow").length'),
    heap_before: before, heap_after: await heap(), errors: page.errors, violations: page.violations,
  };
  process.stdout.write(`${JSON.stringify(told)}\n`);
} finally {
  await browser.close();
}
