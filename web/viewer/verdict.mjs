// The panel of verdicts: the server's beside the one that this browser comes to itself, whether they agree,
// what was found and where, and what no verdict shows.

import { get, token } from './api.mjs';
import { badge, count, counted, h, hash, notice, replace, shown, size } from './dom.mjs';
import { compare, merged } from './verdict_compare.mjs';
import { findingWords, gapWords } from './verdict_words.mjs';
import { addStyle } from './verdict_style.mjs';
import { startRun } from './verdict_worker.mjs';

const FINDINGS_SHOWN = 50;
const GAPS_SOUGHT = 3;
const FAILURES_LISTED = 1_000;
const RETRY_MS = 400;
const STATUS = {
  pass: ['ok', 'nothing wrong'], 'pass-with-warnings': ['warn', 'warnings'], fail: ['failed', 'does not hold'],
};
const WHAT = { log: 'the workspace log', events: 'the events', artifacts: 'the artifacts', reading: 'the file' };
const RUN = /; and so for the next \d+ up to event (\d+)$/;

const CHECKED = new Set(['pass', 'warn']);
// These are checked event by event, so that a failure at one says nothing of the others.
const EACH = new Set(['CHK_SCHEMA_CONFORMANCE', 'CHK_EVENT_HASH_INTEGRITY', 'CHK_CHAIN_CONTINUITY',
  'CHK_SIGNATURE_VALIDITY', 'CHK_KEY_STATUS']);
const WRITTEN = new Set(['CHK_SCHEMA_CONFORMANCE', 'CHK_EVENT_HASH_INTEGRITY']);
const SIGNED = new Set(['CHK_SIGNATURE_VALIDITY', 'CHK_KEY_STATUS']);
// Of the rules, the one check that every trace has; others have nothing to look at in some.
const RULES = 'CHK_ROLE_POLICY_CONFORMANCE';
const narrow = () => window.matchMedia('(max-width: 699px)').matches;

const fact = (name, ...value) => [h('dt', null, name), h('dd', null, value)];

class VerdictPanel extends EventTarget {
  element = h('section', { class: 'panel verdict', 'aria-labelledby': 'verdict-title' });
  #source;
  #context;
  #server = null;
  #serverError = null;
  #own;
  #ownError = null;
  #run = null;
  #progress = null;
  #closed = false;
  #grown = null;
  #retried = false;
  #failures = [];
  #byIndex = new Map();
  #byArtifact = new Map();
  #gaps = new Map();
  #folds = new Map();
  #status = h('div', { role: 'status' });
  #bar = h('progress', { 'aria-label': 'How far this browser is with verifying' });
  #doing = h('span', { class: 'quiet' });

  constructor(source, context) {
    super();
    addStyle();
    this.#source = source;
    this.#context = context;
    this.#own = source.own?.() ?? null;
    this.#draw();
    this.#ask();
    if (this.#own === null) this.#start();
    else this.#settle();
  }

  /** Failures and warnings at an event. */
  findingsAt(index) {
    return this.#byIndex.get(index) ?? [];
  }

  /** How many events this browser has verified: none until there is a report. */
  verified() {
    return this.#own?.metrics.signatures_verified ?? 0;
  }

  /** The same in words; while it runs, how many were read. */
  counting() {
    if (this.#own === null && this.#run !== null) return `${count(this.#progress?.events ?? 0)} read, 0 verified yet`;
    return `${count(this.verified())} verified`;
  }

  /** The report to go by: this browser's own, else the server's; null before there is one. */
  report() {
    return this.#own ?? this.#server;
  }

  /** Whether this browser verifies at present. */
  isRunning() {
    return this.#run !== null;
  }

  /** What was found about an artifact, wherever it was found. */
  findingsOf(hash) {
    return this.#byArtifact.get(hash) ?? [];
  }

  /** What is known of one badge of an event: ok only what a report says was checked; failed, warn or unknown. */
  stateAt(index, name, checks) {
    const report = this.#own;
    if (report === null) return 'unknown';
    if (index >= report.metrics.events) return 'unknown';
    if (name === 'chain' && index >= report.metrics.trusted_events) return 'failed';
    if (name === 'signature' && this.#isInRun(index)) return 'failed';
    const found = this.findingsAt(index).map((one) => one.check_id);
    if (found.some((id) => checks.includes(id))) return 'failed';
    // What cannot be read as it was written says nothing of who signed it, or of the rules.
    const changed = found.some((id) => WRITTEN.has(id));
    if (name === 'signature' && changed) return 'unknown';
    if (name === 'policy' && (changed || found.some((id) => SIGNED.has(id)) || this.#isInRun(index))) return 'unknown';
    if (name !== 'policy') return checks.every((id) => this.#holdsAt(id, index)) ? 'ok' : 'unknown';
    const states = checks.map((id) => this.#stateOf(id));
    const sound = states.every((state) => CHECKED.has(state) || state === 'not-checked');
    return CHECKED.has(this.#stateOf(RULES)) && sound ? 'ok' : 'unknown';
  }

  /** What a check came to: by this browser, or by the server where this browser does not check it. */
  #stateOf(id) {
    const of = (report) => report?.checks.find((one) => one.check_id === id)?.status ?? 'not-checked';
    const own = of(this.#own);
    return own === 'not-checked' ? of(this.#server) : own;
  }

  #holdsAt(id, index) {
    const state = this.#stateOf(id);
    if (CHECKED.has(state)) return true;
    // It failed at other events, all of which are told.
    if (state !== 'fail' || !EACH.has(id) || this.#failures.length >= FAILURES_LISTED) return false;
    const mine = this.#failures.filter((one) => one.check_id === id);
    return mine.length > 0 && mine.every((one) => Number.isInteger(one.index) && one.index !== index);
  }

  /** The trace has another number of events now. */
  grown(total) {
    this.#grown = total;
    if (this.#own !== null) this.#draw();
  }

  close() {
    this.#closed = true;
    this.#run?.cancel();
  }

  /** A signature that fails is told at the first of several events in a row. */
  #isInRun(index) {
    return this.#failures.some((one) => {
      const last = one.check_id === 'CHK_SIGNATURE_VALIDITY' ? RUN.exec(one.message ?? '') : null;
      return last !== null && index >= one.index && index <= Number(last[1]);
    });
  }

  async #ask() {
    try {
      this.#server = await this.#source.verdict();
      this.#serverError = null;
    } catch (error) {
      this.#serverError = error;
    }
    if (!this.#closed) this.#settle();
  }

  async #start() {
    const source = this.#source;
    this.#ownError = null;
    this.#progress = { done: 0, total: null, what: 'events', events: 0 };
    const request = {
      kind: 'trace', base: `/api/v1${source.path}`, token: token(), isLog: source.isLog === true,
      trust: this.#context.workspace?.trusted_roots ?? [],
    };
    const own = startRun(request, { onProgress: (progress) => this.#advance(progress) });
    this.#run = own;
    this.#draw();
    let [report, failed] = [null, null];
    try {
      report = await own.report;
    } catch (error) {
      failed = error;
    }
    // Another run may have begun meanwhile: then this one says nothing.
    if (this.#run !== own) return;
    this.#run = null;
    this.#progress = null;
    this.#own = report;
    this.#ownError = failed;
    if (!this.#closed) this.#settle();
  }

  #again() {
    const before = this.#run;
    this.#run = null;
    before?.cancel();
    this.#own = null;
    this.#grown = null;
    this.#server = null;
    this.#gaps = new Map();
    this.#ask();
    this.#start();
    this.#settle();
  }

  #advance(progress) {
    const first = this.#progress?.what !== progress.what;
    this.#progress = progress;
    if (progress.total) {
      this.#bar.max = progress.total;
      this.#bar.value = Math.min(progress.done, progress.total);
    } else {
      this.#bar.removeAttribute('value');
    }
    const { what, done, total, events } = progress;
    const far = what === 'artifacts' ? `${count(done)} of ${count(total)}` : size(done);
    replace(this.#doing, `${WHAT[what] ?? ''}: ${far}${events > 0 ? `, ${counted(events, 'event')}` : ''}`);
    if (first) this.#context.announce(`Verifying ${WHAT[progress.what] ?? ''}`);
    this.dispatchEvent(new Event('change'));
  }

  /** Something was learned: takes it in and draws anew. */
  #settle() {
    this.#failures = merged(this.#server, this.#own);
    this.#byIndex = new Map();
    this.#byArtifact = new Map();
    const put = (index, one) => this.#byIndex.set(index, [...(this.#byIndex.get(index) ?? []), one]);
    for (const one of this.#failures) {
      if (Number.isInteger(one.index)) put(one.index, one);
      if (typeof one.artifact_hash === 'string') {
        this.#byArtifact.set(one.artifact_hash, [...(this.#byArtifact.get(one.artifact_hash) ?? []), one]);
      }
    }
    this.#seekGaps();
    this.#draw();
    this.dispatchEvent(new Event('change'));
    if (this.#own !== null && this.#server !== null) this.#reconcile();
  }

  /** Where the chain breaks, looks whether it is because events are missing. */
  async #seekGaps() {
    if (!this.#source.events) return;
    const breaks = this.#failures.filter((one) => one.failure_code === 'CHAIN_BREAK' && Number.isInteger(one.index)
      && !this.#gaps.has(one.index)).slice(0, GAPS_SOUGHT);
    for (const { index } of breaks) {
      this.#gaps.set(index, null);
      try {
        const from = Math.max(0, index - 1);
        const { items, total } = await this.#source.events({}, from, index - from + 1);
        const words = gapWords(index === 0 ? -1 : items[0]?.event?.seq, items.at(-1)?.event);
        const known = (await this.#source.about()).log?.size;
        const more = known > total ? `: the log knows ${counted(known, 'event')}, here are ${count(total)}` : '';
        if (words !== null) this.#gaps.set(index, `${words}${more}`);
      } catch {
        // Then the break is told as it is.
      }
      if (this.#closed) return;
      if (this.#gaps.get(index) !== null) this.#draw();
    }
  }

  /** A trace that grew between both verdicts is looked at once more. */
  #reconcile() {
    const { state } = compare(this.#server, this.#own);
    if (state !== 'apart' || this.#retried) {
      this.#context.announce(state === 'agree' ? 'Both verdicts agree' : 'The verdicts differ');
      return;
    }
    this.#retried = true;
    setTimeout(() => {
      if (!this.#closed) this.#again();
    }, RETRY_MS);
  }

  #draw() {
    const report = this.#own ?? this.#server;
    replace(this.#status, this.#agreement());
    // Findings must not lie below the edge of a panel that scrolls by itself.
    this.element.classList.toggle('has-findings', this.#failures.length > 0);
    replace(this.element,
      h('h2', { id: 'verdict-title' }, 'Verdict'),
      this.#status,
      this.#findings(),
      h('dl', { class: 'facts verdict-both' },
        this.#source.own ? null : fact('Server', this.#serverLine()),
        fact('This browser', this.#ownLine()),
        report === null ? null : this.#facts(report)),
      this.#pinForm(),
      this.#warnings(),
      report === null ? null : this.#limits(report),
      this.#origin());
  }

  #serverLine() {
    if (this.#serverError !== null) return [badge('unknown', 'no answer'), ' ', shown(this.#serverError.message, 300)];
    if (this.#server === null) return h('span', { class: 'quiet' }, 'is asked …');
    return verdictLine(this.#server);
  }

  #ownLine() {
    if (this.#own !== null) {
      const more = this.#grown === null ? 0 : this.#grown - this.#own.metrics.events;
      const grown = more !== 0;
      const since = more > 0 ? `${counted(more, 'event')} came since. `
        : `It has become shorter since: ${counted(-more, 'event')} fewer. `;
      return [verdictLine(this.#own),
        grown ? h('p', { class: 'quiet' }, since, this.#againButton('Verify again')) : null];
    }
    if (this.#ownError !== null) {
      const cancelled = this.#ownError.name === 'AbortError';
      return [badge('unknown', cancelled ? 'cancelled' : 'not verified'), ' ',
        cancelled ? null : shown(this.#ownError.message, 300), ' ', this.#againButton('Verify')];
    }
    return h('div', { class: 'verdict-progress' }, this.#bar, ' ', this.#doing, ' ',
      h('button', { type: 'button', onclick: () => this.#run?.cancel() }, 'Cancel'));
  }

  #againButton(text) {
    return h('button', { type: 'button', onclick: () => this.#again() }, text);
  }

  #agreement() {
    if (this.#own === null) return null;
    if (this.#server === null) {
      const { verification_status: status } = this.#own;
      return status === 'fail' ? notice('failed', h('p', null, h('strong', null, 'Something does not hold.'),
        ' See below where.')) : null;
    }
    const { state, differences, partial } = compare(this.#server, this.#own);
    if (state === 'disagree') {
      return notice('failed', h('p', null, h('strong', null, 'The two verifiers disagree. '),
        'One of them is wrong, or was shown something else. Rely on neither: download the files and check them with ',
        h('code', null, 'countersign verify'), ' on another machine.'),
      h('ul', { class: 'reasons' }, differences.map((one) => h('li', null, shown(one, 300)))));
    }
    if (state === 'apart') {
      return notice('info', h('p', null, 'The trace has grown between the two verdicts. ',
        this.#againButton('Verify again')));
    }
    const bad = this.#failures.length > 0;
    const [lead, rest] = !bad ? ['', 'Both verifiers agree on everything that both check.']
      : this.#own.verification_status === 'fail'
        ? ['Something does not hold, and both verifiers say so. ', 'See below where.']
        : ['Something does not hold: the server says so, of rules that this browser does not check. ',
          'What both check, they agree on. See below where.'];
    return notice(bad ? 'failed' : 'info', h('p', null, bad ? h('strong', null, lead) : null, rest,
      partial ? ` There are ${count(FAILURES_LISTED)} failures or more: not all of them were compared.` : null));
  }

  #facts(report) {
    const { events = 0, signatures_verified: signed = 0 } = report.metrics ?? {};
    const pinned = report.signer === 'pinned';
    return [
      fact('Signer', badge(pinned ? 'ok' : 'warn', pinned ? 'pinned' : 'unpinned'), ' ', this.#signerWords(report)),
      report.root ? fact('Root key', hash(report.root, { length: 16 })) : null,
      this.#source.isLog ? null : fact('Closed', closedWords(report.closed)),
      fact('Read', `${counted(events, 'event')}, ${counted(signed, 'signature')} verified`),
    ];
  }

  #signerWords(report) {
    if (report.signer === 'pinned') return 'signed under a root key that you trust';
    if (report.root === null) return 'there is no root key that vouches for the signers';
    const trusted = this.#context.workspace?.trusted_roots ?? [];
    return trusted.includes(report.root) ? 'the root key is trusted, but not every event is signed under it'
      : 'nobody told this page to trust this root key: anybody could have made all this under a key of their own';
  }

  /** For a file: the reader says which root they trust, as they know it from elsewhere. */
  #pinForm() {
    const { pin } = this.#source;
    const own = this.#own;
    if (pin === undefined || own === null || own.signer === 'pinned' || own.root === null) return null;
    const field = h('input', {
      id: 'pin', type: 'text', spellcheck: 'false', autocomplete: 'off', pattern: '[0-9a-f]{64}', required: true,
      placeholder: 'fingerprint of the root key',
    });
    const said = h('p', { role: 'status' });
    const form = h('form', { class: 'pin-form' },
      h('label', { for: 'pin' }, 'A root key that you trust, as you know it from elsewhere'), field,
      h('button', { type: 'submit' }, 'Compare'), said);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const wanted = field.value.trim().toLowerCase();
      if (wanted !== this.#own.root) {
        replace(said, badge('failed', 'another key'), ' This file is signed under another root key.');
        return;
      }
      this.#own = this.#source.pin(wanted);
      if (this.#own.signer === 'pinned') this.#settle();
      else replace(said, badge('warn', 'the same key'), ' It is the root, but not every event is signed under it.');
    });
    return form;
  }

  #findings() {
    if (this.#failures.length === 0) return null;
    const both = this.#server !== null && this.#own !== null;
    const some = this.#failures.slice(0, FINDINGS_SHOWN);
    return [h('h3', null, counted(this.#failures.length, 'failure')),
      h('ol', { class: 'findings verdict-findings' }, some.map((one) => h('li', null,
        this.#plainly(one), badge('failed', one.failure_code ?? '?'), ' ', this.#place(one), ' ',
        shown(one.message, 500),
        both && one.by.length === 1 ? h('span', { class: 'quiet' }, ` (found by ${one.by[0] === 'server'
          ? 'the server' : 'this browser'} only)`) : null,
        one.suggested_action ? h('p', { class: 'quiet' }, shown(one.suggested_action, 300)) : null))),
      some.length < this.#failures.length
        ? h('p', { class: 'quiet' }, `and ${count(this.#failures.length - some.length)} more: see the report`) : null];
  }

  /** What it means comes before how it is called. */
  #plainly(one) {
    const words = this.#gaps.get(one.index) && one.failure_code === 'CHAIN_BREAK' ? this.#gaps.get(one.index)
      : findingWords(one, this.#source.isLog === true);
    if (words === null) return null;
    return h('p', null, h('strong', null, `${words[0].toUpperCase()}${words.slice(1)}.`));
  }

  /** A part that can be folded: open on a wide page, or always, and as the reader left it. */
  #fold(name, title, ...children) {
    const open = this.#folds.get(name) ?? (name === 'limits' || !narrow());
    const element = h('details', { open, class: 'fold' }, h('summary', null, h('h3', null, title)), children);
    element.addEventListener('toggle', () => this.#folds.set(name, element.open));
    return element;
  }

  #place(one) {
    if (!Number.isInteger(one.index)) return null;
    if (this.#source.isLog) return `entry ${one.index}`;
    return h('a', { href: `${this.#source.base}/events/${one.index}` }, `event ${one.index}`);
  }

  #warnings() {
    const seen = new Map();
    for (const one of [...(this.#own?.warnings ?? []), ...(this.#server?.warnings ?? [])]) {
      const key = `${one.warning_code} ${one.event_id ?? ''}`;
      if (!seen.has(key)) seen.set(key, one);
    }
    const all = [...seen.values()];
    if (all.length === 0) return null;
    return this.#fold('warnings', counted(all.length, 'warning'),
      h('ul', { class: 'reasons' }, all.slice(0, FINDINGS_SHOWN).map((one) => h('li', null,
        badge('warn', one.warning_code ?? '?'), ' ', shown(one.message, 400)))));
  }

  /** What is not proven, in plain sight. */
  #limits(report) {
    const skipped = (this.#own?.checks ?? [])
      .filter((one) => one.status === 'not-checked' && one.scope.includes('does not replay'));
    const said = (this.#server ?? report).not_proven ?? [];
    return this.#fold('limits', 'What this does not prove',
      h('ul', { class: 'reasons verdict-limits' }, said.map((one) => h('li', null, shown(one, 400)))),
      skipped.length === 0 ? null : h('p', null, h('strong', null, 'This browser did not check the rules: '),
        skipped.map((one, at) => [at > 0 ? '; ' : null, shown(one.name, 120)]), '. ',
        this.#server === null ? ['For these, use ', h('code', null, 'countersign verify'), '.']
          : 'These are the server\'s word.'));
  }

  #origin() {
    const file = this.#source.base === '#/file';
    return this.#fold('origin', 'Who checks the checker', h('p', { class: 'quiet' },
      file ? 'The file stayed in this browser. ' : null,
      'The code of this page came from the same server. For a check that does not depend on it, run ',
      h('code', null, 'countersign verify'), ' or the verifier from elsewhere on ',
      file ? 'the file.' : 'the downloaded files.'));
  }
}

function verdictLine(report) {
  const [state, words] = STATUS[report.verification_status] ?? ['unknown', '?'];
  return [badge(state, report.verification_status ?? '?', words), ' ', shown(report.summary, 300)];
}

function closedWords(closed) {
  if (closed === 'yes') return 'yes: the trace has ended, and the log says so';
  if (closed === 'aborted') return 'aborted: the trace was given up, and the log says so';
  return 'no: the trace goes on, or the log does not say that it has ended';
}

/**
 * The panel of a source: an EventTarget with `element`, which tells `change`, and knows `findingsAt(index)`,
 * `stateAt(index, name, checks)`, `verified()`, `counting()`, `report()`, `isRunning()` and `findingsOf(hash)`.
 * `grown(total)` tells it how many events there are now, `close()` ends it.
 */
export function verdictPanel(source, context) {
  return new VerdictPanel(source, context);
}

/** The panel of the workspace log: the same, of the log's own verdict. */
export function logVerdictPanel(context) {
  const source = {
    path: '/log',
    base: '#/log',
    isLog: true,
    verdict: () => get('/log/verdict'),
  };
  return new VerdictPanel(source, context);
}
