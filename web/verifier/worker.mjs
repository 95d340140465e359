// The verifier off the page's own thread. Takes one message: `{ kind: 'trace', base, token, trust, isLog }`, a
// trace or the log that a server has, which is fetched from there, or `{ kind: 'cap', file, trust }`, a sealed
// file that goes nowhere. Answers with `{ progress: { done, total, what, events } }`, once with `{ cap }` where a
// file was opened, and then with `{ report }` or `{ error }`. `{ kind: 'cancel' }` ends it.

import { verifyCap } from './cap.mjs';
import { verify, verifyLog } from './verify.mjs';

const API = '/api/v1';
const CHECKPOINT_BYTES_MAX = 262_145;
const TELL_EVERY_MS = 50;
/** Artifacts that are fetched before it is their turn, and how large one may be to be held until then. */
const AHEAD = 3;
const HELD_BYTES = 1 << 20;

const cancelled = new AbortController();
const { signal } = cancelled;

/** Tells how far it is, not too often. */
class Teller {
  #last = 0;
  events = 0;

  tell(done, total, what) {
    const now = performance.now();
    if (now - this.#last < TELL_EVERY_MS) return;
    this.#last = now;
    postMessage({ progress: { done, total, what, events: this.events } });
  }
}

/** Asks the server; null if it is not there. */
async function fetched(path, token) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { headers, signal, cache: 'no-store', redirect: 'error' });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
  return response;
}

/** The bytes of an answer as they come, counted. */
function counted(response, what, teller) {
  const total = Number(response.headers.get('Content-Length')) || null;
  let done = 0;
  return response.body.pipeThrough(new TransformStream({
    transform(piece, controller) {
      done += piece.length;
      teller.tell(done, total, what);
      controller.enqueue(piece);
    },
  }));
}

/** A checkpoint is small; more than one may have is enough to refuse it. */
async function small(response) {
  const bytes = new Uint8Array(await response.arrayBuffer());
  return bytes.subarray(0, CHECKPOINT_BYTES_MAX);
}

/** Fetches artifacts, the next ones while one is looked at: most are small, and each takes its time to come. */
class Store {
  #token;
  #order = [];
  #begun = new Map();

  constructor(token) {
    this.#token = token;
  }

  /** What will be asked for, in this order. */
  expect(hashes) {
    this.#order = hashes.toReversed();
  }

  async artifact(hash) {
    const found = this.#begun.get(hash) ?? this.#fetch(hash);
    this.#begun.delete(hash);
    if (this.#order.at(-1) === hash) this.#order.pop();
    while (this.#begun.size < AHEAD && this.#order.length > 0) {
      const next = this.#order.pop();
      const coming = this.#fetch(next);
      // Whoever asks for it is told.
      coming.catch(() => {});
      this.#begun.set(next, coming);
    }
    return found;
  }

  async #fetch(hash) {
    const response = await fetched(`${API}/artifacts/${hash}`, this.#token);
    if (response === null) return null;
    const length = Number(response.headers.get('Content-Length') ?? Infinity);
    return length <= HELD_BYTES ? new Uint8Array(await response.arrayBuffer()) : response.body;
  }
}

async function verifyTrace({ base, token, trust, isLog }, teller) {
  if (!base.startsWith(`${API}/`)) throw new Error('only traces of this server are fetched');
  const ledger = async (path, what) => {
    const response = await fetched(path, token);
    return response === null ? null : counted(response, what, teller);
  };
  // The checkpoint is asked for before the log, the log before the trace: each may grow meanwhile, and
  // must hold everything that the one before it speaks of.
  let notes = [];
  const before = async () => {
    const response = await fetched(`${API}/log/checkpoint`, token);
    notes = response === null ? [] : [await small(response)];
  };
  const store = new Store(token);
  const source = {
    events: () => ledger(`${base}/ledger`, isLog ? 'log' : 'events'),
    log: async () => {
      await before();
      return ledger(`${API}/log/ledger`, 'log');
    },
    checkpoints: async () => notes,
    artifact: (hash) => store.artifact(hash),
    expect: (hashes) => store.expect(hashes),
  };
  if (isLog) await before();
  const progress = ({ done, total, what }) => {
    if (what === 'events') teller.events = done;
    else teller.tell(done, total, what);
  };
  if (isLog) return verifyLog(source, { trust, signal, progress });
  return verify(source, { trust, signal, progress, expectTrace: decodeURIComponent(base.split('/').at(-1)) });
}

async function verifyFile({ file, trust }, teller) {
  const progress = ({ done, total, what }) => {
    if (what === 'events') teller.events = done;
    teller.tell(done, total, what);
  };
  // What was opened is shown even where the verdict is bad; a container that is refused shows nothing.
  const opened = ({ ledger, report, manifest, artifacts }) => {
    const named = manifest.get('countersign');
    const about = {
      traceId: manifest.get('trace_id'), kind: named.get('kind'), origin: named.get('origin'), root: named.get('root'),
    };
    postMessage({ cap: { about, ledger, report, artifacts } });
  };
  return verifyCap(file, { trust, signal, progress, opened });
}

addEventListener('message', async ({ data }) => {
  if (data.kind === 'cancel') {
    cancelled.abort();
    return;
  }
  const teller = new Teller();
  try {
    const report = data.kind === 'cap' ? await verifyFile(data, teller) : await verifyTrace(data, teller);
    postMessage({ report });
  } catch (error) {
    postMessage({ error: signal.aborted ? 'cancelled' : error.message });
  }
});
