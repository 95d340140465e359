// Who may look, and without what: the token, the keyboard, names for a screen reader.

import { holds, same, so } from './viewer_judge.mjs';

const ROLES = new Set(['button', 'link', 'textbox', 'searchbox', 'combobox', 'radio', 'checkbox', 'img', 'image',
  'dialog', 'region', 'progressbar']);

export async function run(bench) {
  const server = await bench.server();
  const check = (name, work) => bench.check(`access: ${name}`, work);
  const { traces, items } = bench.names;

  await check('without a token the page asks for it, and takes one that is pasted',
    () => bench.visit(server, '/work', async (page) => {
    await page.waitText('needs its token');
    same(page.requests.filter(({ url }) => url.includes('/api/')).length, 0);
    await page.click('#token');
    await page.type(`${server.origin}/#token=${server.token}`);
    await page.press('Enter');
    await page.waitText('Describe the formats in one page');
    same(await page.eval('location.href.includes("token")'), false);
  }, { token: false }));

  await check('a wrong token is refused in words', () => bench.visit(server, '/work', async (page) => {
    await page.click('#token');
    await page.type('wrong');
    await page.press('Enter');
    await page.waitText('does not accept the token');
  }, { token: false, allowed: [/401/] }));

  await check('the token leaves the address and is not kept beyond the tab',
    () => bench.visit(server, '/traces', async (page) => {
    same(await page.eval('location.href.includes("token")'), false);
    const kept = await page.eval('JSON.stringify(localStorage)');
    so(!kept.includes(server.token), 'the token is kept in the browser');
    same(await page.eval('document.cookie'), '');
  }));

  await check('a heading has the focus after each change of page, and the tab is named',
    () => bench.visit(server, '/traces', async (page) => {
    for (const [key, title] of [['w', 'Work'], ['f', 'Flows'], ['q', 'Questions'], ['l', 'Log'], ['o', 'Open'],
      ['t', 'Traces']]) {
      await page.press('g');
      await page.press(key);
      await page.wait(`document.title.includes(${JSON.stringify(title)}) && document.activeElement.tagName === 'H1'`,
        { what: `the heading of ${title} to have the focus` });
    }
  }));

  await check('keyboard alone: from the list to an event and back',
    () => bench.visit(server, `/traces?text=calculator-tests`, async (page) => {
    await page.wait('document.querySelectorAll(".vrow").length === 1');
    await tabTo(page, '.vlist');
    await page.press('Enter');
    await page.waitText('11 of 11 shown');
    await page.press('j');
    await page.wait('document.activeElement.matches(".vlist")', { what: 'the timeline to have the focus' });
    await page.press('End');
    await page.press('Enter');
    await page.wait('location.hash.includes("/events/10")', { what: 'the last event' });
    await page.waitText('verification_run_completed').catch(() => page.waitText('verification run completed'));
    await page.press('Escape');
    await page.wait('!location.hash.includes("/events/")', { what: 'the trace again' });
  }));

  await check('keyboard alone: the keys are listed', () => bench.visit(server, '/traces', async (page) => {
    await page.press('?');
    await page.wait('document.querySelector("dialog[open]")?.innerText.includes("search")', { what: 'the keys' });
    await page.press('Escape');
    await page.wait('document.querySelector("dialog[open]") === null');
  }));

  const places = ['/traces', `/traces/${traces.tests}`, `/traces/${traces.tests}?view=states`,
    `/traces/${traces.tests}?view=claims`,
    `/traces/${traces.recording}?view=decisions`,
    `/traces/${traces.tests}?view=executions`, `/traces/${traces.tests}?view=report`,
      `/traces/${traces.tests}/events/4`,
    '/work', `/work/${items.blocked}`, `/work/${items.completed}`, '/flows', `/flows/${traces.specify}?step=write`, '/questions', '/log?at=1',
      '/open'];
  for (const place of places) {
    const name = place.replace(/[0-9a-z]{26}/, 'ID');
    await check(`everything that can be used on ${name} has a name, and the focus can be seen`,
      () => bench.visit(server, place, async (page) => {
      await unnamed(page);
      await structure(page);
      await focusSeen(page);
    }));
  }
}

/** Presses Tab until something has the focus. */
export async function tabTo(page, selector, most = 150) {
  for (let at = 0; at < most; at += 1) {
    await page.press('Tab');
    if (await page.eval(`document.activeElement.matches(${JSON.stringify(selector)})`)) return;
  }
  throw new Error(`${most} times Tab do not lead to ${selector}`);
}

export async function unnamed(page) {
  const { nodes } = await page.send('Accessibility.getFullAXTree');
  const bare = nodes.filter((node) => !node.ignored && ROLES.has(node.role?.value) && !(node.name?.value ?? '').trim());
  const decorative = (node) => ['img', 'image', 'region'].includes(node.role.value)
    && !node.properties?.some((one) => one.name === 'focusable');
  const wrong = bare.filter((node) => !decorative(node)).map((node) => node.role.value);
  so(wrong.length === 0, `without a name: ${wrong.join(', ')}`);
}

async function structure(page) {
  const found = await page.eval(`({
    lang: document.documentElement.lang,
    headings: document.querySelectorAll('h1').length,
    mains: document.querySelectorAll('main').length,
    twice: [...document.querySelectorAll('[id]')].map((one) => one.id).filter((id, at, all) => all.indexOf(id) !== at),
    pictures: [...document.querySelectorAll('img')].filter((one) => !one.hasAttribute('alt')).length,
    tables: [...document.querySelectorAll('table')].filter((one) => !one.querySelector('th')).length,
  })`);
  holds(found.lang, 'en');
  same([found.headings, found.mains, found.twice, found.pictures, found.tables], [1, 1, [], 0, 0]);
}

// Whatever has the focus must look different: an outline, or one that its row or list draws.
export async function focusSeen(page) {
  for (let at = 0; at < 25; at += 1) {
    await page.press('Tab');
    const unseen = await page.eval(`(() => {
      const element = document.activeElement;
      // A heading gets the focus by itself; of a field for dates a part of it has the outline.
      if (element === document.body || element.matches('h1, input[type="date"]')) return null;
      const row = document.getElementById(element.getAttribute('aria-activedescendant') ?? '');
      const style = getComputedStyle(row ?? element);
      const box = element.getBoundingClientRect();
      if (box.width === 0 || box.height === 0) return element.outerHTML.slice(0, 200) + ' has no size';
      return style.outlineStyle === 'none' || style.outlineWidth === '0px' ? element.outerHTML.slice(0, 200) : null;
    })()`);
    so(unseen === null, `the focus cannot be seen on ${unseen}`);
  }
}
