// How far each proposal and each intent came, and the session with them: the states in the order in which
// events brought them about, each with its event. By the rules of the page on sessions, from the events alone;
// whether these were allowed is the verdict's to say.

import { badge, h, notice, own, shown } from './dom.mjs';
import { gathered } from './gather.mjs';

const TYPES = ['session_initialized', 'proposal_created', 'proposal_reviewed', 'tool_intent_signed',
  'tool_intent_reviewed', 'tool_execution_started', 'tool_execution_completed', 'tool_execution_failed',
  'final_statement_signed', 'verification_run_started', 'verification_run_completed', 'session_failed',
  'session_aborted'];

const WORDS = {
  proposed: ['waiting', 'nobody has decided about it'],
  approved: ['info', 'it may happen'],
  conditional: ['warn', 'it may happen under conditions'],
  rejected: ['failed', 'it may not happen'],
  blocked: ['failed', 'it may not run'],
  asked: ['waiting', 'a person is asked'],
  running: ['running', 'no end is recorded'],
  done: ['ok', 'it ended well'],
  failed: ['failed', 'it ended badly'],
  unknown: ['warn', 'nobody knows how it ended'],
  completed: ['ok', 'the audit passed'],
  aborted: ['warn', 'a person ended it'],
};
const REVIEWED = { approved: 'approved', conditional: 'conditional', rejected: 'rejected' };
const DECIDED = { approved: 'approved', blocked: 'blocked', asked: 'asked' };

/** Something with a state: the states that it went through, each with the place of its event. */
class Course {
  constructor(index = null, event = null) {
    Object.assign(this, { index, event, states: [], intents: [], proposal: null, retried: false });
  }

  get state() {
    return this.states.at(-1)?.state ?? null;
  }

  go(state, index) {
    if (state !== undefined && state !== this.state) this.states.push({ state, index });
  }
}

/** What the executions of a proposal make of it. What was tried again counts as what came of that. */
function outcome(proposal) {
  const found = new Set(proposal.intents.filter((one) => !one.retried).map((one) => one.state));
  for (const state of ['running', 'unknown', 'failed', 'blocked']) {
    if (found.has(state)) return state === 'blocked' ? 'failed' : state;
  }
  return found.size === 1 && found.has('done') ? 'done' : undefined;
}

/** Where the session stands after an event, as a whole. It never goes back, and its first end stands. */
function step(session, type, payload, seen) {
  if (['completed', 'failed', 'aborted'].includes(session.state)) return undefined;
  if (type === 'session_failed') return 'failed';
  if (type === 'session_aborted') return 'aborted';
  if (type === 'verification_run_completed') return payload.verification_status === 'fail' ? 'failed' : 'completed';
  if (type === 'final_statement_signed' || session.state === 'auditing') return 'auditing';
  if (seen.recording) return 'open';
  if (seen.ended) return 'claiming';
  if (seen.approved) return 'executing';
  return seen.proposed ? 'reviewing' : 'planning';
}

/** The states of the session, of its proposals with their intents, and of intents without a proposal. */
export function statesOf(items) {
  const session = new Course();
  const [proposals, loose] = [[], []];
  const [proposed, intended, started] = [new Map(), new Map(), new Map()];
  const seen = { recording: false, proposed: false, approved: false, ended: false };
  for (const { index, event } of items) {
    const type = event?.event_type;
    let touched = null;
    const p = event?.payload && typeof event.payload === 'object' ? event.payload : {};
    if (type === 'session_initialized') seen.recording = p.kind === 'recording';
    if (type === 'proposal_created') {
      const proposal = new Course(index, event);
      proposal.go('proposed', index);
      proposals.push(proposal);
      proposed.set(index, proposal);
      seen.proposed = true;
    } else if (type === 'proposal_reviewed') {
      proposed.get(p.subject?.seq)?.go(own(REVIEWED, p.decision), index);
      if (['approved', 'conditional'].includes(p.decision) && proposed.has(p.subject?.seq)) seen.approved = true;
    } else if (type === 'tool_intent_signed') {
      const intent = new Course(index, event);
      intent.go('proposed', index);
      intended.set(index, intent);
      const before = started.get(p.retry_of?.seq);
      if (before) before.retried = true;
      intent.proposal = proposed.get(p.proposal?.seq) ?? null;
      (intent.proposal?.intents ?? loose).push(intent);
      touched = intent;
    } else if (type === 'tool_intent_reviewed') {
      touched = intended.get(p.subject?.seq);
      touched?.go(own(DECIDED, p.decision), index);
    } else if (type === 'tool_execution_started') {
      const intent = intended.get(p.intent?.seq) ?? new Course(index, event);
      if (!intended.has(p.intent?.seq)) loose.push(intent);
      intent.go('running', index);
      started.set(index, intent);
      touched = intent;
    } else if (type === 'tool_execution_completed' || type === 'tool_execution_failed') {
      const intent = started.get(p.execution?.seq);
      intent?.go(type === 'tool_execution_completed' ? 'done' : p.outcome === 'unknown' ? 'unknown' : 'failed', index);
      if (intent) seen.ended = true;
      touched = intent;
    }
    if (touched?.proposal) touched.proposal.go(outcome(touched.proposal), index);
    session.go(step(session, type, p, seen), index);
  }
  return { session, proposals, loose };
}

const stateBadge = (state) => badge(WORDS[state]?.[0] ?? 'info', state ?? 'unknown', WORDS[state]?.[1] ?? null);

/** The states one after the other, each a link to the event that brought it about. */
function course(source, { states }, label) {
  return h('ol', { class: 'course', 'aria-label': label }, states.map(({ state, index }) => h('li', null,
    h('a', { href: `${source.base}/events/${index}`, title: `event ${index}` }, state, ' ',
      h('span', { class: 'quiet' }, h('span', { class: 'unseen' }, 'event '), String(index))))));
}

/** Makes the view. */
export function statesView(source, about, route, context, panel) {
  return gathered(source, TYPES, (items, more) => {
    const { session, proposals, loose } = statesOf(items);
    const last = items.at(-1)?.index;
    return [
      more ? notice('info', h('p', null, `These are the states as of event ${last}. Later events are not read yet.`))
        : null,
      h('section', { class: 'panel' }, h('h2', null, about.kind === 'recording' ? 'Recording' : 'Session', ' ',
        stateBadge(session.state)), course(source, session, 'States of the whole')),
      proposals.length === 0 && loose.length === 0 ? h('div', { class: 'empty' }, h('h2', null, 'Nothing was proposed'),
        h('p', null, 'No proposal and no intent is in this trace.')) : null,
      h('ol', { class: 'entries' }, proposals.map((one) => proposalCard(source, one))),
      loose.length === 0 ? null : h('section', { class: 'panel' }, h('h2', null, 'Intents without a proposal'),
        intents(source, loose)),
    ];
  }, { context, panel, what: 'states' });
}

function proposalCard(source, proposal) {
  const p = proposal.event.payload ?? {};
  const name = typeof p.proposal_id === 'string' && p.proposal_id !== '' ? p.proposal_id : null;
  return h('li', { class: 'entry', 'data-row': true, tabindex: '-1', 'data-state': proposal.state },
    h('div', { class: 'entry-head' }, h('h3', null, 'Proposal', name === null ? null : [' ', shown(name, 120)]),
      stateBadge(proposal.state)),
    h('p', null, shown(p.objective, 2000)),
    course(source, proposal, 'States of the proposal'),
    proposal.intents.length === 0 ? null : intents(source, proposal.intents));
}

function intents(source, all) {
  return h('div', { class: 'scroll-x' }, h('table', { class: 'intents' },
    h('caption', { class: 'unseen' }, 'Intents, in the order in which they were signed'),
    h('thead', null, h('tr', null, ['State', 'Intent', 'States one after the other'].map((one) =>
      h('th', { scope: 'col' }, one)))),
    h('tbody', null, all.map((one) => {
      const p = one.event.payload ?? {};
      return h('tr', { 'data-state': one.state },
        h('td', null, stateBadge(one.state), one.retried ? h('span', { class: 'quiet' }, ' tried again') : null),
        h('td', null, h('strong', null, shown(p.tool_name ?? 'an execution without an intent', 120)),
          p.justification ? [' ', h('span', { class: 'quiet' }, shown(p.justification, 300))] : null),
        h('td', null, course(source, one, 'States of the intent')));
    }))));
}
