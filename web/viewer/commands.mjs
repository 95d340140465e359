// What an action would run, in one line: read from its small input artifact when a row comes into view, a few
// at a time, and shown only if the bytes have the hash that was signed.

import { textOf } from './artifact_link.mjs';
import { hex, sha256 } from '../verifier/bytes.mjs';

const KEPT_MAX = 500;
const WAITING_MAX = 100;
const AT_ONCE = 4;
const BYTES_MAX = 4096;
const SHOWN = 200;

const list = (value) => (Array.isArray(value) ? value : []);

/** A word of a command as a shell would need it: quoted where it is not plain. */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`);

/** The command in an input, or its arguments; null where there is none. */
export function commandOf(text) {
  let input;
  try {
    input = JSON.parse(text);
  } catch {
    return text.trim() || null;
  }
  return commandIn(input);
}

function commandIn(input) {
  if (input === null || typeof input !== 'object') return String(input);
  // A request of an agent has what would run among its arguments, or names files.
  if (input.arguments !== null && typeof input.arguments === 'object') return commandIn(input.arguments);
  const { shell, argv, cmd, command, path } = input;
  for (const one of [shell, cmd, command]) if (typeof one === 'string' && one !== '') return one;
  for (const one of [argv, cmd, command]) if (Array.isArray(one) && one.length > 0) return one.map(quoted).join(' ');
  if (typeof path === 'string') return path;
  if (list(input.paths).length > 0) return `${input.action_type ?? ''} ${input.paths.join(', ')}`.trim();
  const rest = Object.entries(input).filter(([name]) => !['tool', 'schema_version'].includes(name));
  return rest.length === 0 ? null : JSON.stringify(Object.fromEntries(rest));
}

/** The artifact that holds the input of an intent, with its descriptor, or null. */
export function inputOf(event) {
  const p = event?.payload;
  const hash = p?.input_artifact ?? p?.normalized_input_hash;
  if (typeof hash !== 'string') return null;
  const descriptor = list(event.artifacts).find((one) => one?.artifact_hash === hash) ?? null;
  return { hash, descriptor };
}

/** The commands of a source, as far as they were asked for. */
export class Commands {
  #source;
  #known = new Map();
  #waiting = new Map();
  #asked = 0;
  #closed = false;

  constructor(source) {
    this.#source = source;
  }

  /** The command of an intent if it is known; else it is asked for and `tell` is called once it is. */
  of(event, tell) {
    if (event?.event_type !== 'tool_intent_signed') return null;
    const input = inputOf(event);
    if (input === null || !(input.descriptor?.byte_size <= BYTES_MAX)) return null;
    if (this.#known.has(input.hash)) return this.#known.get(input.hash);
    if (tell) {
      this.#waiting.set(input.hash, tell);
      // Rows that were left behind need nothing any more.
      if (this.#waiting.size > WAITING_MAX) this.#waiting.delete(this.#waiting.keys().next().value);
      this.#next();
    }
    return null;
  }

  close() {
    this.#closed = true;
    this.#waiting.clear();
  }

  #next() {
    while (this.#asked < AT_ONCE && this.#waiting.size > 0 && !this.#closed) {
      const [hash, tell] = this.#waiting.entries().next().value;
      this.#waiting.delete(hash);
      this.#asked += 1;
      this.#read(hash).then((command) => {
        this.#known.set(hash, command);
        if (this.#known.size > KEPT_MAX) this.#known.delete(this.#known.keys().next().value);
        if (command !== null && !this.#closed) tell();
      }).finally(() => {
        this.#asked -= 1;
        this.#next();
      });
    }
  }

  async #read(hash) {
    try {
      const found = await this.#source.artifact(hash, { from: 0, to: BYTES_MAX });
      if (found === null || found.bytes.length < found.size || hex(sha256(found.bytes)) !== hash) return null;
      const text = textOf(found.bytes);
      const command = text === null ? null : commandOf(text);
      // What is cut off must not seem not to be there.
      return command !== null && command.length > SHOWN ? `${command.slice(0, SHOWN)}…` : command;
    } catch {
      return null;
    }
  }
}
