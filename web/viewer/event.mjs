// One event: what it says, what it is linked to, its bytes, and its hashes computed here from these
// bytes, beside what it states and what the server computed.

import { artifactLink } from './artifact_link.mjs';
import { Commands } from './commands.mjs';
import {
  badge, copyButton, count, failure, h, hash, notice, plain, replace, save, shown, time,
} from './dom.mjs';
import { colourOf, letterOf, sentence, typeWords } from './events.mjs';
import { hexView } from './hex.mjs';
import { go } from './route.mjs';
import { sourceOf } from './source.mjs';
import { tree } from './tree.mjs';
import { findingWords } from './verdict_words.mjs';
import { hex, sha256, unbase64 } from '../verifier/bytes.mjs';
import { takeApart } from '../verifier/event.mjs';

const GENESIS = '0'.repeat(64);
const SHOWN_LINE = 65_536;

const list = (value) => (Array.isArray(value) ? value : []);

/** Shows the page. */
export async function show(main, route, context) {
  const source = sourceOf(route);
  const index = Number(route.names.index);
  if (!source || !/^\d{1,15}$/.test(route.names.index)) {
    context.title('No such event');
    replace(main, h('h1', { tabindex: '-1' }, source ? 'There is no such event' : 'No file is open'),
      h('p', null, h('a', { href: source ? source.base : '#/open' }, source ? 'Back to the trace' : 'Open a file')));
    return null;
  }
  const controller = new AbortController();
  const found = await source.event(index, { signal: controller.signal });
  const { event, total } = found;
  context.title(`Event ${index}`);
  const hashes = h('section', { class: 'panel', 'aria-labelledby': 'hashes' });
  const findings = h('div');
  replace(main, h('article', { class: 'event-page' },
    headOf(source, found, index, controller.signal), findings,
    h('div', { class: 'event-columns' },
      h('div', { class: 'event-main' }, payload(source, found, index), artifacts(source, found, index)),
      h('div', { class: 'event-side' }, links(source, found), hashes, envelope(event))),
    bytesOf(found, index)));
  sayFindings(findings, source, found.findings, index, controller.signal);
  recompute(hashes, source, found, index, controller.signal).catch((error) => {
    if (error.name !== 'AbortError') replace(hashes, h('h2', { id: 'hashes' }, 'Hashes'), failure(error));
  });
  const keys = (pressed) => {
    if (pressed.defaultPrevented || pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
    if (pressed.target instanceof Element && pressed.target.closest('input, textarea, select')) return;
    const next = { '[': index - 1, ']': index + 1 }[pressed.key];
    if (next === undefined || next < 0 || next >= total) return;
    pressed.preventDefault();
    go(`${source.base}/events/${next}`, {}, { replace: true });
  };
  document.addEventListener('keydown', keys);
  return () => {
    document.removeEventListener('keydown', keys);
    controller.abort();
  };
}

/** The sentence of an event, with the command once it is read. */
function what(source, event, signal) {
  const commands = new Commands(source);
  signal.addEventListener('abort', () => commands.close(), { once: true });
  const line = h('p', { class: 'event-what' });
  const say = () => replace(line, shown(sentence(event, { command: commands.of(event, say) }), 2000));
  say();
  return line;
}

function headOf(source, { event, unreadable, total }, index, signal) {
  const role = event?.actor?.role;
  const step = (to, name, key) => (to >= 0 && to < total
    ? h('a', { href: `${source.base}/events/${to}`, class: 'turn', 'aria-keyshortcuts': key }, name)
    : h('span', { class: 'turn none' }, name));
  return h('header', { class: 'trace-head' },
    h('p', { class: 'crumbs' }, source.base === '#/file' ? h('a', { href: '#/open' }, 'Opened file')
      : h('a', { href: '#/traces' }, 'Traces'), ' / ', h('a', { href: `${source.base}?at=${index}` }, 'Trace'),
    ` / event ${count(index)} of ${count(total)}`,
    h('span', { class: 'turns' }, step(index - 1, '← previous', '['), step(index + 1, 'next →', ']'))),
    h('h1', { tabindex: '-1', class: 'event-title' }, shown(typeWords(event?.event_type), 80)),
    event ? what(source, event, signal) : null,
    unreadable ? notice('failed', h('p', null, 'This line cannot be read: ', shown(unreadable, 600))) : null,
    event ? h('p', { class: 'event-by' },
      h('span', { class: `lane ${colourOf(role)}` }, h('span', { class: 'dot', 'aria-hidden': 'true' },
        letterOf(role))), ' ',
      h('strong', null, shown(event.actor?.agent_id, 120)), ' as ', shown(role, 40), ' · ',
        time(event.created_at, 'ms'), ' UTC',
      event.raw_clock ? [' · the clock showed ', time(event.raw_clock, 'ms')] : null) : null);
}

function plainly(one) {
  const words = findingWords(one);
  return words === null ? null : h('p', null, h('strong', null, `${words[0].toUpperCase()}${words.slice(1)}.`));
}

/** What verifiers found here: of the server if it has verified, else it is asked. */
async function sayFindings(place, source, known, index, signal) {
  const say = (items) => replace(place, items.map((one) => notice('failed', plainly({ ...one, index }), h('p', null,
    badge('failed', one.failure_code ?? '?', 'failure'), ' ', shown(one.message, 1000)),
  h('p', { class: 'quiet' }, shown(one.check_id, 60)))));
  if (known) {
    say(known);
    return;
  }
  try {
    const report = await source.verdict({ signal }) ?? source.own?.() ?? null;
    if (report) say(list(report.failures).filter((one) => one.index === index));
  } catch {
    // The trace's page says why there is no verdict.
  }
}

function payload(source, { event, artifacts: kept }, index) {
  const known = new Map(list(kept).map((one) => [one.artifact_hash, one]));
  return h('section', { class: 'panel', 'aria-labelledby': 'payload' }, h('h2', { id: 'payload' }, 'Payload'),
    event?.payload === undefined || event?.payload === null ? h('p', { class: 'quiet' }, 'There is none in the trace.')
      : tree(event.payload, { source, artifacts: known, index }));
}

function artifacts(source, { artifacts: kept }, index) {
  if (list(kept).length === 0) return null;
  return h('section', { class: 'panel', 'aria-labelledby': 'artifacts' }, h('h2', { id: 'artifacts' }, 'Artifacts'),
    h('ul', { class: 'plain-list' }, list(kept).slice(0, 500).map((one) => h('li', null,
      artifactLink(source, one.artifact_hash, one, { index }), ' ',
      one.present === false ? badge('failed', 'not in the store', 'its bytes are not there')
        : one.present === true ? badge('ok', 'in the store',
        'its bytes are there; whether they are right is the verdict') : null))));
}

function links(source, { links: found }) {
  const lines = (items) => (list(items).length === 0 ? h('p', { class: 'quiet' }, 'none')
    : h('ul', { class: 'plain-list' }, list(items).slice(0, 200).map((one) => h('li', null,
      h('span', { class: 'quiet' }, shown(one.rel, 60), ' '),
      Number.isInteger(one.index) ? h('a', { href: `${source.base}/events/${one.index}` }, `event ${one.index}`)
        : badge('failed', 'leads nowhere', 'there is no such event'),
      ' ', shown(typeWords(one.event_type), 60)))));
  return h('section', { class: 'panel', 'aria-labelledby': 'links' }, h('h2', { id: 'links' }, 'Links'),
    h('h3', null, 'This event names'), lines(found?.to), h('h3', null, 'Named by'), lines(found?.from));
}

function envelope(event) {
  if (!event) return null;
  const fact = (name, value) => [h('dt', null, name), h('dd', null, value)];
  return h('section', { class: 'panel', 'aria-labelledby': 'envelope' }, h('h2', { id: 'envelope' }, 'Envelope'),
    h('dl', { class: 'facts' },
      fact('Event id', hash(event.event_id, { length: 26 })), fact('Trace id', hash(event.trace_id, { length: 26 })),
      fact('Sequence', shown(String(event.seq ?? 'not stated'), 30)),
        fact('Type', h('code', null, shown(event.event_type, 60))),
      fact('Payload type', h('code', null, shown(event.payload_type, 60))),
      fact('Key', hash(event.actor?.key_id ?? 'none', { length: 32 })),
      fact('Schema', shown(event.schema_version, 30)),
      list(event.claims).length > 0 ? fact('Claims', list(event.claims).slice(0, 50).map((one, at) =>
        [at > 0 ? h('br') : null,
        h('code', null, shown(one, 60))])) : null));
}

/** The line's bytes, or null if the source does not have them. */
function lineBytes(found) {
  return typeof found.line_b64 === 'string' ? unbase64(found.line_b64) : null;
}

function apart(bytes) {
  try {
    return takeApart(bytes);
  } catch {
    return null;
  }
}

async function recompute(section, source, found, index, signal) {
  const bytes = lineBytes(found);
  const { event, checks } = found;
  const reading = bytes && apart(bytes);
  if (!event || !reading) {
    replace(section, h('h2', { id: 'hashes' }, 'Hashes'),
      h('p', null, 'Nothing can be computed from a line that cannot be read.'));
    return;
  }
  let before = GENESIS;
  if (index > 0) {
    const line = lineBytes(await source.event(index - 1, { signal }));
    before = (line && apart(line)?.eventHash) ?? null;
  }
  const rows = [
    ['Payload', event.payload_hash, reading.payloadHash, checks?.payload_hash?.computed],
    ['Event', event.event_hash, reading.eventHash, checks?.event_hash?.computed],
    ['Event before', event.prev_event_hash, before, checks?.previous?.computed],
    ['Signed bytes', event.signature?.signed_bytes_hash, hex(sha256(reading.signedBytes)), null],
  ];
  replace(section, h('h2', { id: 'hashes' }, 'Hashes, computed here'),
    h('table', { class: 'hashes' }, h('thead', null, h('tr', null,
      ['', 'Stated', 'Computed', ''].map((one, at) => h('th', {
      scope: 'col', 'aria-label': ['Of what', null, null, 'Same?'][at],
    }, one)))), h('tbody', null, rows.map((row) => hashRow(...row)))),
    reading.notCanonical ? notice('failed', h('p', null, 'The line is not in its canonical form.'))
      : h('p', null, badge('ok', 'canonical'), ' The line is in its one canonical form.'),
    signature(source, checks?.signature, event));
}

function hashRow(name, stated, computed, server) {
  const known = typeof stated === 'string' && computed !== null && computed !== undefined;
  const same = known && stated === computed;
  const other = server && computed && server !== computed;
  return h('tr', null, h('th', { scope: 'row' }, name),
    h('td', null, typeof stated === 'string' ? hash(stated) : h('span', { class: 'none' }, 'not stated')),
    h('td', null, computed ? hash(computed) : h('span', { class: 'none' }, 'nothing to compute'),
      other ? h('div', null, badge('failed', 'the server computes otherwise'), hash(server)) : null),
    h('td', null, !known ? badge('unknown', 'unknown') : same ? badge('ok', 'same') : badge('failed', 'different')));
}

function signature(source, checked, event) {
  if (!checked) {
    return h('p', { class: 'quiet' }, event.signature
      ? 'There is a signature; the verdict of the trace says whether it holds.'
      : 'There is no signature.');
  }
  const kinds = { valid: 'ok', invalid: 'failed', missing: 'warn', 'unknown-key': 'failed' };
  return h('p', null, badge(kinds[checked.status] ?? 'unknown', `signature ${checked.status}`), ' ',
    checked.agent_id ? ['of ', shown(checked.agent_id, 80)] : null, checked.reason ? [': ', shown(checked.reason, 400)]
      : null,
    h('span', { class: 'quiet' }, source.base === '#/file' ? ' This page checked it.'
      : ' The server checked it; the verdict of the trace checks it here.'));
}

function bytesOf(found, index) {
  const bytes = lineBytes(found);
  if (!bytes) return null;
  const text = typeof found.line === 'string' ? found.line : null;
  const body = h('div');
  const asText = () => replace(body, h('pre', { class: 'line-bytes', tabindex: '0',
    'aria-label': 'Canonical bytes as text' },
    shown(text, SHOWN_LINE)), text.length > SHOWN_LINE ? h('button', {
    type: 'button', class: 'more-button',
    onclick: () => replace(body, h('pre', { class: 'line-bytes', tabindex: '0' }, shown(text))),
  }, `Show all ${count(text.length)} characters`) : null);
  const asHex = () => replace(body, hexView(bytes));
  if (text === null) asHex();
  else asText();
  return h('section', { class: 'panel', 'aria-labelledby': 'bytes' },
    h('div', { class: 'panel-head' }, h('h2', { id: 'bytes' }, 'Canonical bytes'),
      h('span', { class: 'quiet' }, `${count(bytes.length)} bytes, without the line break`),
      text === null ? null : [
        h('button', { type: 'button', onclick: asText }, 'Text'),
          h('button', { type: 'button', onclick: asHex }, 'Hex'),
        copyButton(text, 'Copy the line'),
      ],
      h('button', { type: 'button', onclick: () => save(`event-${plain(String(index))}.json`, bytes) }, 'Download')),
        body);
}
