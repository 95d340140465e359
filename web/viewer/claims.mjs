// What was claimed, on what evidence, who doubted it, and what became of it.

import { artifactLink, preview } from './artifact_link.mjs';
import { badge, h, notice, shown, time, words } from './dom.mjs';
import { gathered } from './gather.mjs';

const TYPES = ['claim_issued', 'claim_challenged', 'final_statement_signed', 'verification_run_completed'];
const SHOWN_EVIDENCE = 3;
const EVIDENCE = { ARTIFACT_MISSING: 'missing', ARTIFACT_HASH_MISMATCH: 'changed' };

const list = (value) => (Array.isArray(value) ? value : []);

/** Claims joined to their challenges and to the final statement. */
export function join(items) {
  const claims = [];
  const byId = new Map();
  let final = null;
  let audit = null;
  for (const { index, event } of items) {
    const p = event?.payload;
    if (!p) continue;
    if (event.event_type === 'claim_issued') {
      const id = p.claim_id ?? list(event.claims)[0] ?? null;
      const claim = { id, index, event, challenges: [], supersededBy: null };
      claims.push(claim);
      if (byId.has(p.supersedes)) byId.get(p.supersedes).supersededBy = claim;
      if (id !== null) byId.set(id, claim);
    } else if (event.event_type === 'claim_challenged') {
      const id = p.challenged_claim_id ?? p.claim_id ?? list(event.claims)[0];
      byId.get(id)?.challenges.push({ index, event });
    } else if (event.event_type === 'final_statement_signed') final ??= { index, event };
    else audit ??= { index, event };
  }
  const resolutions = new Map(list(final?.event.payload.claim_resolutions).map((one) => [one?.claim_id, one?.status]));
  const standing = new Set(list(final?.event.payload.consolidated_claim_ids));
  for (const claim of claims) {
    claim.resolution = resolutions.get(claim.id) ?? null;
    claim.standing = standing.has(claim.id);
  }
  return { claims, final, audit };
}

/** What verifiers found about the evidence of a claim: it is missing, or is not what it was. */
const badEvidence = (panel, hash) => (panel?.findingsOf?.(hash) ?? []).filter((one) => one.failure_code);

function fate(claim, final, unsound) {
  if (unsound) return badge('failed', 'its evidence does not hold', 'something that it rests on is missing or changed');
  if (claim.supersededBy) return badge('warn', 'superseded', 'a later claim stands in its place');
  if (claim.resolution === 'retracted') return badge('failed', 'retracted', 'the final statement takes it back');
  if (claim.resolution === 'upheld') return badge('warn', 'upheld',
    'it was challenged and the final statement keeps it');
  if (claim.standing) return badge('ok', 'stands', 'the final statement holds it');
  if (final) return badge('failed', 'left out', 'the final statement does not name it');
  return badge('waiting', 'not concluded', 'there is no final statement yet');
}

/** Makes the view. */
export function claimsView(source, about, route, context, panel) {
  return gathered(source, TYPES, (items) => draw(source, join(items), panel), { context, panel, what: 'claims' });
}

function draw(source, { claims, final, audit }, panel) {
  const eventLink = (index, name) => h('a', { href: `${source.base}/events/${index}` }, name ?? `event ${index}`);
  if (claims.length === 0 && !final) {
    return h('div', { class: 'empty' }, h('h2', null, 'No claims'),
      h('p', null, 'Only sessions make claims. What an outside agent did is under Executions.'));
  }
  const resolution = final?.event.payload;
  return [
    final ? h('section', { class: 'panel' }, h('h2', null, 'Final statement'),
      h('p', { class: 'claim-text' }, shown(resolution.final_verdict, 2000)),
      h('p', { class: 'quiet' }, resolution.outcome ? [badge(resolution.outcome === 'achieved' ? 'ok' : 'failed',
        resolution.outcome, 'outcome of the objective'), ' '] : null,
      'by ', shown(final.event.actor?.agent_id, 80), ', ', time(final.event.created_at), ', ', eventLink(final.index),
      audit ? [' · audit: ', shown(audit.event.payload.verification_status, 40), ', ', eventLink(audit.index)] : null))
      : notice('info', h('p', null, 'There is no final statement yet.')),
    h('ol', { class: 'entries' }, claims.map((claim) => card(source, claim, final, panel, eventLink))),
  ];
}

function card(source, claim, final, panel, eventLink) {
  const { event, index } = claim;
  const p = event.payload;
  const descriptors = new Map(list(event.artifacts).map((one) => [one?.artifact_hash, one]));
  const evidence = list(p.evidence_artifacts).filter((one) => typeof one === 'string');
  const findings = panel?.findingsAt?.(index) ?? [];
  const bad = new Set(evidence.filter((one) => badEvidence(panel, one).length > 0));
  const unsound = bad.size > 0 || findings.some((one) => one.failure_code);
  return h('li', { class: 'entry', 'data-row': true, tabindex: '-1' },
    h('div', { class: 'entry-head' }, fate(claim, final, unsound),
      unsound && claim.standing ? h('span', { class: 'quiet' }, 'though the final statement holds it') : null,
      p.confidence ? badge('plain', `${words(p.confidence)} confidence`, "the executor's own word") : null,
      p.claim_kind === 'failure_analysis' ? badge('plain', 'failure analysis') : null,
      h('span', { class: 'entry-by quiet' }, shown(event.actor?.agent_id, 80), ', ', time(event.created_at), ', ',
        eventLink(index))),
    h('p', { class: 'claim-text' }, shown(p.claim_text, 4000)),
    findings.map((one) => notice(one.failure_code ? 'failed' : 'warn', h('p', null, shown(one.message, 500)))),
    h('dl', { class: 'facts' },
      h('dt', null, 'Rests on'), h('dd', null, list(p.executions).length === 0 ? 'no execution named'
        : list(p.executions).slice(0, 50).map((one, at) => [at > 0 ? ', ' : null,
          Number.isInteger(one?.seq) ? eventLink(one.seq, `execution of event ${one.seq}`)
            : shown(JSON.stringify(one), 80)])),
      h('dt', null, 'Evidence'), h('dd', null, evidence.length === 0 ? badge('failed', 'none')
        : evidence.slice(0, 100).map((one, at) => [at > 0 ? h('br') : null,
          artifactLink(source, one, descriptors.get(one) ?? null, { index }),
          badEvidence(panel, one).slice(0, 3).map((finding) => [' ', badge('failed', EVIDENCE[finding.failure_code]
            ?? 'does not hold', finding.message)])])),
      claim.supersededBy ? [h('dt', null, 'Replaced by'), h('dd', null, eventLink(claim.supersededBy.index))] : null),
    claim.challenges.map((challenge) => h('div', { class: 'challenge' },
      badge('warn', 'challenged'), ' by ', shown(challenge.event.actor?.agent_id, 80), ', ',
      time(challenge.event.created_at), ', ', eventLink(challenge.index),
      h('p', null, shown(challenge.event.payload.reason, 4000)),
      claim.resolution ? h('p', { class: 'quiet' }, 'The final statement: ', shown(claim.resolution, 40)) : null)),
    evidence.length === 0 ? null : h('details', null, h('summary', null, 'Look at the evidence'),
      evidence.slice(0, SHOWN_EVIDENCE).map((one) => preview(source, one, descriptors.get(one) ?? null, { index })),
      evidence.length > SHOWN_EVIDENCE
        ? h('p', { class: 'quiet' }, `${evidence.length - SHOWN_EVIDENCE} more are linked above.`) : null));
}
