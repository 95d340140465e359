// How artifacts are named and shown in short on other pages: a link with size and type, and the first
// bytes of a text.

import { h, plain, shown, size, words } from './dom.mjs';
import { prettyJson } from './json_text.mjs';
import { link } from './route.mjs';

const PREVIEW = 4096;
const LINES = 24;

/** Where the page of an artifact is. `descriptor` may be null where only the hash is known. */
export function artifactHref(source, hash, descriptor = null, index = null) {
  const base = source.base === '#/file' ? '/file/artifacts/' : '/artifacts/';
  return link(`${base}${encodeURIComponent(words(hash))}`, {
    media: descriptor?.media_type, trace: source.base === '#/file' ? null : source.id, event: index,
  });
}

/** A link to an artifact with what is known of it. */
export function artifactLink(source, hash, descriptor = null, { name = null, index = null } = {}) {
  const short = `${words(hash).slice(0, 10)}…`;
  return h('span', { class: 'artifact-link' },
    h('a', { href: artifactHref(source, hash, descriptor, index), title: plain(hash) }, name
      ?? h('code', null, shown(short))),
    descriptor ? h('span', { class: 'quiet' }, ' ', shown(descriptor.media_type ?? '', 60), ', ',
      size(descriptor.byte_size),
      descriptor.redaction_status && descriptor.redaction_status !== 'none'
        ? [', ', shown(descriptor.redaction_status, 30)] : null) : null);
}

/** Whether bytes read as text: UTF-8 without controls other than those of terminals and lines. */
export function textOf(bytes, { partial = false } = {}) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: partial });
    return text.includes('\u0000') ? null : text;
  } catch {
    return null;
  }
}

/** The beginning of an artifact, read when it comes into view. */
export function preview(source, hash, descriptor, { label, index = null, bytes = PREVIEW } = {}) {
  const body = h('div', { class: 'preview-body' }, h('span', { class: 'quiet' }, '…'));
  const element = h('figure', { class: 'preview' },
    h('figcaption', null, label ? [h('strong', null, label), ' '] : null,
      artifactLink(source, hash, descriptor, { index })), body);
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    fill(source, words(hash), body, bytes);
  }, { rootMargin: '200px' });
  seen.observe(element);
  return element;
}

async function fill(source, hash, body, most) {
  try {
    const found = await source.artifact(hash, { from: 0, to: most });
    if (found === null) {
      body.replaceChildren(h('span', { class: 'quiet' }, 'Not in the store. Its page says what is known of it.'));
      return;
    }
    if (found.size === 0) {
      body.replaceChildren(h('span', { class: 'quiet' }, 'empty'));
      return;
    }
    const text = textOf(found.bytes, { partial: found.bytes.length < found.size });
    if (text === null) {
      body.replaceChildren(h('span', { class: 'quiet' }, 'Not a text: see its page.'));
      return;
    }
    const pretty = prettyJson(text, found.bytes.length === found.size) ?? text;
    const lines = pretty.split('\n');
    const cut = lines.length > LINES || found.bytes.length < found.size;
    body.replaceChildren(h('pre', { tabindex: '0', 'aria-label': 'Beginning of the artifact' },
      shown(lines.slice(0, LINES).join('\n').replace(/\n$/, ''))),
    cut ? h('p', { class: 'quiet' }, 'This is the beginning. The whole is on its page.') : '');
  } catch (error) {
    if (error.name !== 'AbortError') body.replaceChildren(h('span', null, shown(error.message, 300)));
  }
}
