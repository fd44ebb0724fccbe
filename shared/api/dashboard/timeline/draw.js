// Draws rows, the axis and what lies behind the rows. Outcomes differ by shape and mark, not by colour alone.

import { svg } from '../core/dom.js';
import { duration, localTime } from '../core/format.js';
import { barText } from './describe.js';
import { tickText, ticks } from './ticks.js';

/** @import { Lane } from './model.js' */
/** @import { Row } from './rows.js' */
/** @import { Scale } from './scale.js' */
/** @import { Segment } from './segments.js' */
/** @import { Step } from './critical.js' */
/** @import { Window } from './view.js' */

/**
 * How times become pixels, and what is drawn besides bars. `bar` is the vertical middle of the bars in a row. If it is narrow, names and
 * texts are above the bars.
 * @typedef {{scale: Scale, window: Window, width: number, now: number, live: boolean, height: number, bar: number, narrow: boolean, steps: Map<Lane, Step[]>}} Paint
 */

const [HALF, LEAST] = [6, 2];
/** Pixels beside the visible part that a bar may reach: browsers draw very long shapes imprecisely. */
const BEYOND = 40;
/** The width of a character beside a bar, roughly. */
const LETTER = 6.4;

/** @param {Paint} paint @param {number} ms */
export const xOf = ({ scale, window, width }, ms) => ((scale.unit(ms) - window.start) / (window.stop - window.start)) * width;

/** @param {Paint} paint @param {number} x */
export const timeAt = ({ scale, window, width }, x) => scale.time(window.start + (x / width) * (window.stop - window.start));

/** The drawing of one row. @param {Row} row @param {Paint} paint */
export function drawRow(row, paint) {
  const parts = row.lane ? laneParts(row.lane, paint) : groupParts(row, paint);
  return svg('svg', { class: 'tl-bars', width: paint.width, height: paint.height, 'aria-hidden': 'true' }, parts);
}

/** @param {Lane} lane @param {Paint} paint */
function laneParts(lane, paint) {
  const path = (paint.steps.get(lane) ?? []).map(({ from, to }) => span(paint, from, to, 'tl-path', paint.bar + HALF + 2, 3));
  const bars = lane.segments.flatMap((segment) => segmentParts(lane, segment, paint));
  return [...bars, ...path, !paint.narrow && label(lane, paint)];
}

/** @param {Lane} lane @param {Segment} segment @param {Paint} paint */
function segmentParts(lane, { kind, from, to }, paint) {
  const end = to ?? paint.now;
  const [left, right] = [xOf(paint, from), xOf(paint, end)];
  if (right < -BEYOND || left > paint.width + BEYOND) return [];
  const name = `seg seg-${kind} of-${lane.kind}${lane.unused ? ' seg-unused' : ''}`;
  if (lane.kind === 'detached') return [mark(left, paint.bar, 'M-5 0L0-5L5 0L0 5z', `${name} seg-mark`)];
  const thin = kind === 'queued' || kind === 'turn' || kind === 'back-off';
  const half = thin ? 1.5 : HALF;
  /** @type {SVGElement[]} */
  const parts = [span(paint, from, end, name, paint.bar - half, half * 2)];
  const at = Math.max(Math.min(right, paint.width + BEYOND), left + LEAST);
  if (kind === 'failed') parts.push(mark(at - 1, paint.bar, 'M-3-3L3 3M3-3L-3 3', 'tl-mark tl-mark-failed'));
  if (kind === 'lost' || kind === 'timed-out') parts.push(mark(at - 1, paint.bar, 'M-3-3L3 3M3-3L-3 3', 'tl-mark tl-mark-lost'));
  if (to === null && paint.live && !thin) parts.push(mark(at, paint.bar, 'M0-6L5 0L0 6z', `tl-open of-${lane.kind} seg-${kind}`));
  return parts;
}

/** A bar between two times. @param {Paint} paint @param {number} from @param {number} to @param {string} name @param {number} y @param {number} height */
function span(paint, from, to, name, y, height) {
  const left = Math.max(-BEYOND, xOf(paint, from));
  const right = Math.min(paint.width + BEYOND, xOf(paint, to));
  return svg('rect', { class: name, x: left.toFixed(1), y, width: Math.max(LEAST, right - left).toFixed(1), height, rx: height > 4 ? 2 : 0 });
}

/** @param {number} x @param {number} y @param {string} d @param {string} name */
const mark = (x, y, d, name) => svg('path', { class: name, d, transform: `translate(${x.toFixed(1)} ${y})` });

/** The text beside the last bar, where there is room. @param {Lane} lane @param {Paint} paint */
function label(lane, paint) {
  const [left, right] = [xOf(paint, lane.begin), xOf(paint, lane.end ?? paint.now)];
  if (right < -BEYOND || left > paint.width) return null;
  const text = barText(lane, paint.now);
  const name = lane.outcome === 'failed' ? 'tl-text tl-text-failed' : 'tl-text';
  const room = 20 + text.length * LETTER;
  if (right + room < paint.width) return svg('text', { class: name, x: Math.max(right, 0) + 12, y: paint.bar + 4 }, text);
  if (left > room) return svg('text', { class: name, x: left - 8, y: paint.bar + 4, 'text-anchor': 'end' }, text);
  // Over one long bar the text can be read; over several segments it cannot, and the tooltip has it.
  return lane.segments.length === 1 ? svg('text', { class: `${name} tl-text-in`, x: Math.max(left, 0) + 6, y: paint.bar + 4 }, text) : null;
}

/**
 * A group: where its members are, as one band per two pixels, darker where more of them are; failures above it.
 * @param {Row} row
 * @param {Paint} paint
 */
function groupParts(row, paint) {
  const lanes = row.group ?? [];
  const columns = Math.ceil(paint.width / 2);
  const starts = new Int32Array(columns + 2);
  for (const lane of lanes) {
    const [left, right] = [xOf(paint, lane.begin), xOf(paint, lane.end ?? paint.now)];
    if (right < 0 || left > paint.width) continue;
    const first = Math.max(0, Math.floor(left / 2));
    starts[first] += 1;
    starts[Math.min(columns, Math.max(first, Math.floor(right / 2))) + 1] -= 1;
  }
  let most = 0;
  let [count, began] = [0, 0];
  /** @type {{from: number, to: number, count: number}[]} */
  const bands = [];
  for (let column = 0; column <= columns + 1; column += 1) {
    if (starts[column] === 0) continue;
    if (count > 0) bands.push({ from: began * 2, to: column * 2, count });
    count += starts[column];
    began = column;
    most = Math.max(most, count);
  }
  const shapes = bands.map(({ from, to, count: of }) => svg('rect', {
    class: `seg seg-group of-${lanes[0].kind}`, x: from, y: paint.bar - HALF, width: to - from, height: HALF * 2, 'fill-opacity': (0.3 + 0.7 * (of / most)).toFixed(2),
  }));
  return [...shapes, failures(lanes, paint), groupPath(lanes, paint)];
}

/** The critical path through a group; steps that follow each other are one line. @param {Lane[]} lanes @param {Paint} paint */
function groupPath(lanes, paint) {
  const steps = lanes.flatMap((lane) => paint.steps.get(lane) ?? []).sort((a, b) => a.from - b.from);
  /** @type {{from: number, to: number}[]} */
  const joined = [];
  for (const { from, to } of steps) {
    const last = joined.at(-1);
    if (last && xOf(paint, from) - xOf(paint, last.to) < 1) last.to = Math.max(last.to, to);
    else joined.push({ from, to });
  }
  return joined.map(({ from, to }) => span(paint, from, to, 'tl-path', paint.bar + HALF + 2, 3));
}

/** One mark for failures at the same place. @param {Lane[]} lanes @param {Paint} paint */
function failures(lanes, paint) {
  const places = new Map();
  for (const lane of lanes) {
    if (lane.outcome !== 'failed') continue;
    const x = xOf(paint, lane.end ?? paint.now);
    if (x >= -4 && x <= paint.width + 4) places.set(Math.round(x / 8), x);
  }
  return [...places.values()].map((x) => mark(x, paint.bar, 'M-3-3L3 3M3-3L-3 3', 'tl-mark tl-mark-failed'));
}

/** The axis. @param {Paint} paint @param {number} height */
export function drawAxis(paint, height) {
  let free = 0;
  const marks = ticks(paint.scale, paint.window, paint.width, 96).map(({ x, at, since }) => {
    const text = since === null ? localTime(at) : tickText(since);
    // A date is longer than the space between two marks.
    const end = x + 12 + text.length * (since === null ? 7 : 6.2);
    const fits = x >= free && end < paint.width;
    if (fits) free = end;
    return [
      svg('line', { class: 'tl-tick', x1: x, x2: x, y1: height - (since === null ? 14 : 6), y2: height }),
      fits && svg('text', { class: since === null ? 'tl-tick-text tl-tick-major' : 'tl-tick-text', x: x + 4, y: height - 7 }, text),
    ];
  });
  free = 0;
  const gaps = paint.scale.gaps.map(({ from, to }) => {
    const [left, right] = [xOf(paint, from), xOf(paint, to)];
    const text = `${duration(to - from)} idle`;
    const half = text.length * 3.4;
    const middle = Math.min(paint.width - half, Math.max(half, (left + right) / 2));
    if (right < 0 || left > paint.width || middle - half < free) return null;
    free = middle + half + 4;
    return svg('text', { class: 'tl-gap-text', x: middle, y: 12, 'text-anchor': 'middle' }, text);
  });
  return svg('svg', { class: 'tl-axis', width: paint.width, height, 'aria-hidden': 'true' }, marks, gaps);
}

/** Behind the rows: compressed gaps, lines of the axis, the present. @param {Paint} paint @param {number} height */
export function drawBack(paint, height) {
  const gaps = paint.scale.gaps.flatMap(({ from, to }) => {
    const [left, right] = [xOf(paint, from), xOf(paint, to)];
    if (right < 0 || left > paint.width) return [];
    return [
      svg('rect', { class: 'tl-gap', x: left, y: 0, width: Math.max(1, right - left), height }),
      ...[left, right].map((x) => svg('line', { class: 'tl-gap-edge', x1: x, x2: x, y1: 0, y2: height })),
    ];
  });
  const lines = ticks(paint.scale, paint.window, paint.width, 96).map(({ x }) => svg('line', { class: 'tl-grid', x1: x, x2: x, y1: 0, y2: height }));
  const now = xOf(paint, paint.now);
  const present = paint.live && now >= 0 && now <= paint.width + 1
    ? svg('line', { class: 'tl-now', x1: Math.min(now, paint.width - 1), x2: Math.min(now, paint.width - 1), y1: 0, y2: height }) : null;
  return svg('svg', { class: 'tl-back', width: paint.width, height, 'aria-hidden': 'true' }, gaps, lines, present);
}

/**
 * Lines of the critical path from row to row.
 * @param {{at: number, from: number, to: number}[]} joints with rows as pixels
 * @param {Paint} paint
 * @param {{top: number, bottom: number}} part of all rows that is drawn
 */
export function drawJoints(joints, paint, { top, bottom }) {
  const lines = joints.flatMap(({ at, from, to }) => {
    const x = xOf(paint, at);
    if (x < 0 || x > paint.width || Math.max(from, to) < top || Math.min(from, to) > bottom) return [];
    return [svg('line', { class: 'tl-joint', x1: x, x2: x, y1: Math.max(0, from - top), y2: Math.min(bottom, to) - top })];
  });
  return svg('svg', { class: 'tl-front', width: paint.width, height: bottom - top, 'aria-hidden': 'true', style: { top: `${top}px` } }, lines);
}
