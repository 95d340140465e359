// Where the page stands: the fragment of its address, `#/traces/ID?view=claims`. Whoever has the
// address sees the same.

/** The place that a fragment names: `path`, its `parts`, its `params` (URLSearchParams). */
export function parse(fragment = location.hash) {
  const text = fragment.startsWith('#') ? fragment.slice(1) : fragment;
  const mark = text.indexOf('?');
  const path = (mark < 0 ? text : text.slice(0, mark)) || '/';
  const params = new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1));
  const parts = path.split('/').filter((part) => part !== '').map(decode);
  return { path, parts, params };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The fragment of a place. `path` may begin with `#`; parameters that are empty are left out. */
export function link(path, params = {}) {
  const query = new URLSearchParams();
  const entries = params instanceof URLSearchParams ? [...params] : Object.entries(params);
  for (const [name, value] of entries) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== '') query.append(name, String(one));
    }
  }
  const text = query.toString();
  return `${path.startsWith('#') ? path : `#${path}`}${text ? `?${text}` : ''}`;
}

/** Goes to a place; with `replace` the place before is not kept in the history. */
export function go(path, params = {}, { replace = false } = {}) {
  const target = link(path, params);
  if (target === location.hash) return;
  if (!replace) {
    location.hash = target;
    return;
  }
  history.replaceState(history.state, '', target);
  // The browser says nothing of a replaced address.
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}

/** The names that a pattern such as `/traces/:id` gives to the parts, or null if it does not fit. */
export function match(pattern, parts) {
  const wanted = pattern.split('/').filter((part) => part !== '');
  if (wanted.length !== parts.length) return null;
  const names = {};
  for (const [at, part] of wanted.entries()) {
    if (part.startsWith(':')) names[part.slice(1)] = parts[at];
    else if (part !== parts[at]) return null;
  }
  return names;
}
