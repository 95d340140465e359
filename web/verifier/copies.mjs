// The copies of what events say that a sealed file holds for other readers (docs/formats/cap.md): made
// again from the events, and compared.

import { Sha256, hex, sha256, utf8 } from './bytes.mjs';
import { text } from './check.mjs';
import { isHash } from './forms.mjs';
import { Real } from './json.mjs';
import { dumps } from './python.mjs';
import { ENDS, HASHED, float, string } from './receipts.mjs';
import { endingOf, kindOf } from './verify.mjs';

/** The fields of an action, in the order of the specification. */
const FIELDS = ['action_id', 'action_type', 'instruction_hash', 'input_hash', 'output_hash', 'parent_action_id',
  'parent_receipt_hash', 'gate_score', 'gate_decision', 'policy_verdict', 'success', 'duration_ms', 'timestamp',
  'metadata'];
const ENFORCED = 'POLICY_ENFORCED';

/** A value of an event as Python has it: what canonical JSON writes without a fraction is an integer. */
function asPython(value) {
  if (typeof value === 'number') return BigInt(value);
  if (value instanceof Real) return Number.isSafeInteger(value.value) ? BigInt(value.value) : value.value;
  if (Array.isArray(value)) return value.map(asPython);
  return value instanceof Map ? new Map([...value].map(([key, member]) => [key, asPython(member)])) : value;
}

function field(name, action) {
  const value = action.get(name) ?? null;
  // Canonical JSON writes 1.0 as 1; a score is a float all the same.
  if (name === 'gate_score' && (typeof value === 'number' || value instanceof Real)) return float(value);
  return dumps(asPython(value));
}

/** The line of an action in `actions.jsonl`. */
function recordLine(action, receipt, verdict) {
  const all = FIELDS.map((name) => {
    const own = name === 'policy_verdict' && verdict !== null ? string(verdict) : field(name, action);
    return `"${name}": ${own}`;
  });
  const hashed = HASHED.map(([name]) => `"${name}": ${field(name, action)}`);
  return `{${all.join(', ')}, "receipt_hash": "${receipt}", "canonical_fields": {${hashed.join(', ')}}}\n`;
}

/** The action that an event carries, and its receipt hash; null if it carries none. */
function actionOf(event) {
  const payload = event.get('payload');
  const type = text(event, 'event_type');
  const carries = ENDS.includes(type) || (type === 'tool_intent_reviewed' && text(payload, 'decision') === 'blocked');
  const [action, receipt] = [payload?.get?.('action'), text(payload, 'receipt_hash')];
  return carries && action instanceof Map && receipt !== undefined && isHash(receipt) ? { action, receipt } : null;
}

/** Lines that are only hashed. */
class Lines {
  #hasher = new Sha256();

  put(line) {
    this.#hasher.update(utf8(line));
  }

  digest() {
    return hex(this.#hasher.digest());
  }
}

/** What the events of a trace come to in a sealed file. */
export class Copies {
  /** Artifacts that an event lists. */
  listed = new Set();
  /** Lines that are no events. */
  strange = 0;
  #begin = null;
  #size = 0;
  #head = null;
  #lastAt = null;
  #actions = 0;
  #receipt = '';
  #ended = null;
  #report = null;
  /** The lines of all actions as events have them, and as they are after an audit that passed. */
  #recorded = new Lines();
  #upgraded = new Lines();

  /** `stated` is what the file says: `manifest`, `capsule`, `report` (its hash or null), `artifacts`, `actions`. */
  constructor(stated, root, origin) {
    this.stated = stated;
    this.root = root;
    this.origin = origin;
  }

  line(event) {
    if (event === null) this.strange += 1;
    else this.#meet(event);
  }

  #meet(event) {
    const payload = event.get('payload');
    const type = text(event, 'event_type');
    if (this.#size === 0) this.#begin = beginOf(event);
    this.#size += 1;
    this.#head = text(event, 'event_hash');
    this.#lastAt = text(event, 'created_at');
    if (this.#begin !== null) this.#ended ??= endingOf(this.#begin.kind, event);
    for (const artifact of event.get('artifacts')) this.listed.add(text(artifact, 'artifact_hash'));
    if (type === 'verification_run_completed') {
      const named = text(payload, 'report_artifact');
      this.#report = named !== undefined && isHash(named) ? named : null;
    }
    // A recording is called what it was sealed as.
    if (type === 'final_statement_signed' && this.#begin?.objective === '') {
      this.#begin.objective = text(payload, 'final_verdict') ?? '';
    }
    const carried = actionOf(event);
    if (carried !== null) this.#meetAction(carried);
  }

  #meetAction({ action, receipt }) {
    this.#actions += 1;
    this.#receipt = receipt;
    const line = recordLine(action, receipt, null);
    this.#recorded.put(line);
    const enforced = text(action, 'policy_verdict') === ENFORCED;
    this.#upgraded.put(enforced ? recordLine(action, receipt, 'FULLY_VERIFIED') : line);
  }

  /** Compares everything that the file states with the events. */
  end(findings) {
    const { manifest, capsule, report, artifacts, actions } = this.stated;
    const wrong = (message) => findings.fail('CHK_SCHEMA_CONFORMANCE', 'HASH_MISMATCH', {}, message);
    const lines = this.#ended === 'succeeded' ? this.#upgraded : this.#recorded;
    if (lines.digest() !== actions) wrong('`actions.jsonl` does not say what the events of the trace say');
    const named = this.#report !== null && artifacts.has(this.#report) ? this.#report : null;
    if (report !== named) wrong('`report.json` is not the report that the last audit of the trace names');
    const strange = [...artifacts.keys()].find((hash) => !this.listed.has(hash));
    if (strange !== undefined) wrong(`no event of the trace lists the artifact ${strange}`);
    if (this.#begin === null || this.root === null) return;
    const expected = this.#manifest();
    const differs = Object.keys(expected).sort().find((name) => !alike(expected[name], manifest.get(name)));
    if (differs !== undefined) wrong(`\`manifest.json\` has another \`${differs}\` than the trace`);
    const made = utf8(this.#capsule());
    if (capsule.length !== made.length || capsule.some((byte, at) => byte !== made[at])) {
      wrong(`\`agent_capsule.json\` does not say what the trace says: ${this.#actions} actions`);
    }
  }

  /** The manifest that the trace gives, without the list of members. */
  #manifest() {
    const receipt = this.#receipt;
    const { traceId, kind, agent, objective } = this.#begin;
    return {
      actions_count: this.#actions,
      agent,
      archive_format: 'json',
      backend: 'countersign',
      capsule_id: receipt.slice(0, 16),
      chain_hash: receipt,
      countersign: { head: this.#head, kind, origin: this.origin, root: this.root, size: this.#size },
      created_at: this.#lastAt,
      num_chunks: 0,
      policy_hash: '',
      policy_id: '',
      proof_generated: false,
      proof_size: 0,
      proof_type: 'recomputation',
      proof_verified: false,
      root_hex: receipt,
      run_id: traceId,
      run_type: 'mcp',
      schema: 'run_cap_v1',
      schema_version: '1.1.0',
      session_name: objective,
      total_rounds: 0,
      trace_id: traceId,
      verification_profile: 'receipt_chain',
    };
  }

  /** The capsule that the trace gives. */
  #capsule() {
    const hashed = (value) => hex(sha256(utf8(dumps(value))));
    const statement = {
      public_inputs: { final_receipt_hash: this.#receipt, num_actions: BigInt(this.#actions) },
      statement_version: '1.0',
    };
    const capsule = {
      capsule_version: '1.0',
      schema: 'agent_capsule_v1',
      statement_hash: hashed(statement),
      statement,
      timestamp: this.#lastAt,
      verification: { constraints_valid: true, proof_type: 'recomputation' },
    };
    return `${dumps({ ...capsule, capsule_hash: hashed(capsule) })}\n`;
  }
}

function alike(expected, found) {
  if (typeof expected !== 'object') return expected === found;
  return found instanceof Map && Object.entries(expected).every(([name, value]) => found.get(name) === value);
}

/** What the first event says of the trace; null where it begins none. */
function beginOf(event) {
  const kind = kindOf(event);
  if (kind === null) return null;
  const payload = event.get('payload');
  return {
    traceId: text(event, 'trace_id'),
    kind,
    agent: text(payload?.get?.('on_behalf_of'), 'agent_id') ?? '',
    objective: text(payload, 'objective') ?? '',
  };
}
