// What ran: each execution with its input, its output and how it ended. In a flow, each call of an
// agent with its envelope and its answer.

import { artifactLink, preview } from './artifact_link.mjs';
import { badge, h, notice, shown, span, time, words } from './dom.mjs';
import { gathered } from './gather.mjs';

const TYPES = ['tool_intent_signed', 'tool_execution_started', 'tool_execution_completed', 'tool_execution_failed',
  'step_dispatched', 'step_answered', 'files_applied'];

const list = (value) => (Array.isArray(value) ? value : []);

/** Executions with their intents and ends, in the order of their starts. */
export function join(items) {
  const intents = new Map();
  const bySeq = new Map();
  const runs = [];
  for (const { index, event } of items) {
    const p = event?.payload;
    if (!p) continue;
    switch (event.event_type) {
      case 'tool_intent_signed':
        intents.set(index, { index, event });
        break;
      case 'tool_execution_started': case 'step_dispatched': {
        const run = { index, event, intent: intents.get(p.intent?.seq) ?? null, end: null, files: null };
        runs.push(run);
        bySeq.set(index, run);
        break;
      }
      case 'files_applied': {
        const run = runs.find((one) => one.end?.index === p.answer?.seq);
        if (run) run.files = { index, event };
        break;
      }
      default: {
        const run = bySeq.get((p.execution ?? p.dispatch)?.seq);
        if (run) run.end = { index, event };
        else runs.push({ index: null, event: null, intent: null, end: { index, event }, files: null });
      }
    }
  }
  return runs;
}

/** Makes the view. */
export function executionsView(source, about, route, context, panel) {
  return gathered(source, TYPES, (items) => {
    const runs = join(items);
    if (runs.length === 0) {
      return h('div', { class: 'empty' }, h('h2', null, 'Nothing ran'),
        h('p', null, 'No tool was started in this trace. What was refused is under Decisions.'));
    }
    return h('ol', { class: 'entries' }, runs.map((run) => card(source, run, panel)));
  }, { context, panel, what: 'executions' });
}

function ending(run) {
  const p = run.end?.event.payload;
  if (!p) return badge('running', 'not ended', 'no end is recorded');
  if (run.end.event.event_type === 'tool_execution_completed') return badge('ok',
    `exit status ${words(p.exit_status) || '?'}`);
  if (run.end.event.event_type === 'step_answered') {
    return p.success === true ? badge('ok', `success, ${words(p.recommendation)}`)
      : badge('failed', `no success, ${words(p.recommendation)}`);
  }
  if (p.outcome === 'unknown') return badge('warn', 'outcome unknown');
  return badge('failed', typeof p.exit_status === 'number' ? `exit status ${p.exit_status}` : 'failed');
}

function card(source, run, panel) {
  const at = (index) => h('a', { href: `${source.base}/events/${index}` }, `event ${index}`);
  const step = run.event?.event_type === 'step_dispatched';
  const name = step ? `Step ${words(run.event.payload.step)}` : run.intent?.event.payload.tool_name ?? 'Execution';
  const start = run.event ?? run.end.event;
  const p = run.end?.event.payload ?? {};
  const findings = [run.index, run.end?.index].filter(Number.isInteger).flatMap((index) => panel?.findingsAt?.(index)
    ?? []);
  const gating = run.event?.payload.gating;
  return h('li', { class: 'entry', 'data-row': true, tabindex: '-1' },
    h('div', { class: 'entry-head' }, h('h3', null, shown(name, 200)), ending(run),
      gating === 'ungated' ? badge('failed', 'ungated', 'no verdict of the gate covers it')
        : gating ? badge('plain', gating, 'how it was tied to its verdict') : null,
      typeof p.elapsed_ms === 'number' ? h('span', null, span(p.elapsed_ms)) : null,
      h('span', { class: 'entry-by quiet' }, shown(start.on_behalf_of?.agent_id ?? start.actor?.agent_id, 80), ', ',
        time(start.created_at), ', ', [run.intent?.index, run.index, run.end?.index].filter(Number.isInteger)
          .map((index, place) => [place > 0 ? ' → ' : null, at(index)]))),
    run.intent?.event.payload.justification
      ? h('p', null, shown(run.intent.event.payload.justification, 2000)) : null,
    p.reason || p.protocol_error || p.files_refused
      ? notice('warn', h('p', null, shown(p.reason ?? p.protocol_error ?? p.files_refused, 3000))) : null,
    p.summary ? h('p', null, shown(p.summary, 3000)) : null,
    findings.map((one) => notice(one.failure_code ? 'failed' : 'warn', h('p', null, shown(one.message, 400)))),
    h('div', { class: 'previews' }, inputs(source, run), outputs(source, run)),
    secrets(run), files(source, run));
}

const descriptorOf = (event, hash) => list(event?.artifacts).find((one) => one?.artifact_hash === hash) ?? null;

function inputs(source, run) {
  const step = run.event?.payload.envelope_artifact;
  if (step) return preview(source, step, descriptorOf(run.event, step), { label: 'Input envelope', index: run.index });
  const p = run.intent?.event.payload;
  const hash = p?.input_artifact ?? p?.normalized_input_hash;
  if (!hash) return null;
  return preview(source, hash, descriptorOf(run.intent.event, hash), { label: 'Input', index: run.intent.index });
}

function outputs(source, run) {
  const event = run.end?.event;
  if (!event) return null;
  const p = event.payload;
  const named = [['Standard output', p.stdout], ['Standard error', p.stderr], ['Answer', p.answer_artifact]]
    .filter(([, hash]) => typeof hash === 'string');
  const known = new Set(named.map(([, hash]) => hash));
  const others = list(p.output_artifacts).filter((hash) => typeof hash === 'string' && !known.has(hash));
  return [
    named.map(([label, hash]) => preview(source, hash, descriptorOf(event, hash), { label, index: run.end.index })),
    others.slice(0, 3).map((hash) => preview(source, hash, descriptorOf(event, hash),
      { label: 'Output', index: run.end.index })),
    others.length > 3 ? h('p', null, others.slice(3, 100).map((hash, at) => [at > 0 ? h('br') : null,
      artifactLink(source, hash, descriptorOf(event, hash), { index: run.end.index })])) : null,
    typeof p.dropped_bytes === 'number' && p.dropped_bytes > 0
      ? notice('warn', h('p', null, `${p.dropped_bytes} bytes of output were dropped: there was more than the bound.`))
      : null,
  ];
}

function secrets(run) {
  const found = [run.intent?.event, run.end?.event].flatMap((event) => list(event?.payload?.redactions))
    .filter((one) => one && one.count > 0);
  if (found.length === 0) return null;
  return h('p', { class: 'quiet' }, 'Secrets were replaced before anything was stored: ',
    found.map((one, at) => [at > 0 ? ', ' : null, shown(one.rule, 60), ` ${words(one.count)}×`]), '.');
}

function files(source, run) {
  const p = run.files?.event.payload;
  if (!p) return null;
  if (p.refused) return notice('warn', h('p', null, 'No file was written: ', shown(p.refused, 1000)));
  return h('table', null, h('caption', null, 'Files written, ',
    h('a', { href: `${source.base}/events/${run.files.index}` }, `event ${run.files.index}`)),
  h('thead', null, h('tr', null, ['Path', 'Operation', 'Before', 'After'].map((one) =>
    h('th', { scope: 'col' }, one)))),
  h('tbody', null, list(p.files).slice(0, 200).map((one) => h('tr', null,
    h('td', { class: 'mono' }, shown(one?.path, 400)), h('td', null, shown(one?.operation, 20)),
    h('td', null, one?.before ? artifactLink(source, one.before) : '–'),
    h('td', null, one?.after ? artifactLink(source, one.after) : '–')))));
}
