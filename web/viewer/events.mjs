// What an event says, in one plain sentence; which lane it stands in; which checks are about it. A
// payload may be cut, of an older schema or nonsense: every member is asked for, none is relied on.

import { count, own, span, words as textOf } from './dom.mjs';

/** The roles in the order of their lanes. */
export const ROLES = ['planner', 'critic', 'executor', 'auditor', 'operator', 'recorder'];

const LETTERS = { planner: 'P', critic: 'C', executor: 'E', auditor: 'A', operator: 'O', recorder: 'R' };

/** The place of an event's lane, or -1 for a role that nobody knows. */
export const laneOf = (event) => ROLES.indexOf(event?.actor?.role);

/** The letter of a role, which says it without its colour. */
export const letterOf = (role) => own(LETTERS, role) ?? '?';

/** The class that gives a role its colour. */
export const colourOf = (role) => (own(LETTERS, role) ? `role-${role}` : 'role-none');

/** The type in words. */
export const typeWords = (type) => textOf(type ?? 'unreadable').replaceAll('_', ' ');

const text = (value, otherwise = '') => (typeof value === 'string' ? value : otherwise);
const number = (value) => (typeof value === 'number' ? value : null);
const list = (value) => (Array.isArray(value) ? value : []);
const record = (value) => (value && typeof value === 'object' && !Array.isArray(value) ? value : {});
const quote = (value) => (text(value) ? `“${text(value)}”` : '');
const place = (ref) => (number(record(ref).seq) === null ? 'an event' : `event ${ref.seq}`);
const short = (value) => (text(value).length > 12 ? `${text(value).slice(0, 10)}…` : text(value, '?'));
// Ids of one moment begin alike: their ends tell them apart.
const tail = (value) => (text(value).length > 12 ? `…${text(value).slice(-6)}` : text(value, '?'));
const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
// Of a payload that is cut the lists are left out: then nothing is said of their length.
const listed = (value, one, more) => (Array.isArray(value) ? many(value.length, one, more) : '');
const joined = (...parts) => parts.filter((part) => part).join('; ');
const because = (value) => (text(value) ? `: ${text(value)}` : '');
const took = (payload) => (number(payload.elapsed_ms) === null ? '' : ` after ${span(payload.elapsed_ms)}`);
const behalf = (payload) => {
  const agent = text(record(payload.on_behalf_of).agent_id);
  return agent ? ` for ${agent}` : '';
};
const replaced = (payload) => {
  const sum = list(payload.redactions).reduce((all, one) => all + (number(record(one).count) ?? 0), 0);
  return sum > 0 ? `${many(sum, 'secret')} replaced` : '';
};

/** How a person answered, in words. */
export const CHANNELS = {
  'protected-key': 'with a key that asked for its passphrase',
  'unprotected-key': 'with a key without passphrase, which whatever runs under the same user could use',
  'client-prompt': "through the agent's own client",
  deadline: 'by silence until the deadline',
};

const channel = (payload) => (own(CHANNELS, payload.channel) ? `, ${CHANNELS[payload.channel]}` : '');

function target(payload) {
  const paths = list(payload.paths).filter((one) => typeof one === 'string');
  if (paths.length === 0) return '';
  return ` on ${paths.slice(0, 3).join(', ')}${paths.length > 3 ? ` and ${paths.length - 3} more` : ''}`;
}

function ended(payload) {
  const outputs = list(payload.output_artifacts).length;
  const dropped = number(payload.dropped_bytes) > 0 ? `${count(payload.dropped_bytes)} bytes of output dropped` : '';
  return joined(outputs > 0 ? many(outputs, 'output') : '', dropped, replaced(payload));
}

function began(payload) {
  const what = payload.kind === 'recording' ? 'Recording begins' : 'Session begins';
  const task = text(payload.task_id) ? ` for task ${payload.task_id}` : '';
  return joined(`${what}${behalf(payload)}${task}${because(payload.objective)}`, replaced(payload));
}

function reviewed(payload) {
  const { decision } = payload;
  const words = { approved: 'Approves', conditional: 'Approves with conditions', rejected: 'Rejects' };
  const conditions = list(payload.conditions).map((one) => text(record(one).text)).filter(Boolean);
  const verb = own(words, decision) ?? 'Reviews';
  return joined(`${verb} the proposal of ${place(payload.subject)}${because(payload.rationale)}`,
    conditions.join('; '));
}

/** Whether a review is the gate's; in a session it is the critic's as well, and the stricter decides. */
export function gateDecided(event) {
  const gate = record(event.payload?.gate);
  if (!gate.decision) return false;
  return event.actor?.role !== 'critic' || own({ ask: 'asked', deny: 'blocked' }, gate.decision) === event.payload.decision;
}

function intentReviewed(payload, event) {
  const gate = record(payload.gate);
  const words = { approved: 'Approves', blocked: 'Blocks', asked: 'Asks a person about' };
  if (payload.channel === 'deadline') {
    return `To the action of ${place(payload.subject)} ${silenceWords(payload.decision === 'approved')}`;
  }
  const who = event.actor?.role === 'operator' ? 'A person ' : gateDecided(event) ? 'The gate ' : '';
  let verb = own(words, payload.decision) ?? 'Reviews';
  if (who) verb = verb.toLowerCase();
  const shadow = gate.enforced === false && gate.decision !== 'allow'
    ? ` (the gate said ${text(gate.decision)}, which does not bind here)` : '';
  const reasons = list(payload.reasons).filter((one) => typeof one === 'string').join('; ');
  return `${who}${verb} the action of ${place(payload.subject)}${shadow}${channel(payload)}${because(reasons)}`;
}

function challenge(payload) {
  const claim = payload.claim ? `of ${place(payload.claim)}` : tail(payload.challenged_claim_id);
  return `Doubts the claim ${claim}${because(payload.reason)}`;
}

function final(payload) {
  const resolutions = list(payload.claim_resolutions)
    .map((one) => `claim ${tail(record(one).claim_id)} ${text(record(one).status)}`).join(', ');
  const outcome = payload.outcome === 'achieved' ? 'objective achieved'
    : payload.outcome === 'not-achieved' ? 'objective not achieved' : '';
  const claims = listed(payload.consolidated_claim_ids, 'claim');
  return joined(`Concludes${claims ? ` with ${claims}` : ''}${because(payload.final_verdict)}`, outcome, resolutions);
}

const pathsOf = (files) => list(files).slice(0, 20).map((one) => text(record(one).path)).join(', ');

function exit(payload) {
  const ci = record(payload.ci);
  const status = payload.ci ? `CI exit status ${textOf(ci.exit_status) || 'none'}` : '';
  return joined(`${text(payload.actor_id, 'The holder')} leaves ${text(payload.phase_completed)} `
    + `(${text(payload.exit_reason)}); the item goes to ${text(payload.next_phase)}`, status, text(payload.notes));
}

function answered(payload) {
  const trouble = text(payload.protocol_error) || text(payload.files_refused)
    || (list(payload.undeclared_changes).length > 0
      ? `${many(list(payload.undeclared_changes).length, 'undeclared change')}` : '');
  const files = list(payload.files).length;
  return joined(`${payload.success === true ? 'Success' : 'No success'}, recommends to ${text(payload.recommendation)}`
    + `${took(payload)}${because(payload.summary)}`, trouble, files > 0 ? many(files, 'file') : '');
}

function escalated(payload) {
  const words = {
    approval: 'Asks a person', escalated: 'The agent hands over to a person',
    attempts: 'No answer after all attempts', iterations: 'No iteration left',
  };
  return `${own(words, payload.reason) ?? 'Waits'}, step ${text(payload.step, '?')}${because(payload.question)}`;
}

/** That nobody answered, and as what that counted. */
export function silenceWords(value) {
  const as = value === true ? 'yes' : value === false ? 'no' : value === null || value === undefined ? 'no answer'
    : typeof value === 'string' ? quote(value) : JSON.stringify(value);
  return `nobody answered: counted as ${as} by default`;
}

function given(payload) {
  const { answer } = payload;
  if (payload.channel === 'deadline') {
    return `To ${place(payload.question)} ${silenceWords(answer)}${because(payload.reason)}`;
  }
  const value = answer === true ? 'yes' : answer === false ? 'no' : answer === null ? 'none'
    : typeof answer === 'string' ? quote(answer) : answer === undefined ? 'see the payload' : JSON.stringify(answer);
  return `The answer to ${place(payload.question)} is ${value}${channel(payload)}${because(payload.reason)}`;
}

const key = (payload) => {
  const identity = record(payload.identity);
  const roles = list(identity.role_capabilities).map(textOf).join(', ');
  return `${short(identity.key_id)} of ${text(identity.agent_id, '?')} (${roles})`;
};

const SENTENCES = {
  log_opened: (p) => `The log ${text(p.origin)} begins; root key ${key(p)}`,
  key_added: (p) => `Key ${key(p)} may sign from now on`,
  key_rotated: (p) => `Key ${key(p)} replaces ${short(p.rotated_key_id)}`,
  key_revoked: (p) => `Key ${short(p.key_id)} may no longer sign${because(p.reason)}`,
  trace_opened: (p) => `The ${text(p.kind, 'trace')} ${text(p.trace_id)} is open`,
  trace_checkpointed: (p) =>
    `Trace ${text(p.trace_id)} has ${many(number(p.size) ?? 0, 'event')}, head ${short(p.head)}`,
  trace_closed: (p) => `Trace ${text(p.trace_id)} ended (${text(p.status)}) with ${many(number(p.size) ?? 0, 'event')}`,
  session_initialized: began,
  proposal_created: (p) => joined(`Proposes${because(p.objective)}`,
    list(p.required_tools).length > 0 ? `needs ${list(p.required_tools).map(textOf).join(', ')}` : '',
    p.revises ? `revises ${place(p.revises)}` : '', p.fallback_for ? `in place of ${place(p.fallback_for)}` : ''),
  proposal_reviewed: reviewed,
  tool_intent_signed: (p, e, { command }) => joined(`Wants to run ${text(p.tool_name, 'a tool')}`
    + `${text(command) ? ` ‹${command}›` : ''}${target(p)}${behalf(p)}`
    + `${text(p.justification) === text(command) ? '' : because(p.justification)}`,
  p.despite ? `although ${place(p.despite)} did not allow it` : '',
  p.retry_of ? `again after ${place(p.retry_of)}` : '', replaced(p)),
  tool_intent_reviewed: intentReviewed,
  tool_execution_started: (p) => joined(`Starts what ${place(p.intent)} announced${behalf(p)}`,
    p.gating === 'ungated' ? 'no verdict of the gate covers it' : '', text(p.token_fault)),
  tool_execution_completed: (p) => joined(`Ended well${took(p)}, exit status ${number(p.exit_status) ?? '?'}`,
    ended(p)),
  tool_execution_failed: (p) => joined(`${p.outcome === 'unknown' ? 'Nobody knows how it ended' : 'Failed'}${took(p)}`
    + `${number(p.exit_status) === null ? '' : `, exit status ${p.exit_status}`}${because(p.reason)}`, ended(p)),
  artifact_recorded: (p, e) => `Records ${many(list(e.artifacts).length, 'artifact')}${behalf(p)}${because(p.purpose)}`,
  artifact_redacted: (p) => `The bytes of artifact ${short(p.artifact_hash)} were removed${because(p.reason)}`,
  claim_issued: (p) => joined(`Claims${because(p.claim_text)}`,
    listed(p.evidence_artifacts, 'piece of evidence', 'pieces of evidence'),
    text(p.confidence) ? `${p.confidence} confidence` : '', text(p.supersedes)
      ? `in place of claim ${tail(p.supersedes)}` : ''),
  claim_challenged: challenge,
  final_statement_signed: final,
  verification_run_started: (p) => `The audit begins${text(p.policy_profile) ? ` (${p.policy_profile})` : ''}`,
  verification_run_completed: (p) => `The audit ends: ${text(p.verification_status, '?')}`,
  coverage_reported: (p) => `Coverage: ${many(number(p.gaps) ?? 0, 'gap')}`
    + `${list(p.sources).length > 0 ? ` in ${list(p.sources).map(textOf).join(', ')}` : ''}`,
  session_aborted: (p) => `A person ends it${because(p.reason)}`,
  session_failed: (p) => joined(`It cannot go on${because(p.reason)}`, text(p.failure_code), replaced(p)),
  session_recovered: (p) =>
    `${many(number(p.torn_bytes) ?? 0, 'byte')} of an unfinished line put aside${because(p.reason)}`,
  tools_listed: (p) => joined(`${text(p.server, 'A server')} offers ${many(number(p.tool_count) ?? 0, 'tool')}`,
    list(p.changed).length > 0 ? `changed: ${list(p.changed).map(textOf).join(', ')}` : ''),
  work_opened: (p) => `Work item ${text(p.label)} opens in ${text(p.phase)}${because(p.title)}`.replace('  ', ' '),
  lease_granted: (p) => `${text(p.holder, '?')} holds it in ${text(p.phase)} under lease ${textOf(p.epoch) || '?'}`
    + ` until ${text(p.expires_at)}`,
  lease_renewed: (p) => `Lease ${textOf(p.epoch) || '?'} now ends at ${text(p.expires_at)}`,
  lease_released: (p) => `Lease ${textOf(p.epoch) || '?'} is over${because(p.reason)}`
    + `${text(p.released_by) ? `, by ${p.released_by}` : ''}`,
  agent_session_completed: exit,
  exit_refused: (p) => `An exit signal changed nothing${because(p.reason)}`,
  work_unblocked: (p) => `A person sends it back to ${text(p.phase)}${because(p.reason)}`,
  clock_confirmed: (p) => `A person vouches for the clock at ${text(p.raw_time)}${because(p.reason)}`,
  flow_started: (p) => `Flow ${text(p.workflow)} begins${text(p.feature_id) ? ` for ${p.feature_id}` : ''}`,
  step_dispatched: (p) => joined(`Step ${text(p.step, '?')} is given to its agent, iteration ${textOf(p.iteration) || '?'}, `
    + `attempt ${textOf(p.attempt) || '?'}`, p.interrupted === true ? 'the call before was cut off' : ''),
  step_skipped: (p) => `Step ${text(p.step, '?')} is left out: its condition does not hold`,
  step_answered: answered,
  files_applied: (p) => (text(p.refused) ? `No file written${because(p.refused)}`
    : `${listed(p.files, 'file') || 'Files'} written${because(pathsOf(p.files))}`),
  step_escalated: escalated,
  flow_finished: (p) => `The flow ends: ${text(p.outcome, '?')}${because(p.summary)}`,
  answer_given: given,
};

/** Every type that has a sentence. */
export const TYPES = Object.keys(SENTENCES);

/**
 * One plain line of an event. It holds words of agents and tools: show it with `shown`. `known` has what is
 * known beside the event: the `command` of an intent.
 */
export function sentence(event, known = {}) {
  if (!event) return 'This line cannot be read';
  const say = own(SENTENCES, event.event_type);
  if (!say) return `An event of the unknown type ${text(event.event_type, '?')}`;
  if (!event.payload) return 'The payload is not in the trace';
  try {
    return say(record(event.payload), event, known);
  } catch {
    return 'The payload is not as it should be';
  }
}

/** How an event stands out: ok, failed, warn, or null. */
export function tone(event) {
  const p = record(event?.payload);
  switch (event?.event_type) {
    case 'tool_intent_reviewed':
      return own({ approved: 'ok', blocked: 'failed', asked: 'warn' }, p.decision) ?? null;
    case 'proposal_reviewed':
      return own({ approved: 'ok', rejected: 'failed', conditional: 'warn' }, p.decision) ?? null;
    case 'tool_execution_failed': case 'session_failed': return 'failed';
    case 'claim_challenged': case 'exit_refused': case 'session_aborted': case 'session_recovered':
    case 'key_revoked': case 'artifact_redacted': case 'step_escalated': return 'warn';
    case 'verification_run_completed':
      return own({ pass: 'ok', fail: 'failed', 'pass-with-warnings': 'warn' }, p.verification_status) ?? null;
    case 'tool_intent_signed': return p.despite ? 'failed' : null;
    case 'step_answered': return p.success === true ? null : 'warn';
    case 'coverage_reported': return number(p.gaps) > 0 ? 'warn' : null;
    default: return null;
  }
}

// The four badges of an event, and the checks of the verifier that each stands for.
/** @type {[string, string, string[]][]} */
export const BADGES = [
  ['hash', 'hash of the event', ['CHK_SCHEMA_CONFORMANCE', 'CHK_EVENT_HASH_INTEGRITY']],
  ['chain', 'place in the chain', ['CHK_CHAIN_CONTINUITY', 'CHK_LOG']],
  ['signature', 'signature and key', ['CHK_SIGNATURE_VALIDITY', 'CHK_KEY_STATUS']],
  ['policy', 'rules of the trace and evidence', ['CHK_ROLE_POLICY_CONFORMANCE', 'CHK_SEPARATION_OF_DUTIES',
    'CHK_CLAIM_EVIDENCE_SUFFICIENCY', 'CHK_FINALIZATION_INTEGRITY', 'CHK_RECEIPT_CHAIN', 'CHK_ARTIFACT_EXISTENCE',
    'CHK_ARTIFACT_HASH_MATCH']],
];
