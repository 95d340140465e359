// What somebody kept of the log beside a sealed file, held against its extract (docs/formats/proof.md#verifying): a
// copy of the log that reaches at least as far counts instead, a checkpoint must not say otherwise.

import { utf8 } from './bytes.mjs';
import { takeApart } from './event.mjs';
import { Refusal } from './json.mjs';
import { lines } from './lines.mjs';
import { readLog } from './log.mjs';
import { isSigned, parseCheckpoint } from './note.mjs';
import { Findings } from './report.mjs';

/** How many entries a log has, and the first that is another than in the extract; null if none is. */
async function shared(log, hashes) {
  let [entries, differs] = [0, null];
  for await (const { kind, bytes } of lines(log)) {
    if (kind !== 'line') break;
    const wanted = hashes.get(entries);
    if (wanted !== undefined && hashOf(bytes) !== wanted) differs ??= entries;
    entries += 1;
  }
  return { entries, differs };
}

function hashOf(line) {
  try {
    return takeApart(line).eventHash;
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

async function compareCheckpoint(bytes, held, findings) {
  const fail = (code, message) => findings.fail('CHK_LOG', code, {}, message);
  const note = parseCheckpoint(bytes);
  const own = held.checkpoint;
  if (note === null) {
    findings.warn('CHK_LOG', 'CHECKPOINT_UNREADABLE', {}, 'the checkpoint given is none, or no signed note');
  } else if (note.origin !== own.origin) {
    fail('CHAIN_BREAK', 'the checkpoint given is of another log');
  } else if (note.size !== own.size) {
    findings.warn('CHK_LOG', 'CHECKPOINT_UNUSED', {}, 'the checkpoint given is of another size than that of the file');
  } else if (!await isSigned(note, held.recorders)) {
    fail('SIG_INVALID', 'the checkpoint given is not signed by a recorder key of this log');
  } else if (note.root !== own.root) {
    fail('CHAIN_BREAK', `the checkpoint given has another root at ${own.size} entries: the log was told differently`);
  } else {
    findings.evidence('CHK_LOG', `checkpoint kept at entry ${note.size}`);
  }
}

/**
 * The word of the log that counts: of `held`, as `viewOfExtract` gives it, or of what `kept` has (`log()` and
 * `checkpoints()`, as of a source). `wanted` as `readLog` takes it, without checkpoints.
 */
export async function viewBeside(held, extract, kept, wanted, findings) {
  const notes = await kept.checkpoints?.() ?? [];
  const log = await kept.log?.() ?? null;
  if (log !== null) {
    const { entries, differs } = await shared(log, held.hashes);
    if (differs !== null) {
      findings.fail('CHK_LOG', 'CHAIN_BREAK', {}, `entry ${differs} of the log given is another than that of the file`);
    }
    if (entries >= held.checkpoint.size) {
      const own = new Findings();
      const checkpoints = [utf8(extract.checkpoint), ...notes];
      const view = await readLog(await kept.log(), { ...wanted, checkpoints }, own);
      findings.takeFromLog(own);
      return view;
    }
    const message = `the log given has ${entries} entries: only those that the file has too were compared`;
    findings.warn('CHK_LOG', 'CHECKPOINT_UNUSED', {}, message);
  }
  for (const bytes of notes) await compareCheckpoint(bytes, held, findings);
  return held.view;
}
