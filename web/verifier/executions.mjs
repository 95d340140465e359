// Whether every tool that ran left something that can be looked at: its input or its output
// (docs/formats/report.md#artifacts).

import { text } from './check.mjs';

/** Tools that are under way, and those that left nothing. */
export class Executions {
  /** Intents by id: whether they list an artifact. */
  #intents = new Map();
  /** The same of tools that began. */
  #begun = new Map();
  /** Places of the ends of tools of which nothing is stored. */
  #bare = [];

  /** Takes in a valid event. */
  meet(event, place) {
    const lists = event.get('artifacts').length > 0;
    const type = text(event, 'event_type');
    if (type === 'tool_intent_signed') {
      this.#intents.set(place.eventId, lists);
    } else if (type === 'tool_execution_started') {
      const before = taken(this.#intents, event, 'intent');
      this.#begun.set(place.eventId, lists || before === true);
    } else if (type === 'artifact_recorded' && lists) {
      // It may belong to any tool under way.
      for (const id of this.#begun.keys()) this.#begun.set(id, true);
    } else if (type === 'tool_execution_completed' || type === 'tool_execution_failed') {
      if (taken(this.#begun, event, 'execution') === false && !lists) this.#bare.push(place);
    }
  }

  tell(findings) {
    const message = 'the tool ran with no artifact: neither its input nor its output is stored';
    for (const place of this.#bare) {
      findings.fail('CHK_ARTIFACT_EXISTENCE', 'SCHEMA_INVALID', place, message);
    }
  }
}

/** What is known of the event that this one refers to, which it uses up. */
function taken(known, event, member) {
  const id = text(event.get('payload').get(member), 'event_id');
  const lists = known.get(id);
  known.delete(id);
  return lists;
}
