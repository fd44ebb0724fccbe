// Pages by cursors, in the address. `past` has the cursors of the pages before, so that a person can go back after a reload. Pure.

/** @typedef {{cursor: string | null, past: string[], page: number}} Place `past` is without the first page, which has no cursor */

/** Cursors are long: an address holds so many of the pages before. */
const PAST = 20;

/** @param {URLSearchParams} query @returns {Place} */
export function readPlace(query) {
  const cursor = query.get('cursor') || null;
  const page = Number(query.get('page'));
  return {
    cursor, past: cursor ? query.getAll('past').filter(Boolean) : [], page: cursor && Number.isInteger(page) && page > 1 ? page : 1,
  };
}

/** @param {Place} place @param {URLSearchParams} query gets the parameters */
export function writePlace({ cursor, past, page }, query) {
  if (!cursor) return;
  query.set('page', String(page));
  query.set('cursor', cursor);
  for (const one of past) query.append('past', one);
}

/** @template {Place} T @param {T} view @param {string} cursor @returns {T} */
export function next(view, cursor) {
  const past = view.cursor ? [...view.past, view.cursor].slice(-PAST) : [];
  return { ...view, cursor, past, page: view.page + 1 };
}

/**
 * The page before; null on the first, and where its cursor is no longer in the address.
 * @template {Place} T
 * @param {T} view
 * @returns {T | null}
 */
export function previous(view) {
  if (!view.cursor) return null;
  const cursor = view.past.at(-1);
  if (cursor) return { ...view, cursor, past: view.past.slice(0, -1), page: view.page - 1 };
  return view.page === 2 ? first(view) : null;
}

/** @template {Place} T @param {T} view @returns {T} */
export const first = (view) => ({ ...view, cursor: null, past: [], page: 1 });

/**
 * What the links of a pager lead to.
 * @template {Place} T
 * @param {T} view
 * @param {string | undefined} cursor of the next page
 * @param {(view: T) => string} address
 */
export function pageLinks(view, cursor, address) {
  const before = previous(view);
  return {
    first: view.page > 2 || (view.cursor && !before) ? address(first(view)) : null,
    previous: before && address(before), next: cursor ? address(next(view, cursor)) : null,
  };
}
