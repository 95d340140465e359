// The board of work items by phase, with leases that run down. Each column is read in pages, so that a board of
// many thousand items is there at once; how many stand in a phase is the server's count of all. An item of its
// own: work_item.mjs.

import { get, live } from './api.mjs';
import { badge, count, counted, failure, h, plain, replace, shown, time } from './dom.mjs';
import { searchField } from './filter.mjs';
import { PHASES, phaseName } from './phases.mjs';
import { go, link } from './route.mjs';
import { Clock, coalesced, left } from './work_clock.mjs';
import { showItem } from './work_item.mjs';

const FIRST_SHOWN = 40;
const MORE = 200;
// The most that the server gives at once.
const PAGE = 500;

/** Shows the board, or one item. */
export function show(main, route, context) {
  return route.names.id ? showItem(main, route.names.id, context) : showBoard(main, route, context);
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

/** One phase: as many of its items as the reader has asked for. */
class Column {
  #drawn = null;
  #turn = 0;

  constructor(phase, clock, onMore) {
    Object.assign(this, { phase, clock, wanted: FIRST_SHOWN, items: [], matched: 0 });
    this.heading = h('h2', null);
    this.list = h('ul', null);
    this.below = h('div', { class: 'column-below' });
    this.element = h('section', { class: 'column', 'data-phase': phase }, this.heading, this.list, this.below);
    this.onMore = onMore;
  }

  /** Reads what is to be shown anew. Finished items grow without end: the newest come first. */
  async load(text) {
    this.#turn += 1;
    const own = this.#turn;
    const order = this.phase === 'COMPLETED' ? 'newest' : 'oldest';
    const items = [];
    let page;
    do {
      const limit = Math.min(PAGE, this.wanted - items.length);
      page = await get('/work', { phase: [this.phase], text, order, offset: items.length, limit });
      items.push(...page.items);
    } while (items.length < this.wanted && items.length < page.matched && page.items.length > 0);
    // Whoever was asked later knows more.
    if (own === this.#turn) Object.assign(this, { items, matched: page.matched });
    return page;
  }

  /** Draws it where it is not as it was. A click for more leads on to the first of what has come. */
  draw() {
    const now = JSON.stringify([this.items, this.matched]);
    if (now === this.#drawn) return;
    this.#drawn = now;
    const focused = this.element.contains(document.activeElement)
      ? document.activeElement.closest('[data-item]')?.dataset.item : null;
    const rest = this.matched - this.items.length;
    this.element.setAttribute('aria-label', `${phaseName(this.phase)}: ${counted(this.matched, 'item')}`);
    replace(this.heading, phaseName(this.phase), ' ', h('span', { class: 'column-count' }, count(this.matched)));
    replace(this.list, this.items.map((item) => card(item, this.clock)));
    this.list.hidden = this.items.length === 0;
    replace(this.below, this.matched === 0 ? h('p', { class: 'quiet column-empty' }, 'nothing') : null,
      rest > 0 ? h('button', { type: 'button', onclick: () => this.#more() },
        `Show ${count(Math.min(MORE, rest))} more (${count(rest)} not shown)`) : null);
    if (focused) this.#focus(focused);
  }

  async #more() {
    const before = this.items.length;
    this.wanted = before + MORE;
    await this.onMore(this);
    this.#focus(this.items[before]?.item);
  }

  #focus(item) {
    if (item) this.list.querySelector(`[data-item="${CSS.escape(item)}"] a`)?.focus();
  }
}

const NOTHING = () => h('p', null, 'There is no work item. Open one with ',
  h('code', null, 'countersign work open "what is to be done"'), '.');

const textOf = (route) => route.params.get('text') ?? '';

async function showBoard(main, route, context) {
  context.title('Work');
  let text = textOf(route);
  let known = false;
  const clock = new Clock();
  const summary = h('p', { class: 'quiet', id: 'work-summary', role: 'status' });
  const trouble = h('div');
  const board = h('div', { class: 'board' });
  const tell = (page) => {
    known = true;
    clock.set(page.now);
    const sum = (name) => page.phases.reduce((all, one) => all + one[name], 0);
    const blocked = page.phases.find((one) => one.phase === 'BLOCKED')?.items ?? 0;
    const items = text === '' ? counted(page.total, 'item') : `${count(sum('items'))} of ${counted(page.total, 'item')}`;
    summary.textContent = `${items}, ${count(sum('held'))} held, ${count(blocked)} blocked`;
    replace(trouble, page.total === 0 ? NOTHING() : null);
    board.hidden = page.total === 0;
  };
  const read = async (some) => {
    try {
      const pages = await Promise.all(some.map((column) => column.load(text)));
      tell(pages.at(-1));
      for (const column of some) column.draw();
    } catch (error) {
      if (!known) replace(trouble, failure(error, load));
      else if (error.status !== 401) replace(trouble, failure(error));
    }
  };
  const columns = PHASES.map((phase) => new Column(phase, clock, (column) => read([column])));
  const load = coalesced(() => read(columns));
  const search = searchField({
    label: 'Search in the work items', placeholder: 'Search the items  ( / )', value: text,
    onChange: (now) => go('/work', now === '' ? {} : { text: now }, { replace: true }),
  });
  replace(board, columns.map((column) => column.element));
  replace(main, h('h1', null, 'Work'), h('div', { class: 'filters' }, search.element), summary, trouble, board);
  await load();
  context.announce(plain(summary.textContent));
  const close = live({}, { work: load, hello: load });
  return {
    update(next) {
      text = textOf(next);
      search.set(text);
      for (const column of columns) column.wanted = FIRST_SHOWN;
      load();
    },
    close() {
      close();
      clock.close();
      search.close();
    },
  };
}
