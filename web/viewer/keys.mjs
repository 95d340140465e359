// Keys that work on every page. Lists are elements with the class `vlist`, which handle keys
// themselves, or any elements with `data-row`, which get the focus in turn; a search field has
// `data-search`.

import { h } from './dom.mjs';
import { go } from './route.mjs';

const KEYS = [
  ['/', 'go to the search field'],
  ['j  k  ↓  ↑', 'next and previous row'],
  ['Page Up, Page Down, Home, End', 'further in a list'],
  ['Enter', 'open the row'],
  ['[  ]', 'previous and next event'],
  ['g then t w f q l o', 'Traces, Work, Flows, Questions, Log, Open a file'],
  ['Escape', 'out of a field; back to the page before'],
  ['?', 'these keys'],
];

const PLACES = { t: '/traces', w: '/work', f: '/flows', q: '/questions', l: '/log', o: '/open' };
const CHORD = 1500;

let dialog = null;

function help() {
  if (!dialog) {
    dialog = h('dialog', { class: 'keys', 'aria-labelledby': 'keys-title' },
      h('h2', { id: 'keys-title' }, 'Keys'),
      h('dl', null, KEYS.map(([key, meaning]) => [
        h('dt', null, key.split('  ').map((one, at) => [at > 0 ? ' ' : null, h('kbd', null, one)])),
        h('dd', null, meaning),
      ])),
      h('form', { method: 'dialog' }, h('button', { type: 'submit', class: 'primary' }, 'Close')));
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

const inField = (target) => target instanceof Element
  && target.closest('input, textarea, select, [contenteditable]') !== null;

/** Listens on the whole document. `back` is what Escape does outside of fields. */
export function installKeys({ main, back }) {
  let chord = 0;
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector('dialog[open]')) return;
    const { key, target } = event;
    if (inField(target)) {
      if (key === 'Escape') target.blur();
      return;
    }
    if (event.timeStamp - chord < CHORD && PLACES[key]) {
      chord = 0;
      event.preventDefault();
      go(PLACES[key]);
      return;
    }
    chord = 0;
    if (key === 'g') chord = event.timeStamp;
    else if (key === '?') help();
    else if (key === '/') focusSearch(main, event);
    else if (key === 'Escape') back();
    else if (['j', 'k', 'ArrowDown', 'ArrowUp'].includes(key)) moveRow(main, event);
  });
}
installKeys.help = help;

function focusSearch(main, event) {
  const field = main.querySelector('[data-search]');
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select?.();
}

function moveRow(main, event) {
  const list = main.querySelector('.vlist');
  const plainArrow = event.key.startsWith('Arrow');
  const here = event.target instanceof Element ? event.target : null;
  if (list && !here?.closest('.vlist')) {
    // An arrow outside of a list scrolls, as everywhere.
    if (plainArrow) return;
    event.preventDefault();
    list.focus();
    return;
  }
  const rows = [...main.querySelectorAll('[data-row]')].filter((row) => row.offsetParent !== null);
  if (rows.length === 0) return;
  const at = rows.indexOf(here?.closest('[data-row]'));
  if (plainArrow && at < 0) return;
  const down = event.key === 'j' || event.key === 'ArrowDown';
  const next = at < 0 ? (down ? 0 : rows.length - 1) : at + (down ? 1 : -1);
  if (!rows[next]) return;
  event.preventDefault();
  if (!rows[next].matches('a, button, input, [tabindex]')) rows[next].setAttribute('tabindex', '-1');
  rows[next].focus();
}

/** Back to the page before, or up where this is the first one. */
export function backwards(route) {
  if (window.navigation?.canGoBack) {
    history.back();
    return;
  }
  const [first, second] = route.parts;
  if (route.parts.length <= 1) return;
  if (first === 'traces' && route.parts.length > 2) go(`/traces/${second}`);
  else if (first === 'file') go('/file');
  else if (first === 'artifacts') go('/traces');
  else go(`/${first}`);
}
