// Questions that wait for a person. A yes is given in two steps, the second of which repeats the exact
// action; an answer is signed by the operator's key, and how that is kept is said beside it.

import { get, live, post } from './api.mjs';
import { badge, counted, failure, h, hash, notice, plain, replace, shown, time } from './dom.mjs';
import { exactAction, withInput } from './questions_action.mjs';
import { answerControls } from './questions_answer.mjs';
import { link } from './route.mjs';
import { Clock, coalesced, left } from './work_clock.mjs';

const RISKS = { low: 'info', standard: 'info', elevated: 'warn', critical: 'failed' };
const KINDS = { session: 'session', recording: 'recording of an agent', work: 'work item', flow: 'flow' };
const MOST_OUTCOMES = 20;

const UNPROTECTED = 'The operator’s key is not protected: whatever runs under this user could answer too, '
  + 'an agent among them.';

/** Shows what waits. */
export async function show(main, route, context) {
  context.title('Questions');
  const clock = new Clock();
  if (context.workspace?.now) clock.set((await get('/workspace')).now);
  const summary = h('p', { class: 'quiet', role: 'status' });
  const keyNotice = h('div', null);
  const outcomes = h('div', { class: 'outcomes' });
  const list = h('div', { class: 'questions' });
  const problem = h('div', null);
  const cards = new Map();
  // What each card was drawn from: one that says something else by now is drawn anew.
  const drawn = new Map();
  // What could not be compared is fetched again with the next news.
  const doubtful = new Set();
  let key = context.workspace?.operator_key ?? 'unprotected';

  const setKey = (now) => {
    if (now === key && keyNotice.firstChild) return;
    key = now;
    replace(keyNotice, aboutKey(key));
  };

  const load = coalesced(async () => {
    let found;
    try {
      found = await get('/questions');
    } catch (error) {
      replace(problem, failure(error, load));
      return;
    }
    replace(problem, unreadable(found.unreadable));
    setKey(found.operator_key);
    const items = await Promise.all(found.items.map((question) => (isDrawn(question) ? question
      : withInput(question))));
    arrange(items);
    const wait = found.items.length === 1 ? 'waits' : 'wait';
    summary.textContent = found.items.length === 0 ? 'No question waits.'
      : `${counted(found.items.length, 'question')} ${wait} for an answer`;
  });

  const isDrawn = (question) => drawn.get(question.id) === JSON.stringify(question) && !doubtful.has(question.id);

  // Cards stay as they are while others come and go: somebody may be typing in one.
  function arrange(items) {
    const now = new Set(items.map((question) => question.id));
    for (const [id, element] of cards) {
      if (now.has(id)) continue;
      cards.delete(id);
      drawn.delete(id);
      doubtful.delete(id);
      closeDialog(id);
      const had = element.contains(document.activeElement);
      if (!element.dataset.answered) {
        note(h('span', null, 'Answered elsewhere, or too late: ', shown(element.dataset.title, 300)), 'info');
      }
      element.remove();
      if (had) main.querySelector('h1').focus();
    }
    // A card that is moved loses the focus, so it is only moved where it stands wrong.
    let place = list.firstElementChild;
    for (const question of items) {
      const { stored, ...asked } = question;
      const before = cards.get(question.id);
      if (!before || !isDrawn(asked)) {
        const made = card(question, { clock, key: () => key, answer });
        cards.set(question.id, made);
        const changed = drawn.get(question.id) !== JSON.stringify(asked);
        drawn.set(question.id, JSON.stringify(asked));
        if (question.input && stored?.holds === null) doubtful.add(question.id);
        else doubtful.delete(question.id);
        if (before) {
          if (place === before) place = made;
          exchange(question, before, made, changed);
        }
      }
      const element = cards.get(question.id);
      if (element === place) place = place.nextElementSibling;
      else list.insertBefore(element, place);
    }
  }

  // Nobody may answer what is no longer asked: the old card goes, and its dialog.
  function exchange(question, before, made, changed) {
    before.replaceWith(made);
    const open = closeDialog(question.id);
    if (open || before.contains(document.activeElement)) made.querySelector('h2').focus();
    if (!changed) return;
    note(h('span', null, 'This question has changed: ', shown(question.title, 300)), 'warn');
    context.announce('A question has changed');
  }

  function note(content, kind) {
    outcomes.prepend(notice(kind, h('p', null, content)));
    while (outcomes.children.length > MOST_OUTCOMES) outcomes.lastChild.remove();
  }

  async function answer(question, body, words) {
    let given;
    try {
      given = await post(`/questions/${encodeURIComponent(question.id)}/answer`, body);
    } catch (error) {
      if (error.code === 'passphrase_needed') setKey('protected');
      if (error.status === 409) {
        drawn.delete(question.id);
        await load();
        error.changed = cards.has(question.id);
        if (error.changed) note('Nothing was recorded: the question is not what was shown any more.', 'warn');
      }
      throw error;
    }
    const element = cards.get(question.id);
    if (element) element.dataset.answered = 'yes';
    note(outcome(question, words, given), 'info');
    outcomes.firstChild.classList.add('answered');
    context.announce(given.events?.length ? `Recorded: ${plain(words)}` : 'Nothing was recorded');
    await load();
    main.querySelector('h1').focus();
  }

  replace(main, h('h1', null, 'Questions'), summary, keyNotice, outcomes, problem, list);
  await load();
  const close = live({}, { questions: load, hello: load });
  // How the key is kept changes without news.
  window.addEventListener('focus', load);
  return () => {
    close();
    window.removeEventListener('focus', load);
    clock.close();
    document.querySelector('dialog.confirm')?.remove();
  };
}

/** Closes the dialog of a question, if it is open. */
function closeDialog(id) {
  const dialog = document.querySelector('dialog.confirm');
  if (dialog?.dataset.question !== id) return false;
  dialog.remove();
  return true;
}

function unreadable(traces) {
  if (!traces?.length) return null;
  return notice('warn', h('p', null, 'These traces cannot be read, so their questions are left out: ',
    traces.slice(0, 20).map((id) => [hash(id, { href: link(`/traces/${id}`) }), ' ']),
    traces.length > 20 ? `and ${traces.length - 20} more` : null));
}

function aboutKey(key) {
  if (key === 'unprotected') {
    return notice('warn', h('p', null, UNPROTECTED, ' An answer is recorded as given with an unprotected key. ',
      h('code', null, 'countersign keys protect'), ' puts it under a passphrase.'));
  }
  if (key === 'missing') {
    return notice('failed', h('p', null, 'The operator’s key is not on this machine: nothing can be answered here.'));
  }
  return notice('info', h('p', null,
    'The operator’s key is under a passphrase, which is asked for with each answer and kept nowhere.'));
}

function outcome(question, words, given) {
  const events = given.events ?? [];
  if (events.length === 0) {
    return h('span', null, badge('waiting', 'not recorded'), ' ', h('strong', null, shown(words, 300)), ': ',
      shown(question.title, 300), '. It stays as it is, and the question stays open.');
  }
  return h('span', null, badge('ok', 'recorded'), ' ', h('strong', null, shown(words, 300)), ': ',
    shown(question.title, 300), '. ', events.length === 1 ? 'Event ' : 'Events ',
    events.map((id) => [hash(id, { href: link(`/traces/${question.trace_id}`, { text: id }), length: 26 }), ' ']),
    given.channel ? [' Channel: ', shown(given.channel, 80), '.'] : null);
}

function card(question, { clock, key, answer }) {
  const name = `question-${question.id}`;
  const silence = silenceMeans(question);
  const deadline = h('span', { class: 'deadline' });
  const controls = answerControls(question, { key, answer });
  if (question.deadline) {
    clock.mark(deadline, question.deadline, (element, ms) => {
      const over = ms <= 0;
      element.textContent = over ? `Its time is over: ${silence}.` : `${left(ms)} left, then ${silence}.`;
      if (over && element.dataset.over !== 'yes') {
        element.dataset.over = 'yes';
        controls.disable();
      }
    });
  } else deadline.textContent = 'It waits without a limit.';
  const subject = link(`/traces/${question.trace_id}`, { text: question.subject?.event_id });
  const attrs = { 'data-question': question.id, 'data-title': plain(question.title) };
  return h('article', { class: 'panel question', 'aria-labelledby': name, ...attrs },
    h('h2', { id: name, tabindex: '-1', 'data-row': true }, shown(question.title)),
    h('p', { class: 'question-facts' },
      question.risk ? badge(RISKS[question.risk] ?? 'warn', `risk: ${plain(question.risk, 40)}`) : null, ' ',
      h('a', { href: subject }, `in a ${KINDS[question.kind] ?? 'trace'}`),
      h('span', { class: 'quiet' }, ' · asked ', time(question.asked_at), ' · ', deadline)),
    h('h3', null, ['flow', 'work'].includes(question.kind) ? 'What is asked' : 'What exactly would happen'),
    exactAction(question),
    why(question),
    controls.element);
}

function why(question) {
  const wanted = question.kind === 'session' || question.kind === 'recording';
  if (!question.reasons.length && !(wanted && question.justification)) return null;
  return h('div', { class: 'why' }, h('h3', null, 'Why it is asked'),
    h('ul', null, question.reasons.map((reason) => h('li', null, shown(reason))),
      wanted && question.justification ? h('li', null, 'the agent says: ', shown(question.justification)) : null));
}

function silenceMeans({ default: value, kind }) {
  if (kind === 'work') return 'it stays blocked';
  if (value === null || value === undefined) return 'silence is a no';
  if (value === true) return 'silence is a yes';
  if (value === false) return 'silence is a no';
  return `silence is “${plain(typeof value === 'string' ? value : JSON.stringify(value), 200)}”`;
}
