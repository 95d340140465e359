// One artifact: its bytes as text, JSON, diff, picture or hexadecimal digits, read in parts; its hash
// computed here; what was taken out of it and where it is named.

import { textOf } from './artifact_link.mjs';
import { diffView, isDiff } from './diff.mjs';
import {
  badge, copyButton, count, failure, h, notice, plain, replace, save, shown, size, time,
} from './dom.mjs';
import { sentence, typeWords } from './events.mjs';
import { hexView } from './hex.mjs';
import { prettyJson } from './json_text.mjs';
import { go } from './route.mjs';
import { sourceOf } from './source.mjs';
import { hex, Sha256 } from '../verifier/bytes.mjs';

const PART = 256 * 1024;
const STEP = 1024 * 1024;
const MOST_SHOWN = 8 * 1024 * 1024;
const MOST_SAVED = 256 * 1024 * 1024;
const MOST_MARKS = 10_000;
const HASH = /^[0-9a-f]{64}$/;
const SHORTER = 'The artifact is shorter than it was. Load the page again.';
const NAMES = { text: 'Text', json: 'JSON', diff: 'Diff', image: 'Picture', hex: 'Hex' };

// Pictures are told by their first bytes, never by what somebody says they are. SVG is none of them: it
// can hold more than a picture.
const PICTURES = [
  ['image/png', (b) => b[0] === 0x89 && b[1] === 0x50 && b[2] === 0x4e && b[3] === 0x47],
  ['image/jpeg', (b) => b[0] === 0xff && b[1] === 0xd8 && b[2] === 0xff],
  ['image/gif', (b) => b[0] === 0x47 && b[1] === 0x49 && b[2] === 0x46 && b[3] === 0x38],
  ['image/webp', (b) => b[0] === 0x52 && b[1] === 0x49 && b[2] === 0x46 && b[3] === 0x46
    && b[8] === 0x57 && b[9] === 0x45 && b[10] === 0x42 && b[11] === 0x50],
];

/** The type of a picture by its first bytes, or null. */
export const pictureType = (bytes) => PICTURES.find(([, fits]) => bytes.length > 11 && fits(bytes))?.[0] ?? null;

/** Shows the page. */
export async function show(main, route, context) {
  const source = sourceOf(route);
  const { hash } = route.names;
  context.title('Artifact');
  if (!source || !HASH.test(hash)) {
    replace(main, h('h1', { tabindex: '-1' }, source ? 'There is no such artifact' : 'No file is open'),
      h('p', null, source ? 'An artifact is named by the 64 hexadecimal digits of its hash. ' : null,
        h('a', { href: source ? '#/traces' : '#/open' }, source ? 'All traces' : 'Open a file')));
    return null;
  }
  const page = new ArtifactPage(main, source, hash, route, context);
  await page.start();
  return { close: () => page.close(), update: (next) => page.update(next) };
}

class ArtifactPage {
  #urls = [];
  #controller = new AbortController();

  constructor(main, source, hash, route, context) {
    Object.assign(this, { main, source, hash, params: route.params, context });
    this.bytes = new Uint8Array(0);
    this.size = 0;
    this.head = h('header', { class: 'trace-head' });
    this.notes = h('div');
    this.bar = h('div', { class: 'chips', role: 'group', 'aria-label': 'Show as' });
    this.body = h('div', { class: 'artifact-body' });
    this.more = h('div', { class: 'artifact-more' });
    this.check = h('span', { role: 'status' });
    this.where = h('section', { class: 'panel', 'aria-labelledby': 'where' });
  }

  async start() {
    const first = await this.source.artifact(this.hash, { from: 0, to: PART, signal: this.#controller.signal });
    const known = this.#where();
    replace(this.main, h('article', { class: 'artifact-page' }, this.head, this.notes, this.bar, this.body, this.more,
      this.where));
    this.#drawHead(first);
    if (first === null) {
      replace(this.body, notice('warn', h('h2', null, 'Its bytes are not in the store'),
        h('p', null, 'They were removed (then an event below says so, and why), or they are lost. The hash in the '
          + 'trace still tells whether bytes that turn up elsewhere are the same.')));
    } else {
      this.bytes = first.bytes;
      this.size = first.size;
      this.#draw();
      this.#checkHash();
    }
    known.catch(() => {});
  }

  update(next) {
    this.params = next.params;
    if (this.size > 0 || this.bytes.length > 0) this.#draw();
  }

  close() {
    this.#controller.abort();
    for (const url of this.#urls) URL.revokeObjectURL(url);
  }

  get #whole() {
    return this.bytes.length >= this.size;
  }

  #drawHead(found) {
    const media = this.params.get('media');
    const trace = this.params.get('trace');
    const back = this.source.base === '#/file' ? '#/file' : trace ? this.source.base : '#/traces';
    replace(this.head,
      h('p', { class: 'crumbs' }, h('a', { href: back }, trace || back === '#/file' ? 'Trace' : 'Traces'),
        ' / artifact'),
      h('h1', { tabindex: '-1', class: 'artifact-title' }, 'Artifact ', h('code', null, this.hash.slice(0, 16), '…')),
      h('dl', { class: 'facts' },
        h('dt', null, 'SHA-256'), h('dd', null, h('code', null, this.hash), copyButton(this.hash), ' ', this.check),
        h('dt', null, 'Size'), h('dd', null, found ? `${count(found.size)} bytes (${size(found.size)})`
          : 'not in the store'),
        media ? [h('dt', null, 'Said to be'), h('dd', null, shown(media, 120))] : null));
  }

  #kinds() {
    const kinds = [];
    const picture = pictureType(this.bytes);
    if (picture) kinds.push('image');
    this.text = textOf(this.bytes, { partial: !this.#whole });
    if (this.text !== null) {
      if (isDiff(this.text)) kinds.push('diff');
      this.pretty = prettyJson(this.text, this.#whole);
      if (this.pretty !== null) kinds.push('json');
      kinds.push('text');
    }
    kinds.push('hex');
    return kinds;
  }

  #draw() {
    const kinds = this.#kinds();
    const asked = this.params.get('as');
    const kind = kinds.includes(asked) ? asked : kinds[0];
    replace(this.bar, kinds.map((one) => h('button', {
      type: 'button', class: 'chip', 'aria-pressed': String(one === kind),
      onclick: () => {
        const next = new URLSearchParams(this.params);
        next.set('as', one);
        go(this.#base(), next, { replace: true });
      },
    }, NAMES[one])), h('button', { type: 'button', class: 'download', onclick: () => this.#save() }, 'Download'));
    replace(this.body, this.size === 0 ? h('p', { class: 'quiet' }, 'It is empty.') : this.#view(kind));
    this.#drawMore(kind);
    this.#drawSecrets();
  }

  #base() {
    return this.source.base === '#/file' ? `/file/artifacts/${this.hash}` : `/artifacts/${this.hash}`;
  }

  #view(kind) {
    if (kind === 'image') return this.#picture();
    if (kind === 'diff') return diffView(this.text);
    if (kind === 'json') return textView(this.pretty);
    if (kind === 'text') return textView(this.text);
    return hexView(this.bytes);
  }

  #picture() {
    if (!this.#whole) {
      if (this.size > MOST_SHOWN) return notice('info',
        h('p', null, `The picture has ${size(this.size)}: download it to look at it.`));
      this.#readAll();
      return h('p', { class: 'loading' }, 'Reading the picture …');
    }
    const url = URL.createObjectURL(new Blob([this.bytes], { type: pictureType(this.bytes) }));
    this.#urls.push(url);
    const image = h('img', { src: url, alt: 'The picture that the artifact holds', class: 'picture' });
    image.addEventListener('error', () => replace(image.parentElement, notice('warn', h('p', null,
      'It begins like a picture, but the browser cannot show it. Look at it as Hex.'))));
    return h('div', { class: 'picture-frame' }, image);
  }

  async #readAll() {
    while (!this.#whole && !this.#controller.signal.aborted) {
      if (!(await this.#read())) return;
    }
    if (!this.#controller.signal.aborted) this.#draw();
  }

  async #read() {
    try {
      const next = await this.source.artifact(this.hash, {
        from: this.bytes.length, to: Math.min(this.size, this.bytes.length + STEP), signal: this.#controller.signal,
      });
      if (!next || next.bytes.length === 0) throw new Error(SHORTER);
      const joined = new Uint8Array(this.bytes.length + next.bytes.length);
      joined.set(this.bytes);
      joined.set(next.bytes, this.bytes.length);
      this.bytes = joined;
      return true;
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.more, failure(error, () => this.#drawMore()));
      return false;
    }
  }

  #drawMore(kind) {
    if (this.#whole || kind === 'image') {
      replace(this.more);
      return;
    }
    const words = `${size(this.bytes.length)} of ${size(this.size)} are read.`;
    if (this.bytes.length >= MOST_SHOWN) {
      replace(this.more, notice('info', h('p', null, words, ' More than that is not shown here: download it.')));
      return;
    }
    const button = h('button', { type: 'button' }, `Load ${size(Math.min(STEP, this.size - this.bytes.length))} more`);
    button.addEventListener('click', async () => {
      button.disabled = true;
      if (!(await this.#read())) return;
      const at = window.scrollY;
      this.#draw();
      window.scrollTo(0, at);
      this.context.announce(`${size(this.bytes.length)} of ${size(this.size)} are read`);
      if (this.#whole) this.#checkHash();
    });
    replace(this.more, h('p', null, words, ' ', button));
  }

  /** Of what is read as a whole the hash is computed at once; of more when the reader asks. */
  #checkHash() {
    if (this.#whole) {
      this.#sayHash(hex(new Sha256().update(this.bytes).digest()));
      return;
    }
    const button = h('button', { type: 'button' }, `Compute the hash (reads ${size(this.size)})`);
    button.addEventListener('click', () => this.#computeHash());
    replace(this.check, badge('unknown', 'not computed', 'only a part is read'), ' ', button);
  }

  async #computeHash() {
    const bar = h('progress', { max: this.size, value: '0', 'aria-label': 'Reading' });
    replace(this.check, bar);
    const sum = new Sha256();
    try {
      for (let at = 0; at < this.size;) {
        const next = await this.source.artifact(this.hash, {
          from: at, to: Math.min(this.size, at + STEP), signal: this.#controller.signal,
        });
        if (!next || next.bytes.length === 0) throw new Error(SHORTER);
        sum.update(next.bytes);
        at += next.bytes.length;
        bar.value = at;
      }
      this.#sayHash(hex(sum.digest()));
    } catch (error) {
      if (error.name !== 'AbortError') replace(this.check, failure(error, () => this.#computeHash()));
    }
  }

  #sayHash(computed) {
    replace(this.check, computed === this.hash ? badge('ok', 'computed here: same', 'the bytes have this hash')
      : [badge('failed', 'computed here: different', 'these are not the bytes that were recorded'), ' ',
      h('code', null, computed)]);
  }

  async #save() {
    if (this.size > MOST_SAVED) {
      replace(this.notes, notice('info',
        h('p', null, `It has ${size(this.size)}, too much for the browser: copy it from the `
        + 'store.')));
      return;
    }
    const found = this.#whole ? { bytes: this.bytes } : await this.source.artifact(this.hash, {});
    if (found) save(`${this.hash.slice(0, 16)}.bin`, found.bytes);
  }

  #drawSecrets() {
    const rules = new Map();
    for (const match of (this.text ?? '').matchAll(/\[redacted:([a-z0-9-]{1,40})\]/g)) {
      rules.set(match[1], (rules.get(match[1]) ?? 0) + 1);
    }
    replace(this.notes, rules.size === 0 ? null : notice('info', h('p', null,
      h('strong', null, 'Secrets were replaced before this was stored: '),
      [...rules].map(([rule, times], at) => [at > 0 ? ', ' : null, `${plain(rule)} ${count(times)}×`]), '.'),
    h('p', null, 'Where a secret stood, there is ', h('mark', { class: 'redacted' }, '[redacted:RULE]'),
      ' with the name of the rule that found it. The hash is of what is stored, so of the text with the '
      + 'replacement. Neither the secret nor its length or hash was kept. What merely looks like a replacement, '
      + 'because a tool printed it so, cannot be told apart here.')));
  }

  /** The events that name it: who recorded it, and whether it was removed. */
  async #where() {
    if (!this.source.id && this.source.base !== '#/file') return;
    const page = await this.source.events({ text: this.hash }, 0, 50, { signal: this.#controller.signal });
    const descriptor = page.items.flatMap((item) => item.event?.artifacts ?? []).find((one) =>
      one?.artifact_hash === this.hash);
    const removed = page.items.find((item) => item.event?.event_type === 'artifact_redacted'
      && item.event.payload?.artifact_hash === this.hash);
    const status = page.items.flatMap((item) => item.event?.artifacts ?? [])
      .findLast((one) => one?.artifact_hash === this.hash)?.redaction_status;
    replace(this.where, h('h2', { id: 'where' }, 'Where it is named'),
      removed ? notice('warn', h('p', null, h('strong', null, 'Redacted: '),
        'its bytes were removed from the store by ',
        shown(removed.event.actor?.agent_id, 80), ', ', time(removed.event.created_at), ': ',
        shown(removed.event.payload.reason, 1000))) : null,
      !removed && status && status !== 'none' ? notice('warn', h('p', null, 'The trace says of it: ', shown(status, 40),
        status === 'redacted-with-pointer' ? '. Its bytes were removed, and something stands in their place.'
          : '. Its bytes were removed on purpose.')) : null,
      descriptor ? h('p', { class: 'quiet' }, 'Recorded as ', shown(descriptor.media_type, 80), ', ',
        shown(descriptor.encoding, 40),
        `, ${count(descriptor.byte_size)} bytes, `, time(descriptor.created_at)) : null,
      h('ul', { class: 'plain-list' }, page.items.map((item) => h('li', null,
        h('a', { href: `${this.source.base}/events/${item.index}` }, `event ${item.index}`), ' ',
        shown(typeWords(item.event?.event_type), 40), h('span', { class: 'quiet' }, ' ',
          shown(sentence(item.event), 160))))),
      page.matched > page.items.length ? h('p', { class: 'quiet' },
        `and ${count(page.matched - page.items.length)} more`) : null);
  }
}

/** A text with its replaced secrets marked. */
function textView(text) {
  const found = text.split(/(\[redacted:[a-z0-9-]{1,40}\])/);
  const parts = found.length > MOST_MARKS ? [text] : found;
  return h('pre', { class: 'artifact-text', tabindex: '0', 'aria-label': 'Text of the artifact' },
    parts.map((part, at) => (at % 2 === 1
    ? h('mark', { class: 'redacted', title: 'a secret stood here' }, part) : part === '' ? null : shown(part))));
}
