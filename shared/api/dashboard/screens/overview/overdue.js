// What is overdue: due for long, and not done.

import { h } from '../../core/dom.js';
import { milliseconds } from '../../core/format.js';
import { instanceLink } from '../../parts/links.js';
import { table } from '../../parts/table.js';
import { age, when } from '../../parts/time.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Overdue, Overview } from '../../core/types.js' */

/** Work is normally done within seconds. Due for longer than this, it deserves a look. */
const LATE_MS = 120_000;

const KINDS = { message: 'A message', activity: 'An activity', timer: 'A timer' };

/** Since when the oldest work is due, if that is long ago. By the API's clock. @param {Overview} overview */
export function lateSince({ at, oldestDueAt }) {
  return oldestDueAt && milliseconds(at) - milliseconds(oldestDueAt) > LATE_MS ? oldestDueAt : null;
}

/**
 * @param {Overdue['overdue']} overdue
 * @param {number} most
 * @returns {Child}
 */
export function overdueList(overdue, most) {
  if (overdue.length === 0) return null;
  return h(
    'section', { class: 'card' },
    h(
      'div', { class: 'card-head' }, h('h2', { tabindex: '-1' }, 'Stuck and overdue'),
      overdue.length >= most && h('span', { class: 'muted' }, `The first ${most}`),
    ),
    table({
      caption: 'What is overdue', rows: overdue,
      columns: [
        { label: 'Instance', cell: ({ instance }) => instanceLink(instance) },
        { label: 'What', cell: ({ kind, name }) => [KINDS[kind] ?? kind, name && [' ', h('code', null, name)]] },
        { label: 'Due', cell: ({ dueAt }) => when(dueAt) },
        { label: 'Overdue', cell: ({ dueAt }) => age(dueAt) },
      ],
    }),
  );
}
