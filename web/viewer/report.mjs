// The report of a verifier in full: every check with what it covered, all findings, what people
// permitted, what is not proven. The server's own, or one that was kept beside the trace.

import { badge, count, counted, failure, h, hash, notice, replace, shown, span, time } from './dom.mjs';
import { link } from './route.mjs';

const STATES = { pass: 'ok', warn: 'warn', fail: 'failed', 'not-checked': 'unknown' };
const VERDICTS = { pass: 'ok', 'pass-with-warnings': 'warn', fail: 'failed' };

const list = (value) => (Array.isArray(value) ? value : []);

/** Makes the view. */
export function reportView(source, about, route, context) {
  const controller = new AbortController();
  const body = h('div', { 'aria-busy': 'true' }, h('p', { class: 'loading' }, 'Verifying …'));
  const kept = h('div');
  const element = h('div', null, kept, body);
  let shownId = route.params.get('report');
  const load = async () => {
    body.setAttribute('aria-busy', 'true');
    try {
      const report = shownId && source.report ? await source.report(shownId, { signal: controller.signal })
        : await source.verdict({ signal: controller.signal });
      // Of a file that was opened here there is the report of this browser alone.
      const found = report ?? source.own?.() ?? null;
      body.removeAttribute('aria-busy');
      replace(body, found ? whole(source, found, Boolean(shownId))
        : notice('info', h('p', null, 'There is no report yet. The verdict of this page is shown beside.')));
    } catch (error) {
      if (error.name !== 'AbortError') replace(body, failure(error, load));
    }
  };
  const reports = async () => {
    if (!source.reports) return;
    try {
      const { items } = await source.reports({ signal: controller.signal });
      replace(kept, items.length === 0 ? null : keptOnes(source, items, shownId));
    } catch {
      // The list of kept reports is an addition: without it the verdict is still there.
    }
  };
  load();
  reports();
  return {
    element,
    update(next) {
      if (next.params.get('report') === shownId) return;
      shownId = next.params.get('report');
      load();
      reports();
    },
    close: () => controller.abort(),
  };
}

function keptOnes(source, items, current) {
  return h('details', { class: 'panel', open: current !== null },
    h('summary', null, counted(items.length, 'kept report')),
    h('ul', { class: 'plain-list' },
      h('li', null, h('a', { href: link(source.base, { view: 'report' }), 'aria-current': current ? null : 'true' },
        "The server's verdict of now")),
      items.slice(0, 200).map((one) => h('li', null,
        h('a', {
          href: link(source.base, { view: 'report', report: one.report_id }),
          'aria-current': one.report_id === current ? 'true' : null,
        }, time(one.verified_at)), ' ', badge(VERDICTS[one.verification_status] ?? 'unknown', one.verification_status
          ?? '?'),
        ' ', h('span', { class: 'quiet' }, shown(one.summary, 300))))));
}

const fact = (name, value) => [h('dt', null, name), h('dd', null, value)];

function whole(source, report, old) {
  const metrics = report.metrics ?? {};
  const approvals = report.approvals ?? {};
  const permitted = [['protected_key', 'with a protected key'], ['unprotected_key', 'with a key without passphrase'],
    ['client_prompt', "through the agent's client"], ['unstated', 'in a way that is not stated']]
    .filter(([name]) => approvals[name] > 0).map(([name, words]) => `${count(approvals[name])} ${words}`);
  return [
    old ? notice('info', h('p', null, 'This report was kept at its time. What holds now is the verdict beside.'))
      : null,
    h('section', { class: 'panel' },
      h('h2', null, badge(VERDICTS[report.verification_status] ?? 'unknown', report.verification_status ?? '?'), ' ',
        shown(report.summary, 600)),
      h('dl', { class: 'facts' },
        fact('Verified', [time(report.verified_at), ' UTC', metrics.elapsed_ms > 0 ? `, in ${span(metrics.elapsed_ms)}`
          : null]),
        fact('Closed', shown(report.closed, 20)),
        fact('Signer', report.signer === 'pinned' ? 'pinned: its root key is one that the reader trusts'
          : 'unpinned: all may agree with itself, but somebody else could have made it'),
        report.root ? fact('Root key', hash(report.root, { length: 16 })) : null,
        report.head ? fact('Head', hash(report.head, { length: 16 })) : null,
        fact('Profile', shown(report.profile, 40)),
        fact('Read', `${counted(metrics.events ?? 0, 'event')}, `
          + `${counted(metrics.signatures_verified ?? 0, 'signature')} verified, `
          + counted(metrics.log_entries ?? 0, 'log entry', 'log entries')),
        fact('People permitted', permitted.length > 0 ? permitted.join('; ') : 'nothing'),
        report.coverage ? fact('Coverage', `${counted(report.coverage.gaps ?? 0, 'gap')}, as was reported`) : null,
        report.report_digest ? fact('Digest', hash(report.report_digest, { length: 16 })) : null)),
    findings(source, 'Failures', list(report.failures), 'failed'),
    findings(source, 'Warnings', list(report.warnings), 'warn'),
    h('section', null, h('h2', null, 'Checks'), h('div', { class: 'scroll-x' }, h('table', null,
      h('thead', null, h('tr', null, ['State', 'Check', 'Covered'].map((one) => h('th', { scope: 'col' }, one)))),
      h('tbody', null, list(report.checks).map((check) => h('tr', null,
        h('td', null, badge(STATES[check.status] ?? 'unknown', check.status)),
        h('td', null, shown(check.name, 200), h('br'), h('code', { class: 'quiet' }, shown(check.check_id, 60))),
        h('td', null, shown(single(check.scope), 600), list(check.evidence).length > 0
          ? h('ul', { class: 'reasons' }, list(check.evidence).slice(0, 20).map((one) =>
          h('li', null, shown(one, 400)))) : null))))))),
    h('section', null, h('h2', null, 'What this does not prove'),
      h('ul', { class: 'reasons' }, list(report.not_proven).map((one) => h('li', null, shown(one, 600))))),
  ];
}

// Reports count without regard to number.
const single = (scope) => String(scope ?? '').replace(/^1 ([a-z]+)s$/, '1 $1');

function findings(source, title, items, kind) {
  if (items.length === 0) return null;
  return h('section', null, h('h2', null, `${title} (${count(items.length)})`),
    h('ul', { class: 'findings' }, items.slice(0, 1000).map((one) => {
      const { index } = one;
      return h('li', { class: `notice notice-${kind}` },
        badge(kind, one.failure_code ?? one.warning_code ?? one.code ?? '?'), ' ', shown(one.message, 800), ' ',
        Number.isInteger(index) ? h('a', { href: `${source.base}/events/${index}` }, `event ${index}`) : null,
        one.suggested_action ? h('p', { class: 'quiet' }, shown(one.suggested_action, 400)) : null);
    })));
}
