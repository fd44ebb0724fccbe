// The filters of the list, as they are in the address. Pure.

import { first, readPlace, writePlace } from '../../parts/paging.js';

/** @import { Place } from '../../parts/paging.js' */

/** @typedef {'status' | 'name' | 'version' | 'prefix' | 'createdFrom' | 'createdTo' | 'endedFrom' | 'endedTo' | 'parent' | 'attention'} Name */

/** @typedef {Place & {filters: Partial<Record<Name, string>>, tags: string[], limit: number}} View */

/** @type {Name[]} */
export const NAMES = ['status', 'name', 'version', 'prefix', 'createdFrom', 'createdTo', 'endedFrom', 'endedTo', 'parent', 'attention'];
export const SIZES = [20, 50, 100, 200];
const SIZE = 50;

/** @type {Record<Name, string>} */
export const LABELS = {
  status: 'status', name: 'orchestration', version: 'version', prefix: 'id begins with', createdFrom: 'created from', createdTo: 'created to',
  endedFrom: 'ended from', endedTo: 'ended to', parent: 'parent', attention: 'needs attention',
};
/** A page that explains its instances has at most so many. */
const MOST_EXPLAINED = 50;

/**
 * @param {URLSearchParams} query
 * @returns {View}
 */
export function read(query) {
  /** @type {View['filters']} */
  const filters = {};
  for (const name of NAMES) {
    const value = query.get(name);
    if (value) filters[name] = value;
  }
  const limit = Number(query.get('limit'));
  return {
    ...readPlace(query), filters, tags: [...new Set(query.getAll('tag').filter(Boolean))], limit: SIZES.includes(limit) ? limit : SIZE,
  };
}

/**
 * The address's parameters of a view.
 * @param {View} view
 * @returns {URLSearchParams}
 */
export function write({ filters, tags, limit, ...place }) {
  const query = new URLSearchParams();
  for (const name of NAMES) {
    const value = filters[name];
    if (value) query.set(name, value);
  }
  for (const tag of tags) query.append('tag', tag);
  if (limit !== SIZE) query.set('limit', String(limit));
  writePlace(place, query);
  return query;
}

/**
 * Other filters begin at the first page.
 * @param {View} view
 * @param {Partial<Record<Name, string | undefined>>} filters
 * @param {string[]} [tags]
 * @returns {View}
 */
export function filtered(view, filters, tags = view.tags) {
  return { ...first(view), filters: { ...view.filters, ...filters }, tags: [...new Set(tags)] };
}

/** What a request to the API takes. Instances that need attention are explained. @param {View} view */
export const request = ({ filters, tags, limit, cursor }) => ({
  ...filters, tag: tags, cursor, ...(filters.attention ? { limit: Math.min(limit, MOST_EXPLAINED), explain: 'true' } : { limit }),
});

/** @param {View} view */
export const isFiltered = ({ filters, tags }) => Object.keys(filters).length > 0 || tags.length > 0;

/** A moment as the field for local time takes it. @param {string | undefined} utc */
export function toLocal(utc) {
  const date = new Date(utc ?? '');
  if (Number.isNaN(date.getTime())) return '';
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** What the field for local time has, in UTC. @param {string} local */
export function toUtc(local) {
  const date = new Date(local);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
