// One run of the verifier in its worker: begun here, followed, cancelled.

// The page may start this one script in a worker and no other.
const WORKER = '/verifier/worker.mjs';
let policy = null;

function workerAddress() {
  if (globalThis.trustedTypes === undefined) return WORKER;
  policy ??= trustedTypes.createPolicy('countersign', {
    createScriptURL: (address) => {
      if (address !== WORKER) throw new TypeError('only the verifier runs in a worker');
      return address;
    },
  });
  return policy.createScriptURL(WORKER);
}

/**
 * Starts a run: `request` is what `worker.mjs` takes. `onProgress` gets how far it is, `onOpened` what was in a
 * file. Gives `{ report, cancel }`: a promise of the report, and the function that ends the run.
 */
export function startRun(request, { onProgress, onOpened } = {}) {
  let worker = null;
  let end = null;
  const report = new Promise((resolve, reject) => {
    end = reject;
    worker = new Worker(workerAddress(), { type: 'module', name: 'verifier' });
    worker.addEventListener('message', ({ data }) => {
      if (data.progress) onProgress?.(data.progress);
      if (data.cap) onOpened?.(data.cap);
      if (data.report) resolve(data.report);
      if (data.error) reject(new Error(data.error));
    });
    worker.addEventListener('error', (event) => {
      event.preventDefault();
      const why = event.message || 'its script could not be loaded';
      reject(new Error(`The verifier did not start: ${why}. Load the page anew.`));
    });
    worker.postMessage(request);
  }).finally(() => worker?.terminate());
  const cancel = () => {
    worker?.terminate();
    end(new DOMException('The verification was cancelled', 'AbortError'));
  };
  return { report, cancel };
}
