// What the pages of a trace are shown from: a trace of the server, or a file that was opened in the
// browser. Both answer the same questions.

import { get, live, part, stream } from './api.mjs';

// The hash of no bytes. No range lies within those, so they are asked for as a whole.
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** A trace of the workspace that the server shows. */
export class ServerTrace {
  constructor(id) {
    this.id = id;
    this.base = `#/traces/${encodeURIComponent(id)}`;
    this.path = `/traces/${encodeURIComponent(id)}`;
  }

  /** The row of the trace and how it began. */
  about(options) {
    return get(this.path, {}, options);
  }

  /** How often each type, role and actor occurs. */
  facets(options) {
    return get(`${this.path}/facets`, {}, options);
  }

  /** A page of events. `filter` has `type`, `role`, `actor` (lists) and `text`. */
  events(filter, offset, limit, options) {
    return get(`${this.path}/events`, { ...filter, offset, limit }, options);
  }

  /** One event with its line and its checks. */
  event(index, options) {
    return get(`${this.path}/events/${index}`, {}, options);
  }

  /** Bytes of an artifact and the size of the whole, or null if it is not there. */
  async artifact(hash, { from = 0, to = null, signal } = {}) {
    try {
      const range = hash === EMPTY ? {} : { from, to };
      return await part(`/artifacts/${encodeURIComponent(hash)}`, { ...range, signal });
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  /** The verdict of the server. */
  verdict(options) {
    return get(`${this.path}/verdict`, {}, options);
  }

  /** The ledger, as it lies there. */
  ledger(options) {
    return stream(`${this.path}/ledger`, options);
  }

  /** The gate's decisions, a page of them. */
  decisions(offset, limit, options) {
    return get(`${this.path}/decisions`, { offset, limit }, options);
  }

  /** The reports that were kept beside the trace. */
  reports(options) {
    return get(`${this.path}/reports`, {}, options);
  }

  /** One of these reports. */
  report(id, options) {
    return get(`${this.path}/reports/${encodeURIComponent(id)}`, {}, options);
  }

  /** Listens to further events from the one that `from()` says. */
  live(from, handlers) {
    return live(() => ({ trace: this.id, from: from() }), handlers);
  }
}

let file = null;

/** Keeps the source of the file that was opened; its pages are below `#/file`. */
export function keepOpened(source) {
  file = source;
}

/** The source of the file that was opened, or null. */
export const opened = () => file;

/** The source that a place is about, or null where a file is meant and none is open. */
export function sourceOf(route) {
  if (route.parts[0] === 'file') return file;
  if (route.parts[0] === 'traces' && route.parts[1]) return new ServerTrace(route.parts[1]);
  const trace = route.params.get('trace');
  return new ServerTrace(trace ?? '');
}
