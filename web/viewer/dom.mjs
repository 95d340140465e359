// How anything gets onto the page: elements are built here, and text from agents, tools and files
// becomes text nodes with everything unseen made visible. Nothing is ever parsed as HTML.

/** A value from outside as text, whatever it is: one that calls itself `toString` must not stop the page. */
export function words(value) {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** What a table has under a name from outside. What every object has by itself is not in the table. */
export const own = (table, name) => (typeof name === 'string' && Object.hasOwn(table, name) ? table[name] : undefined);

const REFUSED = new Set(['style', 'innerhtml', 'outerhtml', 'srcdoc', 'action', 'formaction', 'xlink:href']);

/** An element. Texts among the children become text nodes; null, undefined and false are left out. */
export function h(tag, attrs, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs ?? {})) setAttribute(element, name, value);
  append(element, children);
  return element;
}

function setAttribute(element, name, value) {
  const lower = name.toLowerCase();
  if (REFUSED.has(lower)) throw new TypeError(`the attribute ${name} is not used on this page`);
  if (lower.startsWith('on')) {
    if (typeof value === 'function') element.addEventListener(lower.slice(2), value);
    else if (value !== null && value !== undefined) throw new TypeError(`${name} takes a function`);
    return;
  }
  if (value === null || value === undefined || value === false) return;
  if (lower === 'href' && !String(value).startsWith('#')) {
    throw new TypeError('links on this page lead to this page only');
  }
  if (lower === 'src' && !String(value).startsWith('blob:')) throw new TypeError('only blobs are shown');
  element.setAttribute(name, value === true ? '' : String(value));
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) {
      element.append(document.createTextNode(words(child)));
    }
  }
}

/** Takes all children away. */
export function clear(node) {
  node.replaceChildren();
  return node;
}

/** Puts these children in place of the present ones. */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

// Everything that has no shape of its own on the screen or changes the order of what has: controls,
// formats (bidi, zero width), surrogates, private and unassigned code points, separators, blanks that
// are not the plain space, fillers and variation selectors.
const ODD = new RegExp('(?![\\n\\t ])[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Z}'
  + '\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0\\u{1d159}'
  + '\\u{e0100}-\\u{e01ef}]'
  + '|(?<=\\p{M}{4})\\p{M}', 'gu');
const PICTURE_BEFORE = /\p{Extended_Pictographic}$/u;
// A text of nothing but such characters must not become millions of elements.
const MOST_SPANS = 10_000;

const codeOf = (char) => `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

const odd = (char) => {
  const name = codeOf(char);
  return h('span', { class: 'odd', title: `character ${name}, which cannot be seen` }, name);
};

/** Texts that stand side by side as one, so that they become one node. */
function merged(parts) {
  const out = [];
  let texts = [];
  const flush = () => {
    if (texts.length > 0) out.push(texts.join(''));
    texts = [];
  };
  for (const part of parts) {
    if (typeof part === 'string') texts.push(part);
    else {
      flush();
      out.push(part);
    }
  }
  flush();
  return out;
}

/** The nodes that show a text from outside; `max` characters of it, and then how many are left out. */
export function shown(text, max = Infinity) {
  const whole = words(text);
  const part = whole.length > max ? whole.slice(0, max) : whole;
  const inside = [];
  let at = 0;
  let spans = 0;
  for (const match of part.matchAll(ODD)) {
    // The selector that asks for the coloured form of a picture is what pictures are written with.
    if (match[0] === '\ufe0f' && PICTURE_BEFORE.test(part.slice(Math.max(0, match.index - 2), match.index))) continue;
    if (match.index > at) inside.push(part.slice(at, match.index));
    spans += 1;
    inside.push(spans <= MOST_SPANS ? odd(match[0]) : `\u27e8${codeOf(match[0])}\u27e9`);
    at = match.index + match[0].length;
  }
  if (at < part.length) inside.push(part.slice(at));
  const nodes = [h('bdi', null, merged(inside))];
  if (part.length < whole.length) {
    nodes.push(h('span', { class: 'more', title: `${count(whole.length - part.length)} more characters` }, '…'));
  }
  return nodes;
}

/** The same as plain text, for attributes such as labels. */
export function plain(text, max = 300) {
  const whole = words(text);
  const part = whole.length > max ? `${whole.slice(0, max)}…` : whole;
  return part.replace(ODD, (char) => `\u27e8${codeOf(char)}\u27e9`).replace(/\s+/g, ' ');
}

const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,9})?Z$/;

/**
 * A point in time, in UTC as the record has it. `form`: 'full' (date and seconds), 'ms' (with
 * milliseconds) or 'clock' (hours, minutes, seconds and milliseconds).
 */
export function time(ts, form = 'full') {
  if (ts === null || ts === undefined) return h('span', { class: 'none' }, '–');
  const match = TIME.exec(words(ts));
  if (!match) return h('span', null, shown(ts, 40));
  const [, day, clock, fraction] = match;
  const ms = fraction ? fraction.slice(0, 4) : '';
  const text = form === 'clock' ? `${clock}${ms}` : `${day} ${clock}${form === 'ms' ? ms : ''}`;
  return h('time', { datetime: ts, title: `${ts} · here ${new Date(ts).toLocaleString()}` }, text);
}

/** A hash: its beginning, the whole in the title, a button that copies the whole. */
export function hash(text, { href = null, length = 12 } = {}) {
  const whole = words(text);
  const short = whole.length > length + 1 ? `${whole.slice(0, length)}…` : whole;
  const code = h('code', { title: plain(whole) }, shown(short));
  return h('span', { class: 'hash' }, href ? h('a', { href }, code) : code, copyButton(whole));
}

/** A button that copies a text. */
export function copyButton(text, name = 'Copy the whole value') {
  const button = h('button', { type: 'button', class: 'copy', title: name, 'aria-label': name });
  button.addEventListener('click', async (event) => {
    event.preventDefault();
    event.stopPropagation();
    let said = 'copied';
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      said = 'not copied: the browser does not allow it';
    }
    button.textContent = said === 'copied' ? '✓' : '✗';
    button.setAttribute('aria-label', said);
    setTimeout(() => {
      // Empty, it shows its drawn sign: fonts do not all have one.
      button.textContent = '';
      button.setAttribute('aria-label', name);
    }, 1500);
  });
  return button;
}

const SIGNS = { ok: '✓', failed: '✗', warn: '!', unknown: '?', running: '●', waiting: '○', info: '·' };

/**
 * A small label with a state: ok, failed, warn, unknown, running, waiting, info or plain. The sign
 * in front says the state without its colour; `label` says it in words. Both may hold words of others.
 */
export function badge(kind, text, label = null) {
  const sign = SIGNS[kind];
  return h('span', { class: `badge badge-${kind}`, title: label === null ? null : plain(label) },
    sign ? h('span', { class: 'sign', 'aria-hidden': 'true' }, sign) : null,
    h('span', { class: 'badge-text' }, typeof text === 'string' ? shown(text, 200) : text),
    label && label !== text ? h('span', { class: 'unseen' }, ` (${plain(label)})`) : null);
}

const NUMBER = new Intl.NumberFormat('en-GB');

/** A number with its thousands apart. */
export const count = (n) => (typeof n === 'number' ? NUMBER.format(n) : '–');

/** `1 event`, `3 events`. */
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A length of time. */
export function span(ms) {
  if (typeof ms !== 'number' || !Number.isFinite(ms)) return '–';
  if (ms < 0) return `−${span(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A number of bytes. */
export function size(bytes) {
  if (typeof bytes !== 'number' || !Number.isFinite(bytes)) return '–';
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = -1;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** A notice across the page: kind is info, warn or failed. */
export function notice(kind, ...children) {
  return h('div', { class: `notice notice-${kind}`, role: kind === 'failed' ? 'alert' : null }, children);
}

/** What went wrong, in words, with a way to try again where there is one. */
export function failure(error, again = null) {
  return notice('failed', h('p', null, shown(error?.message ?? String(error), 2000)),
    again ? h('button', { type: 'button', onclick: again }, 'Try again') : null);
}

/** Gives bytes to the reader as a file. */
export function save(name, bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const anchor = document.createElement('a');
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
