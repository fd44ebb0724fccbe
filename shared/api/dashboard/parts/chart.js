// Instances started and ended per hour: bars, and the same numbers as a table.

import { fill, h, svg } from '../core/dom.js';
import { localTime, number, plural } from '../core/format.js';
import { ceiling } from './scale.js';
import { table } from './table.js';

/** @typedef {{from: string, started: number, ended: number, failed: number}} Hour */

const HEIGHT = 160;
const [LEFT, BOTTOM, TOP] = [44, 22, 8];

/** @returns {{element: HTMLElement, update: (hours: Hour[]) => void}} */
export function hoursChart() {
  /** @type {Hour[]} */
  let hours = [];
  let stamp = '';
  const drawing = h('div', { class: 'chart' });
  const numbers = h('div');
  const details = h('details', { on: { toggle: () => show() } }, h('summary', null, 'The numbers as a table'), numbers);
  const draw = () => drawing.clientWidth > 0 && fill(drawing, bars(hours, drawing.clientWidth));
  // A closed table of a live screen is not worth its elements.
  const show = () => fill(numbers, details.open && asTable(hours));
  // Text must not shrink with the drawing, so it is drawn for its width. The observer ends with the element.
  new ResizeObserver(draw).observe(drawing);
  return {
    update: (now) => {
      if (stamp === JSON.stringify(now)) return;
      hours = now;
      stamp = JSON.stringify(now);
      draw();
      show();
    },
    element: h(
      'figure', { class: 'chart-figure' },
      h(
        'figcaption', { class: 'legend' },
        h('span', { class: 'legend-started' }, 'Started'), h('span', null, 'Ended'), h('span', { class: 'legend-failed' }, 'Ended, failed'),
      ),
      drawing, details,
    ),
  };
}

/** @param {Hour[]} hours @param {number} width */
function bars(hours, width) {
  const most = ceiling(Math.max(...hours.map(({ started, ended }) => Math.max(started, ended)), 0));
  const [inner, slot] = [HEIGHT - BOTTOM - TOP, (width - LEFT) / Math.max(1, hours.length)];
  const bar = Math.max(2, Math.min(14, slot * 0.38));
  /** @param {number} count */
  const size = (count) => (count / most) * inner;
  /** @param {string} name @param {number} x @param {number} count @param {number} [below] */
  const rect = (name, x, count, below = 0) => count > 0 && svg('rect', {
    class: name, x: x.toFixed(1), width: bar.toFixed(1), y: (HEIGHT - BOTTOM - size(count + below)).toFixed(1),
    height: Math.max(1, size(count)).toFixed(1),
  });
  const total = hours.reduce((sum, { started }) => sum + started, 0);
  const failed = hours.reduce((sum, hour) => sum + hour.failed, 0);
  const sums = `${plural(total, 'instance')} started, ${number(failed)} failed`;
  const about = `Bars for each of the last ${hours.length} hours: ${sums}. The table below has the numbers.`;
  return svg(
    'svg', { role: 'img', 'aria-label': about, width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` },
    [0, 0.5, 1].map((part) => gridLine(part * most, HEIGHT - BOTTOM - part * inner, width)),
    hours.map((hour, index) => {
      const middle = LEFT + slot * (index + 0.5);
      return svg(
        'g', { class: 'hour' }, svg('title', null, describe(hour)),
        svg('rect', { class: 'hour-back', x: (middle - slot / 2).toFixed(1), y: TOP, width: slot.toFixed(1), height: inner }),
        rect('bar-started', middle - bar - 0.5, hour.started),
        rect('bar-ended', middle + 0.5, hour.ended - hour.failed),
        rect('bar-failed', middle + 0.5, hour.failed, hour.ended - hour.failed),
      );
    }),
    labels(hours, slot),
  );
}

/** @param {number} value @param {number} y @param {number} width */
function gridLine(value, y, width) {
  if (!Number.isInteger(value)) return null;
  return [
    svg('line', { class: 'grid', x1: LEFT, x2: width, y1: y, y2: y }),
    svg('text', { x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, number(value)),
  ];
}

/** The hours below the bars: as many as fit. @param {Hour[]} hours @param {number} slot */
function labels(hours, slot) {
  const every = [1, 2, 3, 4, 6, 12, 24].find((count) => count * slot > 44) ?? 24;
  return hours.map(({ from }, index) => index % every === 0 && svg(
    'text', { x: (LEFT + slot * (index + 0.5)).toFixed(1), y: HEIGHT - 6, 'text-anchor': 'middle' }, clock(from),
  ));
}

/** @param {string} from */
const clock = (from) => new Date(from).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hour12: false });

/** @param {Hour} hour */
const describe = ({ from, started, ended, failed }) =>
  `From ${localTime(from)}: ${number(started)} started, ${number(ended)} ended, ${number(failed)} of them failed`;

/** @param {Hour[]} hours */
function asTable(hours) {
  return table({
    caption: 'Instances per hour', rows: hours.toReversed(),
    columns: [
      { label: 'Hour from', cell: ({ from }) => localTime(from) },
      { label: 'Started', number: true, cell: ({ started }) => number(started) },
      { label: 'Ended', number: true, cell: ({ ended }) => number(ended) },
      { label: 'Failed', number: true, cell: ({ failed }) => number(failed) },
    ],
  });
}
