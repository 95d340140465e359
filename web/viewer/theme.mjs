// Light or dark: as the system has it, unless the reader says otherwise on this machine.

import { h } from './dom.mjs';

const KEY = 'countersign-theme';
const ORDER = ['system', 'light', 'dark'];
const SIGNS = { system: '◐', light: '☀', dark: '☾' };

function stored() {
  try {
    const found = localStorage.getItem(KEY);
    return ORDER.includes(found) ? found : 'system';
  } catch {
    return 'system';
  }
}

function apply(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

apply(stored());

/** The button that goes from one to the next. */
export function themeSwitch() {
  const sign = h('span', { 'aria-hidden': 'true' });
  const button = h('button', { type: 'button', class: 'plain-button', id: 'theme' }, sign);
  const name = (theme) => {
    sign.textContent = `${SIGNS[theme]}\ufe0e`;
    button.setAttribute('aria-label', `Colours: ${theme}`);
    button.title = `Colours: ${theme}`;
  };
  name(stored());
  button.addEventListener('click', () => {
    const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Without storage the choice holds until the page is closed.
    }
    apply(next);
    name(next);
  });
  return button;
}
