// Shows the test page to a browser: `node serve.mjs REPOSITORY BROWSER PROFILE` serves the repository
// on loopback, starts the browser on the page with a directory for its profile, prints what the page
// found, and ends the browser.

import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const [repository, browser, profile] = process.argv.slice(2);
const TYPES = { '.html': 'text/html', '.mjs': 'text/javascript', '.json': 'application/json' };
const SERVED = ['/web/verifier/', '/tests/browser/', '/tests/cases/', '/docs/formats/vectors/'];
const DEADLINE_MS = 120_000;

async function serve(request, response) {
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://loopback').pathname));
  if (!SERVED.some((prefix) => path.startsWith(prefix))) return response.writeHead(404).end();
  try {
    const bytes = await readFile(join(repository, path));
    return response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream' }).end(bytes);
  } catch {
    return response.writeHead(404).end();
  }
}

async function body(request) {
  let text = '';
  for await (const piece of request.setEncoding('utf8')) text += piece;
  return text;
}

const found = await new Promise((resolve, reject) => {
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST' || request.url !== '/found') return serve(request, response);
    const text = await body(request);
    response.end();
    return resolve(text);
  });
  server.listen(0, '127.0.0.1', () => {
    const page = `http://127.0.0.1:${server.address().port}/tests/browser/page.html`;
    const options = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync',
      '--disable-dev-shm-usage', `--user-data-dir=${profile}`, page];
    const child = spawn(browser, options, { stdio: 'ignore' });
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`the browser ended with ${code}`)));
    setTimeout(() => reject(new Error('the page found nothing in time')), DEADLINE_MS).unref();
    process.on('exit', () => child.kill('SIGKILL'));
  });
});
process.stdout.write(`${found}\n`, () => process.exit(0));
