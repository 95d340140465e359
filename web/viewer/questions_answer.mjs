// How a question is answered: yes or no, a choice, a text, a number, a way on. Whatever lets something
// happen is confirmed in a dialog that repeats the exact action; a passphrase is asked for there too.

import { badge, failure, h, replace, shown } from './dom.mjs';
import { exactAction, inputHolds } from './questions_action.mjs';

const REASON_MAX = 4000;
const TEXT_MAX = 16_000;
let serial = 0;

/** The form's name, and its choices where it has some. */
export function formOf(question) {
  const { form } = question;
  if (form === null || form === undefined) return { name: question.kind === 'work' ? 'unblock' : 'permit' };
  if (typeof form === 'string') return { name: form.replaceAll('_', '-') };
  if (Array.isArray(form.choice)) return { name: 'choice', choices: form.choice };
  return { name: String(form.form ?? form.type ?? Object.keys(form)[0]).replaceAll('_', '-'),
    choices: form.choices ?? form.options };
}

const WORDS = {
  permit: { yes: 'Yes, let it happen', no: 'No', effect: 'This will be allowed to happen' },
  unblock: { yes: 'Yes, unblock it', no: 'No, it stays blocked', effect: 'The item goes back to its phase' },
  'yes-no': { yes: 'Yes', no: 'No', effect: 'The flow goes on with yes' },
  way: {
    yes: 'Go on without it', no: 'End the step', say: 'Ask the agent again, with this', effect: 'The flow goes on',
  },
};

/** The controls of a question: `element`, and `disable()` once it is too late. */
export function answerControls(question, { key, answer }) {
  const { name, choices } = formOf(question);
  const words = WORDS[name] ?? { effect: 'The flow goes on with this answer' };
  serial += 1;
  const reason = h('input', {
    id: `reason-${serial}`, type: 'text', maxlength: REASON_MAX, autocomplete: 'off',
    placeholder: 'optional, for the record',
  });
  const said = field(name, choices, `said-${serial}`);
  const problem = h('div', { role: 'alert' });
  const buttons = [];
  let over = false;
  // Only a no fits an action that is not known to be the one that was asked about.
  const holds = inputHolds(question);
  const button = (text, kind, act) => {
    const made = h('button', { type: 'button', class: kind, disabled: !holds && kind !== 'no', onclick: act }, text);
    buttons.push(made);
    return made;
  };
  const able = (on) => {
    for (const one of buttons) one.disabled = !on || over || (!holds && !one.classList.contains('no'));
  };

  const send = async (body, text) => {
    replace(problem);
    able(false);
    try {
      await answer(question, {
        ...body, ...(question.seen ? { seen: question.seen } : {}),
        ...(reason.value.trim() ? { reason: reason.value.trim() } : {}),
      }, text);
    } catch (error) {
      replace(problem, failure(explained(error)));
      able(true);
      throw error;
    }
  };
  const give = (body, text, effect) => {
    const needsPassphrase = key() === 'protected';
    // A no lets nothing happen, so it needs no second look; but it may need the passphrase.
    const ask = (needed) => confirm(question, {
      body, text, effect, needsPassphrase: needed, reason: reason.value.trim(), send,
    });
    if (body.decision !== 'no' || needsPassphrase) return ask(needsPassphrase);
    return send(body, text).catch((error) => {
      if (error.code === 'passphrase_needed') ask(true);
    });
  };
  const say = () => {
    const value = said.read();
    if (value instanceof Error) {
      replace(problem, failure(value));
      said.focus();
      return;
    }
    give({ decision: 'say', value }, `${value}`, words.effect);
  };

  const element = h('form', { class: 'answer', 'aria-label': 'Answer' },
    said.element ? h('div', { class: 'answer-said' }, said.element) : null,
    h('div', { class: 'answer-row' },
      h('label', { for: `reason-${serial}` }, 'Reason'), reason,
      said.element ? button(words.say ?? 'Answer …', 'primary', say) : null,
      words.yes ? button(`${words.yes} …`, said.element ? null : 'primary yes',
        () => give({ decision: 'yes' }, words.yes, words.effect)) : null,
      words.no ? button(words.no, 'no', () => give({ decision: 'no' }, words.no, 'It will not happen')) : null),
    problem);
  // Enter in a field must never answer by itself.
  element.addEventListener('submit', (event) => event.preventDefault());
  return {
    element,
    disable() {
      over = true;
      able(false);
    },
  };
}

function field(name, choices, id) {
  if (name === 'choice') {
    const radios = (choices ?? []).map((choice, at) => h('label', { class: 'choice' },
      h('input', { type: 'radio', name: id, value: String(at) }), ' ', shown(choice, 1000)));
    const element = h('fieldset', null, h('legend', null, 'Choose one'), radios);
    return {
      element,
      focus: () => element.querySelector('input')?.focus(),
      read() {
        const at = element.querySelector('input:checked')?.value;
        return at === undefined ? new Error('Choose one of the answers first.') : choices[Number(at)];
      },
    };
  }
  if (name === 'number') {
    const input = h('input', { id, type: 'text', inputmode: 'decimal', autocomplete: 'off' });
    return {
      element: [h('label', { for: id }, 'Number'), input],
      focus: () => input.focus(),
      read() {
        const text = input.value.trim();
        const value = Number(text);
        return text === '' || !Number.isFinite(value) ? new Error('Type a number first.') : value;
      },
    };
  }
  if (name === 'text' || name === 'way') {
    const input = h('textarea', { id, rows: '3', maxlength: TEXT_MAX });
    return {
      element: [h('label', { for: id }, name === 'way' ? 'Words for the agent' : 'Answer'), input],
      focus: () => input.focus(),
      read: () => (input.value.trim() === '' ? new Error('Type an answer first.') : input.value.trim()),
    };
  }
  return { element: null, focus() {}, read: () => null };
}

function explained(error) {
  if (error.changed) return new Error('Nothing was recorded: the question has changed. Look at it again.');
  if (error.code === 'conflict' || error.code === 'not_found') {
    return new Error('Too late: it was answered already, or its time is over.');
  }
  if (error.code === 'wrong_passphrase') {
    return new Error('The passphrase does not open the operator’s key. Nothing was recorded.');
  }
  if (error.code === 'passphrase_needed') {
    return new Error('The operator’s key is under a passphrase. Type it and answer again.');
  }
  return error;
}

/** Repeats the exact action and waits for a second yes. */
function confirm(question, { body, text, effect, needsPassphrase: needed, reason, send }) {
  let needsPassphrase = needed;
  document.querySelector('dialog.confirm')?.remove();
  const before = document.activeElement;
  const passphrase = h('input', { id: 'passphrase', type: 'password', autocomplete: 'off' });
  const problem = h('div', { role: 'alert' });
  const title = h('h2', { id: 'confirm-title', tabindex: '-1' }, effect);
  const yes = h('button', { type: 'button', class: 'primary', id: 'confirm-yes' }, shown(text, 200));
  const back = h('button', { type: 'button', id: 'confirm-back' }, 'Back');
  const keyRow = h('div', null);
  const drawKey = () => replace(keyRow, needsPassphrase ? h('p', { class: 'answer-row' },
    h('label', { for: 'passphrase' }, 'Passphrase of the operator’s key'), passphrase)
    : h('p', null, badge('warn', 'unprotected key', 'Whatever runs under this user could answer too'),
      ' whatever runs under this user could answer too.'));
  drawKey();
  const dialog = h('dialog', {
    class: 'confirm', 'aria-labelledby': 'confirm-title', 'data-question': question.id,
  },
    title,
    h('p', null, h('strong', null, shown(question.title))),
    h('div', { class: 'confirm-action' }, exactAction(question)),
    h('dl', { class: 'facts' },
      h('dt', null, 'Your answer'), h('dd', null, shown(text)),
      reason ? [h('dt', null, 'Reason'), h('dd', null, shown(reason))] : null),
    keyRow, problem,
    h('p', { class: 'answer-row' }, yes, back));
  const shut = () => {
    dialog.close();
    dialog.remove();
    if (before?.isConnected) before.focus();
  };
  const act = async () => {
    if (needsPassphrase && passphrase.value === '') {
      replace(problem, failure(new Error('Type the passphrase first.')));
      passphrase.focus();
      return;
    }
    yes.disabled = true;
    const given = needsPassphrase ? { ...body, passphrase: passphrase.value } : body;
    passphrase.value = '';
    try {
      await send(given, text);
      dialog.close();
      dialog.remove();
      // What was pressed to come here is gone with its question.
      document.querySelector('main h1')?.focus();
    } catch (error) {
      yes.disabled = false;
      if (error.code === 'passphrase_needed' && !needsPassphrase) {
        needsPassphrase = true;
        drawKey();
      }
      replace(problem, failure(explained(error)));
      if (needsPassphrase) passphrase.focus();
    }
  };
  yes.addEventListener('click', act);
  passphrase.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') act();
  });
  back.addEventListener('click', shut);
  dialog.addEventListener('cancel', (event) => {
    event.preventDefault();
    shut();
  });
  document.body.append(dialog);
  dialog.showModal();
  title.focus();
}
