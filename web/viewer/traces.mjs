// The list of traces: what happened, how it ended, whether it holds. Filters lie in the address.

import { get, live } from './api.mjs';
import {
  badge, count, counted, failure, h, notice, plain, replace, shown, size, span, time,
} from './dom.mjs';
import { bar, chips, choice, searchField } from './filter.mjs';
import { fillBanner, watchWorkspace } from './gone.mjs';
import { VirtualList } from './list.mjs';
import { go, link } from './route.mjs';

const KINDS = [['session', 'Session'], ['recording', 'Recording'], ['work', 'Work'], ['flow', 'Flow']];
const STATUSES = [['running', 'Running'], ['succeeded', 'Succeeded'], ['failed', 'Failed'], ['aborted', 'Aborted']];
const VERDICTS = [['fail', 'Fail'], ['pass', 'Pass'], ['unknown', 'Not verified']];
// So many failing rows are remembered, where the server does not count them.
const REMEMBERED = 1000;
const SIGNS = { running: 'running', succeeded: 'ok', failed: 'failed', aborted: 'warn', tampered: 'failed' };
const COLUMNS = ['Status', 'Trace', 'Verdict', 'Started (UTC)', 'Duration', 'Events', 'Artifacts', 'Size'];

/** The badge of a trace's status. */
export function statusBadge(row) {
  if (row.unreadable) return badge('failed', 'damaged', `it cannot be read as a whole: ${row.unreadable}`);
  return badge(SIGNS[row.status] ?? 'unknown', row.status ?? 'unknown', `status: ${row.status ?? 'not known'}`);
}

/** The badge of what a verifier said of a trace. */
export function verdictBadge(verdict) {
  if (!verdict) return badge('unknown', 'not verified', 'the server has not verified it yet');
  const { verification_status: status } = verdict;
  if (status === 'pass') return badge('ok', 'pass', 'it was verified: pass');
  if (status === 'fail') return badge('failed', 'fail', 'it was verified: fail');
  return badge('warn', 'warnings', 'it was verified: pass with warnings');
}

/** What a trace is called. */
export const titleOf = (row) => row.title || row.task_id || row.trace_id;

/** How much of a damaged trace there is. */
export const readable = (row) => `${counted(row.events ?? 0, 'event')} can be read`;

const cell = (name, ...children) => h('div', { class: `vcell t-${name}`, role: 'gridcell' }, children);

function rowCells(row) {
  const href = link(`/traces/${row.trace_id}`);
  const people = (row.participants ?? []).map((one) => one.agent_id).filter((one, at, all) => all.indexOf(one) === at);
  return [
    cell('status', statusBadge(row)),
    cell('title', h('a', { href, tabindex: '-1', title: plain(titleOf(row)) }, shown(titleOf(row), 300)),
      h('span', { class: 't-sub' }, shown(row.kind ?? 'unknown kind', 40),
        row.unreadable ? [` · ${readable(row)} · `, shown(row.unreadable, 200)] : null,
        row.task_id && row.task_id !== titleOf(row) ? [' · ', shown(row.task_id, 80)] : null,
        people.length > 0 ? [' · ', shown(people.slice(0, 5).join(', '), 120)] : null)),
    cell('verdict', verdictBadge(row.verdict),
      row.unreadable ? null : h('span', { class: 't-closed' }, row.closed ? 'closed' : 'open'),
      row.verdict ? h('span', { class: 't-signer' }, row.verdict.signer) : null),
    cell('started', time(row.started_at)),
    cell('duration', span(row.duration_ms)),
    cell('events', row.unreadable ? h('span', { class: 'none', title: readable(row) }, '–') : [count(row.events),
      h('span', { class: 'unit' }, row.events === 1 ? ' event' : ' events')]),
    cell('artifacts', count(row.artifacts), h('span', { class: 'unit' }, row.artifacts === 1 ? ' artifact'
      : ' artifacts')),
    cell('size', size(row.bytes)),
  ];
}

const head = () => h('div', { class: 'vhead t-grid', role: 'rowgroup' }, h('div', { role: 'row', class: 'vhead-row' },
  COLUMNS.map((name, at) => h('div', {
    class: `vcell t-${['status', 'title', 'verdict', 'started', 'duration', 'events', 'artifacts', 'size'][at]}`,
    role: 'columnheader',
  }, name))));

function filterOf(params) {
  const day = (value, end) => (/^\d{4}-\d\d-\d\d$/.test(value ?? '')
    ? `${value}T${end ? '23:59:59.999' : '00:00:00.000'}Z` : null);
  return {
    kind: params.getAll('kind'),
    status: params.getAll('status'),
    verdict: params.get('verdict'),
    closed: params.get('closed'),
    text: params.get('text'),
    from: day(params.get('from'), false),
    to: day(params.get('to'), true),
    order: params.get('order') ?? 'newest',
  };
}

const isFiltered = (params) => ['kind', 'status', 'verdict', 'closed', 'text', 'from', 'to']
  .some((name) => params.get(name));

/** Shows the page. */
export async function show(main, route, context) {
  context.title('Traces');
  let { params } = route;
  const change = (name, value) => {
    const next = new URLSearchParams(params);
    next.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one) next.append(name, one);
    go('/traces', next, { replace: true });
  };
  const controls = filters(params, change);
  const counting = h('p', { class: 'counting', role: 'status' }, 'Loading …');
  const news = h('div', { class: 'news' });
  const below = h('div', { class: 'below' });
  const gone = h('div', null);
  const failing = h('div', null);
  const failed = new Set();
  const list = new VirtualList({
    label: 'Traces', columns: COLUMNS, head: head(), pageSize: 100,
    rowHeight: () => (window.innerWidth < 700 ? 104 : window.innerWidth < 1180 ? 64 : 46),
    fetch: async (offset, limit, options) => {
      const page = await get('/traces', { ...filterOf(params), offset, limit }, options);
      for (const row of page.items) remember(row.trace_id, row.verdict);
      return page;
    },
    row: rowCells,
    href: (row) => link(`/traces/${row.trace_id}`),
    onCount: (matched, page) => sayCount(matched, page),
    onError: (error) => replace(below, failure(error, () => list.reload())),
  });
  list.element.classList.add('t-grid');
  let told = null;
  function remember(id, verdict) {
    if (verdict?.verification_status !== 'fail') failed.delete(id);
    else if (failed.size < REMEMBERED) failed.add(id);
    sayFailing();
  }
  function sayFailing() {
    const number = told ?? failed.size;
    const there = params.get('verdict') === 'fail';
    const text = number === 0 || there ? '' : `${counted(number, 'trace')} ${number === 1 ? 'fails' : 'fail'}`;
    if (failing.dataset.said === text) return;
    failing.dataset.said = text;
    const next = new URLSearchParams(params);
    next.set('verdict', 'fail');
    replace(failing, text === '' ? null : notice('failed', h('p', null, h('a', { href: link('/traces', next) },
      h('strong', null, text)), ': what is stored is not what was recorded, or breaks a rule.')));
  }
  function sayCount(matched, page) {
    replace(counting, isFiltered(params) ? `${count(matched)} of ${counted(page.total, 'trace')}`
      : counted(page.total, 'trace'));
    replace(below, matched > 0 ? null : emptiness(params, page.total));
    list.element.hidden = matched === 0;
  }
  replace(main,
    h('div', { class: 'page-head' }, h('h1', { tabindex: '-1' }, 'Traces'),
      h('p', { class: 'quiet' }, 'of the workspace ', h('strong', null, shown(context.workspace?.name ?? '', 80)))),
    gone, bar(controls.map((one) => one.element)), failing,
    h('div', { class: 'count-line' }, counting, news), list.element, below);
  await list.reset();
  const workspace = watchWorkspace((found) => {
    fillBanner(gone, found);
    told = typeof found.failing === 'number' ? found.failing : null;
    sayFailing();
  });
  const stop = follow(list, news, () => params, {
    changed: workspace.look,
    judged: (message) => remember(message.trace_id, message.verdict),
  });
  return {
    close() {
      stop();
      workspace.close();
      list.close();
      for (const one of controls) one.close?.();
    },
    update(next) {
      params = next.params;
      failing.dataset.said = '?';
      sayFailing();
      for (const one of controls) one.follow?.(params);
      list.reset().then(() => context.announce(counting.textContent));
    },
  };
}

function filters(params, change) {
  const search = searchField({
    label: 'Search in titles, tasks, ids and agents', placeholder: 'Search titles, tasks, ids, agents  ( / )',
    value: params.get('text'), onChange: (text) => change('text', text),
  });
  const kinds = chips({
    label: 'Kind', options: KINDS, chosen: params.getAll('kind'), onChange: (values) => change('kind', values),
  });
  const statuses = chips({
    label: 'Status', options: STATUSES, chosen: params.getAll('status'), onChange: (values) => change('status', values),
  });
  const verdicts = chips({
    label: 'Verdict', options: VERDICTS, chosen: params.getAll('verdict'), single: true,
    onChange: (values) => change('verdict', values),
  });
  const closed = choice({
    label: 'Open or closed', value: params.get('closed') ?? '',
    options: [['', 'Open and closed'], ['true', 'Closed only'], ['false', 'Open only']],
    onChange: (value) => change('closed', value),
  });
  const order = choice({
    label: 'Order', value: params.get('order') ?? 'newest',
    options: [['newest', 'Newest first'], ['oldest', 'Oldest first']],
    onChange: (value) => change('order', value === 'newest' ? null : value),
  });
  return [
    { ...search, follow: (now) => search.set(now.get('text')) },
    { ...kinds, follow: (now) => kinds.set(now.getAll('kind')) },
    { ...statuses, follow: (now) => statuses.set(now.getAll('status')) },
    { ...verdicts, follow: (now) => verdicts.set(now.getAll('verdict')) },
    { ...closed, follow: (now) => closed.set(now.get('closed') ?? '') },
    days(params, change),
    { ...order, follow: (now) => order.set(now.get('order') ?? 'newest') },
  ];
}

function days(params, change) {
  const field = (name, label) => {
    const input = h('input', { type: 'date', value: params.get(name) ?? '', 'aria-label': label });
    input.addEventListener('change', () => change(name, input.value));
    return input;
  };
  const from = field('from', 'From this day (UTC)');
  const to = field('to', 'Up to this day (UTC)');
  return {
    element: h('div', { class: 'days' }, from, h('span', { 'aria-hidden': 'true' }, '–'), to),
    follow(now) {
      from.value = now.get('from') ?? '';
      to.value = now.get('to') ?? '';
    },
  };
}

function emptiness(params, total) {
  if (!isFiltered(params) || total === 0) {
    return h('div', { class: 'empty' }, h('h2', null, 'No traces yet'),
      h('p', null, 'Make one with ', h('code', null, 'countersign demo'), ' or ',
        h('code', null, 'countersign run TASK.toml'), '. It shows up here at once.'));
  }
  return h('div', { class: 'empty' }, h('h2', null, 'Nothing fits'),
    h('p', null, 'None of the traces fits the filters. ', h('a', { href: '#/traces' }, 'Show all')));
}

/** Rows that change are exchanged in place; new ones are shown at once if the reader is at the top. */
function follow(list, news, params, { changed, judged }) {
  let timer = null;
  const renew = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      replace(news);
      list.reload();
    }, 100);
  };
  const arrived = (items) => {
    const fresh = items.filter((row) => !list.exchange((one) => one.trace_id === row.trace_id, row));
    if (fresh.length === 0 && !isFiltered(params())) return;
    if (window.scrollY < 400) renew();
    else if (fresh.length > 0) replace(news, h('button', { type: 'button', onclick: renew },
      'There are new traces: show'));
  };
  const stop = live({}, {
    // Whatever changed before somebody listened is told to nobody.
    hello: () => {
      changed();
      renew();
    },
    traces: (message) => {
      changed();
      arrived(message.items ?? []);
    },
    verdict: (message) => {
      changed();
      judged(message);
      if (params().get('verdict')) renew();
      list.exchangeWith((one) => one.trace_id === message.trace_id, (one) => ({ ...one, verdict: message.verdict }));
    },
  });
  return () => {
    clearTimeout(timer);
    stop();
  };
}
