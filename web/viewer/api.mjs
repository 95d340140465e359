// Every request of the page: to its own server, with the token, and nowhere else. One live
// connection is shared by all that listen, because a browser allows few to one server.

const ROOT = '/api/v1';
const KEY = 'countersign-token';
const UNAUTHORISED = new Set();

/** A request that was refused or failed. `code` is one of docs/formats/api.md, or `unreachable`. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
  }
}

/** The token of this tab, or null. */
export const token = () => sessionStorage.getItem(KEY);

/** Keeps a token for as long as this tab is open. */
export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** Calls back whenever the server does not accept the token. */
export function onUnauthorised(callback) {
  UNAUTHORISED.add(callback);
}

function address(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== '') query.append(name, String(one));
    }
  }
  const text = query.toString();
  return `${ROOT}${path}${text ? `?${text}` : ''}`;
}

async function request(path, { params, headers, ...init } = {}) {
  let response;
  try {
    response = await fetch(address(path, params), {
      ...init,
      headers: { ...headers, ...(token() ? { Authorization: `Bearer ${token()}` } : {}) },
      cache: 'no-store',
      redirect: 'error',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'unreachable',
      'The server does not answer. Look whether `countersign serve` still runs, then try again.');
  }
  if (response.ok) return response;
  const failed = await refusal(response);
  if (failed.status === 401) for (const callback of UNAUTHORISED) callback(failed);
  throw failed;
}

async function refusal(response) {
  let code = 'failed';
  let message = `The server answered ${response.status}.`;
  try {
    const { error } = await response.json();
    code = error.code ?? code;
    message = error.message ?? message;
  } catch {
    // An answer without words of its own keeps the plain ones.
  }
  return new ApiError(response.status, code, message);
}

/** What a path answers, as JSON. Lists among the parameters are repeated. */
export async function get(path, params = {}, { signal } = {}) {
  const response = await request(path, { params, signal });
  try {
    return await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(response.status, 'failed', 'The answer of the server broke off. Try again.');
  }
}

/** The bytes of a path from `from` up to and not including `to`, and the size of the whole. */
export async function part(path, { from = 0, to = null, signal } = {}) {
  const whole = from === 0 && to === null;
  const headers = whole ? {} : { Range: `bytes=${from}-${to === null ? '' : to - 1}` };
  let response;
  try {
    response = await request(path, { headers, signal });
  } catch (error) {
    // Nothing lies in the range: so it is of an empty file.
    if (error.status === 416) return { bytes: new Uint8Array(0), size: from };
    throw error;
  }
  const data = new Uint8Array(await response.arrayBuffer());
  const range = /\/(\d+)$/.exec(response.headers.get('Content-Range') ?? '');
  return { bytes: data, size: range ? Number(range[1]) : data.length };
}

/** The bytes of a path, or of a part of it. */
export async function bytes(path, options = {}) {
  return (await part(path, options)).bytes;
}

/** The bytes of a path as they come. */
export async function stream(path, { signal } = {}) {
  return (await request(path, { signal })).body;
}

/** Sends the one thing that can be sent: an answer. */
export async function post(path, body) {
  const response = await request(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  return response.json();
}

const HIDDEN_FOR = 30_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const LONGEST_MESSAGE = 8 * 1024 * 1024;
const listeners = new Set();
let connection = null;
let greeting = null;

/**
 * Listens to what changes. `params` is an object, or a function that gives it anew at each
 * connection, with `trace` and `from` for the events of one trace. `handlers` has a function for each
 * message by name; `hello` comes after every connection, so that what was missed can be asked for;
 * `lost` when the connection broke. Gives the function that ends it.
 */
export function live(params, handlers) {
  const listener = { params: typeof params === 'function' ? params : () => params ?? {}, handlers };
  listeners.add(listener);
  if (!connection || listener.params().trace) connect();
  else if (greeting) queueMicrotask(() => listeners.has(listener) && handlers.hello?.(greeting));
  return () => {
    if (!listeners.delete(listener)) return;
    if (listeners.size === 0) disconnect();
    else if (listener.params().trace) connect();
  };
}

function disconnect() {
  connection?.abort();
  connection = null;
  greeting = null;
}

function tell(name, data) {
  for (const listener of [...listeners]) {
    // Events of a trace are for those who asked for that trace.
    if (name === 'events' && listener.params().trace !== data.trace_id) continue;
    try {
      listener.handlers[name]?.(data);
    } catch (error) {
      console.error(error);
    }
  }
}

function connect() {
  disconnect();
  if (listeners.size === 0) return;
  const own = new AbortController();
  connection = own;
  // Listeners come and go together when a page changes: one connection for all of them.
  queueMicrotask(() => run(own));
}

async function run(own) {
  let wait = FIRST_WAIT;
  while (!own.signal.aborted) {
    const params = [...listeners].map((listener) => listener.params()).findLast((one) => one.trace) ?? {};
    try {
      const response = await request('/live', { params, signal: own.signal });
      wait = FIRST_WAIT;
      await messages(response.body, own);
    } catch (error) {
      if (own.signal.aborted) return;
      if (error.status === 401) {
        // Nothing comes until there is another token, and then whoever listens begins anew.
        if (connection === own) disconnect();
        return;
      }
    }
    if (own.signal.aborted) return;
    greeting = null;
    tell('lost', {});
    await pause(wait, own.signal);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => {
    clearTimeout(timer);
    resolve();
  }, { once: true });
});

async function messages(body, own) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done || own.signal.aborted) return;
    kept = (kept + value).replaceAll('\r\n', '\n');
    for (let end = kept.indexOf('\n\n'); end >= 0; end = kept.indexOf('\n\n')) {
      message(kept.slice(0, end));
      kept = kept.slice(end + 2);
    }
    if (kept.length > LONGEST_MESSAGE) throw new ApiError(0, 'too_large', 'A live message is too long.');
  }
}

function message(block) {
  let name = 'message';
  const data = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
  }
  if (data.length === 0) return;
  const value = JSON.parse(data.join('\n'));
  if (name === 'hello') greeting = value;
  tell(name, value);
}

// A tab that nobody looks at gives its connection back.
let hiding = null;
if (typeof document !== 'undefined') {
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(disconnect, HIDDEN_FOR);
    else if (!connection) connect();
  });
}
