// JSON with its structure laid out, and every name, text and number as it stands in the bytes: what is
// parsed and written again hides names that are there twice, and rounds numbers.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
// Deeper levels are not moved further to the right: a text of brackets would become a huge one.
const DEEPEST = 40;

const line = (depth) => `\n${'  '.repeat(Math.min(depth, DEEPEST))}`;

/** A JSON text laid out, or null if it is none or not all of it is there. */
export function prettyJson(text, whole = true) {
  if (!whole || !/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const out = [];
  let depth = 0;
  let before = '';
  for (const [token] of text.matchAll(TOKEN)) {
    const opened = before === '{' || before === '[';
    if (token === '}' || token === ']') {
      depth -= 1;
      if (!opened) out.push(line(depth));
    } else if (opened || before === ',') out.push(line(depth));
    if (token === '{' || token === '[') depth += 1;
    out.push(token === ':' ? ': ' : token);
    before = token;
  }
  return out.join('');
}
