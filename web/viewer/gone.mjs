// Traces that the workspace log knows and that are not there any more: said loudly, by name, wherever
// somebody could take the list for whole.

import { get } from './api.mjs';
import { badge, count, counted, h, hash, notice, replace, shown } from './dom.mjs';
import { link } from './route.mjs';
import { coalesced } from './work_clock.mjs';

const PAUSE = 300;
const SHOWN = 20;

const list = (value) => (Array.isArray(value) ? value : []);

/** The banner for what `GET /workspace` says is gone, or null. */
export function goneBanner(workspace) {
  const gone = list(workspace?.gone);
  const number = workspace?.gone_count ?? gone.length;
  if (number === 0) return null;
  const line = (one) => h('li', null, badge('failed', 'gone'), ' ', hash(one.trace_id, {
    href: link('/log', { text: one.trace_id }), length: 26,
  }), ' ', shown(one.kind ?? 'unknown kind', 40), ', ', counted(one.size ?? 0, 'event'),
  one.closed ? ', closed' : null);
  const lines = h('ul', { class: 'plain-list' }, gone.slice(0, SHOWN).map(line));
  const rest = gone.slice(SHOWN);
  return notice('failed',
    h('p', null, h('strong', null, number === 1 ? '1 trace that the log knows is gone.'
      : `${count(number)} traces that the log knows are gone.`),
    ' Somebody or something has removed what was recorded. The log still says that it was there.'),
    lines,
    rest.length === 0 ? null : h('details', null, h('summary', null, `${count(rest.length)} more`),
      h('ul', { class: 'plain-list' }, rest.map(line))),
    number > gone.length ? h('p', null, `${count(number - gone.length)} more are not named here.`) : null);
}

/**
 * Keeps what `GET /workspace` says up to date: `tell(workspace)` is called after each `look()`. News come in
 * bursts: it is asked for once for each of them.
 */
export function watchWorkspace(tell) {
  let timer = null;
  let closed = false;
  const ask = coalesced(async () => {
    try {
      const found = await get('/workspace');
      if (!closed) tell(found);
    } catch {
      // What is there stays until the next news.
    }
  });
  const look = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  };
  window.addEventListener('focus', look);
  ask();
  return {
    look,
    close() {
      closed = true;
      clearTimeout(timer);
      window.removeEventListener('focus', look);
    },
  };
}

/** Exchanges a banner only where it says something else: it is read aloud each time it comes. */
export function fillBanner(place, workspace) {
  const text = JSON.stringify([workspace?.gone_count, workspace?.gone]);
  if (place.dataset.said === text) return;
  place.dataset.said = text;
  replace(place, goneBanner(workspace));
}

/** The page of a trace that is gone. */
export async function showGone(main, id, error, context) {
  context.title('Gone');
  const place = h('div', null, notice('failed', h('p', null, shown(error.message, 500))));
  replace(main, h('h1', { tabindex: '-1' }, 'This trace is gone'), place,
    h('p', null, 'Look for a copy: a sealed file, a backup, another machine. A copy that is whole fits what the log ',
      'says. ', h('a', { href: link('/log', { text: id }) }, 'What the log says of it'), ' · ',
      h('a', { href: '#/traces' }, 'All traces')));
  try {
    const one = list((await get('/workspace')).gone).find((gone) => gone.trace_id === id);
    if (one) {
      replace(place, notice('failed', h('p', null, h('strong', null,
        `The workspace log knows ${counted(one.size ?? 0, 'event')} of this trace; it is gone.`)),
      h('p', null, shown(one.kind ?? 'trace', 40), ' ', hash(id, { length: 26 }),
        one.closed ? ', which had ended' : ', which had not ended')));
    }
  } catch {
    // The words of the server stand there.
  }
}
