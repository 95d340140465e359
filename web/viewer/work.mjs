// The board of work items by phase, with leases that run down. An item of its own: work_item.mjs.

import { get, live } from './api.mjs';
import { badge, count, counted, failure, h, plain, replace, shown, time } from './dom.mjs';
import { link } from './route.mjs';
import { Clock, coalesced, left } from './work_clock.mjs';
import { showItem } from './work_item.mjs';

/** The phases in the order in which an item goes through them; BLOCKED can follow any. */
export const PHASES = ['DRAFT', 'IMPLEMENTATION', 'CI_PENDING', 'READY_FOR_REVIEW', 'REVIEW', 'READY_FOR_MERGE',
  'COMPLETED', 'BLOCKED'];

const NAMES = {
  DRAFT: 'Draft', IMPLEMENTATION: 'Implementation', CI_PENDING: 'CI pending', READY_FOR_REVIEW: 'Ready for review',
  REVIEW: 'Review', READY_FOR_MERGE: 'Ready for merge', COMPLETED: 'Completed', BLOCKED: 'Blocked',
};
const FIRST_SHOWN = 40;
const MORE = 200;

/** A phase in words. */
export const phaseName = (phase) => NAMES[phase] ?? plain(phase ?? 'no phase', 40);

/** Shows the board, or one item. */
export function show(main, route, context) {
  return route.names.id ? showItem(main, route.names.id, context) : showBoard(main, context);
}

/** Who holds an item and for how long, or that nobody does. */
export function lease(item, clock) {
  if (!item.holder) return null;
  const state = h('span', { class: 'lease' });
  const say = (element, ms) => {
    const over = ms <= 0;
    if (element.dataset.over !== String(over)) {
      element.dataset.over = String(over);
      const words = over ? 'The lease ran out: somebody else can claim the item' : 'The lease runs down';
      replace(element, over ? badge('warn', 'lease ran out', words) : badge('running', 'held', words),
        ' by ', h('strong', null, shown(item.holder, 60)), ' ', h('span', { class: 'ticking' }));
    }
    element.querySelector('.ticking').textContent = over ? `${left(ms)} ago` : `${left(ms)} left`;
  };
  return item.expires_at ? clock.mark(state, item.expires_at, say) : state;
}

function card(item, clock) {
  const name = item.label ?? item.item.slice(0, 10);
  return h('li', { class: `card${item.phase === 'BLOCKED' ? ' card-blocked' : ''}`, 'data-item': item.item },
    h('a', { class: 'card-title', href: link(`/work/${item.item}`), 'data-row': true },
      h('span', { class: 'card-label' }, shown(name, 40)), ' ', h('span', null, shown(item.title, 200))),
    item.phase === 'BLOCKED' ? h('p', { class: 'card-reason' },
      badge('failed', 'blocked', 'A person must unblock it'), ` in ${phaseName(item.blocked_from)}: `,
      shown(item.blocked_reason ?? 'no reason was given', 400)) : null,
    item.holder ? h('p', { class: 'card-lease' }, lease(item, clock)) : null,
    h('p', { class: 'card-facts quiet' }, 'since ', time(item.phase_since),
      item.attempts > 1 ? ` · ${counted(item.attempts, 'attempt')}` : null));
}

function column(phase, items, clock, shownItems, more) {
  const rows = items.slice(0, shownItems);
  const rest = items.length - rows.length;
  const label = `${phaseName(phase)}: ${counted(items.length, 'item')}`;
  return h('section', { class: 'column', 'aria-label': label, 'data-phase': phase },
    h('h2', null, phaseName(phase), ' ', h('span', { class: 'column-count' }, count(items.length))),
    items.length === 0 ? h('p', { class: 'quiet column-empty' }, 'nothing')
      : h('ul', null, rows.map((item) => card(item, clock))),
    rest > 0 ? h('button', { type: 'button', onclick: more }, `Show more (${count(rest)} not shown)`) : null);
}

const NOTHING = () => h('p', null, 'There is no work item. Open one with ',
  h('code', null, 'countersign work open "what is to be done"'), '.');

async function showBoard(main, context) {
  context.title('Work');
  const clock = new Clock();
  const summary = h('p', { class: 'quiet', id: 'work-summary' });
  const board = h('div', { class: 'board' });
  const limits = new Map();
  let found = null;
  const draw = () => {
    const focused = document.activeElement?.closest?.('[data-item]')?.dataset.item;
    const columns = [...new Set([...PHASES, ...found.items.map((item) => item.phase)])];
    replace(board, found.items.length === 0 ? NOTHING() : columns.map((phase) => {
      // Finished items grow without end: the newest come first.
      const items = found.items.filter((item) => item.phase === phase);
      if (phase === 'COMPLETED') items.reverse();
      const limit = limits.get(phase) ?? FIRST_SHOWN;
      return column(phase, items, clock, limit, () => {
        limits.set(phase, limit + MORE);
        draw();
      });
    }));
    const held = found.items.filter((item) => item.holder && !item.expired).length;
    const blocked = found.items.filter((item) => item.phase === 'BLOCKED').length;
    summary.textContent = `${counted(found.items.length, 'item')}, ${count(held)} held, ${count(blocked)} blocked`;
    if (focused) board.querySelector(`[data-item="${CSS.escape(focused)}"] a`)?.focus();
  };
  const load = coalesced(async () => {
    try {
      found = await get('/work');
    } catch (error) {
      if (found === null) replace(board, failure(error, load));
      return;
    }
    clock.set(found.now);
    draw();
  });
  replace(main, h('h1', null, 'Work'), summary, board);
  await load();
  context.announce(plain(summary.textContent));
  const close = live({}, { work: load, hello: load });
  return () => {
    close();
    clock.close();
  };
}
