// Every page in a narrow and in a wide window, light and dark: nothing leads beyond the edge, and
// every text can be read against what lies behind it.

import { so } from './viewer_judge.mjs';

const WIDTHS = [400, 2500];
const SCHEMES = ['light', 'dark'];

/** The places of a workspace that a reader can go to. */
export function placesOf({ traces, items }, artifact) {
  return ['/traces', `/traces/${traces.tests}`, `/traces/${traces.fallback}?view=states`,
    `/traces/${traces.tests}?view=claims`,
    `/traces/${traces.recording}?view=decisions`, `/traces/${items.unblocked}?view=decisions`,
    `/traces/${traces.evidence}?view=executions`, `/traces/${traces.tests}?view=report`,
      `/traces/${traces.tests}/events/4`,
    ...artifact ? [`/artifacts/${artifact}?trace=${traces.evidence}`] : [],
    '/work', `/work/${items.completed}`, `/work/${items.blocked}`, '/flows', `/flows/${traces.specify}?step=validate`,
      '/questions',
    '/log', '/log?at=1', '/open'];
}

export async function run(bench) {
  const server = await bench.server();
  const events = await bench.workspace.events(bench.names.traces.evidence);
  const artifact = events.find((event) => event.event_type === 'tool_execution_completed').artifacts[0].artifact_hash;
  for (const place of placesOf(bench.names, artifact)) {
    const name = place.replace(/[0-9a-z]{26,64}/g, 'ID');
    await bench.check(`layout: ${name} fits 400 and 2,500 pixels, and can be read in light and dark`, async () => {
      await bench.visit(server, place, async (page) => {
        for (const width of WIDTHS) {
          for (const scheme of SCHEMES) {
            await page.size(width, 900);
            await page.scheme(scheme);
            await page.wait(`innerWidth === ${width} && matchMedia('(prefers-color-scheme: ${scheme})').matches`);
            await page.eval('Promise.all(document.getAnimations().map((one) => one.finished.catch(() => {})))');
            await fits(page, width);
            await wholeWords(page, width);
            await readable(page, `${width} ${scheme}`);
          }
        }
      });
    });
  }
  await twins(bench, server);
}

// Pages that are too wide, or that can hardly be read, must be objected to.
async function twins(bench, server) {
  const pattern = '*/viewer/style.css';
  const caught = (change, look, place = '/work') => () => bench.visit(server, place, async (page) => {
    const found = await look(page).then(() => null, (error) => error);
    so(found !== null, 'the broken page was not caught');
  }, { overrides: [{ pattern, change }], width: 400 });
  await bench.check('twin: a page that is too wide is caught',
    caught((text) => `${text}\nmain { min-width: 700px; }\n`, (page) => fits(page, 400)));
  await bench.check('twin: a table that takes words apart is caught',
    caught((text) => `${text}\n.scroll-x td { overflow-wrap: anywhere !important; }\n`, (page) => wholeWords(page, 400),
      '/flows'));
  await bench.check('twin: letters that can hardly be read are caught',
    caught((text) => `${text}\n.quiet { color: #bbb !important; }\n`, (page) => readable(page, 'light')));
}

export async function fits(page, width) {
  const found = await page.eval(`(() => {
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (over <= 0) return null;
    const beyond = (one) => one.getBoundingClientRect().right > innerWidth + 1;
    const wide = [...document.querySelectorAll('body *')].filter(beyond);
    return over + ' pixels: ' + wide.slice(-3).map((one) => one.outerHTML.slice(0, 120)).join(' | ');
  })()`);
  so(found === null, `at ${width} pixels the page is too wide by ${found}`);
}

/** No word of a table is taken apart to make its column narrow. */
export async function wholeWords(page, width) {
  const found = await page.eval(`(() => {
    const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    const apart = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.parentElement.closest('th, td') || node.parentElement.closest('code, .unseen')) continue;
      for (const { 0: word, index } of node.data.matchAll(/(?<!\\w)[A-Za-z]{2,14}(?!\\w)/g)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (tops.size > 1) apart.push(word);
      }
    }
    return apart.slice(0, 5);
  })()`);
  so(found.length === 0, `at ${width} pixels words are taken apart: ${found.join(', ')}`);
}

/** Contrast of at least 4.5, or of 3 for large letters, as WCAG 2 counts it. */
async function readable(page, where) {
  const found = await page.eval(`(() => {
    const channels = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = (text) => {
      if (text.startsWith('rgb')) return channels(text);
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      return [r, g, b, a / 255];
    };
    const light = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((one) => one / 255).map((one) => (one <= 0.03928 ? one / 12.92
        : ((one + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const over = (top, below) => top.slice(0, 3).map((one,
      at) => one * (top[3] ?? 1) + below[at] * (1 - (top[3] ?? 1)));
    const behind = (element) => {
      const layers = [];
      for (let one = element; one; one = one.parentElement) layers.push(rgb(getComputedStyle(one).backgroundColor));
      return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const worst = [];
    const seen = new Set();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || seen.has(element)
        || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
      seen.add(element);
      const style = getComputedStyle(element);
      if (element.closest('.unseen, noscript, :disabled, .skip')) continue;
      const back = behind(element);
      const front = over(rgb(style.color), back);
      const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) worst.push(ratio.toFixed(2) + ' “' + node.data.trim().slice(0,
        40) + '” in ' + element.className);
    }
    return worst.slice(0, 5);
  })()`);
  so(found.length === 0, `${where}: too little contrast: ${found.join(' | ')}`);
}
