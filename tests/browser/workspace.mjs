// A real workspace with something of everything that the viewer shows, made by the binary itself:
// sessions, recordings, work, flows, questions that wait, redactions, files to open. Which of them
// a check means is decided by the names that `makeWorkspace` gives back.

import { spawn } from 'node:child_process';
import { cp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateSync } from 'node:zlib';

const EXAMPLES = resolve(dirname(fileURLToPath(import.meta.url)), '../../examples');
const COMMAND_MS = 120_000;
/** A secret that looks like one, put together so that no scanner takes this file for a leak. */
export const SECRET = ['ghp', '0123456789abcdefghijABCDEFGHIJ456789'].join('_');

/** The binary in one workspace, with a home and settings of its own. */
export class Workspace {
  constructor(binary, dir, name = 'workspace') {
    this.binary = binary;
    this.name = name;
    this.dir = resolve(dir);
    this.root = join(this.dir, name);
    this.home = join(this.root, '.countersign');
    this.env = {
      PATH: process.env.PATH,
      LANG: 'C.UTF-8',
      HOME: join(this.dir, 'home'),
      COUNTERSIGN_CONFIG: join(this.dir, 'config'),
      AGENT_EXIT_PROTOCOL_ENABLED: 'true',
      API_TOKEN: SECRET,
    };
  }

  /** Starts a command and leaves it running. */
  start(args, input) {
    const child = spawn(this.binary, args, { cwd: this.root, env: this.env });
    child.said = '';
    child.printed = '';
    child.stdout.setEncoding('utf8').on('data', (text) => { child.printed += text; });
    child.stderr.setEncoding('utf8').on('data', (text) => { child.said += text; });
    child.stdin.on('error', () => {});
    if (input === undefined) child.stdin.end();
    else child.stdin.end(input);
    child.ended = new Promise((done, fail) => {
      child.on('error', fail);
      child.on('close', (code) => done(code));
    });
    return child;
  }

  /** Runs a command to its end. `codes` are the exit statuses that are right. */
  async run(args, { input, codes = [0] } = {}) {
    const child = this.start(args, input);
    const timer = setTimeout(() => child.kill('SIGKILL'), COMMAND_MS);
    const code = await child.ended;
    clearTimeout(timer);
    if (!codes.includes(code)) throw new Error(`countersign ${args.join(' ')} ended with ${code}: ${child.said}`);
    return child.printed;
  }

  async json(args, options) {
    return JSON.parse(await this.run([...args, '--json'], options));
  }

  /** Runs a command until it asks a person, and then ends it as a power cut would. */
  async untilItAsks(args) {
    const child = this.start(args);
    const found = await new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`${args.join(' ')} did not ask: ${child.said}`)), COMMAND_MS);
      child.stderr.on('data', () => {
        const question = /question ([0-9a-hjkmnp-tv-z]{26})[^]*\bhint:/.exec(child.said);
        if (!question) return;
        clearTimeout(timer);
        done(question[1]);
      });
      child.ended.then((code) => fail(new Error(`${args.join(' ')} ended with ${code}: ${child.said}`)), fail);
    });
    child.kill('SIGKILL');
    await child.ended;
    const trace = /^(?:session|flow) ([0-9a-z]{26})/m.exec(child.said)[1];
    return { question: found, trace };
  }

  /** Runs git here, and gives what it says. */
  async git(...args) {
    const child = spawn('git', ['-c', 'user.name=n', '-c', 'user.email=e@example.org', ...args],
      { cwd: this.root, env: this.env, stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text) => { said += text; });
    const code = await new Promise((done, fail) => child.on('error', fail).on('close', done));
    if (code !== 0) throw new Error(`git ${args.join(' ')} ended with ${code}`);
    return said.trim();
  }

  /** One input for `countersign hook generic`. */
  async hook(input) {
    return JSON.parse(await this.run(['hook', 'generic'], { input: JSON.stringify(input), codes: [0, 3, 4] }));
  }

  async write(path, content) {
    await mkdir(dirname(join(this.root, path)), { recursive: true });
    await writeFile(join(this.root, path), content);
  }

  ledger(trace) {
    return join(this.home, 'traces', trace, 'events.jsonl');
  }

  artifact(hash) {
    return join(this.home, 'artifacts/sha256', hash.slice(0, 2), hash.slice(2, 4), hash);
  }

  async events(trace) {
    const text = await readFile(this.ledger(trace), 'utf8');
    return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line));
  }

  /** The same workspace in another directory, for a check that damages it. The keys go along. */
  async copy(dir) {
    const other = new Workspace(this.binary, dir, this.name);
    await rm(other.dir, { recursive: true, force: true });
    await cp(this.dir, other.dir, { recursive: true });
    return other;
  }
}

/** Makes an empty workspace below `dir`, which must not hold one. */
export async function emptyWorkspace(binary, dir, name) {
  const made = new Workspace(binary, dir, name);
  await mkdir(made.root, { recursive: true });
  await mkdir(made.env.HOME, { recursive: true });
  await cp(EXAMPLES, join(made.root, 'examples'), { recursive: true });
  await made.run(['init']);
  return made;
}

/** Runs a task that is given as text, and gives the id of its session. */
export async function runTask(workspace, name, text) {
  await workspace.write(`tasks/${name}.toml`, text);
  const before = new Set(await readdir(join(workspace.home, 'traces')).catch(() => []));
  await workspace.run(['run', `tasks/${name}.toml`], { codes: [0, 1, 3] });
  const after = await readdir(join(workspace.home, 'traces'));
  return after.find((id) => !before.has(id));
}

const SLOW = `task_id = "slow"
objective = "Do something that a power cut interrupts"

[policy]
question_seconds = 86400

[[steps]]
id = "wait"
objective = "Wait for a minute"
expected_evidence = ["that it is over"]
actions = [{ tool = "exec", argv = ["sleep", "60"] }]
`;

/** Starts a session and ends it as a power cut would while its tool runs. Gives its trace. */
export async function interrupted(workspace) {
  await workspace.write('tasks/slow.toml', SLOW);
  const child = workspace.start(['run', 'tasks/slow.toml']);
  await new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error(`it did not start: ${child.said}`)), COMMAND_MS);
    child.stderr.on('data', () => {
      if (!/ runs exec /.test(child.said)) return;
      clearTimeout(timer);
      done();
    });
    child.ended.then((code) => fail(new Error(`it ended with ${code}: ${child.said}`)), fail);
  });
  child.kill('SIGKILL');
  await child.ended;
  return /^session ([0-9a-z]{26})/m.exec(child.said)[1];
}

/** Makes the whole workspace in `dir/name`. Gives it, and the names of what is in it. */
export async function makeWorkspace(binary, dir, { name = 'workspace' } = {}) {
  const workspace = await emptyWorkspace(binary, dir, name);
  const names = { traces: {}, questions: {}, items: {}, caps: {} };
  await sessions(workspace, names);
  await recordings(workspace, names);
  await work(workspace, names);
  await flows(workspace, names);
  await files(workspace, names);
  names.root = workspace.root;
  await writeFile(join(workspace.dir, 'names.json'), `${JSON.stringify(names, null, 2)}\n`);
  return { workspace, names };
}

async function sessions(workspace, { traces, questions }) {
  const example = async (name) => runTask(workspace, name, await readFile(join(EXAMPLES, `${name}.toml`), 'utf8'));
  traces.tests = await example('tests');
  traces.blocked = await example('blocked');
  traces.fallback = await example('fallback');
  await workspace.write('picture.png', picture(96, 64));
  await workspace.write('before.txt', 'one\ntwo\nthree\nfour\n');
  await workspace.write('after.txt', 'one\n2\nthree\nfour\nfive\n');
  traces.evidence = await runTask(workspace, 'evidence', EVIDENCE);
  traces.doubted = await runTask(workspace, 'doubted', DOUBTED);
  await workspace.write('tasks/asking.toml', ASKING);
  const asked = await workspace.untilItAsks(['run', 'tasks/asking.toml']);
  traces.asking = asked.trace;
  questions.session = asked.question;
}

// JSON that says two things under one name, and a number that no program rounds without a loss.
export const TWO_FACED = '{"pay":"1","pay":"12345678901234567890","sum":12345678901234567890}';

const EVIDENCE = `task_id = "evidence"
objective = "Have evidence of every kind: a picture, a change, JSON, a long text, and a secret that is kept out"
input_artifacts = ["picture.png", "before.txt"]

[[steps]]
id = "look"
objective = "Print things"
expected_evidence = ["what was printed"]

[[steps.actions]]
tool = "exec"
shell = "diff -u before.txt after.txt || true"

[[steps.actions]]
tool = "exec"
argv = ["seq", "1", "60000"]

[[steps.actions]]
tool = "exec"
argv = ["printf", '{"greeting":"hello","secret_token":"${SECRET}"}']

[[steps.actions]]
tool = "exec"
argv = ["printf", "%s", '${TWO_FACED}']

[[steps.actions]]
tool = "file_read"
path = "picture.png"

[[steps.claims]]
text = "The change is two lines"
evidence = ["stdout"]
`;

const DOUBTED = `task_id = "doubted"
objective = "Make a claim for which nothing was printed, and make it again with more"
policy_profile = "strict"

[[steps]]
id = "silent"
objective = "Do something that prints nothing"

[[steps.actions]]
tool = "exec"
argv = ["true"]

[[steps.claims]]
text = "Nothing was said"
`;

const ASKING = `task_id = "share-build"
objective = "Let the build server read what was built"

[policy]
question_seconds = 86400

[[steps]]
id = "share"
objective = "Open the directory of the build"
expected_evidence = ["the new permissions"]

[[steps.actions]]
tool = "exec"
shell = "chmod -R 777 examples/calculator && ls -l examples/calculator"
justification = "the build server runs as another user"
`;

async function recordings(workspace, { traces, questions }) {
  const client = 'nightly-agent';
  const say = (event, more) => workspace.hook({ event, client, session: 'refactoring', ...more });
  const shell = (command) => ({ type: 'shell_exec', tool: 'shell', command, arguments: { cmd: command } });
  traces.recording = (await say('start', {})).trace_id;
  await say('before', { call: 'c1', action: shell('ls -l') });
  const result = { success: true, output: `total 8\nexport API_TOKEN=${SECRET}\n`, duration_ms: 12 };
  await say('after', { call: 'c1', action: shell('ls -l'), result });
  await say('before', { call: 'c2', action: shell('rm -rf /') });
  const edit = {
    type: 'code_edit', tool: 'edit', files: ['examples/calculator/calculator.py'],
    diff: '--- a/examples/calculator/calculator.py\n+++ b/examples/calculator/calculator.py\n@@ -1,2 +1,2 @@\n'
      + '-def add(a, b):\n+def add(a: int, b: int) -> int:\n     return a + b\n',
  };
  await say('before', { call: 'c3', action: edit });
  await say('after', { call: 'c3', action: edit, result: { success: true, output: 'edited', duration_ms: 4 } });
  // Done without asking: an ungated action.
  await say('after', { call: 'c4', action: shell('date'), result: { success: true, output: 'today' } });
  const push = await say('before', { call: 'c5', action: shell('git push origin main') });
  questions.push = push.question;
  const wiping = { type: 'file_delete', tool: 'delete', files: ['after.txt'], description: 'remove a leftover' };
  questions.recording = (await say('before', { call: 'c6', action: wiping })).question;
  const ended = await workspace.hook({ event: 'start', client, session: 'short' });
  traces.ended = ended.trace_id;
  const look = { call: 'd1', action: shell('git status') };
  await workspace.hook({ event: 'before', client, session: 'short', ...look });
  await workspace.hook({ event: 'after', client, session: 'short', ...look,
    result: { success: true, output: 'clean' } });
  await workspace.hook({ event: 'end', client, session: 'short', reason: 'done' });
}

async function work(workspace, { items }) {
  const agents = join(EXAMPLES, 'work');
  await cp(join(agents, 'agents'), join(workspace.root, 'agents'), { recursive: true });
  await cp(join(agents, 'countersign.toml'), join(workspace.root, 'countersign.toml'));
  const open = async (label, title, ...more) => {
    const opened = await workspace.json(['work', 'open', title, '--label', label, ...more]);
    return opened.item;
  };
  await workspace.git('init', '-q');
  await workspace.git('add', 'agents');
  await workspace.git('commit', '-q', '-m', 'agents');
  await workspace.write('build/audience.txt', 'everybody\n');
  items.completed = await open('W-101', 'Say hello');
  await workspace.run(['work', 'dispatch'], { codes: [0, 1, 3] });
  await rm(join(workspace.root, 'build/audience.txt'));
  items.blocked = await open('W-102', 'Greet people by name');
  await workspace.run(['work', 'dispatch'], { codes: [0, 1, 3] });
  items.draft = await open('W-103', 'Describe the formats in one page');
  items.held = await open('W-104', 'Read archives without unpacking them', '--phase', 'IMPLEMENTATION');
  await workspace.run(['work', 'claim', 'W-104', '--as', 'agent-b', '--for', '2h']);
  items.review = await open('W-105', 'Name every error', '--phase', 'REVIEW');
  await workspace.run(['work', 'claim', 'W-105', '--as', 'reviewer-c', '--for', '30m']);
  items.expired = await open('W-106', 'Measure start-up time', '--phase', 'IMPLEMENTATION');
  await workspace.run(['work', 'claim', 'W-106', '--as', 'agent-d', '--for', '1s']);
  items.merge = await open('W-107', 'Remove the old reader', '--phase', 'READY_FOR_MERGE');
  items.unblocked = await open('W-108', 'Ask before anything is deleted');
  const { epoch, session_id: session } = await workspace.json(['work', 'claim', 'W-108', '--as', 'agent-e']);
  const input = JSON.stringify({ protocol: 'apm2_agent_exit', version: '1.0.0', phase_completed: 'DRAFT',
    exit_reason: 'blocked', notes: 'what counts as deleted?' });
  await workspace.run(['work', 'exit', 'W-108', '--lease', String(epoch), '--session', session], { input });
  await workspace.run(['work', 'unblock', 'W-108', '--reason', 'moving to the bin counts too']);
}

async function flows(workspace, { traces, questions }) {
  const flow = async (file) => {
    const child = workspace.start(['flow', 'run', file]);
    const code = await child.ended;
    if (code !== 0) throw new Error(`flow ${file} ended with ${code}: ${child.said}`);
    return /^flow ([0-9a-z]{26})/m.exec(child.said)[1];
  };
  traces.review = await flow('examples/flows/review.toml');
  // The example asks for four seconds only; here its question is to wait.
  const specify = await readFile(join(EXAMPLES, 'flows/specify.toml'), 'utf8');
  await workspace.write('flows/specify.toml', specify.replace('deadline_seconds = 4', 'deadline_seconds = 86400'));
  const approval = await workspace.untilItAsks(['flow', 'run', 'flows/specify.toml']);
  traces.specify = approval.trace;
  questions.approval = approval.question;
  await workspace.write('flows/choose.toml', asks('choose',
    'answers = ["ship", "rework", "drop"]\nreject = ["rework"]'));
  const choice = await workspace.untilItAsks(['flow', 'run', 'flows/choose.toml']);
  traces.choose = choice.trace;
  questions.choice = choice.question;
  await workspace.write('flows/name.toml', asks('name', 'answers = "text"'));
  const text = await workspace.untilItAsks(['flow', 'run', 'flows/name.toml']);
  traces.name = text.trace;
  questions.text = text.question;
}

const asks = (workflow, form) => `workflow = "${workflow}"
feature_id = "006-export"

[agents.join]
kind = "built-in"

[[steps]]
id = "gather"
agent = "join"
action = "join"

[[steps]]
id = "ask"
needs = ["gather"]

[steps.approval]
question = "What becomes of the export?"
${form}
deadline_seconds = 86400
`;

async function files(workspace, { traces, caps }) {
  caps.good = join(workspace.dir, 'tests.cap');
  await workspace.run(['seal', traces.tests, '-o', caps.good]);
  caps.evidence = join(workspace.dir, 'evidence.cap');
  await workspace.run(['seal', traces.evidence, '-o', caps.evidence]);
  await workspace.run(['verify', traces.tests], { codes: [0, 3, 4] });
}

/** A PNG with a gradient. */
export function picture(width, height) {
  const raw = Buffer.alloc(height * (1 + width * 3));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const at = y * (1 + width * 3) + 1 + x * 3;
      raw[at] = Math.floor(255 * x / width);
      raw[at + 1] = Math.floor(255 * y / height);
      raw[at + 2] = 160;
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const parts = [piece('IHDR', header), piece('IDAT', deflateSync(raw)), piece('IEND', Buffer.alloc(0))];
  return Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]), ...parts]);
}

function piece(name, data) {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(checksum(body), body.length + 4);
  return framed;
}

function checksum(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}
