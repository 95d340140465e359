// The viewer in a real browser on a real workspace: `node viewer.mjs BINARY BROWSER DIR [GROUP…]` makes
// the workspace below DIR, starts `BINARY serve` on it, and runs the checks of all groups, or of
// those that are named. Prints `{passed, failed: [{name, why}]}`; ends with 1 if something failed.

import { mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Browser } from './chrome.mjs';
import { serve } from './viewer_server.mjs';
import { makeWorkspace } from './workspace.mjs';

const GROUPS = ['pages', 'states', 'work', 'evidence', 'access', 'layout', 'tamper', 'doubt', 'files', 'live', 'answers',
  'hostile', 'twins'];
const SHOTS_MAX = 50;

const [binary, executable, dir, ...wanted] = process.argv.slice(2);
if (!binary || !executable || !dir) {
  process.stderr.write('usage: node viewer.mjs BINARY BROWSER DIR [GROUP…]\n');
  process.exit(2);
}
const unknown = wanted.filter((group) => !GROUPS.includes(group));
if (unknown.length > 0) {
  process.stderr.write(`no such group: ${unknown.join(', ')}; there are ${GROUPS.join(', ')}\n`);
  process.exit(2);
}

// Every server and the browser are ended with this process, also where it is told to end.
process.setMaxListeners(100);
process.on('SIGTERM', () => process.exit(143));
const passed = [];
const failed = [];
const root = resolve(dir);
let shots = 0;

/** What the groups work with. */
class Bench {
  constructor(browser, workspace, names) {
    Object.assign(this, { browser, workspace, names, servers: [], copies: 0 });
  }

  /** The server on the whole workspace. */
  async server() {
    this.main ??= serve(this.workspace);
    return this.main;
  }

  /** A server of its own on a copy that `change` may damage. */
  async copy(change = async () => {}) {
    this.copies += 1;
    const workspace = await this.workspace.copy(join(root, `copy-${this.copies}`));
    const given = await change(workspace);
    const server = await serve(workspace);
    this.servers.push(server);
    return { workspace, server, given };
  }

  /** Another workspace with its server. */
  async other(workspace) {
    const server = await serve(workspace);
    this.servers.push(server);
    return server;
  }

  /**
   * Opens a place of a server, lets `look(page)` judge it, and objects to whatever no page may do.
   * `allowed` are expressions for console errors that belong to the check.
   */
  async visit(server, place, look, { allowed = [], token = true, objections = true, ...options } = {}) {
    const page = await this.browser.page(options);
    try {
      await page.goto(token ? server.address(place) : `${server.origin}/#${place}`);
      await page.wait(ready, { what: `${place} to be shown` });
      await page.idle();
      const found = await look(page);
      if (objections) this.object(page, server, allowed);
      return found;
    } catch (error) {
      await this.picture(page, error);
      throw error;
    } finally {
      await page.close().catch(() => {});
    }
  }

  /** Throws where the page said, loaded or tried something that it must not. */
  object(page, server, allowed = []) {
    const errors = page.errors.filter((text) => !allowed.some((expression) => expression.test(text)));
    if (errors.length > 0) throw new Error(`console: ${errors.slice(0, 5).join(' | ')}`);
    if (page.violations.length > 0) throw new Error(`content policy: ${page.violations.slice(0, 5).join(' | ')}`);
    // The browser draws parts of its own fields from addresses that hold their data.
    const inside = ['data:', `blob:${server.origin}/`, `${server.origin}/`];
    const own = (url) => inside.some((start) => url.startsWith(start));
    const foreign = page.requests.filter(({ url }) => !own(url));
    if (foreign.length > 0) throw new Error(`requests elsewhere: ${JSON.stringify(foreign.slice(0, 5))}`);
  }

  async picture(page, error) {
    if (shots >= SHOTS_MAX) return;
    shots += 1;
    const file = join(root, `failed-${shots}.png`);
    await page.screenshot(file).then(() => { error.message += ` (picture: ${file})`; }, () => {});
  }

  /** Runs one check. */
  async check(name, work) {
    try {
      await work();
      passed.push(name);
      process.stderr.write(`ok      ${name}\n`);
    } catch (error) {
      failed.push({ name, why: error.message });
      process.stderr.write(`FAILED  ${name}: ${error.stack}\n`);
    }
  }

  async close() {
    const servers = [...this.servers, ...this.main ? [await this.main.catch(() => null)] : []];
    await Promise.all(servers.map((server) => server?.close()));
  }
}

const ready = 'document.querySelector("main h1") !== null && document.querySelector("main .loading") === null';

await rm(root, { recursive: true, force: true });
await mkdir(root, { recursive: true });
const browser = await Browser.start(executable, join(root, 'profile'));
let bench = null;
try {
  const { workspace, names } = await makeWorkspace(resolve(binary), join(root, 'whole'));
  bench = new Bench(browser, workspace, names);
  for (const group of GROUPS.filter((name) => wanted.length === 0 || wanted.includes(name))) {
    const { run } = await import(`./viewer_${group}.mjs`);
    await run(bench);
  }
} catch (error) {
  failed.push({ name: 'the checks themselves', why: error.stack });
} finally {
  await bench?.close();
  await browser.close();
}
process.stdout.write(`${JSON.stringify({ passed, failed }, null, 2)}\n`);
process.exitCode = failed.length > 0 ? 1 : 0;
