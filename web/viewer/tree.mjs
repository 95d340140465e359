// A JSON value as a tree that can be read, folded and followed: what names another event, an artifact
// or a trace is a link.

import { artifactHref } from './artifact_link.mjs';
import { copyButton, count, h, plain, shown } from './dom.mjs';
import { link } from './route.mjs';

const AT_ONCE = 200;
const DEEPEST_OPEN = 4;
const LONGEST = 2000;
const HASH = /^[0-9a-f]{64}$/;
const ULID = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;
const ZEROS = '0'.repeat(64);

/**
 * The tree of a value. `artifacts` is a map from hash to descriptor; `index` the event's place, which
 * the page of an artifact is told.
 */
export function tree(value, { source, artifacts = new Map(), index = null }) {
  return h('div', { class: 'tree' }, node(value, '', 0, { source, artifacts, index }));
}

const isRef = (value) => typeof value.event_id === 'string' && Number.isInteger(value.seq);

function node(value, name, depth, context) {
  if (value === null) return h('span', { class: 'j-null' }, 'null');
  if (typeof value === 'boolean' || typeof value === 'number') return h('span', { class: 'j-number' }, String(value));
  if (typeof value === 'string') return leaf(value, name, context);
  const list = Array.isArray(value);
  const entries = list ? value.map((one, at) => [at, one]) : Object.entries(value);
  if (entries.length === 0) return h('span', { class: 'j-null' }, list ? 'none' : 'empty');
  const children = h(list ? 'ol' : 'dl', { class: list ? 'j-list' : 'j-object', start: list ? '0' : null });
  let drawn = 0;
  const more = () => {
    for (const [key, one] of entries.slice(drawn, drawn + AT_ONCE)) {
      const child = node(one, list ? name : key, depth + 1, context);
      if (list) children.append(h('li', null, child));
      else children.append(h('dt', null, shown(key, 200)), h('dd', null, child));
    }
    drawn += AT_ONCE;
  };
  more();
  const rest = entries.length > drawn ? h('button', { type: 'button', class: 'more-button' },
    `Show ${count(entries.length - drawn)} more`) : null;
  rest?.addEventListener('click', () => {
    more();
    if (drawn >= entries.length) rest.remove();
    else rest.textContent = `Show ${count(entries.length - drawn)} more`;
  });
  const summary = !list && isRef(value) ? h('a', { href: `${context.source.base}/events/${value.seq}`, class: 'j-ref' },
    `event ${value.seq}`) : null;
  if (summary) return h('span', null, summary, ' ', h('code', { class: 'quiet' }, shown(value.event_id, 40)));
  if (depth === 0) return h('div', null, children, rest);
  return h('details', { open: depth <= DEEPEST_OPEN && entries.length <= 40 },
    h('summary', null, list ? `${count(entries.length)} in a list` : `${count(entries.length)} members`), children,
      rest);
}

function leaf(text, name, { source, artifacts, index }) {
  if (HASH.test(text) && text !== ZEROS && artifacts.has(text)) {
    return h('span', { class: 'j-hash' }, h('a', { href: artifactHref(source, text, artifacts.get(text), index) },
      h('code', null, text)), ' ', h('span', { class: 'quiet' }, 'artifact'), copyButton(text));
  }
  if (HASH.test(text)) {
    const target = /artifact|definition|policy$|request$|stdout|stderr|^before$|^after$|model$/.test(name);
    return h('span', { class: 'j-hash' }, target
      ? h('a', { href: artifactHref(source, text, null, index) }, h('code', null, text)) : h('code', null, text),
      copyButton(text));
  }
  if (ULID.test(text) && /trace_id|^session$|^work$|^flow$|^recording$/.test(name) && source.base !== '#/file') {
    return h('a', { href: link(`/traces/${text}`) }, h('code', null, text));
  }
  if (text === '') return h('span', { class: 'j-null' }, 'empty text');
  if (text.length <= LONGEST) return h('span', { class: 'j-text' }, shown(text));
  const body = h('span', { class: 'j-text' }, shown(text, LONGEST));
  const button = h('button', {
    type: 'button', class: 'more-button', 'aria-label': plain(`Show all ${count(text.length)} characters`),
    onclick: () => {
      body.replaceChildren(...shown(text));
      button.remove();
    },
  }, `Show all ${count(text.length)} characters`);
  return h('span', null, body, ' ', button);
}
