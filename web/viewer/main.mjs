// The frame of the page: which module shows which place, the navigation, the token, the keys that
// work everywhere. A page module exports `show(main, route, context)`; what it gives back is called
// when the reader leaves, and its member `update(route)`, if it has one, when only parameters change.

import { ApiError, get, live, onUnauthorised, setToken, token } from './api.mjs';
import { clear, counted, failure, h, replace } from './dom.mjs';
import { backwards, installKeys } from './keys.mjs';
import { go, match, parse } from './route.mjs';
import { themeSwitch } from './theme.mjs';

// `own`: needs no server beyond the page itself, so it works without a token.
const PAGES = [
  { pattern: '/traces', load: () => import('./traces.mjs') },
  { pattern: '/traces/:id', load: () => import('./trace.mjs') },
  { pattern: '/traces/:id/events/:index', load: () => import('./event.mjs') },
  { pattern: '/artifacts/:hash', load: () => import('./artifact.mjs') },
  { pattern: '/work', load: () => import('./work.mjs') },
  { pattern: '/work/:id', load: () => import('./work.mjs') },
  { pattern: '/flows', load: () => import('./flows.mjs') },
  { pattern: '/flows/:id', load: () => import('./flows.mjs') },
  { pattern: '/questions', load: () => import('./questions.mjs') },
  { pattern: '/log', load: () => import('./log.mjs') },
  { pattern: '/open', load: () => import('./open.mjs'), own: true },
  { pattern: '/file', load: () => import('./trace.mjs'), own: true },
  { pattern: '/file/events/:index', load: () => import('./event.mjs'), own: true },
  { pattern: '/file/artifacts/:hash', load: () => import('./artifact.mjs'), own: true },
];

const NAVIGATION = [
  ['traces', 'Traces', ['traces', 'artifacts']],
  ['work', 'Work', ['work']],
  ['flows', 'Flows', ['flows']],
  ['questions', 'Questions', ['questions']],
  ['log', 'Log', ['log']],
  ['open', 'Open a file', ['open', 'file']],
];

const main = document.getElementById('main');
const said = document.getElementById('said');
const links = new Map();
const waiting = h('span', { class: 'waiting-count', hidden: true });
const liveState = h('span', { class: 'live-state' });

let current = null;
let turn = 0;
let questions = 0;
let heading = '';
let listening = null;

const context = {
  workspace: null,
  /** Says a short text to a screen reader. */
  announce(text) {
    // The same text twice would be said once: so it is taken away first.
    said.textContent = '';
    const own = turn;
    requestAnimationFrame(() => {
      if (own === turn) said.textContent = text;
    });
  },
  /** Names the page in the tab. */
  title(text) {
    heading = text;
    document.title = `${questions > 0 ? `(${questions}) ` : ''}${text} – Countersign`;
  },
};

function takeToken() {
  const found = /^#token=([^&]+)(?:&to=(.*))?$/.exec(location.hash);
  if (!found) return;
  setToken(decodeURIComponent(found[1]));
  history.replaceState(null, '', found[2] ? `#${decodeURIComponent(found[2])}` : '#/traces');
}

function frame() {
  const list = h('ul', null, NAVIGATION.map(([path, name]) => {
    const [first, ...rest] = name.split(' ');
    const anchor = h('a', { href: `#/${path}` }, first,
      rest.length > 0 ? h('span', { class: 'more-words' }, ` ${rest.join(' ')}`) : null,
      path === 'questions' ? waiting : null);
    links.set(path, anchor);
    return h('li', null, anchor);
  }));
  replace(document.getElementById('nav'), list);
  const help = h('button', {
    type: 'button', class: 'plain-button', title: 'Keys (?)', 'aria-label': 'Show the keys', onclick: installKeys.help,
  }, '?');
  replace(document.getElementById('state'), liveState, themeSwitch(), help);
  document.getElementById('skip').addEventListener('click', (event) => {
    event.preventDefault();
    (main.querySelector('h1') ?? main).focus();
  });
}

function markNavigation(parts) {
  for (const [path, , owns] of NAVIGATION) {
    const here = owns.includes(parts[0]);
    if (here) links.get(path).setAttribute('aria-current', 'page');
    else links.get(path).removeAttribute('aria-current');
  }
}

function find(route) {
  for (const page of PAGES) {
    const names = match(page.pattern, route.parts);
    if (names) return { page, names };
  }
  return null;
}

async function navigate() {
  const route = parse();
  if (route.parts.length === 0) {
    go('/traces', {}, { replace: true });
    return;
  }
  const found = find(route);
  route.names = found?.names ?? {};
  if (current && current.path === route.path && current.update) {
    current.update(route);
    return;
  }
  leave();
  turn += 1;
  const own = turn;
  said.textContent = '';
  markNavigation(route.parts);
  window.scrollTo(0, 0);
  replace(main, h('p', { class: 'loading' }, 'Loading …'));
  if (!found) {
    context.title('Not found');
    replace(main, h('h1', { tabindex: '-1' }, 'There is no such page'),
      h('p', null, 'The address leads nowhere. ', h('a', { href: '#/traces' }, 'All traces'),
        ' is a good place to start.'));
    return;
  }
  try {
    const loading = found.page.load();
    if (!found.page.own) {
      if (!(await greeted())) return;
    } else if (token()) await greeted().catch(() => false);
    const module = await loading;
    if (own !== turn) return;
    clear(main);
    current = { path: route.path, close: null, update: null };
    const given = await module.show(main, route, context);
    if (own !== turn) {
      close(given);
      return;
    }
    current.close = given;
    current.update = given?.update ?? null;
    focusHeading();
  } catch (error) {
    if (own !== turn || error.name === 'AbortError') return;
    if (error.status === 401) return;
    if (error.code === 'gone') {
      const { showGone } = await import('./gone.mjs');
      await showGone(main, route.names.id, error, context);
      if (own === turn) focusHeading();
      return;
    }
    if (!(error instanceof ApiError)) console.error(error);
    context.title('Failed');
    const title = error.code === 'not_found' ? 'It is not there' : 'This page could not be shown';
    replace(main, h('h1', { tabindex: '-1' }, title), failure(error, navigate));
    focusHeading();
  }
}

function close(given) {
  if (typeof given === 'function') given();
  else given?.close?.();
}

function leave() {
  const before = current;
  current = null;
  try {
    close(before?.close);
  } catch (error) {
    console.error(error);
  }
}

/** Whether the server accepts the token. Asked once. */
async function greeted() {
  if (context.workspace) return true;
  if (!token()) {
    askForToken(null);
    return false;
  }
  context.workspace = await get('/workspace');
  listen();
  return true;
}

function focusHeading() {
  const target = main.querySelector('h1');
  if (!target) return;
  const inside = document.activeElement;
  if (inside && inside !== document.body && main.contains(inside) && inside !== main) return;
  target.setAttribute('tabindex', '-1');
  target.focus({ preventScroll: true });
}

function askForToken(why) {
  leave();
  turn += 1;
  context.workspace = null;
  listening?.();
  listening = null;
  context.title('Token needed');
  const field = h('input', {
    id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true,
  });
  const form = h('form', { class: 'token-form' },
    h('label', { for: 'token' }, 'Token'),
    field,
    h('button', { type: 'submit', class: 'primary' }, 'Open'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    // People paste the whole address as well.
    const text = field.value.trim();
    setToken(/#token=([^&]+)/.exec(text)?.[1] ?? text);
    navigate();
  });
  replace(main, h('h1', { tabindex: '-1' }, 'This page needs its token'),
    why ? h('p', { class: 'notice notice-warn', role: 'alert' }, why) : null,
    h('p', null, h('code', null, 'countersign serve'), ' prints an address that ends in ', h('code', null, '#token=…'),
      '. Open that address, or paste it here. The token stays in this tab.'),
    form,
    h('p', { class: 'quiet' }, 'A ', h('code', null, '.cap'), ' file needs no token: ',
      h('a', { href: '#/open' }, 'open a file'), '.'));
  field.focus();
}

function setQuestions(number) {
  questions = number;
  waiting.textContent = String(number);
  waiting.hidden = number === 0;
  waiting.setAttribute('title', `${number} waiting`);
  context.title(heading);
}

function listen() {
  if (listening) return;
  const count = () => get('/questions').then((found) => setQuestions(found.items.length)).catch(() => {});
  listening = live({}, {
    hello: () => {
      replace(liveState, h('span', { 'aria-hidden': 'true' }, '● '), 'live');
      liveState.className = 'live-state on';
      liveState.title = 'Changes are shown as they happen';
      count();
    },
    lost: () => {
      replace(liveState, h('span', { 'aria-hidden': 'true' }, '○ '), 'not live');
      liveState.className = 'live-state';
      liveState.title = 'The connection to the server is lost; it is tried again';
    },
    questions: (message) => {
      if (message.count > questions) {
        const wait = message.count === 1 ? 'waits' : 'wait';
        context.announce(`${counted(message.count, 'question')} ${wait} for an answer`);
      }
      setQuestions(message.count);
    },
  });
}

// A file that is dropped anywhere is opened here, not by the browser in place of the page.
function acceptFiles() {
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
  window.addEventListener('dragover', (event) => {
    if (hasFiles(event)) event.preventDefault();
  });
  window.addEventListener('drop', async (event) => {
    if (!hasFiles(event) || event.defaultPrevented) return;
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (!file) return;
    const { take } = await import('./open.mjs');
    take?.(file);
    go('/open');
  });
}

takeToken();
frame();
installKeys({ main, back: () => backwards(parse()) });
acceptFiles();
onUnauthorised(() => {
  if (find(parse())?.page.own) setToken(null);
  else askForToken('The server does not accept the token. It makes a new one each time it starts.');
});
window.addEventListener('hashchange', () => {
  const pasted = location.hash.startsWith('#token=');
  takeToken();
  if (pasted) context.workspace = null;
  navigate();
});
navigate();
