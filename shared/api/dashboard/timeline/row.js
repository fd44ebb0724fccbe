// One row of the chart: its name, its drawing, and the same in words.

import { h } from '../core/dom.js';
import { barText, groupCount, rowText } from './describe.js';
import { drawRow } from './draw.js';
import { kindIcon } from './legend.js';

/** @import { Paint } from './draw.js' */
/** @import { Row } from './rows.js' */

/**
 * @param {Row} row
 * @param {{index: number, count: number, top: number, begin: number, selected: number | null, active: boolean, paint: Paint}} options
 */
export function rowElement(row, { index, count, top, begin, selected, active, paint }) {
  const { lane, group } = row;
  const chosen = lane !== null && lane.id === selected;
  const trouble = row.failed > 0 || lane?.troubled;
  const classes = ['tl-row', chosen && 'tl-chosen', active && 'tl-active', trouble && 'tl-trouble', row.level > 1 && 'tl-member'];
  const times = group ? groupCount(row) : lane && lane.beganTimes > 1 ? `× ${lane.beganTimes}` : null;
  return h(
    'div', {
      id: `tl-row-${index}`, class: classes.filter(Boolean).join(' '), role: 'treeitem', 'aria-level': row.level, 'aria-setsize': count, 'aria-posinset': index + 1,
      'aria-selected': String(chosen), 'aria-expanded': group ? String(row.expanded) : null, style: { transform: `translateY(${top}px)` },
    },
    h(
      'div', { class: 'tl-name' }, kindIcon(lane ? lane.kind : row.expanded ? 'collapse' : 'expand'),
      h('bdi', { class: 'tl-name-text' }, row.name), row.hint && h('bdi', { class: 'tl-hint' }, row.hint),
      times && h('span', { class: trouble ? 'tl-count tl-count-failed' : 'tl-count' }, times),
      paint.narrow && lane && h('span', { class: lane.outcome === 'failed' ? 'tl-took tl-count-failed' : 'tl-took' }, barText(lane, paint.now)),
      h('span', { class: 'visually-hidden' }, `, ${rowText(row, begin, paint.now)}`),
    ),
    drawRow(row, paint),
  );
}
