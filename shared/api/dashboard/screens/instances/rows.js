// The columns of the list.

import { h } from '../../core/dom.js';
import { duration, milliseconds } from '../../core/format.js';
import { href } from '../../core/router.js';
import { clamped, instanceLink, name } from '../../parts/links.js';
import { badge } from '../../parts/status.js';
import { tick, when } from '../../parts/time.js';
import { marked } from '../instance/explained.js';
import { filtered, write } from './filters.js';

/** @import { Column } from '../../parts/table.js' */
/** @import { Instance } from '../../core/types.js' */
/** @import { View } from './filters.js' */

/** Why an instance needs attention, if its status does not say it. @type {Record<string, string>} */
const REASONS = { 'blocked-activity': 'blocked activity', overdue: 'overdue', 'dead-letter': 'dead letter' };

/**
 * @param {() => View} view the present filters, which a tag is added to
 * @returns {Column<Instance>[]}
 */
export function columns(view) {
  return [
    {
      label: 'Status', class: 'nowrap',
      cell: ({ status, attention = [] }) => {
        // The status says it already.
        const more = attention.filter((why) => why !== status.toLowerCase());
        return h('div', null, badge(status), more.length > 0 && h('ul', { class: 'reasons' }, more.map((why) => h('li', null, REASONS[why] ?? why))));
      },
    },
    {
      label: 'Instance', class: 'cell-id',
      cell: ({ instance }) => instanceLink(instance),
    },
    {
      label: 'Orchestration',
      cell: ({ orchestration, version }) => [name(orchestration), version && h('span', { class: 'muted' }, ` ${version}`)],
    },
    {
      label: 'Custom status or reason', class: 'cell-custom',
      cell: ({ customStatus, blocked, paused, explanation }) => {
        if (explanation) return h('p', { class: 'cell-sentence', title: explanation.slice(0, 1000) }, marked(explanation));
        const text = paused?.reason ?? blocked?.reason ?? customStatus;
        return text && clamped(text);
      },
    },
    { label: 'Created', class: 'nowrap', cell: ({ createdAt }) => when(createdAt) },
    { label: 'Duration', number: true, cell: lasted },
    {
      label: 'Tags', class: 'cell-tags',
      cell: ({ tags }) => Object.entries(tags).map((tag) => tagLink(view, tag.join(':'))),
    },
  ];
}

/** From its acceptance to its end, or until now. @param {Instance} instance */
function lasted({ createdAt, durationMs }) {
  if (durationMs !== undefined) return duration(durationMs);
  const element = h('span', { class: 'muted', title: 'It has not ended.' });
  tick(element, () => duration(Math.max(0, Date.now() - milliseconds(createdAt))));
  return element;
}

/** @param {() => View} view @param {string} tag */
function tagLink(view, tag) {
  const link = h('a', { class: 'row-tag', href: '#/instances', title: `Show only ${tag}` }, name(tag));
  // Rows stay when filters change, so the address is made when it is needed.
  const point = () => {
    const now = view();
    link.href = href(['instances'], write(filtered(now, {}, [...now.tags, tag])));
  };
  for (const event of ['pointerenter', 'focus', 'pointerdown', 'click']) link.addEventListener(event, point);
  point();
  return link;
}
