// How many instances there are, by status and by orchestration. Each number leads to the list that it counts.

import { h } from '../../core/dom.js';
import { number } from '../../core/format.js';
import { href } from '../../core/router.js';
import { notice } from '../../parts/notice.js';
import { SEARCHABLE, badge, statusLabel } from '../../parts/status.js';
import { table } from '../../parts/table.js';
import { linkButton } from '../../parts/button.js';
import { group } from './group.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Counts, Overview } from '../../core/types.js' */

/** These are shown even when there is none: their absence is an answer. */
const ALWAYS = ['Pending', 'Running', 'Completed', 'Failed'];

/**
 * @param {Overview['counts']} counts
 * @returns {Child}
 */
export function byStatus(counts) {
  const found = new Map(counts.map(({ status, count }) => [String(status), count]));
  const shown = [...new Set([...SEARCHABLE, ...found.keys()])].filter((status) => ALWAYS.includes(status) || (found.get(status) ?? 0) > 0);
  return shown.map((status) => h(
    'a', { class: found.get(status) ? 'tile' : 'tile tile-zero', href: href(['instances'], { status }) },
    h('span', { class: 'tile-count' }, number(found.get(status) ?? 0)), ' ', badge(status),
  ));
}

/**
 * @param {Counts['counts']} counts
 * @returns {Child}
 */
export function byName(counts) {
  if (counts.length === 0) {
    return h('div', { class: 'pad' }, notice({
      kind: 'empty', title: 'There are no instances yet', text: h('p', null, 'Start the first one here, by the API or the command line.'),
      actions: linkButton('Start an instance', '#/start', 'primary'),
    }));
  }
  const { statuses, rows } = group(counts, SEARCHABLE);
  return table({
    caption: 'Instances by orchestration and status', rows, class: 'matrix',
    columns: [
      { label: 'Orchestration', cell: ({ name }) => h('a', { href: href(['instances'], { name }) }, h('bdi', null, name)) },
      ...statuses.map((status) => ({
        label: statusLabel(status), number: true,
        /** @param {{name: string, counts: Record<string, number>}} row */
        cell: ({ name, counts: own }) => (own[status] ? count(own[status], name, status) : h('span', { class: 'muted' }, '0')),
      })),
    ],
  });
}

/** @param {number} value @param {string} name @param {string} status */
function count(value, name, status) {
  const label = `${number(value)} ${statusLabel(status)} of ${name}`;
  return h('a', { href: href(['instances'], { name, status }), class: status === 'Failed' ? 'bad' : null, 'aria-label': label }, number(value));
}
