// Answers: by click and by keyboard, in every form, and what is recorded of them.

import { holds, same, so } from './viewer_judge.mjs';
import { tabTo } from './viewer_access.mjs';

const card = (id) => `[data-question="${id}"]`;

async function lastOf(workspace, trace, type) {
  return (await workspace.events(trace)).findLast((event) => event.event_type === type);
}

/** The dialog repeats the exact action. */
async function repeated(page, text) {
  await page.wait('document.querySelector("dialog.confirm[open]") !== null', { what: 'the second step' });
  holds(await page.eval('document.querySelector("dialog.confirm").innerText'), text);
}

export async function run(bench) {
  const { questions, traces, items } = bench.names;
  const check = (name, work) => bench.check(`answers: ${name}`, work);
  const { workspace, server } = await bench.copy();

  await check('a yes by click is confirmed with the exact action and recorded as the operator\'s',
    () => bench.visit(server, '/questions', async (page) => {
    await page.click(`${card(questions.session)} .answer input`);
    await page.type('seen and understood');
    await page.click(`${card(questions.session)} button.yes`);
    await repeated(page, 'chmod -R 777 examples/calculator && ls -l examples/calculator');
    holds(await page.eval('document.querySelector("dialog.confirm").innerText'),
      'whatever runs under this user could answer too');
    await page.click('#confirm-yes');
    await page.wait('document.querySelector(".outcomes .answered")?.innerText.includes("recorded")',
      { what: 'the outcome' });
    const review = await lastOf(workspace, traces.asking, 'tool_intent_reviewed');
    same([review.payload.decision, review.payload.channel, review.actor.role, review.payload.reasons],
      ['approved', 'unprotected-key', 'operator', ['seen and understood']]);
    holds(await page.eval('document.querySelector(".outcomes .answered").innerHTML'), review.event_id);
    await page.wait(`document.querySelector(${JSON.stringify(card(questions.session))}) === null`);
  }));

  await check('going back from the second step answers nothing',
    () => bench.visit(server, '/questions', async (page) => {
    const before = (await workspace.events(traces.recording)).length;
    await page.click(`${card(questions.push)} button.yes`);
    await repeated(page, 'git push origin main');
    await page.press('Escape');
    await page.wait('document.querySelector("dialog.confirm") === null');
    await page.click(`${card(questions.push)} button.yes`);
    await page.click('#confirm-back');
    await page.wait('document.querySelector("dialog.confirm") === null');
    same((await workspace.events(traces.recording)).length, before);
    same(page.requests.filter(({ method }) => method !== 'GET'), []);
  }));

  await check('a no by click is recorded', () => bench.visit(server, '/questions', async (page) => {
    await page.click(`${card(questions.recording)} button.no`);
    await page.wait('document.querySelector(".outcomes .answered")', { what: 'the outcome' });
    const review = await lastOf(workspace, traces.recording, 'tool_intent_reviewed');
    same([review.payload.decision, review.payload.subject.event_id], ['blocked', questions.recording]);
  }));

  await check('a choice is recorded as chosen, and nothing is chosen by itself',
    () => bench.visit(server, '/questions', async (page) => {
    await page.click(`${card(questions.choice)} button.primary`);
    await page.waitText('Choose one of the answers first', { selector: card(questions.choice) });
    await page.click(`${card(questions.choice)} label:nth-of-type(2) input`);
    await page.click(`${card(questions.choice)} button.primary`);
    await repeated(page, 'rework');
    await page.click('#confirm-yes');
    await page.wait('document.querySelector(".outcomes .answered")', { what: 'the outcome' });
    same((await lastOf(workspace, traces.choose, 'answer_given')).payload.answer, 'rework');
  }));

  await check('a text is recorded as typed', () => bench.visit(server, '/questions', async (page) => {
    await page.click(`${card(questions.text)} textarea`);
    await page.type('keep it, and name it <export> "2"');
    await page.click(`${card(questions.text)} button.primary`);
    await repeated(page, 'keep it, and name it <export> "2"');
    await page.click('#confirm-yes');
    await page.wait('document.querySelector(".outcomes .answered")', { what: 'the outcome' });
    same((await lastOf(workspace, traces.name, 'answer_given')).payload.answer, 'keep it, and name it <export> "2"');
  }));

  await check('a question that was answered meanwhile is refused in words',
    () => bench.visit(server, '/questions', async (page) => {
    await page.click(`${card(questions.approval)} button.primary`);
    await page.wait('document.querySelector("dialog.confirm[open]")');
    await workspace.run(['approve', questions.approval, '--no']);
    await page.click('#confirm-yes');
    await page.wait(`/Too late|Answered elsewhere/.test(document.body.innerText)`, { what: 'words about it' });
    same((await lastOf(workspace, traces.specify, 'answer_given')).payload.answer, false);
  }, { allowed: [/409|404/] }));

  await check('a no to a blocked item leaves it as it is, and nothing is called recorded',
    () => bench.visit(server, '/questions', async (page) => {
    const { items: waiting } = await (await server.api('/questions')).json();
    const blocked = card(waiting.find((one) => one.trace_id === items.blocked).id);
    const before = (await workspace.events(items.blocked)).length;
    await page.click(`${blocked} button.no`);
    await page.waitText('not recorded', { selector: '.outcomes .answered' });
    same((await workspace.events(items.blocked)).length, before);
    await page.wait(`document.querySelector(${JSON.stringify(blocked)}) !== null`, { what: 'the question again' });
  }));

  await check('keyboard alone: from the first page to an answer', () => bench.visit(server, '/traces', async (page) => {
    await tabTo(page, 'a[href="#/questions"]');
    await page.press('Enter');
    await page.wait("document.querySelectorAll('[data-question]').length > 0", { what: 'the questions' });
    await page.wait('document.activeElement.tagName === "H1"');
    await tabTo(page, '.answer input');
    await page.type('by hand');
    await tabTo(page, 'button.yes, .answer button.primary');
    const chosen = await page.eval('document.activeElement.closest("[data-question]").dataset.question');
    const { items: waiting } = await (await server.api('/questions')).json();
    const trace = waiting.find((one) => one.id === chosen).trace_id;
    const before = (await workspace.events(trace)).length;
    await page.press('Enter');
    await page.wait('document.querySelector("dialog.confirm[open]")');
    await tabTo(page, '#confirm-yes', 20);
    await page.press('Enter');
    await page.wait('document.querySelector(".outcomes .answered")', { what: 'the outcome' });
    const after = await workspace.events(trace);
    so(after.length > before, 'nothing was recorded');
    holds(JSON.stringify(after.at(-1).payload), 'by hand');
    await page.wait('document.activeElement.tagName === "H1"', { what: 'the focus to be at the heading' });
  }));

  await protectedKey(bench, check);
}

async function protectedKey(bench, check) {
  const { questions, traces } = bench.names;
  const { workspace, server } = await bench.copy((copied) => copied.run(['keys', 'protect'],
    { input: 'open sesame\n' }));
  await check('a protected key asks for its passphrase, refuses a wrong one, and is recorded as protected',
    () => bench.visit(server, '/questions', async (page) => {
    await page.waitText('under a passphrase');
    so(!await page.eval('document.querySelector("main").innerText.includes("could answer too")'),
      'it warns of an unprotected key');
    await page.click(`${card(questions.session)} button.yes`);
    await page.click('#passphrase');
    await page.type('wrong');
    await page.press('Enter');
    await page.wait('/does not open|wrong/.test(document.querySelector("dialog.confirm .notice-failed")?.innerText)',
      { ms: 60_000, what: 'a refusal of the passphrase' });
    same(await page.eval('document.querySelector("#passphrase").value'), '');
    await page.type('open sesame');
    await page.click('#confirm-yes');
    await page.wait('document.querySelector(".outcomes .answered")', { ms: 60_000, what: 'the outcome' });
    const review = await lastOf(workspace, traces.asking, 'tool_intent_reviewed');
    same([review.payload.decision, review.payload.channel], ['approved', 'protected-key']);
    so(!JSON.stringify(page.messages).includes('open sesame'), 'the passphrase was printed');
  }, { allowed: [/403/] }));
}
