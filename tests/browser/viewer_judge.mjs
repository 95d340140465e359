// Small judgements that say what was found where it is not what was wanted.

const cut = (value) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text === undefined ? 'nothing' : text.length > 600 ? `${text.slice(0, 600)}…` : text;
};

/** Throws unless the text holds the part. */
export function holds(text, part) {
  if (typeof text !== 'string' || !text.includes(part)) throw new Error(`wanted “${part}”, found: ${cut(text)}`);
}

/** Throws unless the two are the same as JSON. */
export function same(found, wanted) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`wanted ${cut(wanted)}, found ${cut(found)}`);
}

/** Throws unless it is so. */
export function so(truth, words) {
  if (!truth) throw new Error(words);
}
