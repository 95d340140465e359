// The small documents of a session of CapSeal's, in which the same facts stand again: everything in which they
// contradict the actions or each other.

import { hex, sha256, unhex, utf8 } from './bytes.mjs';
import { compact, dumps } from './python.mjs';

const MODULUS = 0xffffffff00000001n;

/** The two halves of a hash that a row keeps. */
export function halves(hash) {
  const view = new DataView(unhex(hash).buffer);
  return [view.getBigUint64(0, true) % MODULUS, view.getBigUint64(8, true) % MODULUS];
}

/** The value at a place in a document. */
function at(document, place) {
  let value = document;
  for (const name of place.split('/')) value = value instanceof Map ? value.get(name) : undefined;
  return value;
}

const hashed = (value) => hex(sha256(utf8(dumps(value))));

/** A document, and what is wrong with it. */
class Facts {
  constructor(name, document, found) {
    this.name = name;
    this.document = document;
    this.found = found;
  }

  has(place) {
    return at(this.document, place) !== undefined;
  }

  /** A fact is as the actions give it: a text, a number, or true. */
  is(place, wanted) {
    const value = at(this.document, place);
    const same = value !== undefined && compact(value) === compact(wanted);
    if (!same) this.found.push(`\`${this.name}\` has another \`${place}\``);
  }

  isIfThere(place, wanted) {
    if (this.has(place)) this.is(place, wanted);
  }

  isOneOf(place, all) {
    if (this.has(place) && !all.some((one) => compact(at(this.document, place)) === compact(one))) {
      this.found.push(`\`${this.name}\` has another \`${place}\``);
    }
  }

  /** Another document says the same, if it says anything. */
  same(place, other, there) {
    const [here, said] = [at(this.document, place), at(other, there)];
    if (here !== undefined && said !== undefined && compact(here) !== compact(said)) {
      this.found.push(`\`${this.name}\` has another \`${place}\` than is said elsewhere`);
    }
  }
}

/** Everything in which the documents contradict `truth`: `{ actions, last, roots, proofHash }`. */
export function disagreements(documents, truth) {
  const found = [];
  const { manifest } = documents;
  const of = (name) => new Facts(name, documents[name] ?? manifest, found);
  const count = BigInt(truth.actions);
  const { last, roots } = truth;
  const facts = new Facts('manifest.json', manifest, found);
  facts.is('actions_count', count);
  facts.is('root_hex', last);
  facts.is('chain_hash', last);
  facts.is('capsule_id', last.slice(0, 16));
  facts.same('run_id', manifest, 'trace_id');
  const metadata = of('run_metadata.json');
  metadata.is('num_actions', count);
  metadata.is('final_receipt_hash', last);
  metadata.same('agent', manifest, 'agent');
  metadata.same('proved', manifest, 'proof_generated');
  const capsule = of('agent_capsule.json');
  ofCapsule(capsule, count, last, roots);
  capsule.same('verification/proof_type', manifest, 'proof_type');
  if (documents['proof.json'] !== undefined) {
    capsule.is('proof/proof_hash', truth.proofHash);
    ofProof(of('proof.json'), capsule.document, count, last, roots);
  }
  return found;
}

function ofCapsule(capsule, count, last, roots) {
  const { document, found } = capsule;
  if (!capsule.has('statement')) found.push('`agent_capsule.json` has no `statement`');
  else capsule.is('statement_hash', hashed(document.get('statement')));
  capsule.is('capsule_hash', hashed(new Map([...document].filter(([name]) => name !== 'capsule_hash'))));
  capsule.is('schema', 'agent_capsule_v1');
  capsule.is('verification/constraints_valid', true);
  const inputs = 'statement/public_inputs';
  capsule.is(`${inputs}/num_actions`, count);
  capsule.is(`${inputs}/final_receipt_hash`, last);
  const [low, high] = halves(last);
  capsule.isIfThere(`${inputs}/final_receipt_lo`, low);
  capsule.isIfThere(`${inputs}/final_receipt_hi`, high);
  for (const part of ['statement', 'commitment', 'profile']) capsule.isIfThere(`${part}/num_rows`, count);
  capsule.isIfThere('profile/constraints_valid', true);
  capsule.isOneOf('commitment/row_root', roots);
  capsule.isOneOf('statement/row_commitment', roots);
  capsule.same('statement/air_id', document, 'air_id');
}

function ofProof(proof, capsule, count, last, roots) {
  proof.is('statement/num_actions', count);
  proof.is('statement/final_receipt_hash', last);
  const [low, high] = halves(last);
  proof.isIfThere('statement/final_receipt_lo', low);
  proof.isIfThere('statement/final_receipt_hi', high);
  proof.isIfThere('commitment/num_rows', count);
  proof.isOneOf('commitment/row_root', roots);
  proof.is('constraint_verification/valid', true);
  proof.same('air_id', capsule, 'air_id');
  proof.same('proof_type', capsule, 'verification/proof_type');
  proof.same('commitment/row_root', capsule, 'commitment/row_root');
  proof.same('statement/trace_spec_hash', capsule, 'statement/trace_spec_hash');
  const root = at(proof.document, 'commitment/row_root');
  if (typeof root === 'string') proof.isIfThere('alphas_seed', hex(sha256(utf8(`agent_alphas:${root}`))));
}
