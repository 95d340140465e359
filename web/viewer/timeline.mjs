// The timeline of a trace: one row for each event, a lane for each role, four badges whose state comes
// from the verdict, and always how many of how many are shown and verified.

import { badge, count, counted, failure, h, notice, own, plain, replace, shown, time, words } from './dom.mjs';
import {
  BADGES, ROLES, colourOf, letterOf, sentence, tone, typeWords,
} from './events.mjs';
import { Commands } from './commands.mjs';
import { bar, menu, searchField } from './filter.mjs';
import { VirtualList } from './list.mjs';
import { go, link } from './route.mjs';
import { gapWords } from './verdict_words.mjs';

const LANES = {
  session: ROLES,
  recording: ['auditor', 'operator', 'recorder'],
  work: ['operator', 'recorder'],
  flow: ['operator', 'recorder'],
  log: ['recorder'],
};
const SIGNS = { ok: '✓', failed: '✗', warn: '!', unknown: '·' };
const WORDS = { ok: 'ok', failed: 'failed', warn: 'warning', unknown: 'not checked' };

/** The filter that an address holds. */
export const filterOf = (params) => ({
  type: params.getAll('type'), role: params.getAll('role'), actor: params.getAll('actor'),
  text: params.get('text') ?? '',
});

const isFiltered = (filter) => filter.type.length + filter.role.length + filter.actor.length > 0 || filter.text !== '';

const cell = (name, attrs, ...children) => h('div', { class: `vcell e-${name}`, role: 'gridcell', ...attrs }, children);

function laneCell(event, lanes) {
  const role = event?.actor?.role;
  const at = lanes.indexOf(role);
  return cell('lanes', { 'aria-label': plain(role ? `${words(role)} ${words(event.actor.agent_id)}` : 'nobody', 80) },
    lanes.map((lane, place) => h('span', { class: `lane ${place === at ? colourOf(lane) : ''}`, 'aria-hidden': 'true' },
      place === at ? h('span', { class: 'dot', title: plain(`${lane}: ${words(event.actor.agent_id)}`, 120) },
        letterOf(lane))
        : null)),
    at < 0 && role ? h('span', { class: 'lane role-none', 'aria-hidden': 'true' }, h('span', { class: 'dot' }, '?'))
      : null);
}

/** The four badges of an event as the verdict has them now. */
export function badgeCells(states) {
  const words = BADGES.map(([name], at) => `${name} ${WORDS[states[at]]}`).join(', ');
  return [h('span', { class: 'unseen' }, words), states.map((state, at) => h('span', {
    class: `mark mark-${state}`, title: `${BADGES[at][1]}: ${WORDS[state]}`, 'aria-hidden': 'true',
  }, SIGNS[state]))];
}

/** The states of these badges, from what the panel of verdicts knows of an event. */
export function badgeStates(panel, index) {
  const findings = panel?.findingsAt?.(index) ?? [];
  return BADGES.map(([name, , checks]) => {
    const own = findings.filter((one) => checks.includes(one.check_id));
    if (own.some((one) => one.failure_code)) return 'failed';
    if (own.length > 0) return 'warn';
    return panel?.stateAt?.(index, name, checks) ?? ((panel?.verified?.() ?? 0) > index ? 'ok' : 'unknown');
  });
}

const PAGE = 200;
// While so many events are verified, nothing else is fetched for the rows.
const HUGE = 20_000;

/** Asks for the first page of what an address shows, or for nothing where it shows another place. */
export function firstPage(source, params) {
  const filter = filterOf(params);
  if (Number(params.get('at')) >= PAGE && !isFiltered(filter)) return null;
  const page = source.events(filter, 0, PAGE, {});
  // Whoever takes it sees the failure; nobody does where the page is left before.
  page.catch(() => {});
  return page;
}

/** Makes the timeline. `panel` is the panel of verdicts; `early` the first page, if it was asked for already. */
export function timeline(source, about, route, context, panel, early = null) {
  let first = early;
  let { params } = route;
  let filter = filterOf(params);
  let total = about.events ?? 0;
  let matched = null;
  let following = false;
  let shorter = 0;
  const commands = new Commands(source);
  const lanes = own(LANES, about.kind) ?? ROLES;
  const change = (name, value) => {
    const next = new URLSearchParams(params);
    next.delete(name);
    next.delete('at');
    for (const one of Array.isArray(value) ? value : [value]) if (one) next.append(name, one);
    go(source.base, next, { replace: true });
  };
  const search = searchField({
    label: 'Search in the events', placeholder: 'Search the events  ( / )', value: filter.text,
    onChange: (text) => change('text', text),
  });
  const menus = ['type', 'role', 'actor'].map((name) => [name, menu({
    label: { type: 'Type', role: 'Role', actor: 'Actor' }[name], onChange: (values) => change(name, values),
  })]);
  const reset = h('button', { type: 'button', class: 'reset', onclick: () => go(source.base, {}, { replace: true }) },
    'Show all');
  const counting = h('p', { class: 'counting', role: 'status' });
  const below = h('div');
  const above = h('div');
  const ended = about.closed || Boolean(about.unreadable);
  const follow = h('label', { class: 'follow', hidden: ended }, h('input', { type: 'checkbox' }), ' Follow');
  follow.firstElementChild.addEventListener('change', (event) => {
    following = event.target.checked;
    if (following) list.scrollTo(list.total - 1);
  });

  const what = (item, place, before, dayMark = null) => {
    const { event } = item;
    const mood = tone(event);
    const busy = total > HUGE && panel?.isRunning?.();
    const words = sentence(event, { command: commands.of(event, busy ? null : () => rewrite(item)) });
    const beside = place === 0 ? item.index === 0 : before?.index === item.index - 1;
    const gap = beside ? gapWords(place === 0 ? -1 : before.event?.seq, event) : null;
    return cell('what', { title: plain(`${typeWords(event?.event_type)}: ${words}`, 500) }, dayMark,
      gap === null ? null : h('strong', { class: 'gap' }, `✗ ${gap} `),
      mood ? toneSign(mood) : null,
      shown(item.unreadable ? `Unreadable: ${item.unreadable}` : words, 400),
      item.cut ? h('span', { class: 'quiet' }, ' (long: open it to see all)') : null);
  };
  // The command of a row has come: only its sentence is exchanged.
  const rewrite = (item) => list.eachShown((one, element, place) => {
    if (one.index !== item.index) return;
    const old = element.querySelector('.e-what');
    old?.replaceWith(what(one, place, list.at(place - 1), old.querySelector('.day')));
  });
  const row = (item, place, before) => {
    const { event } = item;
    const day = String(event?.created_at ?? '').slice(0, 10);
    const newDay = place > 0 && before?.event && String(before.event.created_at).slice(0, 10) !== day;
    return [
      cell('index', null, h('a', { href: `${source.base}/events/${item.index}`, tabindex: '-1' }, String(item.index))),
      cell('time', null, time(event?.created_at ?? null, 'clock')),
      laneCell(event, lanes),
      cell('type', null, shown(typeWords(event?.event_type), 40)),
      what(item, place, before, newDay ? h('span', { class: 'day' }, day) : null),
      cell('marks', { 'data-index': item.index }, badgeCells(badgeStates(panel, item.index))),
    ];
  };
  const list = new VirtualList({
    label: 'Events', columns: ['Place', 'Time', 'Role', 'Type', 'What', 'Checks'], head: headOf(lanes), pageSize: PAGE,
    rowHeight: () => (window.innerWidth < 700 ? 66 : 30),
    fetch: (offset, limit, options) => {
      const known = offset === 0 ? first : null;
      first = null;
      return known ?? source.events(filter, offset, limit, options);
    },
    row,
    href: (item) => `${source.base}/events/${item.index}`,
    onOpen: (item) => keepPlace(item.index),
    onCount: (now, page) => {
      matched = now;
      total = page.total;
      sayCount();
    },
    onError: (error) => replace(below, failure(error, () => list.reload())),
    stickyTop: () => list.element.querySelector('.vhead')?.getBoundingClientRect().bottom ?? 0,
  });
  list.element.classList.add('e-grid');
  list.element.style.setProperty('--lanes', String(lanes.length));
  list.element.addEventListener('click', (event) => {
    const index = event.target.closest('.vrow')?.querySelector('.e-marks')?.dataset.index;
    if (index !== undefined) keepPlace(Number(index));
  }, { capture: true });

  // So that the way back leads to the same row.
  function keepPlace(index) {
    const next = new URLSearchParams(params);
    next.set('at', String(index));
    history.replaceState(history.state, '', link(source.base, next));
  }

  function sayCount() {
    if (matched === null) return;
    const verified = panel?.verified?.() ?? 0;
    replace(counting, h('strong', null, `${count(matched)} of ${count(total)} shown`),
      `, ${panel?.counting?.() ?? `${count(verified)} verified`}`);
    sayMissing();
    reset.hidden = !isFiltered(filter);
    list.element.hidden = matched === 0;
    replace(below, matched > 0 ? null : notice('info', h('p', null, total === 0
      ? 'The trace holds no events.'
      : `No event fits the filters.${verified === total ? ' All events were verified all the same.' : ''}`)));
  }

  /** What the log knows and is not here, and what was here a moment ago. */
  function sayMissing() {
    const known = about.log?.size ?? 0;
    const text = [
      shorter > 0 ? `The trace has become shorter while you looked: ${counted(shorter, 'event')} fewer.` : '',
      known > total ? `The log knows ${counted(known, 'event')} of this trace, here are ${count(total)}.` : '',
    ].join(' ').trim();
    if (above.dataset.said === text) return;
    above.dataset.said = text;
    replace(above, text === '' ? null : notice('failed', h('p', null, h('strong', null, text))));
  }

  const remark = () => {
    sayCount();
    list.eachShown((item, element) => {
      const marks = element.querySelector('.e-marks');
      if (marks) replace(marks, badgeCells(badgeStates(panel, item.index)));
    });
  };

  const facets = () => source.facets().then((found) => {
    for (const [name, one] of menus) one.set(found[`${name}s`], filter[name]);
  }).catch(() => {});
  for (const [name, one] of menus) one.set(null, filter[name]);

  const at = Number(params.get('at'));
  const ready = list.reset(Number.isInteger(at) && at > 0 && !isFiltered(filter) && at < total ? at : 0);
  ready.then(facets);
  const element = h('section', { 'aria-label': 'Timeline' },
    bar(search.element, menus.map(([, one]) => one.element), reset),
    h('div', { class: 'count-line' }, counting, follow), above, list.element, below);
  return {
    element,
    ready,
    remark,
    /** How many events are known. */
    total: () => total,
    grown(message) {
      if (message.total <= total && message.items.length === 0) return;
      if (isFiltered(filter)) {
        total = Math.max(total, message.total);
        list.reload();
        return;
      }
      const fresh = message.items.filter((item) => item.index >= list.total);
      if (fresh.length > 0 && fresh[0].index === list.total) list.append(fresh);
      list.grow(message.total);
      total = Math.max(message.total, list.total);
      matched = list.total;
      sayCount();
      if (following) list.scrollTo(list.total - 1);
    },
    /** The trace has fewer events than were shown: what is there is read anew. */
    shrunk(now) {
      shorter += total - now;
      total = now;
      context.announce('The trace has become shorter');
      list.reset();
    },
    update(next) {
      params = next.params;
      const before = JSON.stringify(filter);
      filter = filterOf(params);
      search.set(filter.text);
      if (JSON.stringify(filter) === before) return;
      list.reset().then(() => context.announce(counting.textContent));
      facets();
    },
    close() {
      commands.close();
      list.close();
      search.close();
      for (const [, one] of menus) one.close();
    },
  };
}

const toneSign = (mood) => h('span', { class: `tone tone-${mood}`, 'aria-hidden': 'true' },
  { ok: '✓', failed: '✗', warn: '!' }[mood]);

function headOf(lanes) {
  const column = (name, ...children) => h('div', { class: `vcell e-${name}`, role: 'columnheader' }, children);
  return h('div', { class: 'vhead', role: 'rowgroup' }, h('div', { class: 'vhead-row', role: 'row' },
    column('index', h('span', { 'aria-hidden': 'true' }, '#'), h('span', { class: 'unseen' }, 'Place')),
    column('time', 'UTC'),
    h('div', { class: 'vcell e-lanes', role: 'columnheader', 'aria-label': 'Role' }, lanes.map((lane) => h('span', {
      class: `lane ${colourOf(lane)}`, title: lane, 'aria-hidden': 'true',
    }, h('span', { class: 'lane-name' }, lane)))),
    column('type', 'Type'), column('what', 'What happened'),
    h('div', { class: 'vcell e-marks', role: 'columnheader', 'aria-label': 'Checks: hash, chain, signature, policy' },
      BADGES.map(([name, meaning]) => h('span', { class: 'mark', title: `${name}: ${meaning}`, 'aria-hidden': 'true' },
        name[0].toUpperCase())))));
}

/** What the lanes and marks mean. */
export function legend() {
  return h('details', { class: 'legend' }, h('summary', null, 'What do the marks mean?'),
    h('p', null, 'Each role has its lane: ', ROLES.map((role, at) => [at > 0 ? ', ' : null,
      h('span', { class: `lane ${colourOf(role)}` }, h('span', { class: 'dot' }, letterOf(role))), ` ${role}`]), '.'),
    h('p', null, BADGES.map(([name, meaning], at) => [at > 0 ? '; ' : null, h('strong', null, name[0].toUpperCase()),
      ` ${name}: ${meaning}`]), '. ', badge('unknown', 'not checked'), ' ', badge('ok', 'holds'), ' ',
    badge('warn', 'warning'), ' ', badge('failed', 'does not hold'), '. They come from the verdict of this page.'));
}
