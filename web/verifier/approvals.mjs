// What people permitted, by the channel that their word names (docs/formats/report.md#approvals).

import { text } from './check.mjs';

const CHANNELS = new Map([
  ['protected-key', 'protected_key'], ['unprotected-key', 'unprotected_key'], ['client-prompt', 'client_prompt'],
]);

export const noApprovals = () => ({ protected_key: 0, unprotected_key: 0, client_prompt: 0, unstated: 0 });

/** The count, and what is needed to tell a yes from a no. */
export class ApprovalCount {
  counts = noApprovals();
  // The steps of a flow that know words for no: those words, and the place of the question asked last.
  #choices = new Map();

  /** Takes in an event that somebody vouches for. */
  take(event) {
    const type = text(event, 'event_type');
    const payload = event.get('payload');
    if (type === 'flow_started') this.#choices = choicesOf(payload);
    if (type === 'step_escalated') {
      const choice = this.#choices.get(text(payload, 'step'));
      if (choice !== undefined) choice.question = event.get('seq');
    }
    if (text(event.get('actor'), 'role') === 'operator' && this.#permits(type, payload)) {
      this.counts[CHANNELS.get(text(payload, 'channel')) ?? 'unstated'] += 1;
    }
  }

  #permits(type, payload) {
    if (type === 'tool_intent_reviewed') return text(payload, 'decision') === 'approved';
    if (type === 'work_unblocked') return true;
    if (type !== 'answer_given') return false;
    const answer = payload.get('answer') ?? null;
    if (answer === null || answer === false) return false;
    const question = member(payload.get('question'), 'seq');
    if (typeof answer === 'string') {
      return ![...this.#choices.values()].some((it) => it.question === question && it.reject.includes(answer));
    }
    return member(answer, 'decision') !== 'stop';
  }
}

const member = (value, name) => (value instanceof Map ? value.get(name) : undefined);

/** The words for no in the plan with which a flow begins, by step. */
function choicesOf(payload) {
  const choices = new Map();
  const steps = member(member(payload, 'plan'), 'steps');
  for (const step of Array.isArray(steps) ? steps : []) {
    const reject = member(member(step, 'approval'), 'reject');
    if (Array.isArray(reject) && typeof member(step, 'id') === 'string') {
      choices.set(step.get('id'), { reject, question: undefined });
    }
  }
  return choices;
}
