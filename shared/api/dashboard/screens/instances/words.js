// Filters in words.

import { h } from '../../core/dom.js';
import { statusLabel } from '../../parts/status.js';
import { visible } from '../../parts/visible.js';
import { LABELS, NAMES } from './filters.js';

/** @import { Name } from './filters.js' */

/** @param {Partial<Record<Name, string>>} filters @param {string[]} tags */
export function filterNames(filters, tags) {
  const all = [...NAMES.flatMap((name) => (filters[name] ? [[LABELS[name], words(name, filters[name])]] : [])), ...tags.map((tag) => ['tag', tag])];
  return h('ul', { class: 'filter-names' }, all.map(([label, value]) => h('li', null, `${label}: `, h('bdi', { class: 'strong' }, visible(value)))));
}

/** @param {Name} name @param {string} value */
function words(name, value) {
  if (name === 'status') return statusLabel(value);
  return /^(created|ended)/.test(name) ? new Date(value).toLocaleString() : value;
}
