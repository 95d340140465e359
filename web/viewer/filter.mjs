// Controls that narrow a list down: a search field, choices with their counts, single choices. What is
// chosen lies in the address; here it is only shown and changed.

import { count, h, plain, replace, shown } from './dom.mjs';

const PAUSE = 200;

/** A search field that tells a moment after the last letter, or at once with Enter. */
export function searchField({ label, value, placeholder, onChange }) {
  let timer = null;
  const id = `search-${label.toLowerCase().replace(/[^a-z]+/g, '-')}`;
  const field = h('input', {
    id, type: 'search', value: value ?? '', placeholder, autocomplete: 'off', spellcheck: 'false', 'data-search': true,
    maxlength: '200',
  });
  const tell = () => {
    clearTimeout(timer);
    onChange(field.value.trim());
  };
  field.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(tell, PAUSE);
  });
  field.addEventListener('change', tell);
  const element = h('div', { class: 'search', role: 'search' }, h('label', { for: id, class: 'unseen' }, label), field);
  return {
    element,
    set(text) {
      if (document.activeElement !== field) field.value = text ?? '';
    },
    close: () => clearTimeout(timer),
  };
}

/** A few choices of which any number can be on, or with `single` one at most. */
export function chips({ label, options, chosen, onChange, single = false }) {
  const on = new Set(chosen);
  const buttons = options.map(([value, name]) => {
    const button = h('button', { type: 'button', class: 'chip', 'aria-pressed': String(on.has(value)) }, name);
    button.addEventListener('click', () => {
      const was = on.has(value);
      if (single) on.clear();
      if (was) on.delete(value);
      else on.add(value);
      for (const [one, other] of buttons) other.setAttribute('aria-pressed', String(on.has(one)));
      onChange([...on]);
    });
    return [value, button];
  });
  return {
    element: h('div', { class: 'chips', role: 'group', 'aria-label': label },
      h('span', { class: 'chips-label', 'aria-hidden': 'true' }, label), buttons.map(([, button]) => button)),
    set(values) {
      on.clear();
      for (const value of values) on.add(value);
      for (const [value, button] of buttons) button.setAttribute('aria-pressed', String(on.has(value)));
    },
  };
}

/** One choice of several. */
export function choice({ label, options, value, onChange }) {
  const select = h('select', { 'aria-label': label },
    options.map(([one, name]) => h('option', { value: one, selected: one === value }, name)));
  select.addEventListener('change', () => onChange(select.value));
  return {
    element: select,
    set(one) {
      select.value = one;
    },
  };
}

/** A menu of choices that are known later, each with its count: `set(options, chosen)`. */
export function menu({ label, onChange }) {
  const on = new Set();
  const summary = h('summary', null, label);
  const body = h('div', { class: 'menu-body', role: 'group', 'aria-label': label }, 'Loading …');
  const element = h('details', { class: 'menu' }, summary, body);
  const name = () => {
    replace(summary, label, on.size > 0 ? h('span', { class: 'menu-count' }, String(on.size)) : null);
  };
  element.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !element.open) return;
    event.preventDefault();
    element.open = false;
    summary.focus();
  });
  const outside = (event) => {
    if (element.open && !element.contains(event.target)) element.open = false;
  };
  document.addEventListener('pointerdown', outside);
  return {
    element,
    set(options, chosen) {
      on.clear();
      for (const value of chosen) on.add(value);
      const known = new Set((options ?? []).map((one) => one.name));
      const all = [...(options ?? []), ...chosen.filter((one) => !known.has(one)).map((one) => ({ name: one }))];
      replace(body, all.map((one) => {
        const box = h('input', { type: 'checkbox', checked: on.has(one.name), 'aria-label': plain(one.name, 100) });
        box.addEventListener('change', () => {
          if (box.checked) on.add(one.name);
          else on.delete(one.name);
          name();
          onChange([...on]);
        });
        return h('label', { class: 'menu-line' }, box, h('span', null, shown(one.name, 80)),
          one.count === undefined ? null : h('span', { class: 'menu-number' }, count(one.count)));
      }), all.length === 0 ? h('p', { class: 'quiet' }, options ? 'None' : 'Loading …') : null);
      name();
    },
    close: () => document.removeEventListener('pointerdown', outside),
  };
}

/** A row of controls. On a narrow page all but the search are behind a button. */
export function bar(...controls) {
  const button = h('button', { type: 'button', class: 'filters-more', 'aria-expanded': 'false' }, 'Filters');
  const [search, ...others] = controls.flat();
  const element = h('div', { class: 'filters' }, search, button, others);
  button.addEventListener('click', () => {
    button.setAttribute('aria-expanded', String(element.classList.toggle('all')));
  });
  return element;
}
