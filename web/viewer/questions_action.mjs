// The exact action that a question is about. Nothing is left out: what is long scrolls, and says how
// long it is.

import { stream } from './api.mjs';
import { counted, h, hash, notice, shown, size } from './dom.mjs';
import { link } from './route.mjs';
import { Sha256, hex } from '../verifier/bytes.mjs';

const LONG_LINES = 14;
const INPUT_BYTES_MAX = 1 << 20;
/** An input above this is not hashed here, and so cannot be allowed here. */
const HASHED_BYTES_MAX = 64 << 20;
const NOT_THE_SAME = 'What is stored is not what was asked about. Do not answer yes.';

/** A text as a block of its own, whole. Lines of a diff say what they do by their sign and colour. */
export function block(name, text, { diff = false } = {}) {
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  const long = lines > LONG_LINES || text.length > 2000;
  const extent = ` ${counted(lines, 'line')}, ${counted(text.length, 'character')}`;
  const scrolls = long ? { tabindex: '0', role: 'region', 'aria-label': `${name}, whole` } : {};
  return h('div', { class: 'block' },
    h('p', { class: 'block-name' }, name,
      h('span', { class: 'quiet' }, extent, long ? '; scroll to see all of it' : null)),
    h('pre', { class: 'exact', ...scrolls }, diff ? diffLines(text) : shown(text)));
}

function diffLines(text) {
  return text.split('\n').map((line, at, all) => {
    const sign = line[0];
    const head = ['--- ', '+++ ', '@@ ', 'diff '].some((start) => line.startsWith(start));
    const kind = head ? 'diff-head' : sign === '+' ? 'diff-added' : sign === '-' ? 'diff-removed' : null;
    return [h('span', { class: kind }, shown(line)), at < all.length - 1 ? '\n' : null];
  });
}

const fact = (name, ...value) => [h('dt', null, name), h('dd', null, value)];

/** A word of a command as a shell would need it: quoted where it is not plain. */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function callParts(call) {
  const facts = [fact('Tool', h('code', null, shown(call.tool ?? 'exec')))];
  const blocks = [];
  if (call.shell !== undefined) blocks.push(block('Shell script', call.shell));
  if (Array.isArray(call.argv) && call.argv.length > 0) {
    blocks.push(block('Command', call.argv.map(quoted).join(' ')));
    facts.push(fact('Arguments', h('ol', { class: 'argv', start: '0' },
      call.argv.map((one) => h('li', null, h('code', null, shown(one)))))));
  }
  if (call.path !== undefined) facts.push(fact('File', h('code', null, shown(call.path))));
  if (call.cwd) facts.push(fact('In the directory', h('code', null, shown(call.cwd))));
  for (const [name, value] of Object.entries(call.env ?? {})) {
    facts.push(fact('With the variable', h('code', null, shown(`${name}=${value}`))));
  }
  if (call.stdin !== undefined) blocks.push(block('Reads from standard input', call.stdin));
  if (call.content !== undefined) blocks.push(block('Writes', call.content));
  return { facts, blocks, known: ['tool', 'shell', 'argv', 'path', 'cwd', 'env', 'stdin', 'content'] };
}

function requestParts(request) {
  const facts = [
    fact('Agent', shown(request.agent), ' as ', shown(request.role)),
    fact('Action', h('code', null, shown(request.action_type)), ' with the tool ',
      h('code', null, shown(request.tool))),
  ];
  const blocks = [];
  if (request.command !== undefined) blocks.push(block('Command', request.command));
  if (request.paths?.length > 0) {
    facts.push(fact(counted(request.paths.length, 'file'), h('ul', { class: 'paths' },
      request.paths.map((path) => h('li', null, h('code', null, shown(path)))))));
  }
  if (request.description) facts.push(fact('It says', shown(request.description)));
  if (request.directory) facts.push(fact('Workspace', h('code', null, shown(request.directory))));
  if (request.held) facts.push(fact('Held because', shown(request.held)));
  if (request.finding_severity) facts.push(fact('Worst finding', shown(request.finding_severity)));
  if (request.network_granted === false) facts.push(fact('Network', 'not granted'));
  if (request.diff !== undefined) blocks.push(block('Change', request.diff, { diff: true }));
  if (request.content !== undefined) blocks.push(block('Content', request.content));
  return {
    facts, blocks, known: ['schema_version', 'agent', 'role', 'action_type', 'tool', 'description', 'paths', 'risk',
      'command', 'diff', 'content',
      'held', 'directory', 'finding_severity', 'network_granted'],
  };
}

/** What would happen, whole: the call or the request as it was put, or the words of a flow. */
export function exactAction(question) {
  const { call, request, kind } = question;
  if (!call && !request) {
    const words = { flow: 'The question', work: 'Blocked because' }[kind];
    return h('div', { class: 'action' }, warning(question),
      words ? block(words, question.justification) : inputOf(question), stored(question));
  }
  const { facts, blocks, known } = call ? callParts(call) : requestParts(request);
  // Members that this page does not know must be seen too.
  const others = Object.entries(call ?? request).filter(([name]) => !known.includes(name));
  return h('div', { class: 'action' }, warning(question), blocks, h('dl', { class: 'facts' }, facts,
    others.map(([name, value]) => fact(shown(name), h('code', null, shown(JSON.stringify(value)))))),
  stored(question));
}

/** Fetches the input of a question and hashes it: what is shown must be what was asked about. */
export async function withInput(question) {
  if (!question.input) return question;
  try {
    return { ...question, stored: await readInput(question.input) };
  } catch (error) {
    return { ...question, stored: { holds: error.status === 404 ? false : null, problem: error.message } };
  }
}

/** The beginning of an input, how much is left, and whether all of it has the hash that was asked about. */
async function readInput(input) {
  const kept = new Uint8Array(INPUT_BYTES_MAX);
  const sum = new Sha256();
  let length = 0;
  const reader = (await stream(`/artifacts/${encodeURIComponent(input)}`)).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    sum.update(value);
    if (length < kept.length) kept.set(value.subarray(0, kept.length - length), length);
    length += value.length;
    if (length > HASHED_BYTES_MAX) {
      await reader.cancel();
      return { holds: null, problem: `the input has more than ${size(HASHED_BYTES_MAX)}: answer on the command line` };
    }
  }
  const part = kept.subarray(0, Math.min(length, kept.length));
  return { holds: hex(sum.digest()) === input, text: new TextDecoder().decode(part), left: length - part.length };
}

/** Whether the input, if there is one, is known to be the one that was asked about. */
export const inputHolds = ({ input, input_holds: said, stored: found }) =>
  !input || (said !== false && found?.holds === true);

function warning(question) {
  if (inputHolds(question)) return null;
  const { stored: found, input_holds: said } = question;
  const differs = said === false || found?.holds === false;
  return notice('failed', h('p', null, h('strong', null, differs ? NOT_THE_SAME
    : 'What is stored could not be compared with what was asked about. Do not answer yes.'),
  found?.problem ? [' ', shown(found.problem, 300)] : null));
}

function inputOf(question) {
  const { stored: found } = question;
  if (found?.text === undefined) {
    return notice('warn', h('p', null, 'What exactly would happen cannot be shown here: ',
      shown(found?.problem ?? 'its input is not stored', 500)));
  }
  const name = inputHolds(question) ? 'The input, as the agent gave it' : 'What is stored now';
  return [block(name, found.text), found.left > 0
    ? notice('failed', h('p', null,
      `${size(found.left)} more are not shown here. Look at the whole input before you answer.`)) : null];
}

function stored({ input, trace_id: trace }) {
  if (!input) return null;
  const href = link(`/artifacts/${input}`, { media: 'application/json', trace });
  return h('p', { class: 'quiet' }, 'As it is stored: ', hash(input, { href }));
}
