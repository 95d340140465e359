// The vectors in Node: `node node.mjs REPOSITORY VERIFIER` prints what was found as JSON.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkVectors, judgeHomes } from './vectors.mjs';

const [repository, verifier] = process.argv.slice(2);
const base = pathToFileURL(`${verifier}/`);

async function bytes(path) {
  try {
    return new Uint8Array(await readFile(join(repository, path)));
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
}

const found = { ...await checkVectors(base, bytes), homes: await judgeHomes(base, bytes) };
process.stdout.write(`${JSON.stringify(found)}\n`);
