// A unified diff, line by line: what was added and taken away has a sign and a colour.

import { count, h, shown } from './dom.mjs';

const AT_ONCE = 2000;

/** Whether a text is a unified diff. */
export function isDiff(text) {
  if (/^diff --git /m.test(text.slice(0, 4096))) return true;
  return /^--- .+\n\+\+\+ .+\n@@ /m.test(text.slice(0, 65_536));
}

function kindOf(line, inHunk) {
  if (line.startsWith('@@')) return 'hunk';
  if (!inHunk || /^(diff |index |new file|deleted file|similarity |rename |Binary )/.test(line)) return 'file';
  if (line.startsWith('+')) return 'added';
  if (line.startsWith('-')) return 'taken';
  if (line.startsWith('\\')) return 'file';
  return 'same';
}

/** The lines of a diff with the numbers that they have before and after. */
export function diffLines(text) {
  const lines = [];
  let before = 0;
  let after = 0;
  let left = 0;
  let right = 0;
  for (const line of text.split('\n')) {
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    // Within a hunk a line `--- x` is one that was taken away: only the counts tell.
    const kind = hunk ? 'hunk' : kindOf(line, left > 0 || right > 0);
    const entry = { kind, line, before: null, after: null };
    if (hunk) {
      before = Number(hunk[1]);
      left = hunk[2] === undefined ? 1 : Number(hunk[2]);
      after = Number(hunk[3]);
      right = hunk[4] === undefined ? 1 : Number(hunk[4]);
    } else if (kind === 'added' || kind === 'taken' || kind === 'same') {
      if (kind !== 'added') {
        entry.before = before;
        before += 1;
        left -= 1;
      }
      if (kind !== 'taken') {
        entry.after = after;
        after += 1;
        right -= 1;
      }
    }
    lines.push(entry);
  }
  if (lines.at(-1)?.line === '') lines.pop();
  return lines;
}

const WORDS = { added: 'added', taken: 'taken away' };

/** The diff as a table. */
export function diffView(text) {
  const lines = diffLines(text);
  const body = h('tbody');
  const button = h('button', { type: 'button', class: 'more-button' });
  let drawn = 0;
  const more = () => {
    for (const { kind, line, before, after } of lines.slice(drawn, drawn + AT_ONCE)) {
      body.append(h('tr', { class: `d-${kind}` },
        h('td', { class: 'd-number' }, before === null ? '' : String(before)),
        h('td', { class: 'd-number' }, after === null ? '' : String(after)),
        h('td', { class: 'd-line' }, WORDS[kind] ? h('span', { class: 'unseen' }, WORDS[kind]) : null, shown(line))));
    }
    drawn += AT_ONCE;
    button.hidden = drawn >= lines.length;
    button.textContent = `Show ${count(lines.length - drawn)} more lines`;
  };
  button.addEventListener('click', more);
  more();
  const added = lines.filter((one) => one.kind === 'added').length;
  const taken = lines.filter((one) => one.kind === 'taken').length;
  return h('div', null, h('p', { class: 'quiet' }, `${count(added)} lines added, ${count(taken)} taken away`),
    h('div', { class: 'scroll-x' }, h('table', { class: 'diff' }, h('thead', { class: 'unseen' }, h('tr', null,
      ['Before', 'After', 'Line'].map((one) => h('th', { scope: 'col' }, one)))), body)), button);
}
