// One work item: where it stands, everything that happened to it, and the sessions that worked on it.

import { get, live } from './api.mjs';
import { badge, counted, h, hash, plain, replace, shown, span, time } from './dom.mjs';
import { link } from './route.mjs';
import { Clock, coalesced } from './work_clock.mjs';
import { lease, phaseName } from './work.mjs';

const HAPPENED = {
  work_opened: 'opened',
  lease_granted: 'claimed',
  lease_renewed: 'held longer',
  lease_released: 'let go',
  agent_session_completed: 'left the phase',
  exit_refused: 'exit signal refused',
  work_unblocked: 'unblocked by an operator',
  clock_confirmed: 'clock confirmed by an operator',
  session_recovered: 'recovered after a crash',
  artifact_redacted: 'evidence redacted',
};

const BAD = new Set(['exit_refused']);
const COLUMNS = ['Event', 'Time', 'What', 'Phase', 'By', 'Why'];

/** Shows one item. */
export async function showItem(main, id, context) {
  const clock = new Clock();
  const body = h('div', null);
  const heading = h('h1', null);
  let drawn = null;
  const load = coalesced(async () => {
    const found = await get(`/work/${encodeURIComponent(id)}`);
    const now = JSON.stringify(found);
    if (now === drawn) return;
    drawn = now;
    replace(heading, shown(found.item.label ?? found.item.item.slice(0, 10), 60), ' ', shown(found.item.title, 300));
    replace(body, facts(found.item, clock), history(found, id), sessions(found.sessions));
    context.title(`Work ${plain(found.item.label ?? found.item.item, 60)}`);
  });
  replace(main, h('p', { class: 'crumbs' }, h('a', { href: '#/work' }, 'Work')), heading, body);
  await load();
  const again = () => load().catch(() => {});
  const close = live({}, {
    work: again,
    traces: ({ items }) => {
      if (items.some((row) => drawn.includes(row.trace_id))) again();
    },
  });
  return () => {
    close();
    clock.close();
  };
}

function facts(item, clock) {
  const blocked = item.phase === 'BLOCKED';
  const kind = blocked ? 'failed' : item.phase === 'COMPLETED' ? 'ok' : 'info';
  return h('dl', { class: 'facts panel' },
    h('dt', null, 'Phase'),
    h('dd', null, badge(kind, phaseName(item.phase)), ' since ', time(item.phase_since)),
    blocked ? [h('dt', null, 'Blocked'),
      h('dd', { class: 'card-reason' }, `in ${phaseName(item.blocked_from)}: `,
        shown(item.blocked_reason ?? 'no reason was given', 10_000), ' ',
        h('a', { href: '#/questions' }, 'answer it'))] : null,
    h('dt', null, 'Lease'),
    h('dd', null, lease(item, clock) ?? 'nobody holds it', item.epoch > 0 ? ` · lease ${item.epoch}` : null),
    h('dt', null, 'Attempts in this phase'), h('dd', null, String(item.attempts)),
    h('dt', null, 'Opened'), h('dd', null, time(item.opened_at)),
    // An address that an agent gave leads off this page, so it is shown and not linked.
    item.pr_url ? [h('dt', null, 'Pull request'), h('dd', null, h('code', null, shown(item.pr_url, 2048)))] : null,
    h('dt', null, 'Trace'), h('dd', null, hash(item.item, { href: link(`/traces/${item.item}`), length: 26 })));
}

function history({ transitions, sessions: rows }, id) {
  const known = new Set(rows.map((row) => row.trace_id));
  return h('section', { class: 'panel' }, h('h2', null, 'What happened'),
    h('div', { class: 'scroll-x' }, h('table', { class: 'history' },
      h('caption', { class: 'unseen' }, 'Everything that happened to this item, the oldest first'),
      h('thead', null, h('tr', null, COLUMNS.map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', null, transitions.map((one) => h('tr', { 'data-row': true },
        h('td', { class: 'number' }, h('a', { href: link(`/traces/${id}/events/${one.seq}`) }, String(one.seq))),
        h('td', null, time(one.at)),
        h('td', null, BAD.has(one.type) ? badge('failed', HAPPENED[one.type])
          : HAPPENED[one.type] ?? shown(one.type, 80)),
        h('td', null, moved(one)),
        h('td', null, who(one, known)),
        h('td', null, one.reason === null ? null : shown(one.reason, 10_000))))))));
}

function moved({ phase_before: before, phase_after: after }) {
  if (!before || before === after) return after ? phaseName(after) : null;
  return [phaseName(before), h('span', { 'aria-hidden': 'true' }, ' → '), h('span', { class: 'unseen' }, ' then '),
    h('strong', null, phaseName(after))];
}

function who(one, known) {
  const lead = one.session_id && known.has(one.session_id);
  return [one.holder ? shown(one.holder, 80) : null, one.holder && one.epoch !== null ? ` (lease ${one.epoch})` : null,
    one.session_id ? [' ', lead ? h('a', { href: link(`/traces/${one.session_id}`) }, 'session') : null] : null];
}

const STATES = { running: 'running', succeeded: 'ok', failed: 'failed', aborted: 'warn', tampered: 'failed' };

function sessions(rows) {
  return h('section', { class: 'panel' }, h('h2', null, 'Sessions'),
    rows.length === 0 ? h('p', { class: 'quiet' }, 'No recorded session worked on it.')
      : h('ul', { class: 'rows' }, rows.map((row) => h('li', null,
        badge(STATES[row.status] ?? 'unknown', row.status ?? 'unknown'), ' ',
        h('a', { href: link(`/traces/${row.trace_id}`), 'data-row': true }, shown(row.title ?? row.trace_id, 200)),
        h('span', { class: 'quiet' }, ' · ', time(row.started_at), ` · ${counted(row.events, 'event')} · `,
          span(row.duration_ms))))));
}
