// Who allowed what: each action or proposal with every decision about it, the reasons, and through
// which channel a person answered.

import { artifactLink, preview } from './artifact_link.mjs';
import { inputOf } from './commands.mjs';
import { badge, count, counted, h, notice, own, plain, replace, shown, time, words } from './dom.mjs';
import { CHANNELS, gateDecided, silenceWords } from './events.mjs';
import { gathered } from './gather.mjs';
import { phaseName } from './phases.mjs';
import { go } from './route.mjs';

const TYPES = ['proposal_created', 'proposal_reviewed', 'tool_intent_signed', 'tool_intent_reviewed', 'step_escalated',
  'answer_given', 'agent_session_completed', 'work_unblocked'];
const DECIDING = ['proposal_reviewed', 'tool_intent_reviewed', 'answer_given', 'work_unblocked'];
const DECIDED = {
  approved: ['ok', 'approved'], conditional: ['warn', 'approved with conditions'], rejected: ['failed', 'rejected'],
  blocked: ['failed', 'blocked'], asked: ['waiting', 'asked'],
};
const RISKS = { low: 'plain', standard: 'plain', elevated: 'warn', critical: 'failed' };
const FILTERS = [['all', 'All'], ['refused', 'Refused'], ['people', 'By a person'], ['open', 'Waiting']];

const INPUT_SHOWN = 2048;

const list = (value) => (Array.isArray(value) ? value : []);

/** What was asked for, each with the decisions about it, in the order of the trace. */
export function join(items) {
  const subjects = [];
  const bySeq = new Map();
  // Where a work item stands still until a person decides.
  let blocked = null;
  for (const { index, event } of items) {
    const p = event?.payload;
    if (!p) continue;
    const type = event.event_type;
    // Of all exits only those that block have to be decided about.
    if (type === 'agent_session_completed' && p.next_phase !== 'BLOCKED') continue;
    const ref = type === 'work_unblocked' ? blocked : p.subject ?? p.question;
    if (DECIDING.includes(type)) {
      if (type === 'work_unblocked') blocked = null;
      let subject = bySeq.get(ref?.seq);
      if (!subject) {
        subject = { index: ref?.seq ?? null, event: null, decisions: [] };
        subjects.push(subject);
        if (Number.isInteger(ref?.seq)) bySeq.set(ref.seq, subject);
      }
      subject.decisions.push({ index, event });
    } else {
      if (type === 'agent_session_completed') blocked = { seq: index };
      const subject = { index, event, decisions: [] };
      subjects.push(subject);
      bySeq.set(index, subject);
    }
  }
  return subjects;
}

const last = (subject) => subject.decisions.at(-1)?.event ?? null;
const byPerson = (subject) => subject.decisions.some(({ event }) => event.actor?.role === 'operator');
const refused = (subject) => subject.decisions.some(({ event }) =>
  ['blocked', 'rejected'].includes(event.payload.decision)
  || event.payload.answer === false || event.payload.gate?.decision === 'deny');
const open = (subject) => {
  const event = last(subject);
  if (['step_escalated', 'agent_session_completed'].includes(subject.event?.event_type)) return event === null;
  return event?.payload.decision === 'asked';
};
const TESTS = { all: () => true, refused, people: byPerson, open };

const chosenIn = (params) => (Object.hasOwn(TESTS, params.get('which') ?? '') ? params.get('which') : 'all');

/** Makes the view. Which decisions are shown lies in the address. */
export function decisionsView(source, about, route, context, panel) {
  let { params } = route;
  let chosen = chosenIn(params);
  let subjects = [];
  const bar = h('div', { class: 'chips', role: 'group', 'aria-label': 'Which decisions' });
  const cards = h('ol', { class: 'entries' });
  const choose = (name) => {
    const next = new URLSearchParams(params);
    if (name === 'all') next.delete('which');
    else next.set('which', name);
    go(source.base, next, { replace: true });
  };
  const chips = FILTERS.map(([name]) => h('button', { type: 'button', class: 'chip', onclick: () => choose(name) }));
  replace(bar, chips);
  const paint = () => {
    const found = subjects.filter(TESTS[chosen]);
    for (const [at, [name, title]] of FILTERS.entries()) {
      chips[at].setAttribute('aria-pressed', String(name === chosen));
      chips[at].textContent = `${title} (${count(subjects.filter(TESTS[name]).length)})`;
    }
    replace(cards, found.map((subject) => card(source, subject, panel)));
  };
  const narrowed = () => (chosen === 'all' ? null
    : `${count(subjects.filter(TESTS[chosen]).length)} of ${counted(subjects.length, 'decision')} shown`);
  const view = gathered(source, TYPES, (items) => {
    subjects = join(items);
    if (subjects.length === 0) {
      return h('div', { class: 'empty' }, h('h2', null, 'No decisions'),
        h('p', null, 'Nothing in this trace was put to a review, or to a person.'));
    }
    paint();
    return [bar, cards];
  }, { context, panel, what: 'decisions', narrowed });
  return {
    ...view,
    update(next) {
      ({ params } = next);
      if (chosenIn(params) === chosen) return;
      chosen = chosenIn(params);
      paint();
      view.recount();
    },
  };
}

function subjectOf(source, subject, panel) {
  const { event, index } = subject;
  const p = event?.payload;
  const where = index === null ? null : h('a', { href: `${source.base}/events/${index}` }, `event ${index}`);
  if (!p) return [h('h3', null, 'Something that is not listed here'), where];
  const input = inputOf(event);
  const titles = {
    proposal_created: ['Proposal', p.objective], step_escalated: [`Question of step ${words(p.step)}`, p.question],
    tool_intent_signed: [p.tool_name, p.justification],
    agent_session_completed: [`Blocked in ${phaseName(p.phase_completed)}`, p.notes ?? 'no reason was given'],
  };
  const [name, text] = titles[event.event_type] ?? ['', ''];
  return [
    h('div', { class: 'entry-head' }, h('h3', null, shown(name, 200)),
      p.safety_classification ? badge(own(RISKS, p.safety_classification) ?? 'plain', p.safety_classification, 'risk')
        : null,
      p.despite ? badge('failed', 'done despite a refusal') : null,
      h('span', { class: 'entry-by quiet' }, shown(event.actor?.agent_id, 80), ', ', time(event.created_at), ', ',
        where)),
    text ? h('p', null, shown(text, 3000)) : null,
    list(p.paths).length > 0 ? h('p', { class: 'mono' },
      list(p.paths).slice(0, 20).map((one, at) => [at > 0 ? h('br') : null,
      shown(one, 500)])) : null,
    input === null ? null : preview(source, input.hash, input.descriptor, {
      label: 'What would run', index, bytes: INPUT_SHOWN,
    }),
    (input === null ? [] : panel?.findingsOf?.(input.hash) ?? []).slice(0, 3).map((one) =>
      notice('failed', h('p', null, 'This input does not hold: ', shown(one.message, 400)))),
  ];
}

function card(source, subject, panel) {
  return h('li', { class: 'entry', 'data-row': true, tabindex: '-1' },
    subjectOf(source, subject, panel),
    subject.decisions.length === 0 ? h('p', { class: 'quiet' }, 'Nobody has decided about it.')
      : h('ol', { class: 'decisions' }, subject.decisions.map((one) => decision(source, one, panel))));
}

function verdictOf({ event_type: type, payload: p }) {
  if (p.channel === 'deadline') {
    const value = p.decision === undefined ? p.answer : p.decision === 'approved';
    return badge('warn', plain(silenceWords(value), 120));
  }
  if (type === 'work_unblocked') return badge('ok', `unblocked: back to ${phaseName(p.phase)}`);
  if (own(DECIDED, p.decision)) return badge(...DECIDED[p.decision]);
  if (p.answer === true) return badge('ok', 'yes');
  if (p.answer === false) return badge('failed', 'no');
  if (p.answer !== undefined) {
    return badge('info', plain(typeof p.answer === 'string' ? p.answer : JSON.stringify(p.answer), 80), 'the answer');
  }
  return badge('unknown', plain(p.decision ?? 'not said', 40));
}

function decision(source, { index, event }, panel) {
  const p = event.payload;
  const reasons = [...list(p.reasons), ...list(p.conditions).map((one) => `Condition: ${words(one?.text)}`), p.rationale,
    p.reason].filter((one) => typeof one === 'string' && one !== '');
  const person = event.actor?.role === 'operator';
  const failed = (panel?.findingsAt?.(index) ?? []).filter((one) => one.failure_code);
  return h('li', null,
    h('div', null, verdictOf(event), ' ', person ? 'a person, ' : gateDecided(event) ? 'the gate, ' : null,
      h('strong', null, shown(event.actor?.agent_id, 80)), ' ',
        h('span', { class: 'quiet' }, '(', shown(event.actor?.role, 20),
        '), ', time(event.created_at), ', ', h('a', { href: `${source.base}/events/${index}` }, `event ${index}`))),
    p.channel === 'deadline' ? h('p', { class: 'quiet' }, 'The deadline passed; the recorder wrote it down.')
      : person || p.channel ? h('p', null, badge(p.channel === 'protected-key' ? 'ok' : 'warn',
      plain(p.channel ?? 'channel not stated', 40)),
      ' ', own(CHANNELS, p.channel) ? `Answered ${CHANNELS[p.channel]}.` : 'How the answer was given is not recorded.')
        : null,
    p.gate ? h('p', { class: 'quiet' }, 'The gate said ', h('strong', null, shown(p.gate.decision, 20)),
      p.gate.enforced === false ? ', which does not bind here (shadow)' : ', which binds',
      typeof p.gate.score === 'number' ? `, score ${p.gate.score}` : null,
      typeof p.gate.policy === 'string' ? [', policy ', artifactLink(source, p.gate.policy, null, { index })] : null)
        : null,
    reasons.length > 0 ? h('ul', { class: 'reasons' }, reasons.slice(0, 50).map((one) =>
      h('li', null, shown(one, 2000)))) : null,
    failed.map((one) => h('p', { class: 'notice notice-failed' }, shown(one.message, 400))));
}
