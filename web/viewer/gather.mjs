// Events of some types, page after page, whole: what a view that joins events needs. It stops at a
// bound and says so, and goes on when the reader asks.

import { count, counted, failure, h, replace } from './dom.mjs';

const PAGE = 200;
const AT_ONCE = 8;
const BURST = 300;

/** The events of these types of a trace. */
export class Gatherer {
  constructor(source, types) {
    this.source = source;
    this.types = types;
    this.items = [];
    this.matched = null;
    this.total = 0;
  }

  /** Whether there are more. */
  get more() {
    return this.matched === null || this.items.length < this.matched;
  }

  /** The next page. Events whose line is long come cut: they are asked for one by one. */
  async next(signal) {
    const page = await this.source.events({ type: this.types }, this.items.length, PAGE, { signal });
    const whole = [];
    for (let at = 0; at < page.items.length; at += AT_ONCE) {
      const some = page.items.slice(at, at + AT_ONCE).map((item) => this.#whole(item, signal));
      whole.push(...await Promise.all(some));
    }
    this.items.push(...whole);
    this.matched = page.items.length === 0 ? this.items.length : page.matched;
    this.total = page.total;
    return this.items;
  }

  async #whole(item, signal) {
    if (!item.cut) return item;
    try {
      const { event } = await this.source.event(item.index, { signal });
      return event ? { ...item, event, cut: false } : item;
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      return item;
    }
  }
}

const NAMED_MAX = 200;

/** The artifacts that an event lists or rests on. */
function named(event) {
  const own = Array.isArray(event?.artifacts) ? event.artifacts.map((one) => one?.artifact_hash) : [];
  const evidence = event?.payload?.evidence_artifacts;
  return [...own, ...(Array.isArray(evidence) ? evidence : [])].slice(0, NAMED_MAX);
}

/**
 * A view that is drawn from gathered events: `draw(items, more)` gives its nodes; `more` says that some are not read
 * yet. Draws again when more is asked for, and when `again()` is called because the trace has grown. Where the view
 * leaves out some of what was gathered, `narrowed()` says how many of how many it shows.
 */
export function gathered(source, types, draw, { context, panel, what, narrowed = () => null }) {
  const controller = new AbortController();
  const body = h('div', { class: 'gathered', 'aria-busy': 'true' }, h('p', { class: 'loading' }, 'Loading …'));
  const line = h('p', { class: 'counting', role: 'status' });
  const element = h('div', null, line, body);
  let gatherer = new Gatherer(source, types);
  let timer = null;
  let drawnFindings = '';
  // What was found at the events, and about the artifacts that they name elsewhere.
  const findings = () => gatherer.items.map(({ index, event }) => (panel?.findingsAt?.(index).length ?? 0)
    + named(event).reduce((sum, hash) => sum + (panel?.findingsOf?.(hash).length ?? 0), 0)).join();
  const sayCount = () => {
    const { items, matched, total } = gatherer;
    const part = narrowed();
    replace(line, part === null ? null : [h('strong', null, part), '. '],
      h('strong', null, `${count(items.length)} of ${counted(total, 'event')} ${part === null ? 'shown' : 'read'}`),
      `, ${panel?.counting?.() ?? '0 verified'}. These are the ones about ${what}`,
      gatherer.more ? `; ${count(matched - items.length)} more of them are not read yet.` : '.');
  };
  const redraw = () => {
    body.removeAttribute('aria-busy');
    const { items, matched } = gatherer;
    drawnFindings = findings();
    sayCount();
    replace(body, draw(items, gatherer.more), gatherer.more
      ? h('button', { type: 'button', class: 'more-button', onclick: () => load(gatherer) },
        `Read ${count(Math.min(PAGE, matched - items.length))} more`) : null);
  };
  const load = async (from) => {
    try {
      await from.next(controller.signal);
      if (controller.signal.aborted) return;
      gatherer = from;
      redraw();
      context.announce(line.textContent);
    } catch (error) {
      if (error.name !== 'AbortError') replace(body, failure(error, () => load(from)));
    }
  };
  load(gatherer);
  return {
    element,
    /** Another part of what was gathered is shown. */
    recount() {
      if (gatherer.matched === null) return;
      sayCount();
      context.announce(line.textContent);
    },
    /** The verdict has gone on: what stands stays as it is unless something was found in it. */
    remark() {
      if (gatherer.matched === null) return;
      if (findings() === drawnFindings) sayCount();
      else redraw();
    },
    /** The trace has grown. Events come in bursts: it is read again once for each of them. */
    again() {
      clearTimeout(timer);
      timer = setTimeout(() => load(new Gatherer(source, types)), BURST);
    },
    close() {
      clearTimeout(timer);
      controller.abort();
    },
  };
}
