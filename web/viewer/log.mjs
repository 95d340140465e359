// The workspace log: every entry with its sentence, the checkpoint that it comes to, and the verdicts
// on it.

import { bytes, get, live } from './api.mjs';
import { badge, copyButton, count, failure, h, hash, notice, replace, shown, time } from './dom.mjs';
import { sentence } from './events.mjs';
import { fillBanner, watchWorkspace } from './gone.mjs';
import { VirtualList } from './list.mjs';
import { go, link } from './route.mjs';
import { logVerdictPanel } from './verdict.mjs';
import { coalesced } from './work_clock.mjs';

const TYPES = [['log_opened', 'log opened'], ['key_added', 'key added'], ['key_rotated', 'key rotated'],
  ['key_revoked', 'key revoked'],
  ['trace_opened', 'trace opened'], ['trace_checkpointed', 'trace checkpointed'], ['trace_closed', 'trace closed'],
  ['session_recovered', 'recovered']];
const CHECKPOINT_BYTES_MAX = 65_536;

/** Shows the log. */
export async function show(main, route, context) {
  context.title('Log');
  let params = route.params;
  const panel = logVerdictPanel(context);
  panel.addEventListener('change', () => sayCount());
  const shownCount = h('p', { class: 'quiet counting', role: 'status' });
  const entry = h('div', null);
  const state = h('div', { class: 'log-state' });
  const problem = h('div', null);
  const gone = h('div', null);
  let counted = null;
  const sayCount = (page = counted) => {
    counted = page;
    if (page === null) return;
    const text = `${count(page.matched)} of ${count(page.total)} entries shown, ${panel.counting()}`;
    if (shownCount.textContent !== text) shownCount.textContent = text;
  };
  const filter = () => ({ type: params.getAll('type'), text: params.get('text') ?? '' });
  const list = new VirtualList({
    label: 'Entries of the log', rowHeight: 30, columns: ['Entry', 'Time', 'Type', 'What'],
    fetch: (offset, limit, options) => get('/log', { ...filter(), offset, limit }, options),
    row: ({ index, event, unreadable }) => [
      h('div', { class: 'vcell number', role: 'gridcell' }, count(index)),
      h('div', { class: 'vcell', role: 'gridcell' }, time(event?.created_at)),
      h('div', { class: 'vcell', role: 'gridcell' }, event ? shown(event.event_type, 60)
        : badge('failed', 'unreadable')),
      h('div', { class: 'vcell vcell-wide', role: 'gridcell' }, event ? shown(sentence(event), 400)
        : shown(unreadable ?? '', 300)),
    ],
    href: (item) => link('/log', { type: params.getAll('type'), text: params.get('text'), at: String(item.index) }),
    onCount: (_, page) => {
      replace(problem);
      sayCount(page);
    },
    onError: (error) => replace(problem, failure(error, () => list.reset())),
  });

  const fields = filters(params, (next) => go('/log', next));
  const loadState = coalesced(async () => replace(state, await checkpoint(), panel.element));
  const loadEntry = async () => {
    const at = params.get('at');
    if (at === null || !/^\d{1,15}$/.test(at)) {
      replace(entry);
      return;
    }
    try {
      const page = await get('/log', { offset: Number(at), limit: 1 });
      if (params.get('at') === at) replace(entry, page.items[0] ? one(page.items[0], params)
        : notice('warn', h('p', null, `The log has no entry ${at}.`)));
      entry.querySelector('h2')?.focus();
    } catch (error) {
      replace(entry, failure(error));
    }
  };
  replace(main, h('h1', null, 'Log'),
    h('p', { class: 'quiet' },
      'What the workspace’s own log says of its keys and traces. ',
      'A trace that was cut, exchanged or removed stands out against it.'),
    gone, state, fields.element, shownCount, problem, entry, h('div', { class: 'log-list' }, list.element));
  await Promise.all([list.reset(), loadEntry()]);
  loadState().catch((error) => replace(state, failure(error)));
  const workspace = watchWorkspace((found) => fillBanner(gone, found));
  let settle = null;
  const changed = () => {
    workspace.look();
    clearTimeout(settle);
    // A trace that opens or closes is written to the log at about the same time.
    settle = setTimeout(() => {
      get('/log', { ...filter(), limit: 1 }).then((page) => {
        if (page.matched !== list.total || page.total !== counted?.total) {
          list.grow(page.matched);
          sayCount(page);
          panel.grown(page.total);
          loadState().catch(() => {});
        }
      }).catch(() => {});
    }, 200);
  };
  const close = live({}, { traces: changed, hello: changed });
  return {
    close() {
      close();
      workspace.close();
      clearTimeout(settle);
      panel.close();
      list.close();
    },
    update(next) {
      const same = String(next.params.getAll('type')) === String(params.getAll('type'))
        && next.params.get('text') === params.get('text');
      params = next.params;
      fields.set(params);
      if (!same) list.reset();
      loadEntry();
    },
  };
}

function filters(params, change) {
  const value = params.get('text') ?? '';
  const text = h('input', { id: 'log-text', type: 'search', 'data-search': true, value, autocomplete: 'off' });
  const type = h('select', { id: 'log-type' }, h('option', { value: '' }, 'all'),
    TYPES.map(([value, name]) => h('option', { value }, name)));
  const set = (next) => {
    if (document.activeElement !== text) text.value = next.get('text') ?? '';
    type.value = next.get('type') ?? '';
  };
  set(params);
  const apply = () => change({ type: type.value, text: text.value });
  let waiting = null;
  text.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 250);
  });
  type.addEventListener('change', apply);
  const element = h('form', { class: 'answer-row filters', role: 'search', 'aria-label': 'Filter the log' },
    h('label', { for: 'log-text' }, 'Text'), text, h('label', { for: 'log-type' }, 'Type'), type);
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    apply();
  });
  return { element, set };
}

function one({ index, event, unreadable }, params) {
  const back = link('/log', { type: params.getAll('type'), text: params.get('text') });
  const trace = event?.payload?.trace_id;
  return h('section', { class: 'panel' },
    h('div', { class: 'step-head' }, h('h2', { tabindex: '-1' }, `Entry ${count(index)}`),
      h('a', { href: back }, 'Close')),
    event === null ? notice('failed', h('p', null, shown(unreadable ?? 'It cannot be read.', 400))) : [
      h('p', null, shown(sentence(event), 4000)),
      h('dl', { class: 'facts' },
        h('dt', null, 'Time'), h('dd', null, time(event.created_at, 'ms')),
        h('dt', null, 'Signed by'), h('dd', null, shown(event.actor?.agent_id, 100), ' ', hash(event.actor?.key_id)),
        h('dt', null, 'Hash'), h('dd', null, hash(event.event_hash)),
        h('dt', null, 'Before it'), h('dd', null, hash(event.prev_event_hash)),
        typeof trace === 'string' ? [h('dt', null, 'Trace'),
          h('dd', null, hash(trace, { href: link(`/traces/${encodeURIComponent(trace)}`), length: 26 }))] : null),
      h('pre', { class: 'exact', tabindex: '0', role: 'region', 'aria-label': 'Payload' },
        shown(JSON.stringify(event.payload, null, 2))),
    ]);
}

async function checkpoint() {
  let data;
  try {
    data = await bytes('/log/checkpoint', { from: 0, to: CHECKPOINT_BYTES_MAX });
  } catch (error) {
    if (error.status !== 404) throw error;
    return h('section', { class: 'panel' }, h('h2', null, 'Checkpoint'),
      h('p', null, 'The log has no checkpoint yet.'));
  }
  const text = new TextDecoder().decode(data);
  const [origin, entries, root] = text.split('\n');
  return h('section', { class: 'panel' }, h('h2', null, 'Checkpoint'),
    h('dl', { class: 'facts' },
      h('dt', null, 'Entries'), h('dd', null, /^\d+$/.test(entries ?? '') ? count(Number(entries))
        : shown(entries, 40)),
      h('dt', null, 'Root'), h('dd', null, h('code', null, shown(root, 100))),
      h('dt', null, 'Log'), h('dd', null, h('code', null, shown(origin, 300)))),
    h('p', null, 'Keep it where nobody who can write here can write: what is changed later no longer fits it. ',
      copyButton(text, 'Copy the checkpoint')),
    h('details', null, h('summary', null, 'The signed note'),
      h('pre', { class: 'exact', tabindex: '0', role: 'region', 'aria-label': 'The signed note' }, shown(text))));
}
