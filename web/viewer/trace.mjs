// One trace: what it is and how it ended, the verdict, and the views of its events. The same page
// shows a trace of the server and a file that was opened.

import { live } from './api.mjs';
import { claimsView } from './claims.mjs';
import { decisionsView } from './decisions.mjs';
import {
  badge, counted, failure, h, hash, notice, own, plain, replace, shown, size, span, time,
} from './dom.mjs';
import { executionsView } from './executions.mjs';
import { reportView } from './report.mjs';
import { link } from './route.mjs';
import { sourceOf } from './source.mjs';
import { statesView } from './states.mjs';
import { firstPage, legend, timeline } from './timeline.mjs';
import { readable, statusBadge, titleOf, verdictBadge } from './traces.mjs';

const VIEWS = [
  ['timeline', 'Timeline'], ['states', 'States'], ['claims', 'Claims'], ['decisions', 'Decisions'], ['executions', 'Executions'],
  ['report', 'Report'],
];
const SETTLED = 700;
const ULID = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

// Proposals and intents are in sessions and recordings; where work and flows stand is on their own pages.
const viewsOf = (about) => VIEWS.filter(([name]) => name !== 'states' || !['work', 'flow'].includes(about.kind));
const viewOf = (params, views = VIEWS) => (views.some(([name]) => name === params.get('view')) ? params.get('view')
  : 'timeline');

/** Shows the page. */
export async function show(main, route, context) {
  const source = sourceOf(route);
  if (!source) {
    context.title('No file is open');
    replace(main, h('h1', { tabindex: '-1' }, 'No file is open'),
      h('p', null, 'A file stays open until the page is loaded anew. ', h('a', { href: '#/open' }, 'Open a file')));
    return null;
  }
  // The first rows need nothing of the trace but themselves: both are asked for at once.
  let early = viewOf(route.params) === 'timeline' ? firstPage(source, route.params) : null;
  let about = await source.about();
  context.title(plain(titleOf(about), 80));
  const head = h('header', { class: 'trace-head' });
  const views = viewsOf(about);
  const tabs = views.map(([one, title]) => [one,
    h('a', { href: link(source.base, one === 'timeline' ? {} : { view: one }) }, title)]);
  const body = h('div', { class: 'view' });
  const side = h('aside', { class: 'side', 'aria-label': 'Verdict' });
  const panel = new PanelSlot();
  let view = null;
  let name = null;

  const open = (next) => {
    const wanted = viewOf(next.params, views);
    for (const [one, anchor] of tabs) {
      if (one === wanted) anchor.setAttribute('aria-current', 'page');
      else anchor.removeAttribute('aria-current');
    }
    if (wanted === name) {
      view.update?.(next);
      return;
    }
    view?.close?.();
    name = wanted;
    const make = { timeline, states: statesView, claims: claimsView, decisions: decisionsView, executions: executionsView,
      report: reportView };
    view = make[wanted](source, about, next, context, panel, early);
    early = null;
    const [, title] = VIEWS.find(([one]) => one === wanted);
    replace(body, h('h2', { class: 'unseen' }, title), view.element, wanted === 'timeline' ? legend() : null);
  };
  let children = [];
  const facts = h('div');
  // The heading stays, because it has the focus.
  let drawn = null;
  const redraw = () => {
    drawn = panel.report();
    replace(facts, factsOf(about, children, drawn));
  };
  replace(head, crumbs(about, source), h('h1', { tabindex: '-1' }, shown(titleOf(about), 500)), facts);
  redraw();
  replace(main, h('div', { class: 'trace-page' }, head, side, h('div', { class: 'trace-body' },
    h('nav', { class: 'tabs', 'aria-label': 'Views of the trace' },
      h('ul', null, tabs.map(([, anchor]) => h('li', null, anchor)))), body)));
  open(route);
  const remark = () => {
    if (panel.report() !== drawn) redraw();
    view.remark?.();
  };
  panel.addEventListener('change', remark);
  replace(side, h('section', { class: 'panel' }, h('h2', null, 'Verdict'),
    h('p', { class: 'quiet' }, 'comes in a moment')));
  // Verifying takes all the machine has: the first rows come before it.
  Promise.resolve(view.ready).then(() => verdictOf(source, context, side, panel));
  childrenOf(source, about).then((found) => {
    children = found;
    if (found.length > 0) redraw();
  }).catch(() => {});
  // What is told of a trace as a whole is written down a little after its last event.
  let settling = null;
  const settle = () => source.about().then((found) => {
    about = { ...found, events: Math.max(found.events, view.total?.() ?? 0) };
    redraw();
  }).catch(() => {});
  const stop = follow(source, () => view.total?.() ?? about.events, {
    row(row) {
      about = { ...about, ...row };
      redraw();
    },
    async events(message) {
      const before = view.total?.() ?? about.events;
      // A message may be older than what was read since: only what the server says now counts.
      if (message.total < before) {
        const now = await source.events({}, 0, 1).catch(() => null);
        if (now === null || now.total >= before) return;
        about = { ...about, events: now.total };
        redraw();
        if (view.shrunk) view.shrunk(now.total);
        else view.again?.();
        panel.grown(now.total);
        return;
      }
      about = { ...about, events: Math.max(about.events, message.total) };
      redraw();
      if (view.grown) view.grown(message);
      else view.again?.();
      panel.grown(message.total);
      clearTimeout(settling);
      settling = setTimeout(settle, SETTLED);
    },
  });
  return {
    update: open,
    close() {
      clearTimeout(settling);
      stop?.();
      panel.removeEventListener('change', remark);
      panel.close();
      view?.close?.();
    },
  };
}

/** The panel of verdicts. The page shows the trace also where the panel does not come up. */
async function verdictOf(source, context, side, slot) {
  try {
    const { verdictPanel } = await import('./verdict.mjs');
    if (slot.closed) return;
    const panel = verdictPanel(source, context);
    replace(side, panel.element);
    slot.fill(panel);
  } catch (error) {
    console.error(error);
    replace(side, failure(error));
  }
}

/** The panel of verdicts for those who need it before it is there. */
class PanelSlot extends EventTarget {
  #panel = null;
  closed = false;

  fill(panel) {
    this.#panel = panel;
    panel.addEventListener('change', () => this.dispatchEvent(new Event('change')));
    this.dispatchEvent(new Event('change'));
  }

  findingsAt(index) {
    return this.#panel?.findingsAt(index) ?? [];
  }

  findingsOf(hash) {
    return this.#panel?.findingsOf(hash) ?? [];
  }

  report() {
    return this.#panel?.report() ?? null;
  }

  counting() {
    return this.#panel?.counting() ?? '0 verified';
  }

  isRunning() {
    return this.#panel?.isRunning() ?? false;
  }

  stateAt(...which) {
    return this.#panel?.stateAt(...which) ?? 'unknown';
  }

  verified() {
    return this.#panel?.verified() ?? 0;
  }

  grown(total) {
    this.#panel?.grown(total);
  }

  close() {
    this.closed = true;
    this.#panel?.close();
  }
}

function follow(source, from, { row, events }) {
  if (!source.live) return null;
  const stopEvents = source.live(from, { events });
  const stopRows = live({}, {
    traces: (message) => {
      const own = (message.items ?? []).find((one) => one.trace_id === source.id);
      if (own) row(own);
    },
    verdict: (message) => {
      if (message.trace_id === source.id) row({ verdict: message.verdict });
    },
  });
  return () => {
    stopEvents?.();
    stopRows();
  };
}

function crumbs(about, source) {
  return h('p', { class: 'crumbs' }, source.base === '#/file' ? h('a', { href: '#/open' }, 'Opened file')
    : h('a', { href: '#/traces' }, 'Traces'), ' / ', shown(about.kind ?? 'trace', 40));
}

/** Open or closed: as the verdict has it where it covers what is there, else as the server's index has it. */
function closedBadge(about, report) {
  const covers = report !== null && (about.unreadable || (report.metrics?.events ?? 0) >= (about.events ?? 0));
  const closed = covers ? report.closed !== 'no' : about.closed;
  if (closed) return badge('plain', 'closed', 'the trace has ended and the log says so');
  // Whether a damaged trace has ended is just what cannot be known.
  return about.unreadable ? null : badge('waiting', 'open', 'the trace is not closed');
}

function sizeWords(about, report) {
  if (!about.unreadable) return counted(about.events ?? 0, 'event');
  if (report === null) return readable(about);
  const { events = 0, signatures_verified: signed = 0 } = report.metrics ?? {};
  return `${counted(events, 'event')}, ${signed} of them verified`;
}

function factsOf(about, children, report) {
  const people = (about.participants ?? []).map((one, at) => [at > 0 ? ', ' : null, shown(one.agent_id, 60),
    one.role && one.role !== one.agent_id ? [' (', shown(one.role, 20), ')'] : null]);
  const objective = about.opened?.objective;
  return [
    typeof objective === 'string' && objective !== titleOf(about)
      ? h('p', { class: 'event-what' }, shown(objective, 1000)) : null,
    h('p', { class: 'trace-badges' }, statusBadge(about), ' ',
      closedBadge(about, report), ' ',
      report ?? about.verdict ? verdictBadge(report ?? about.verdict) : null, ' ',
      about.outcome && about.outcome !== about.status ? badge('plain', plain(about.outcome, 40), 'outcome') : null),
    about.unreadable ? notice('failed', h('p', null, h('strong', null, 'This trace is damaged. '),
      shown(about.unreadable, 500))) : null,
    h('dl', { class: 'facts trace-facts' },
      fact('Trace', hash(about.trace_id, { length: 26 })),
      about.task_id ? fact('Task', shown(about.task_id, 120)) : null,
      fact('Started', [time(about.started_at), ' UTC']),
      fact(about.ended_at ? 'Ended' : 'Last event', [time(about.ended_at ?? about.last_at), ' UTC']),
      about.duration_ms === null || about.duration_ms === undefined ? null : fact('Duration', span(about.duration_ms)),
      fact('Size', [sizeWords(about, report), ', ', counted(about.artifacts ?? 0, 'artifact'), ', ',
        size(about.bytes)]),
      people.length > 0 ? fact('Participants', people) : null,
      linksOf('Belongs to', [about.links]), linksOf('Led to', children)),
  ];
}

const fact = (name, value) => h('div', null, h('dt', null, name), h('dd', null, value));

const MOST_CHILDREN = 20;

/** The links of events that name other traces: the sessions of a work item or of a flow. */
async function childrenOf(source, about) {
  if (!['work', 'flow'].includes(about.kind)) return [];
  const page = await source.events({ type: ['step_answered', 'agent_session_completed'] }, 0, 200);
  return page.items.map((item) => item.event?.payload?.links).filter((one) => one && typeof one === 'object')
    .slice(0, MOST_CHILDREN);
}

const PLACES = { work: '/work/', flow: '/flows/' };

/** Links to other traces, as the member `links` of a payload has them. */
function linksOf(title, all) {
  const found = [];
  const links = all.filter((one) => one && typeof one === 'object');
  for (const [name, value] of links.flatMap((one) => Object.entries(one).slice(0, 20))) {
    for (const one of Array.isArray(value) ? value.slice(0, 50) : [value]) {
      found.push([found.length > 0 ? ', ' : null, linkOf(name, one)]);
    }
  }
  return found.length > 0 ? fact(title, found) : null;
}

function linkOf(name, value) {
  const id = typeof value === 'string' ? value : value?.trace_id;
  const rest = value === null || typeof value !== 'object' ? [] : Object.entries(value)
    .filter(([key, item]) => key !== 'trace_id' && item !== null && typeof item !== 'object');
  if (typeof id !== 'string' || !ULID.test(id)) {
    const words = rest.length > 0 ? rest.map(([key, item]) => `${key.replaceAll('_', ' ')} ${item}`).join(', ')
      : String(id ?? '');
    return [shown(name.replaceAll('_', ' '), 40), ': ', shown(words, 200)];
  }
  return [h('a', { href: link(`${own(PLACES, name) ?? '/traces/'}${id}`), title: id }, shown(name, 40), ` …${id.slice(-6)}`),
    rest.length > 0 ? [' (', shown(rest.map(([key, item]) => `${key} ${item}`).join(', '), 120), ')'] : null];
}
