// Whether receipts are those of the actions that the events tell of, and form one chain
// (docs/formats/receipts.md#receipts-in-a-trace). What is kept grows with the number of intents that
// have not started and of tools under way.

import { hex, sha256, utf8 } from './bytes.mjs';
import { dialectOf, text } from './check.mjs';
import { isHash } from './forms.mjs';
import { Real } from './json.mjs';

const CHECK = 'CHK_RECEIPT_CHAIN';
const NOTHING = hex(sha256());
export const ENDS = ['tool_execution_completed', 'tool_execution_failed'];

/** The receipts of a trace so far. */
export class Receipts {
  #count = 0;
  /** Number and last receipt of the chain; null where a receipt is wrong or missing. */
  #head = { number: 0, id: null, hash: null };
  #bare = 0;
  #firstBare = null;
  /** Intents that have not started, and the intents of tools under way, by place. */
  #intents = new Map();
  #running = new Map();

  constructor(findings) {
    this.findings = findings;
  }

  /** Takes in a valid event that did not fail itself; `doubt` says that one before it did. */
  meet(event, place, kind, doubt) {
    const wrong = this.#look(event, place, doubt);
    if (wrong.length > 0) {
      this.#head = null;
      this.findings.fail(CHECK, wrong[0][0], place, wrong.map(([, message]) => message).join('; '));
    }
    if (!doubt && dialectOf(event) === '1.1') this.#take(event, place, kind);
  }

  finish() {
    if (this.#count === 0) {
      this.findings.skip(CHECK, 'no receipts');
      return;
    }
    if (this.#bare > 0) {
      const message = `${this.#bare} ends of actions have no receipt, this is the first of them`;
      this.findings.fail(CHECK, 'SCHEMA_INVALID', this.#firstBare, message);
    }
    this.findings.scope(CHECK, `${this.#count} receipts`);
  }

  /** Everything that is wrong with the receipt of an event, each with its code. */
  #look(event, place, doubt) {
    const type = text(event, 'event_type');
    const payload = event.get('payload');
    const old = dialectOf(event) === '1.0';
    const refused = type === 'tool_intent_reviewed' && text(payload, 'decision') === 'blocked';
    const carries = refused || ENDS.includes(type);
    const action = payload instanceof Map ? payload.get('action') : undefined;
    const given = text(payload, 'receipt_hash');
    const stated = given !== undefined && isHash(given) ? given : undefined;
    if (action === undefined && stated === undefined) {
      if (carries && !old) this.#miss(place);
      return [];
    }
    if (!carries) {
      return type === 'tool_intent_reviewed' ? [['SCHEMA_INVALID', 'a receipt of an action that was not refused']] : [];
    }
    if (action === undefined) return [['SCHEMA_INVALID', 'a receipt hash without its action']];
    if (stated === undefined && !old) return [['SCHEMA_INVALID', 'an action without its receipt hash']];
    const computed = receiptHash(action);
    if (computed === null) return [['SCHEMA_INVALID', 'the action cannot be read']];
    this.#count += 1;
    const wrong = [];
    const differs = (code, message) => wrong.push([code, message]);
    if (computed !== (stated ?? computed)) differs('HASH_MISMATCH', `the action hashes to ${computed}`);
    if (!doubt && this.#head !== null) this.#chain(action, old, differs);
    const behind = doubt ? undefined : this.#behind(payload, refused);
    if (behind) ofIntent(action, event, behind, refused, differs);
    ofEvent(action, event, refused, old, differs);
    if (wrong.length === 0) this.#head = this.#after(action, stated ?? computed, old);
    return wrong;
  }

  #miss(place) {
    this.#firstBare ??= place;
    this.#bare += 1;
    this.#head = null;
  }

  /** The receipt names the one before; the first names none. */
  #chain(action, old, differs) {
    const { number, id, hash } = this.#head;
    const wanted = [['parent_receipt_hash', hash], ['parent_action_id', id]];
    if (!old) wanted.push(['action_id', `act_${String(number + 1).padStart(4, '0')}`]);
    for (const [name, value] of wanted) {
      if ((action.get(name) ?? null) !== value) differs('CHAIN_BREAK', `${name} is not ${value}`);
    }
  }

  /** Where the chain stands after a receipt that is in order. */
  #after(action, hash, old) {
    const id = text(action, 'action_id');
    if (old) return { number: this.#count, id, hash };
    const digits = /^act_([0-9]+)$/.exec(id);
    return digits === null ? null : { number: Number(digits[1]), id, hash };
  }

  #behind(payload, refused) {
    return refused ? this.#intents.get(seqOf(payload, 'subject')) : this.#running.get(seqOf(payload, 'execution'));
  }

  /** Follows intents, what is said of them, and tools. */
  #take(event, { index, eventId }, kind) {
    const type = text(event, 'event_type');
    const payload = event.get('payload');
    if (type === 'tool_intent_signed') {
      const standing = kind === 'recording' ? this.#despite(payload) : null;
      this.#intents.set(index, intentOf(payload, standing));
    } else if (type === 'tool_intent_reviewed') {
      this.#review(event, seqOf(payload, 'subject'), kind, `${eventId} ${index}`);
    } else if (type === 'tool_execution_started') {
      const intent = seqOf(payload, 'intent');
      this.#running.set(index, this.#intents.get(intent));
      this.#intents.delete(intent);
    } else if (ENDS.includes(type)) {
      this.#running.delete(seqOf(payload, 'execution'));
    }
  }

  /** What a verdict said, against which this intent acts; the verdict is used up. */
  #despite(payload) {
    const verdict = payload.get('despite');
    if (!(verdict instanceof Map)) return null;
    const wanted = `${text(verdict, 'event_id')} ${verdict.get('seq')}`;
    for (const [seq, intent] of this.#intents) {
      if (intent.verdict !== wanted) continue;
      this.#intents.delete(seq);
      return intent.standing;
    }
    return null;
  }

  #review(event, subject, kind, place) {
    const payload = event.get('payload');
    const intent = this.#intents.get(subject);
    if (intent === undefined) return;
    const blocked = text(payload, 'decision') === 'blocked';
    if (payload.has('gate') && kind === 'recording') intent.verdict = place;
    intent.standing = judged(event, intent.standing);
    // Something may still be done against the verdict of a gate, and is then compared with it.
    if (blocked && (kind !== 'recording' || intent.verdict === null)) this.#intents.delete(subject);
  }
}

const seqOf = (payload, name) => payload.get(name)?.get?.('seq');

function intentOf(payload, standing) {
  return {
    type: text(payload, 'action_type') ?? 'tool_call',
    input: text(payload, 'input_artifact') ?? text(payload, 'normalized_input_hash'),
    instruction: hex(sha256(utf8(text(payload, 'justification') ?? ''))),
    standing,
    verdict: null,
  };
}

/** What an intent comes to after a review. */
function judged(event, before) {
  const payload = event.get('payload');
  const gate = payload.get('gate');
  const enforced = gate?.get('enforced');
  const said = enforced === false ? text(gate, 'decision') : undefined;
  const decided = text(payload, 'decision');
  const byPerson = text(event.get('actor'), 'role') === 'operator';
  let decision = byPerson ? 'human_approved' : 'pass';
  // What a gate that binds nobody said is told as it said it.
  if (said === 'deny' || decided === 'blocked') decision = 'skip';
  else if (said === 'ask' || decided === 'asked') decision = 'human_review';
  return {
    decision,
    score: scoreOf(gate?.get('score')) ?? before?.score ?? null,
    enforced: enforced ?? before?.enforced ?? true,
  };
}

const scoreOf = (value) => (value instanceof Real ? value.value : value ?? null);

/** What a receipt repeats of its intent, and of what was said of that. */
function ofIntent(action, event, intent, refused, differs) {
  const compare = (code, name, wanted) => {
    if ((action.get(name) ?? null) !== wanted) differs(code, `${name} is not ${wanted}, as by its intent`);
  };
  compare('HASH_MISMATCH', 'input_hash', intent.input);
  compare('HASH_MISMATCH', 'instruction_hash', intent.instruction);
  compare('SCHEMA_INVALID', 'action_type', intent.type);
  const { standing } = intent;
  let score = standing?.score ?? null;
  if (refused) {
    score = scoreOf(event.get('payload').get('gate')?.get('score')) ?? score;
  } else {
    // Only what failed can have been given up.
    const failed = text(event, 'event_type') === 'tool_execution_failed';
    const givenUp = failed && text(action, 'gate_decision') === 'skipped';
    if (!givenUp) compare('SCHEMA_INVALID', 'gate_decision', standing?.decision ?? null);
    compare('SCHEMA_INVALID', 'policy_verdict', standing?.enforced ? 'POLICY_ENFORCED' : 'PROOF_ONLY');
  }
  if (scoreOf(action.get('gate_score')) !== score) differs('SCHEMA_INVALID', 'gate_score is not that of its intent');
}

/** What a receipt repeats of the event that carries it. */
function ofEvent(action, event, refused, old, differs) {
  const payload = event.get('payload');
  const compare = (code, name, wanted) => {
    if (action.get(name) !== wanted) differs(code, `${name} is not ${wanted}, as the event says`);
  };
  compare('SCHEMA_INVALID', 'success', text(event, 'event_type') === 'tool_execution_completed');
  if (old) return;
  compare('HASH_MISMATCH', 'output_hash', text(payload, 'stdout') ?? payload.get('output_artifacts')?.[0] ?? NOTHING);
  compare('SCHEMA_INVALID', 'duration_ms', payload.get('elapsed_ms') ?? 0);
  compare('SCHEMA_INVALID', 'timestamp', text(event, 'created_at'));
  // That everything was verified, no event can say of itself.
  if (refused || text(action, 'policy_verdict') !== 'PROOF_ONLY') {
    compare('SCHEMA_INVALID', 'policy_verdict', 'POLICY_ENFORCED');
  }
  if (refused) compare('SCHEMA_INVALID', 'gate_decision', 'skip');
}

/** The fields that are hashed, in their order. */
export const HASHED = [['action_id', string], ['action_type', string], ['duration_ms', integer], ['gate_decision', string, null],
  ['gate_score', float, null], ['input_hash', string], ['instruction_hash', string], ['output_hash', string],
  ['parent_action_id', string, null], ['parent_receipt_hash', string, null], ['success', boolean], ['timestamp', string]];

/** The receipt hash of an action; null where it cannot be read. */
export function receiptHash(action) {
  if (!(action instanceof Map)) return null;
  const members = [];
  for (const [name, write, absent] of HASHED) {
    const value = action.get(name) ?? absent;
    const written = value === null ? 'null' : write(value);
    if (written === null) return null;
    members.push(`"${name}":${written}`);
  }
  return hex(sha256(utf8(`{${members.join(',')}}`)));
}

const SHORT = { '"': '\\"', '\\': '\\\\', '\b': '\\b', '\t': '\\t', '\n': '\\n', '\f': '\\f', '\r': '\\r' };

/** As Python writes it: everything that is not printable ASCII is escaped, one UTF-16 unit at a time. */
export function string(value) {
  if (typeof value !== 'string') return null;
  const escaped = value.replace(/["\\]|[^ -~]/g, (unit) =>
    SHORT[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return `"${escaped}"`;
}

function integer(value) {
  return typeof value === 'number' ? String(value) : null;
}

function boolean(value) {
  return typeof value === 'boolean' ? String(value) : null;
}

/** As Python's `repr` writes a float: the same shortest digits, laid out in another way. */
export function float(given) {
  const value = scoreOf(given);
  if (typeof value !== 'number') return null;
  const [mantissa, power] = Math.abs(value).toExponential().split('e');
  const [digits, exponent] = [mantissa.replace('.', ''), Number(power)];
  const sign = value < 0 ? '-' : '';
  if (exponent < -4 || exponent >= 16) {
    const tail = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${mantissa}e${exponent < 0 ? '-' : '+'}${tail}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}
