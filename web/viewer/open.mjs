// A sealed file that somebody opens: read and verified in this browser, sent nowhere. What holds is shown on
// the pages of a trace; what is refused is said here, with the reason.

import { badge, h, notice, replace, shown, size } from './dom.mjs';
import { go } from './route.mjs';
import { keepOpened, opened } from './source.mjs';
import { CapTrace } from './cap_source.mjs';
import { addStyle } from './verdict_style.mjs';
import { startRun } from './verdict_worker.mjs';

const FILE_BYTES_MAX = 1 << 30;
const WHAT = { reading: 'Reading', events: 'Verifying events', artifacts: 'Verifying artifacts' };

/** A file that was dropped before the page was there, and the page that takes the next one. */
let waiting = null;
let present = null;

/** Takes a file, from wherever it was dropped. */
export function take(file) {
  if (present !== null) present(file);
  else waiting = file;
}

/** Shows the page. */
export function show(main, route, context) {
  addStyle();
  context.title('Open a file');
  let run = null;
  const state = h('div', { role: 'status' });
  const before = h('p', null);
  // What was opened earlier must not be taken for the file that was just refused.
  const sayBefore = (refused) => replace(before, opened() === null ? null : [refused
    ? 'Another file, opened before, is still open: ' : 'Open at present: ',
  h('a', { href: '#/file' }, shown(opened().name, 200))]);
  sayBefore(false);
  const input = h('input', { type: 'file', id: 'file', accept: '.cap', class: 'unseen' });
  const choose = h('button', { type: 'button', class: 'primary', onclick: () => input.click() }, 'Choose a file');
  const zone = h('div', { class: 'drop' },
    h('p', null, h('strong', null, 'Drop a ', h('code', null, '.cap'), ' file anywhere on this page')),
    h('p', null, 'or'), h('p', null, h('label', { for: 'file', class: 'unseen' }, 'A sealed file'), input, choose),
    h('p', { class: 'quiet' }, 'It is read and verified in this browser. Nothing is sent anywhere.'));

  const open = async (file) => {
    run?.cancel();
    if (file.size > FILE_BYTES_MAX) {
      replace(state, tooLarge(file));
      sayBefore(true);
      return;
    }
    replace(before);
    let cap = null;
    const bar = h('progress', { 'aria-label': 'How far the file was verified' });
    const doing = h('span', { class: 'quiet' });
    const own = startRun({ kind: 'cap', file, trust: context.workspace?.trusted_roots ?? [] }, {
      onProgress: ({ done, total, what }) => {
        if (total) {
          bar.max = total;
          bar.value = done;
        }
        replace(doing, WHAT[what] ?? what);
      },
      onOpened: (found) => {
        cap = found;
      },
    });
    run = own;
    replace(state, h('div', { class: 'panel' }, h('p', null, shown(file.name, 200), ` (${size(file.size)})`),
      h('div', { class: 'verdict-progress' }, bar, ' ', doing, ' ',
        h('button', { type: 'button', onclick: () => own.cancel() }, 'Cancel'))));
    try {
      const report = await own.report;
      if (run !== own) return;
      if (cap === null) {
        replace(state, await isGzip(file) ? refused(file, report) : noSealedFile(file));
        sayBefore(true);
      } else {
        keepOpened(new CapTrace(cap, report, file.name));
        context.announce(`Opened: ${report.verification_status}`);
        go('/file');
      }
    } catch (error) {
      if (run !== own) return;
      replace(state, error.name === 'AbortError' ? null : notRead(file, error));
      sayBefore(error.name !== 'AbortError');
    }
    run = null;
  };

  input.addEventListener('change', () => {
    const [file] = input.files;
    if (file) open(file);
    input.value = '';
  });
  const mark = (event) => zone.classList.toggle('over', event.type === 'dragover');
  for (const name of ['dragover', 'dragleave', 'drop']) window.addEventListener(name, mark);
  replace(main, h('h1', { tabindex: '-1' }, 'Open a file'), zone, state,
    before,
    h('p', null, h('code', null, 'countersign seal TRACE'), ' writes such a file: the trace, what the workspace log '
      + 'says of it, its artifacts. Anyone can check it, without the workspace it came from.'));
  present = open;
  if (waiting !== null) {
    const file = waiting;
    waiting = null;
    open(file);
  }
  return () => {
    present = null;
    run?.cancel();
    run = null;
    for (const name of ['dragover', 'dragleave', 'drop']) window.removeEventListener(name, mark);
  };
}

/** Sealed files are gzip: what does not begin so is something else, and accuses nobody. */
async function isGzip(file) {
  const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return first === 0x1f && second === 0x8b;
}

function noSealedFile(file) {
  return notice('warn', h('p', null, h('strong', null, 'This is no sealed file: '), shown(file.name, 200),
    ` (${size(file.size)}). A sealed file is what `, h('code', null, 'countersign seal'), ' writes; its name ends in ',
    h('code', null, '.cap'), '.'));
}

function tooLarge(file) {
  return notice('failed', h('p', null, shown(file.name, 200), ` has ${size(file.size)}: this page takes files up to `,
    '1 GiB. Check it with ', h('code', null, 'countersign verify'), ', which reads files of any size.'));
}

function notRead(file, error) {
  return notice('failed', h('p', null, shown(file.name, 200), ' could not be read: ', shown(error.message, 400),
    '. Use ', h('code', null, 'countersign verify'), ' for it.'));
}

/** A file of which nothing is shown: its container is refused, or the log's word in it does not hold. */
function refused(file, report) {
  if (report.verification_status !== 'fail') return receiptsOnly(file, report);
  return notice('failed', h('p', null, h('strong', null, 'Refused: '), shown(file.name, 200),
    ' was not sealed so, or was changed since. Nothing of it is shown.'),
  h('ul', { class: 'reasons' }, report.failures.map((one) => h('li', null, badge('failed', one.failure_code), ' ',
    shown(one.message, 600)))),
  h('p', null, 'Do not rely on it. Ask for the file again where it was sealed.'));
}

/** Receipts of CapSeal's: they agree with each other, and no more can be said. */
function receiptsOnly(file, report) {
  return h('section', { class: 'panel' }, h('h2', null, shown(file.name, 200)),
    notice('warn', h('p', null, badge('warn', 'unsigned'), ' ', shown(report.summary, 600))),
    h('h3', null, 'What this does not prove'),
    h('ul', { class: 'reasons' }, report.not_proven.map((one) => h('li', null, shown(one, 400)))));
}
