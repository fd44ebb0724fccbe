// Addresses. The part behind `#` names the screen and holds its filters, so that reload, back and a shared link work:
// `#/instances?status=Failed`. A segment is one percent-encoded id.

/**
 * What a screen is given. `signal` aborts when the person leaves it.
 * @typedef {{root: HTMLElement, params: string[], query: URLSearchParams, signal: AbortSignal}} Visit
 */

/**
 * A screen fills `root`. It may return a function that takes new filters without building everything again.
 * @typedef {(visit: Visit) => void | ((query: URLSearchParams) => void)} Screen
 */

/** @typedef {{pattern: RegExp, title: string, screen: Screen, section: string}} Route */

/**
 * The address of a screen, for `href`.
 * @param {string[]} segments
 * @param {Record<string, string | string[] | null | undefined> | URLSearchParams} [query]
 */
export function href(segments, query = {}) {
  const path = segments.map(encodeURIComponent).join('/');
  const text = (query instanceof URLSearchParams ? query : parameters(query)).toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

/** @param {Record<string, string | string[] | null | undefined>} query */
function parameters(query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one) parameters.append(name, one);
  }
  return parameters;
}

/**
 * Goes to an address. With `replace`, back does not return to the present one.
 * @param {string} address
 * @param {{replace?: boolean}} [options]
 */
export function go(address, { replace = false } = {}) {
  if (address === location.hash) return;
  if (!replace) {
    location.hash = address;
    return;
  }
  history.replaceState(null, '', address);
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}

/**
 * The present address, or another one, in its parts. A segment that is not percent-encoded text stays as it is.
 * @param {string} [hash]
 */
export function parse(hash = location.hash) {
  const [path, query = ''] = split(hash.replace(/^#\/?/, ''), '?');
  const segments = path.split('/').filter((segment) => segment !== '').map(decode);
  return { path, segments, query: new URLSearchParams(query) };
}

/** @param {string} text @param {string} at @returns {[string, string | undefined]} */
function split(text, at) {
  const index = text.indexOf(at);
  return index < 0 ? [text, undefined] : [text.slice(0, index), text.slice(index + 1)];
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Shows the screen of each address.
 * @param {{routes: Route[], root: HTMLElement, shown: (route: Route | null) => void, missing: Screen}} options
 */
export function run({ routes, root, shown, missing }) {
  /** @type {{path: string, abort: AbortController, update: void | ((query: URLSearchParams) => void)} | null} */
  let current = null;
  const show = () => {
    const { path, segments, query } = parse();
    if (current?.path === path && current.update) {
      current.update(query);
      return;
    }
    current?.abort.abort();
    const abort = new AbortController();
    const route = routes.find(({ pattern }) => pattern.test(path)) ?? null;
    root.replaceChildren();
    current = { path, abort, update: undefined };
    shown(route);
    current.update = (route?.screen ?? missing)({ root, params: segments.slice(1), query, signal: abort.signal });
  };
  window.addEventListener('hashchange', show);
  show();
}
