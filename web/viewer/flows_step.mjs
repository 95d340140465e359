// What happened in one step of a flow: each call of its agent with what it was given and what it
// answered, the files that it wrote, the questions that it asked and their answers.

import { get } from './api.mjs';
import { badge, count, counted, h, hash, notice, own, shown, size, span, time } from './dom.mjs';
import { link } from './route.mjs';

const TYPES = ['step_dispatched', 'step_skipped', 'step_answered', 'files_applied', 'step_escalated', 'answer_given'];
const PAGE = 200;
const MOST_EVENTS = 4000;
const MOST_WHOLE = 50;

/** The events of a flow that are about steps, as many as are looked at. */
async function stepEvents(id) {
  const found = [];
  let matched = 0;
  for (let offset = 0; offset < MOST_EVENTS; offset += PAGE) {
    const page = await get(`/traces/${encodeURIComponent(id)}/events`, { type: TYPES, offset, limit: PAGE });
    found.push(...page.items);
    matched = page.matched;
    if (found.length >= matched || page.items.length === 0) break;
  }
  return { events: await whole(id, found), left: matched - found.length };
}

// Of long events the list has the plain members only, and what they belong to is not among these.
async function whole(id, items) {
  let asked = 0;
  const all = [];
  for (const item of items) {
    if (item.event === null) continue;
    if (item.cut && asked < MOST_WHOLE) {
      asked += 1;
      all.push({ ...await get(`/traces/${encodeURIComponent(id)}/events/${item.index}`), cut: false });
    } else all.push(item);
  }
  return all.filter((item) => item.event !== null);
}

/** Those of one step, each with what it is about: a call, its answer, its files, a question. */
function belongingTo(step, items) {
  const mine = new Set();
  const refers = { step_answered: 'dispatch', files_applied: 'answer', answer_given: 'question' };
  return items.filter(({ event }) => {
    const member = refers[event.event_type];
    const own = member ? mine.has(event.payload?.[member]?.event_id) : event.payload?.step === step;
    if (own) mine.add(event.event_id);
    return own;
  });
}

/** The detail of a step, as an element. */
export async function stepDetail(id, step) {
  const { events, left } = await stepEvents(id);
  const mine = belongingTo(step.id, events);
  const kept = new Set(events.flatMap(({ event }) => event.artifacts ?? []).map((one) => one.artifact_hash));
  return h('div', null,
    left > 0 ? notice('warn', `${counted(left, 'later event')} of this flow were not looked at. `,
      h('a', { href: link(`/traces/${id}`, { text: step.id }) }, 'All of them are in the trace')) : null,
    mine.length === 0 ? h('p', { class: 'quiet' }, 'Nothing has happened in this step yet.')
      : h('ol', { class: 'happenings' }, mine.map((item) => h('li', null, happening(id, item, kept)))),
    h('p', null, h('a', { href: link(`/traces/${id}`, { text: `"step":${JSON.stringify(step.id)}` }) },
      'The events that name this step, in the trace')));
}

function head(id, { index, event }, ...words) {
  const href = link(`/traces/${id}/events/${index}`);
  return h('p', { class: 'happening-head' }, h('a', { href }, `event ${count(index)}`), ' ',
    time(event.created_at, 'clock'), ' ', words);
}

const SHOWS = {
  step_dispatched: dispatched,
  step_skipped: (id, item) => head(id, item, badge('info', 'skipped'), ' its condition does not hold'),
  step_answered: answered,
  files_applied: applied,
  step_escalated: escalated,
  answer_given: given,
};

function happening(id, item, kept) {
  return own(SHOWS, item.event.event_type)?.(id, item, kept) ?? head(id, item, shown(item.event.event_type, 80));
}

function artifact(id, text, event, name) {
  if (typeof text !== 'string') return null;
  const known = event.artifacts?.find((one) => one.artifact_hash === text);
  const href = link(`/artifacts/${text}`, { media: known?.media_type ?? 'application/json', trace: id });
  return h('p', null, h('a', { href }, name), ' ', hash(text),
    known ? h('span', { class: 'quiet' }, ` ${size(known.byte_size)}`) : null);
}

function dispatched(id, item) {
  const { payload } = item.event;
  return [head(id, item, badge('running', 'called'),
    ` iteration ${count(payload.iteration)}, attempt ${count(payload.attempt)}`,
    payload.interrupted ? ', after a call that was cut off' : null,
    payload.isolation?.level ? [', isolation ', shown(payload.isolation.level, 60)] : null),
  artifact(id, payload.envelope_artifact, item.event, 'what the agent was given')];
}

const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

function answered(id, item) {
  const { payload } = item.event;
  const wrong = payload.protocol_error ?? payload.files_refused ?? payload.undeclared_changes;
  const session = payload.links?.session;
  const sessionId = typeof session === 'string' ? session : session?.trace_id;
  return [
    head(id, item, payload.success ? badge('ok', 'answered')
      : badge('failed', wrong === undefined ? 'not successful' : 'no answer'),
      payload.recommendation ? [' recommends ', h('strong', null, shown(payload.recommendation, 60))] : null,
      typeof payload.elapsed_ms === 'number' ? ` after ${span(payload.elapsed_ms)}` : null),
    payload.summary ? h('p', { class: 'said' }, shown(payload.summary, 4000)) : null,
    wrong === undefined ? null : h('p', { class: 'card-reason' }, shown(text(wrong), 4000)),
    artifact(id, payload.answer_artifact, item.event, 'what it printed'),
    sessionId ? h('p', null, h('a', { href: link(`/traces/${sessionId}`) }, 'the session that did it')) : null,
  ];
}

function applied(id, item, kept) {
  const { payload } = item.event;
  const files = Array.isArray(payload.files) ? payload.files : [];
  return [
    head(id, item, payload.refused ? badge('failed', 'files refused') : badge('ok', 'files written'),
      ` ${counted(files.length, 'file')}`),
    payload.refused ? h('p', { class: 'card-reason' }, shown(text(payload.refused), 4000)) : null,
    files.length === 0 ? null : h('ul', { class: 'files' }, files.map((file) => h('li', null,
      h('code', null, shown(file.path, 1000)), ' ', shown(file.operation ?? '', 40),
      state(id, ' before ', file.before, kept), state(id, ' after ', file.after, kept)))),
  ];
}

// Not every state of a file is kept as evidence: only those lead anywhere that an event names so.
function state(id, word, known, kept) {
  if (typeof known !== 'string') return null;
  return [word, hash(known, { href: kept.has(known) ? link(`/artifacts/${known}`, { trace: id }) : null })];
}

const ASKED = {
  approval: 'asks a person',
  escalated: 'the agent asks for a person',
  attempts: 'brought no answer',
  iterations: 'ran out of iterations',
};

function escalated(id, item) {
  const { payload } = item.event;
  return [
    head(id, item, badge('warn', own(ASKED, payload.reason) ?? 'asks'),
      payload.deadline ? [' until ', time(payload.deadline)] : null),
    payload.question ? h('p', { class: 'said' }, shown(text(payload.question), 10_000)) : null,
  ];
}

function given(id, item) {
  const { payload, actor } = item.event;
  return [
    head(id, item, badge('info', 'answer'), ' ', h('strong', null, shown(answerText(payload.answer), 4000)),
      ' by ', shown(actor?.agent_id, 80), ' through ', shown(payload.channel ?? 'an unstated channel', 80)),
    payload.reason ? h('p', { class: 'said' }, shown(payload.reason, 4000)) : null,
  ];
}

const answerText = (answer) => {
  if (answer === true) return 'yes';
  if (answer === false) return 'no';
  return text(answer ?? null);
};
