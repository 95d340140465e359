// Bytes as rows of hexadecimal digits with their offsets.

import { count, h } from './dom.mjs';

const WIDTH = 16;
const AT_ONCE = 4096;

const two = (byte) => byte.toString(16).padStart(2, '0');

function rows(bytes, from, to, base) {
  const out = [];
  for (let at = from; at < to; at += WIDTH) {
    const part = bytes.subarray(at, Math.min(at + WIDTH, to));
    const digits = [...part].map(two);
    const left = digits.slice(0, 8).join(' ').padEnd(23);
    const right = digits.slice(8).join(' ').padEnd(23);
    const letters = [...part].map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    out.push(`${(base + at).toString(16).padStart(8, '0')}  ${left}  ${right}  ${letters}`);
  }
  return out.join('\n');
}

/** The bytes; `base` is the offset of the first one in the whole. More is drawn when asked for. */
export function hexView(bytes, base = 0) {
  const body = h('pre', { class: 'hex', tabindex: '0', 'aria-label': 'Bytes in hexadecimal' });
  const button = h('button', { type: 'button', class: 'more-button' });
  let drawn = 0;
  const more = () => {
    const to = Math.min(bytes.length, drawn + AT_ONCE);
    body.append(`${drawn > 0 ? '\n' : ''}${rows(bytes, drawn, to, base)}`);
    drawn = to;
    button.hidden = drawn >= bytes.length;
    button.textContent = `Show more (${count(bytes.length - drawn)} bytes are read and not shown)`;
  };
  button.addEventListener('click', more);
  more();
  return h('div', { class: 'scroll-x' }, body, button);
}
