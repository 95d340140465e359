// A list of any length of which only what is in view lies in the document. Rows have one height; pages
// of items are fetched around the view and a bounded number of them is kept. The window scrolls.

import { clear, h } from './dom.mjs';

const MARGIN = 12;
const KEPT_PAGES = 40;
// Browsers do not make elements higher than about 33 million pixels.
const HIGHEST = 16_000_000;

/**
 * Makes a list.
 * - `fetch(offset, limit, {signal})` → `{items, matched}`
 * - `row(item, place, before)` → the cells of a row; `href(item)` → where Enter leads, or null
 * - `rowHeight` in pixels, or a function that gives it (asked again when the window changes)
 * - `pageSize`, `label`, `columns` (their names), `head` (an element with the names of the columns)
 * - `onCount(matched, page)` after each page, `onError(error)`, `onOpen(item, place)` before it leads there
 */
export class VirtualList {
  #options;
  #pages = new Map();
  #pending = new Map();
  #rows = new Map();
  #total = 0;
  #active = 0;
  #generation = 0;
  #frame = 0;
  #closed = false;
  #height = 30;
  #failed = null;

  constructor(options) {
    this.#options = { pageSize: 100, rowHeight: 30, columns: [], ...options };
    this.#measure();
    this.body = h('div', { class: 'vlist-body', role: 'rowgroup' });
    this.element = h('div', {
      class: 'vlist', role: 'grid', tabindex: '0', 'aria-label': this.#options.label,
      'aria-colcount': this.#options.columns.length || null, 'aria-busy': 'true',
    }, this.#options.head ?? null, this.body);
    this.element.addEventListener('keydown', (event) => this.#key(event));
    this.element.addEventListener('focus', () => this.#markActive());
    this.body.addEventListener('click', (event) => this.#click(event));
    this.schedule = () => {
      if (!this.#frame && !this.#closed) this.#frame = requestAnimationFrame(() => this.#draw());
    };
    window.addEventListener('scroll', this.schedule, { passive: true });
    this.resized = () => {
      if (this.#measure()) {
        this.#setTotal(this.#total);
        this.refresh();
      } else this.schedule();
    };
    window.addEventListener('resize', this.resized);
  }

  #measure() {
    const { rowHeight } = this.#options;
    const before = this.#height;
    this.#height = typeof rowHeight === 'function' ? rowHeight() : rowHeight;
    return before !== this.#height;
  }

  /** The number of rows. */
  get total() {
    return this.#total;
  }

  /** The item at a place, if it is kept. */
  at(place) {
    const size = this.#options.pageSize;
    return this.#pages.get(Math.floor(place / size))?.[place % size];
  }

  /** Forgets everything and begins again, at a place if one is given. */
  async reset(place = 0) {
    this.#generation += 1;
    for (const controller of this.#pending.values()) controller.abort();
    this.#pending.clear();
    this.#pages.clear();
    this.#failed = null;
    this.#active = place;
    this.element.setAttribute('aria-busy', 'true');
    const generation = this.#generation;
    await this.#load(Math.floor(place / this.#options.pageSize));
    if (generation !== this.#generation) return;
    clear(this.body);
    this.#rows.clear();
    this.#draw();
    if (place > 0) this.scrollTo(place);
  }

  /** Asks for what is in view again, without letting go of it meanwhile. */
  async reload() {
    const size = this.#options.pageSize;
    const [from, to] = this.#view();
    const numbers = [];
    for (let page = Math.floor(from / size); page === 0 || page * size < to; page += 1) numbers.push(page);
    this.#generation += 1;
    const generation = this.#generation;
    for (const controller of this.#pending.values()) controller.abort();
    this.#pending.clear();
    try {
      const found = await Promise.all(numbers.map((page) => this.#options.fetch(page * size, size, {})));
      if (generation !== this.#generation || this.#closed) return;
      this.#pages = new Map(found.map((page, at) => [numbers[at], page.items]));
      this.#failed = null;
      this.#setTotal(found[0].matched);
      this.#options.onCount?.(found[0].matched, found[0]);
      this.refresh();
    } catch (error) {
      if (generation === this.#generation && !this.#closed) this.#options.onError?.(error);
    }
  }

  /** Takes a page in that is known already. */
  seed(items, matched) {
    this.#pages.set(0, items);
    this.#setTotal(matched);
    this.element.removeAttribute('aria-busy');
    this.#draw();
  }

  /** There are this many rows now; those that were not full are asked for again. */
  grow(total) {
    if (total <= this.#total) return;
    const size = this.#options.pageSize;
    const last = Math.floor(Math.max(0, this.#total - 1) / size);
    const page = this.#pages.get(last);
    if (page && page.length < size) this.#pages.delete(last);
    this.#setTotal(total);
    this.schedule();
  }

  /** Puts further items at the end; they are shown at once if the page before them is kept. */
  append(items) {
    const size = this.#options.pageSize;
    for (const item of items) {
      const place = this.#total;
      const number = Math.floor(place / size);
      if (place % size === 0) this.#pages.set(number, []);
      const page = this.#pages.get(number);
      if (page && page.length === place % size) page.push(item);
      this.#total += 1;
    }
    this.#trim();
    this.#setTotal(this.#total);
    this.schedule();
  }

  /** Another item in the place of the one for which `same(item)` holds. */
  exchange(same, item) {
    return this.exchangeWith(same, () => item);
  }

  /** The same with an item that is made from the one before. */
  exchangeWith(same, make) {
    for (const [number, page] of this.#pages) {
      const at = page.findIndex((one) => one && same(one));
      if (at < 0) continue;
      page[at] = make(page[at]);
      const place = number * this.#options.pageSize + at;
      this.#rows.get(place)?.remove();
      this.#rows.delete(place);
      this.schedule();
      return true;
    }
    return false;
  }

  /** Draws all rows in view again, because something about them is known now. */
  refresh() {
    clear(this.body);
    this.#rows.clear();
    this.schedule();
  }

  /** Calls back for each row that lies in the document. */
  eachShown(callback) {
    for (const [place, element] of this.#rows) {
      const item = this.at(place);
      if (item) callback(item, element, place);
    }
  }

  /** Brings a row into view and makes it the active one. */
  scrollTo(place) {
    this.#active = Math.max(0, Math.min(place, this.#total - 1));
    const box = this.body.getBoundingClientRect();
    const at = box.top + window.scrollY + this.#top(this.#active);
    window.scrollTo(0, Math.max(0, at - window.innerHeight / 3));
    this.#draw();
    this.#markActive();
  }

  /** Ends it. */
  close() {
    this.#closed = true;
    this.#generation += 1;
    cancelAnimationFrame(this.#frame);
    for (const controller of this.#pending.values()) controller.abort();
    window.removeEventListener('scroll', this.schedule);
    window.removeEventListener('resize', this.resized);
  }

  #setTotal(total) {
    this.#total = total;
    const height = Math.min(HIGHEST, total * this.#height);
    this.body.style.setProperty('height', `${height}px`);
    this.element.setAttribute('aria-rowcount', String(total + (this.#options.head ? 1 : 0)));
    if (this.#active >= total) this.#active = Math.max(0, total - 1);
  }

  get #scale() {
    const whole = this.#total * this.#height;
    return whole > HIGHEST ? HIGHEST / whole : 1;
  }

  #top(place) {
    return place * this.#height * this.#scale;
  }

  async #load(number) {
    if (this.#pages.has(number) || this.#pending.has(number)) return;
    const controller = new AbortController();
    const generation = this.#generation;
    this.#pending.set(number, controller);
    const { fetch, pageSize, onCount, onError } = this.#options;
    try {
      const page = await fetch(number * pageSize, pageSize, { signal: controller.signal });
      if (generation !== this.#generation || this.#closed) return;
      this.#pages.set(number, page.items);
      this.#failed = null;
      this.#trim();
      this.#setTotal(page.matched);
      this.element.removeAttribute('aria-busy');
      onCount?.(page.matched, page);
      this.schedule();
    } catch (error) {
      if (generation !== this.#generation || this.#closed || error.name === 'AbortError') return;
      this.#failed = error;
      onError?.(error);
    } finally {
      if (this.#pending.get(number) === controller) this.#pending.delete(number);
    }
  }

  // The pages that are farthest from the view go first.
  #trim() {
    if (this.#pages.size <= KEPT_PAGES) return;
    const [from] = this.#view();
    const here = Math.floor(from / this.#options.pageSize);
    const far = [...this.#pages.keys()].sort((a, b) => Math.abs(b - here) - Math.abs(a - here));
    for (const number of far.slice(0, this.#pages.size - KEPT_PAGES)) this.#pages.delete(number);
  }

  #view() {
    const rowHeight = this.#height;
    const top = -this.body.getBoundingClientRect().top / this.#scale;
    const rows = Math.ceil(window.innerHeight / rowHeight);
    const first = Math.floor(top / rowHeight);
    const from = Math.max(0, Math.min(first - MARGIN, this.#total - rows - MARGIN));
    // A list below the window has rows too: the focus comes to one of them before the window has moved.
    return [from, Math.min(this.#total, Math.max(from + MARGIN, first + rows + MARGIN))];
  }

  #draw() {
    this.#frame = 0;
    if (this.#closed) return;
    const [from, to] = this.#view();
    const size = this.#options.pageSize;
    for (const [place, element] of this.#rows) {
      // The row that the focus is on stays, also where focusing it has moved the window past it.
      const kept = (place >= from && place < to) || place === this.#active;
      if (kept && this.#scale === 1) continue;
      element.remove();
      this.#rows.delete(place);
    }
    // With more rows than pixels the rows in view stand close together below the first of them.
    const base = this.#scale === 1 ? null : this.#base(from);
    for (let place = from; place < to; place += 1) this.#place(place, from, base);
    // Who scrolls fast passes pages that nobody waits for any more.
    for (const [page, controller] of this.#pending) {
      if ((page + 2) * size > from && (page - 1) * size < to) continue;
      controller.abort();
      this.#pending.delete(page);
    }
    if (this.#failed) return;
    for (let page = Math.floor(from / size); page * size < to; page += 1) {
      // A page that was the last one when it came may have grown since.
      if (this.#pages.get(page)?.length < Math.min(size, this.#total - page * size)) this.#pages.delete(page);
      this.#load(page);
    }
  }

  #base(from) {
    const first = -this.body.getBoundingClientRect().top;
    const ahead = Math.floor(Math.max(0, first) / this.#scale / this.#height) - from;
    return Math.max(0, first) - ahead * this.#height;
  }

  #place(place, from, base) {
    const item = this.at(place);
    const present = this.#rows.get(place);
    if (present && (present.dataset.filled === 'yes' || item === undefined)) return;
    present?.remove();
    const element = h('div', {
      class: 'vrow', role: 'row', id: `row-${place}`, 'aria-rowindex': place + 1 + (this.#options.head ? 1 : 0),
      'data-place': place, 'data-filled': item === undefined ? 'no' : 'yes',
    }, item === undefined
      ? h('div', { class: 'vcell placeholder', role: 'gridcell' }, '…')
      : this.#options.row(item, place, this.at(place - 1)));
    const top = base === null ? this.#top(place) : base + (place - from) * this.#height;
    element.style.setProperty('top', `${top}px`);
    element.style.setProperty('height', `${this.#height}px`);
    this.#rows.set(place, element);
    const after = this.#rows.get(place + 1);
    if (after) this.body.insertBefore(element, after);
    else this.body.append(element);
    if (place === this.#active) element.classList.add('active');
  }

  #markActive() {
    for (const [place, element] of this.#rows) element.classList.toggle('active', place === this.#active);
    if (this.#rows.has(this.#active)) this.element.setAttribute('aria-activedescendant', `row-${this.#active}`);
  }

  #key(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = Math.max(1, Math.floor(window.innerHeight / this.#height) - 4);
    const moves = {
      ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: step, PageUp: -step, Home: -Infinity, End: Infinity,
    };
    if (event.key === 'Enter') {
      event.preventDefault();
      this.#open(this.#active);
      return;
    }
    if (moves[event.key] === undefined || this.#total === 0) return;
    event.preventDefault();
    this.#active = Math.max(0, Math.min(this.#total - 1, this.#active + moves[event.key]));
    this.#reveal();
  }

  #reveal() {
    const box = this.body.getBoundingClientRect();
    const top = box.top + this.#top(this.#active);
    const above = (this.#options.stickyTop?.() ?? 0) + 8;
    const rowHeight = this.#height;
    if (top < above) window.scrollBy(0, top - above);
    else if (top + rowHeight > window.innerHeight - 8) window.scrollBy(0, top + rowHeight - window.innerHeight + 8);
    this.#draw();
    this.#markActive();
  }

  #click(event) {
    if (event.target.closest('a, button, input')) return;
    const element = event.target.closest('.vrow');
    if (!element || String(window.getSelection())) return;
    this.#active = Number(element.dataset.place);
    this.#open(this.#active);
  }

  #open(place) {
    const item = this.at(place);
    const target = item && this.#options.href?.(item, place);
    if (!target) return;
    this.#options.onOpen?.(item, place);
    location.hash = target;
  }
}
