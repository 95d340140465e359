// One work item: where it stands, everything that happened to it with the evidence, commits and signals that it
// rests on, and the sessions that worked on it with how they ended.

import { get, live } from './api.mjs';
import { artifactLink } from './artifact_link.mjs';
import { badge, copyButton, count, counted, h, hash, own, plain, replace, shown, span, time } from './dom.mjs';
import { CHANNELS } from './events.mjs';
import { phaseName } from './phases.mjs';
import { link } from './route.mjs';
import { ServerTrace } from './source.mjs';
import { Clock, coalesced } from './work_clock.mjs';
import { lease } from './work.mjs';

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
const EXITS = { completed: ['ok', 'completed'], blocked: ['failed', 'blocked'], error: ['failed', 'error'] };
const SIGNALS = {
  descriptor: 'on the descriptor made for it', stdout: 'as the last thing printed, the weaker channel',
  agent: 'by a command of the agent', operator: 'by a command of somebody else',
  runner: 'by what ran the agent',
};

const BAD = new Set(['exit_refused']);
const COLUMNS = ['Event', 'Time', 'What', 'Phase', 'By', 'Why and on what'];
const FIRST_SHOWN = 100;
const MORE = 400;
// The most that the server gives at once.
const PAGE = 500;

/** The item with as many of its transitions as are wanted. */
async function read(id, wanted) {
  const path = `/work/${encodeURIComponent(id)}`;
  const found = await get(path, { limit: Math.min(PAGE, wanted) });
  while (found.transitions.length < Math.min(wanted, found.total)) {
    const page = await get(path, { offset: found.transitions.length, limit: PAGE });
    if (page.transitions.length === 0) break;
    found.transitions.push(...page.transitions);
  }
  return found;
}

/** Shows one item. */
export async function showItem(main, id, context) {
  const clock = new Clock();
  const body = h('div', null);
  const heading = h('h1', null);
  let wanted = FIRST_SHOWN;
  let drawn = null;
  const load = coalesced(async () => {
    const found = await read(id, wanted);
    const now = JSON.stringify(found);
    if (now === drawn) return;
    drawn = now;
    const more = () => {
      wanted = found.transitions.length + MORE;
      load().catch(() => {});
    };
    replace(heading, shown(found.item.label ?? found.item.item.slice(0, 10), 60), ' ', shown(found.item.title, 300));
    replace(body, facts(found.item, clock), sessions(found), history(found, new ServerTrace(id), more));
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
    item.pr_url ? [h('dt', null, 'Pull request'), h('dd', null, address(item.pr_url))] : null,
    h('dt', null, 'Trace'), h('dd', null, hash(item.item, { href: link(`/traces/${item.item}`), length: 26 }), ' · ',
      h('a', { href: link(`/traces/${item.item}`, { view: 'decisions' }) }, 'decisions')));
}

/** An address that an agent gave leads off this page, so it is shown and can be copied, and is not linked. */
const address = (url) => [h('code', null, shown(url, 2048)), copyButton(url, 'Copy the address')];

function history({ transitions, total, sessions: rows }, source, more) {
  const known = new Set(rows.map((row) => row.trace_id));
  const rest = total - transitions.length;
  return h('section', { class: 'panel' }, h('h2', null, 'What happened'),
    h('p', { class: 'counting' }, `${count(transitions.length)} of ${counted(total, 'event')} shown`),
    h('div', { class: 'scroll-x' }, h('table', { class: 'history' },
      h('caption', { class: 'unseen' }, 'Everything that happened to this item, the oldest first'),
      h('thead', null, h('tr', null, COLUMNS.map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', null, transitions.map((one) => h('tr', { 'data-row': true },
        h('td', { class: 'number' }, h('a', { href: `${source.base}/events/${one.seq}` }, String(one.seq))),
        h('td', null, time(one.at)),
        h('td', null, what(one)),
        h('td', null, moved(one)),
        h('td', null, who(one, known)),
        h('td', null, one.reason === null ? null : h('p', null, shown(one.reason, 10_000)), grounds(one, source))))))),
    rest > 0 ? h('button', { type: 'button', class: 'more-button', onclick: more },
      `Show ${count(Math.min(MORE, rest))} more (${count(rest)} not shown)`) : null);
}

function what(one) {
  const words = own(HAPPENED, one.type) ?? plain(one.type, 80);
  if (BAD.has(one.type)) return badge('failed', words);
  const [kind, exit] = own(EXITS, one.exit_reason) ?? [];
  return exit ? [words, ' ', badge(kind, exit, 'what the exit says')] : words;
}

function moved({ phase_before: before, phase_after: after }) {
  if (!before || before === after) return after ? phaseName(after) : null;
  return [phaseName(before), h('span', { 'aria-hidden': 'true' }, ' → '), h('span', { class: 'unseen' }, ' then '),
    h('strong', null, phaseName(after))];
}

function who(one, known) {
  const person = ['work_unblocked', 'clock_confirmed'].includes(one.type);
  const lead = one.session_id && known.has(one.session_id);
  return [one.holder ? shown(one.holder, 80) : person && one.by ? shown(one.by, 80) : null,
    one.holder && one.epoch !== null ? ` (lease ${one.epoch})` : null,
    one.released_by ? [', ended by ', shown(one.released_by, 80)] : null,
    lead ? [' ', h('a', { href: link(`/traces/${one.session_id}`) }, 'session')] : null];
}

/** What an event rests on: CI's verdict with its commit, evidence, pull request, and how the word came. */
function grounds(one, source) {
  const artifact = (hashed, name) => artifactLink(source, hashed, null, { name, index: one.seq });
  const words = one.type === 'work_unblocked' ? CHANNELS : SIGNALS;
  const channel = own(words, one.channel) ?? null;
  const rows = [
    one.ci ? ['CI', ciVerdict(one.ci)] : null,
    one.commit && one.commit !== one.ci?.commit ? ['Commit', hash(one.commit)] : null,
    one.pr_url ? ['Pull request', address(one.pr_url)] : null,
    one.evidence_artifact ? ['Evidence', [artifact(one.evidence_artifact, 'bundle'),
      one.evidence_bundle_ref ? [' ', h('code', null, shown(one.evidence_bundle_ref, 400))] : null]]
      : one.evidence_bundle_ref ? ['Evidence', [h('code', null, shown(one.evidence_bundle_ref, 400)),
        ' (named, not stored)']] : null,
    one.channel ? [one.type === 'work_unblocked' ? 'Answered' : 'Signal', [channel ?? shown(one.channel, 40),
      one.signal_artifact ? [', ', artifact(one.signal_artifact, 'what came')] : null]] : null,
  ].filter((row) => row !== null);
  return rows.length === 0 ? null : h('dl', { class: 'grounds' }, rows.map(([name, value]) =>
    h('div', null, h('dt', null, name), h('dd', null, value))));
}

function ciVerdict(ci) {
  const passed = ci.exit_status === 0;
  return [badge(passed ? 'ok' : 'failed', passed ? 'passed' : 'did not pass'),
    ci.exit_status === null ? null : ` exit status ${ci.exit_status}`,
    ci.reason ? [', ', shown(ci.reason, 400)] : null,
    ci.commit ? [' on commit ', hash(ci.commit)] : ' on no commit that is known',
    ci.uncommitted_changes ? [' ', badge('warn', 'uncommitted changes', 'files were not as committed when CI ended')]
      : null];
}

/** How a session came out: what it was for, not whether its record is sound. */
function ending(row, left) {
  if (row.outcome === 'achieved') return badge('ok', 'achieved', 'it did what it was for');
  if (row.outcome === 'not-achieved') return badge('failed', 'not achieved', 'it did not do what it was for');
  if (row.status === 'running') return badge('running', 'running');
  if (row.status === 'failed' || row.status === 'tampered') return badge('failed', row.status);
  if (row.status === 'aborted') return badge('warn', 'aborted');
  return badge('unknown', left ? 'no outcome stated' : row.status ?? 'unknown');
}

function sessions({ sessions: rows, transitions }) {
  const leavings = new Map(transitions
    .filter((one) => ['agent_session_completed', 'lease_released'].includes(one.type) && one.session_id)
    .map((one) => [one.session_id, one]));
  const begun = new Map(transitions.filter((one) => one.type === 'lease_granted').map((one) => [one.session_id, one]));
  return h('section', { class: 'panel' }, h('h2', null, 'Sessions'),
    rows.length === 0 ? h('p', { class: 'quiet' }, 'No recorded session worked on it.')
      : h('ul', { class: 'rows' }, rows.map((row) => {
        const [left, from] = [leavings.get(row.trace_id), begun.get(row.trace_id)];
        return h('li', { 'data-session': row.trace_id }, ending(row, left), ' ',
          h('a', { href: link(`/traces/${row.trace_id}`), 'data-row': true },
            shown(row.title ?? row.trace_id, 200)), ' ',
          from && !row.title?.startsWith(from.phase_after) ? `${phaseName(from.phase_after)}${left ? ', ' : ''}` : null,
          left ? leaving(left) : null,
          h('span', { class: 'quiet' }, ' · ', time(row.started_at), ` · ${counted(row.events, 'event')} · `,
            span(row.duration_ms)));
      })));
}

function leaving(one) {
  if (one.type === 'lease_released') return ['let go', one.reason ? [': ', shown(one.reason, 200)] : null];
  return [`left as ${plain(one.exit_reason ?? 'ended', 40)}`,
    one.phase_after === one.phase_before ? null : `, on to ${phaseName(one.phase_after)}`];
}
