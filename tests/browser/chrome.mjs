// Drives a Chromium over its debugging pipe, without any package: messages are JSON, ended by NUL, on
// two descriptors. It notes everything that a page may not do: console errors, exceptions, breaches of
// the content policy, requests; of its workers too.

import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';

const WAIT_MS = 15_000;
const MESSAGE_MS = 60_000;
const KEPT = 5000;
const SETTLED_MS = 150;

const OPTIONS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--remote-debugging-pipe',
  '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
  '--lang=en-GB', '--disable-default-apps', '--disable-extensions', '--mute-audio', '--hide-scrollbars',
    '--force-device-scale-factor=1',
  '--disable-features=Translate,OptimizationHints,MediaRouter'];

/** A browser with a profile of its own. */
export class Browser {
  #child;
  #rest = '';
  #next = 1;
  #waiting = new Map();
  #sessions = new Map();
  #failed = null;

  /** Starts it. `profile` is a directory that nobody else uses. */
  static async start(executable, profile) {
    const browser = new Browser();
    browser.#launch(executable, profile);
    await browser.send('Browser.getVersion');
    return browser;
  }

  #launch(executable, profile) {
    const stdio = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'];
    this.#child = spawn(executable, [...OPTIONS, `--user-data-dir=${profile}`, 'about:blank'], { stdio });
    this.#child.on('error', (error) => this.#end(error));
    this.#child.on('exit', (code, signal) => this.#end(new Error(`the browser ended with ${code ?? signal}`)));
    this.#child.stdio[3].on('error', (error) => this.#end(error));
    this.#child.stdio[4].setEncoding('utf8').on('data', (text) => this.#take(text));
    this.#leaving = () => this.#child.kill('SIGKILL');
    process.on('exit', this.#leaving);
  }

  #leaving = null;

  #end(error) {
    this.#failed ??= error;
    for (const { fail } of this.#waiting.values()) fail(this.#failed);
    this.#waiting.clear();
  }

  #take(text) {
    const parts = (this.#rest + text).split('\0');
    this.#rest = parts.pop();
    for (const part of parts) this.#message(JSON.parse(part));
  }

  #message({ id, method, params, sessionId, result, error }) {
    if (id !== undefined) {
      const { done, fail, name } = this.#waiting.get(id) ?? {};
      this.#waiting.delete(id);
      if (error) fail?.(new Error(`${name}: ${error.message}`));
      else done?.(result);
      return;
    }
    this.#sessions.get(sessionId)?.(method, params, sessionId);
  }

  /** Sends a command, to the browser or to one of its sessions, and gives the answer. */
  send(method, params = {}, sessionId = undefined) {
    if (this.#failed) return Promise.reject(this.#failed);
    const id = this.#next;
    this.#next += 1;
    return new Promise((done, fail) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        fail(new Error(`${method}: no answer`));
      }, MESSAGE_MS);
      const settled = (settle) => (value) => {
        clearTimeout(timer);
        settle(value);
      };
      this.#waiting.set(id, { done: settled(done), fail: settled(fail), name: method });
      this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** Has the events of a session told to `listener`. */
  listen(sessionId, listener) {
    this.#sessions.set(sessionId, listener);
  }

  /** Forgets a session. */
  forget(sessionId) {
    this.#sessions.delete(sessionId);
  }

  /** A new page of its own, which shares nothing with others. */
  async page(options = {}) {
    const { browserContextId } = await this.send('Target.createBrowserContext');
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', browserContextId });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, { targetId, browserContextId });
    await page.prepare(options);
    return page;
  }

  /** Ends it. */
  async close() {
    const ended = new Promise((done) => { this.#child.on('exit', done); });
    this.send('Browser.close').catch(() => {});
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 5000);
    await ended;
    clearTimeout(timer);
    process.off('exit', this.#leaving);
  }
}

const KEYS = {
  Tab: [9, 'Tab', ''], Enter: [13, 'Enter', '\r'], Escape: [27, 'Escape', ''], ' ': [32, 'Space', ' '],
  ArrowUp: [38, 'ArrowUp', ''], ArrowDown: [40, 'ArrowDown', ''], ArrowLeft: [37, 'ArrowLeft', ''],
  ArrowRight: [39, 'ArrowRight', ''], Home: [36, 'Home', ''], End: [35, 'End', ''], PageUp: [33, 'PageUp', ''],
  PageDown: [34, 'PageDown', ''], '/': [191, 'Slash', '/'], '?': [191, 'Slash', '?'], '[': [219, 'BracketLeft', '['],
  ']': [221, 'BracketRight', ']'],
};

/** Something that the page did and that a check may object to. */
const keep = (list, item) => {
  if (list.length < KEPT) list.push(item);
};

/** One page, and what it did since `forget()`. */
export class Page {
  #browser;
  #session;
  #target;
  #overrides = [];
  #pending = new Set();
  #told = () => {};

  constructor(browser, session, target) {
    this.#browser = browser;
    this.#session = session;
    this.#target = target;
    this.forget();
  }

  /** Forgets what the page did so far. */
  forget() {
    this.errors = [];
    this.violations = [];
    this.requests = [];
    this.messages = [];
  }

  send(method, params = {}, session = this.#session) {
    return this.#browser.send(method, params, session);
  }

  async prepare({ width = 1280, height = 900, scheme = 'light', overrides = [] } = {}) {
    this.#overrides = overrides;
    this.#browser.listen(this.#session, (...event) => this.#event(...event));
    await this.#watch(this.#session);
    await this.send('Page.enable');
    await this.send('Runtime.addBinding', { name: '__violated' });
    await this.send('Page.addScriptToEvaluateOnNewDocument', { source: `
      document.addEventListener('securitypolicyviolation', (event) => {
        const { effectiveDirective: rule, blockedURI: what, sourceFile: file, lineNumber: line, sample } = event;
        window.__violated([rule, what, file + ':' + line, sample].join(' '));
      });` });
    await this.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true });
    if (overrides.length > 0) {
      await this.send('Fetch.enable',
        { patterns: overrides.map(({ pattern }) => ({ urlPattern: pattern, requestStage: 'Response' })) });
    }
    await this.size(width, height);
    await this.scheme(scheme);
  }

  #watch(session) {
    return Promise.all(['Runtime.enable', 'Log.enable', 'Network.enable'].map((method) => this.send(method, {},
      session).catch(() => {})));
  }

  #event(method, params, session) {
    if (method === 'Runtime.consoleAPICalled') this.#said(params);
    else if (method === 'Runtime.exceptionThrown') {
      const { exception, text, url, lineNumber } = params.exceptionDetails;
      keep(this.errors, `exception: ${exception?.description ?? text} (${url}:${lineNumber})`);
    } else if (method === 'Log.entryAdded') {
      const { level, text, source, url } = params.entry;
      if (level === 'error' || source === 'security' || source === 'violation') keep(this.errors,
        `log ${source}: ${text} (${url ?? ''})`);
    } else if (method === 'Runtime.bindingCalled' && params.name === '__violated') keep(this.violations,
      params.payload);
    else if (method === 'Network.requestWillBeSent') this.#requested(params, session);
    else if (method === 'Network.loadingFinished' || method === 'Network.loadingFailed') {
      this.#pending.delete(`${session} ${params.requestId}`);
      this.#told();
    }
    else if (method === 'Network.webSocketCreated') keep(this.requests, { url: params.url, method: 'WEBSOCKET' });
    else if (method === 'Target.attachedToTarget') this.#attach(params);
    else if (method === 'Target.detachedFromTarget') {
      this.#browser.forget(params.sessionId);
      for (const one of this.#pending) if (one.startsWith(`${params.sessionId} `)) this.#pending.delete(one);
    }
    else if (method === 'Fetch.requestPaused') this.#replace(params).catch((error) => keep(this.errors,
      `override: ${error.message}`));
    else if (method === 'Page.javascriptDialogOpening') {
      keep(this.errors, `a dialog was opened: ${params.message}`);
      this.send('Page.handleJavaScriptDialog', { accept: false }).catch(() => {});
    }
  }

  #requested({ requestId, loaderId, type, request: { url, method } }, session) {
    keep(this.requests, { url, method });
    // What is live never ends, and the end of a worker's own script is not told by every version of the browser.
    const untold = url.includes('/live') || (type === 'Script' && loaderId === '' && session === this.#session);
    if (!untold && url.startsWith('http')) this.#pending.add(`${session} ${requestId}`);
    this.#told();
  }

  /** Waits until nothing is being fetched any more, but not for ever. */
  async idle({ ms = 20_000 } = {}) {
    const deadline = Date.now() + ms;
    while (Date.now() < deadline) {
      const wait = this.#pending.size > 0 ? deadline - Date.now() : SETTLED_MS;
      const changed = await new Promise((done) => {
        const timer = setTimeout(() => done(false), wait);
        this.#told = () => {
          clearTimeout(timer);
          done(true);
        };
      });
      if (!changed && this.#pending.size === 0) return;
    }
  }

  #said({ type, args }) {
    const text = args.map((arg) => arg.value ?? arg.description ?? arg.type).join(' ');
    keep(this.messages, `${type}: ${text}`);
    if (type === 'error' || type === 'assert') keep(this.errors, `console: ${text}`);
  }

  async #attach({ sessionId }) {
    this.#browser.listen(sessionId, (...event) => this.#event(...event));
    await this.#watch(sessionId);
    await this.send('Runtime.runIfWaitingForDebugger', {}, sessionId).catch(() => {});
  }

  // A file of the page in another version: what the server sent, changed by the override.
  async #replace({ requestId, request, responseStatusCode, responseHeaders = [] }) {
    const found = this.#overrides.find(({ pattern }) => globbed(pattern).test(request.url));
    if (!found || responseStatusCode === undefined) {
      await this.send('Fetch.continueRequest', { requestId });
      return;
    }
    const { body, base64Encoded } = await this.send('Fetch.getResponseBody', { requestId });
    const text = base64Encoded ? Buffer.from(body, 'base64').toString('utf8') : body;
    const dropped = new Set(['content-length', 'content-encoding', ...found.withoutHeaders ?? []]);
    await this.send('Fetch.fulfillRequest', {
      requestId,
      responseCode: responseStatusCode,
      responseHeaders: responseHeaders.filter(({ name }) => !dropped.has(name.toLowerCase())),
      body: Buffer.from(found.change ? found.change(text) : text, 'utf8').toString('base64'),
    });
  }

  /** Goes to an address and waits until its document is there. */
  async goto(url) {
    const { errorText } = await this.send('Page.navigate', { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
    await this.wait('document.readyState === "complete"', { what: 'the document' });
  }

  /** What an expression comes to. A promise is awaited. */
  async eval(expression) {
    const found = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true,
      userGesture: true });
    if (found.exceptionDetails) {
      throw new Error(found.exceptionDetails.exception?.description ?? found.exceptionDetails.text);
    }
    return found.result.value;
  }

  /** Waits until an expression is true, looking at each change of the document, and gives its value. */
  async wait(expression, { ms = WAIT_MS, what = expression } = {}) {
    const deadline = Date.now() + ms;
    for (;;) {
      const rest = deadline - Date.now();
      if (rest <= 0) throw new Error(`waited ${ms} ms for: ${what}`);
      try {
        const found = await this.eval(waiting(expression, Math.min(rest, 5000)));
        if (found) return found.value;
      } catch (error) {
        // The document went away while it was looked at: the next one is looked at.
        if (!/context|navigated|Promise was collected/i.test(error.message)) throw error;
      }
    }
  }

  /** Waits until the text of the page holds this. */
  waitText(text, { selector = 'main', ms } = {}) {
    return this.wait(`document.querySelector(${JSON.stringify(selector)})?.innerText.includes(${JSON.stringify(text)})`,
      { ms, what: `“${text}” in ${selector}` });
  }

  /** Clicks in the middle of an element, as a mouse does. */
  async click(selector) {
    const place = await this.wait(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      if (!element || element.disabled) return null;
      element.scrollIntoView({ block: 'center', behavior: 'instant' });
      const box = element.getBoundingClientRect();
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      const there = document.elementFromPoint(x, y);
      return there && (element.contains(there) || there.contains(element)) ? { x, y } : null;
    })()`, { what: `${selector} to click on` });
    for (const type of ['mouseMoved', 'mousePressed', 'mouseReleased']) {
      await this.send('Input.dispatchMouseEvent', { type, ...place, button: type === 'mouseMoved' ? 'none' : 'left',
        clickCount: 1 });
    }
  }

  /** Types a text into what has the focus. */
  async type(text) {
    for (const char of text) await this.send('Input.insertText', { text: char });
  }

  /** Presses a key. */
  async press(key, { shift = false } = {}) {
    const [code, name, text] = KEYS[key] ?? [key.toUpperCase().charCodeAt(0), `Key${key.toUpperCase()}`, key];
    const common = { key, code: name, windowsVirtualKeyCode: code, modifiers: shift ? 8 : 0 };
    await this.send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', text: text || undefined,
      ...common });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...common });
  }

  /** Gives files to a file field. */
  async setFiles(selector, files) {
    const { root } = await this.send('DOM.getDocument');
    const { nodeId } = await this.send('DOM.querySelector', { nodeId: root.nodeId, selector });
    if (!nodeId) throw new Error(`there is no ${selector}`);
    await this.send('DOM.setFileInputFiles', { nodeId, files });
  }

  /** Drops a file on the middle of the page, as it comes from a file manager. */
  async drop(file) {
    const { x, y } = await this.eval('({ x: innerWidth / 2, y: innerHeight / 2 })');
    const data = { items: [], files: [file], dragOperationsMask: 1 };
    for (const type of ['dragEnter', 'dragOver', 'drop']) {
      await this.send('Input.dispatchDragEvent', { type, x, y, data });
    }
  }

  size(width, height) {
    return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  }

  scheme(value) {
    return this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
  }

  /** Writes a picture of the page. */
  async screenshot(file, { whole = false, height = null } = {}) {
    const options = { format: 'png', captureBeyondViewport: whole || height !== null };
    if (whole || height !== null) {
      const { cssContentSize } = await this.send('Page.getLayoutMetrics');
      options.clip = { x: 0, y: 0, width: cssContentSize.width,
        height: Math.min(height ?? 6000, cssContentSize.height), scale: 1 };
    }
    const { data } = await this.send('Page.captureScreenshot', options);
    await writeFile(file, Buffer.from(data, 'base64'));
  }

  /** A picture of what is in the window. */
  async picture() {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    return Buffer.from(data, 'base64');
  }

  /** Bytes of the page's heap in use, after what nobody uses was collected. */
  async heap() {
    await this.send('HeapProfiler.collectGarbage');
    return (await this.send('Runtime.getHeapUsage')).usedSize;
  }

  /** Counts of the page: nodes, listeners and so on. */
  async metrics() {
    await this.send('Performance.enable');
    const { metrics } = await this.send('Performance.getMetrics');
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  }

  async close() {
    this.#browser.forget(this.#session);
    await this.#browser.send('Target.closeTarget', { targetId: this.#target.targetId });
    await this.#browser.send('Target.disposeBrowserContext', { browserContextId: this.#target.browserContextId });
  }
}

const globbed = (pattern) => new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\?]/g, '\\$&').replaceAll('*', '.*')}$`);

// Looks at each change of the document; what leaves no trace in it is looked at between frames.
const waiting = (expression, ms) => `new Promise((done) => {
  const look = () => {
    let value = null;
    try { value = (${expression}); } catch {}
    if (value) finish({ value });
  };
  const observer = new MutationObserver(look);
  const often = setInterval(look, 50);
  const timer = setTimeout(() => finish(null), ${ms});
  const finish = (found) => {
    observer.disconnect();
    clearInterval(often);
    clearTimeout(timer);
    done(found);
  };
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  look();
})`;
