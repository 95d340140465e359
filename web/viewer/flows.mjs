// Flows: the list, and one flow with its graph and its steps as they stand. What happened in one
// step: flows_step.mjs.

import { bytes, get, live } from './api.mjs';
import { badge, count, counted, failure, h, hash, plain, replace, shown, span, time } from './dom.mjs';
import { stepDetail } from './flows_step.mjs';
import { go, link } from './route.mjs';
import { coalesced } from './work_clock.mjs';

const PAGE = 100;
const COLUMNS = ['State', 'Flow', 'Began', 'Took', 'Events'];
const STATES = { running: 'running', succeeded: 'ok', failed: 'failed', aborted: 'warn', tampered: 'failed' };

const MARKS = {
  plain: ['unknown', 'not begun'],
  waiting: ['waiting', 'waiting'],
  running: ['running', 'running'],
  asked: ['warn', 'asks a person'],
  done: ['ok', 'done'],
  skipped: ['info', 'skipped'],
  failed: ['failed', 'failed'],
  exhausted: ['failed', 'exhausted'],
};
const SHAPES = { agent: 'an agent', session: 'a whole session', 'built-in': 'built in', approval: 'a person is asked' };

/** Shows the list, or one flow. */
export function show(main, route, context) {
  return route.names.id ? showFlow(main, route, context) : showList(main, route, context);
}

async function showList(main, route, context) {
  context.title('Flows');
  const summary = h('p', { class: 'quiet' });
  const body = h('div', null);
  let offset = Math.max(0, Number(route.params.get('offset')) || 0);
  let known = false;
  const load = coalesced(async () => {
    let page;
    try {
      page = await get('/flows', { offset, limit: PAGE });
    } catch (error) {
      if (!known) replace(body, failure(error, load));
      return;
    }
    known = true;
    summary.textContent = counted(page.matched, 'flow');
    replace(body, page.matched === 0
      ? h('p', null, 'No flow has run. Start one with ', h('code', null, 'countersign flow run FILE'), '.')
      : [table(page.items), pager(page)]);
  });
  replace(main, h('h1', null, 'Flows'), summary, body);
  await load();
  context.announce(summary.textContent);
  const close = live({}, {
    hello: load,
    traces: ({ items }) => {
      if (items.some((row) => row.kind === 'flow')) load();
    },
  });
  return {
    close,
    update(next) {
      offset = Math.max(0, Number(next.params.get('offset')) || 0);
      load();
    },
  };
}

const stateBadge = (status, outcome) => badge(STATES[status] ?? 'unknown', plain(outcome ?? status ?? 'unknown', 40));

function table(rows) {
  return h('div', { class: 'scroll-x' }, h('table', { class: 'flows' },
    h('caption', { class: 'unseen' }, 'Flows, the newest first'),
    h('thead', null, h('tr', null, COLUMNS.map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', null, rows.map((row) => h('tr', null,
      h('td', null, stateBadge(row.status, row.outcome)),
      h('td', null, h('a', { href: link(`/flows/${row.trace_id}`), 'data-row': true },
        shown(row.title ?? row.trace_id, 200))),
      h('td', null, time(row.started_at)),
      h('td', null, span(row.duration_ms)),
      h('td', null, count(row.events)))))));
}

function pager({ offset, matched }) {
  if (matched <= PAGE) return null;
  const at = (place) => link('/flows', place > 0 ? { offset: place } : {});
  return h('p', { class: 'pager' },
    offset > 0 ? h('a', { href: at(Math.max(0, offset - PAGE)) }, 'Newer') : null,
    ` ${count(offset + 1)} to ${count(Math.min(matched, offset + PAGE))} of ${count(matched)} `,
    offset + PAGE < matched ? h('a', { href: at(offset + PAGE) }, 'Older') : null);
}

async function showFlow(main, route, context) {
  const { id } = route.names;
  const heading = h('h1', null);
  const facts = h('div', null);
  const picture = new Picture(id);
  const list = h('ol', { class: 'steps', 'aria-label': 'Steps' });
  const detail = h('section', { class: 'panel step-detail', 'aria-live': 'off' });
  let step = route.params.get('step');
  let found = null;
  let turn = 0;

  const drawDetail = async ({ focus = false } = {}) => {
    turn += 1;
    const own = turn;
    const chosen = found.steps.find((one) => one.id === step);
    detail.hidden = step === null;
    if (step === null) return;
    if (!chosen) {
      replace(detail, h('p', null, 'This flow has no step ', shown(step, 200), '.'));
      return;
    }
    const content = await stepDetail(id, chosen).catch((error) => failure(error));
    if (own !== turn) return;
    const title = h('h2', { tabindex: '-1' }, 'Step ', shown(chosen.id, 200));
    const shut = h('button', { type: 'button', onclick: () => go(`/flows/${id}`) }, 'Close');
    replace(detail, h('div', { class: 'step-head' }, title, shut), content);
    if (focus) title.focus();
  };

  const load = coalesced(async () => {
    found = await get(`/flows/${encodeURIComponent(id)}`);
    context.title(`Flow ${plain(found.workflow, 60)}`);
    replace(heading, shown(found.workflow, 200), found.feature_id ? [' ', shown(found.feature_id, 200)] : null);
    replace(facts, aboutFlow(found, id));
    const focused = document.activeElement?.closest?.('[data-step]')?.dataset.step;
    replace(list, found.steps.map((one) => stepRow(one, id, step)));
    if (focused) list.querySelector(`[data-step="${CSS.escape(focused)}"] a`)?.focus();
    const [image] = await Promise.all([picture.load(describe(found)), drawDetail()]);
    return image;
  });
  replace(main, h('p', { class: 'crumbs' }, h('a', { href: '#/flows' }, 'Flows')), heading, facts,
    h('div', { class: 'flow' }, h('figure', { class: 'graph scroll-x', tabindex: '0' }, picture.element),
      h('div', { class: 'flow-steps' }, h('h2', null, 'Steps'), list, detail)));
  await load();
  const again = () => load().catch(() => {});
  const close = live({}, {
    hello: () => picture.loaded && again(),
    traces: ({ items }) => {
      if (items.some((row) => row.trace_id === id)) again();
    },
  });
  return {
    close() {
      close();
      picture.close();
    },
    update(next) {
      step = next.params.get('step');
      replace(list, found.steps.map((one) => stepRow(one, id, step)));
      drawDetail({ focus: true });
    },
  };
}

/** The graph as a picture: a document that is shown as an image runs nothing. */
class Picture {
  #url = null;

  constructor(id) {
    this.path = `/flows/${encodeURIComponent(id)}/graph`;
    this.element = h('div', null);
    this.loaded = false;
  }

  async load(words) {
    let data;
    try {
      data = await bytes(this.path);
    } catch (error) {
      replace(this.element, failure(error));
      return;
    }
    const before = this.#url;
    this.#url = URL.createObjectURL(new Blob([data], { type: 'image/svg+xml' }));
    replace(this.element, h('img', { src: this.#url, alt: words, class: 'graph-picture' }));
    if (before) URL.revokeObjectURL(before);
    this.loaded = true;
  }

  close() {
    if (this.#url) URL.revokeObjectURL(this.#url);
  }
}

const describe = ({ workflow, steps }) => plain(`Graph of ${workflow}: ${steps
  .map((step) => `${step.id} ${MARKS[step.mark]?.[1] ?? step.mark}`).join(', ')}`, 2000);

function aboutFlow({ trace, outcome, why, steps }, id) {
  const done = steps.filter((step) => step.mark === 'done' || step.mark === 'skipped').length;
  const asked = steps.some((step) => step.mark === 'asked');
  return [
    h('p', { class: 'flow-state' }, stateBadge(trace.status, outcome), ' ', why ? [shown(why, 2000), ' · '] : null,
      `${count(done)} of ${counted(steps.length, 'step')} done · began `, time(trace.started_at),
      typeof trace.duration_ms === 'number' ? ` · ${span(trace.duration_ms)}` : null, ' · ',
      h('a', { href: link(`/traces/${id}`) }, `its trace (${counted(trace.events, 'event')})`), ' ', hash(id)),
    asked ? h('p', { class: 'notice notice-warn' }, 'It waits for a person. ',
      h('a', { href: '#/questions' }, 'Look at the question')) : null,
  ];
}

function stepRow(step, id, chosen) {
  const [kind, words] = MARKS[step.mark] ?? ['unknown', plain(step.mark, 40)];
  const turn = step.iteration > 0 ? `iteration ${count(step.iteration)} of ${count(step.max_iterations)}` : null;
  const said = [words, step.mark, turn].includes(step.detail) ? null : step.detail;
  const here = step.id === chosen;
  const href = link(`/flows/${id}`, { step: step.id });
  return h('li', { 'data-step': step.id, class: here ? 'chosen' : null },
    h('a', { href, 'data-row': true, 'aria-current': here ? 'true' : null },
      h('span', { class: 'step-mark' }, badge(kind, words)),
      h('span', { class: 'step-name' }, h('strong', null, shown(step.id, 120)), ' ',
        h('span', { class: 'quiet' }, shown(step.label, 200))),
      h('span', { class: 'step-facts quiet' },
        turn === null || said?.includes(turn) ? null : `${turn} · `,
        SHAPES[step.shape] ?? plain(step.shape, 40),
        step.needs.length > 0 ? [' · needs ', shown(step.needs.join(', '), 300)] : null,
        said ? [' · ', shown(said, 500)] : null)));
}
