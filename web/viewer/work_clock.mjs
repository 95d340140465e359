// Times that run down on the page, by the server's clock. All of them are written anew once a
// second; what is no longer in the document is forgotten.

/** The times of one page. */
export class Clock {
  #ahead = 0;
  #marks = new Map();
  #timer = setInterval(() => this.#tick(), 1000);

  /** Takes over the server's clock. */
  set(now) {
    const server = Date.parse(now);
    if (Number.isFinite(server)) this.#ahead = server - Date.now();
  }

  /** The server's time now, in milliseconds. */
  now() {
    return Date.now() + this.#ahead;
  }

  /** Calls `say(element, milliseconds left)` now and every second while the element is shown. */
  mark(element, until, say) {
    const end = Date.parse(until);
    this.#marks.set(element, { end, say, seen: false });
    say(element, end - this.now());
    return element;
  }

  #tick() {
    for (const [element, mark] of this.#marks) {
      if (element.isConnected) {
        mark.seen = true;
        mark.say(element, mark.end - this.now());
      } else if (mark.seen) this.#marks.delete(element);
    }
  }

  /** Ends it. */
  close() {
    clearInterval(this.#timer);
    this.#marks.clear();
  }
}

/** A length of time in the two largest units that it has, in whole seconds. */
export function left(ms) {
  const seconds = Math.max(0, Math.floor(Math.abs(ms) / 1000));
  const [days, hours] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24];
  const [minutes, rest] = [Math.floor(seconds / 60) % 60, seconds % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${rest} s`;
  return `${rest} s`;
}

/** Runs `work` now and whenever it is asked for again, never twice at a time, the last one last. */
export function coalesced(work) {
  let running = false;
  let again = false;
  return async function run() {
    again = true;
    if (running) return;
    running = true;
    try {
      while (again) {
        again = false;
        await work();
      }
    } finally {
      running = false;
    }
  };
}
