// Starts `countersign serve` on a workspace and learns its address from the first line that it prints.

const START_MS = 30_000;

/** A server that runs: `origin`, `token`, `address(place)`, `close()`. */
export async function serve(workspace) {
  const child = workspace.start(['serve', '--home', workspace.home, '--port', '0', '--json']);
  const url = await new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error(`serve does not come up: ${child.said}`)), START_MS);
    const look = () => {
      const end = child.printed.indexOf('\n');
      if (end < 0) return;
      clearTimeout(timer);
      done(JSON.parse(child.printed.slice(0, end)).url);
    };
    child.stdout.on('data', look);
    child.ended.then((code) => fail(new Error(`serve ended with ${code}: ${child.said}`)), fail);
  });
  const leaving = () => child.kill('SIGKILL');
  process.on('exit', leaving);
  const { origin, hash } = new URL(url);
  const token = /^#token=([^&]+)/.exec(hash)[1];
  return {
    origin,
    token,
    /** The address of a place of the page, with the token. The page takes both out of the fragment. */
    address: (place) => `${origin}/#token=${token}&to=${encodeURIComponent(place)}`,
    /** What the API answers. */
    async api(path, options = {}) {
      const headers = { authorization: `Bearer ${token}`, ...options.headers };
      return fetch(`${origin}/api/v1${path}`, { ...options, headers });
    },
    async close() {
      process.off('exit', leaving);
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 3000);
      await child.ended;
      clearTimeout(timer);
    },
  };
}
