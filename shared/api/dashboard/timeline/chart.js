// The chart: rows that are drawn only while they are visible, an axis above, and what connects them.

import { fill, h } from '../core/dom.js';
import { duration } from '../core/format.js';
import { rowFacts } from './describe.js';
import { drawAxis, drawBack, drawJoints, timeAt } from './draw.js';
import { interact } from './interact.js';
import { rowElement } from './row.js';
import { rows } from './rows.js';
import { scale } from './scale.js';
import { SEGMENT_NAMES } from './segments.js';
import { drawStatuses } from './statuses.js';
import { tooltip } from './tooltip.js';
import { around, pan, windowOf, zoom } from './view.js';

/** @import { Step } from './critical.js' */
/** @import { Paint } from './draw.js' */
/** @import { Lane, Model } from './model.js' */
/** @import { Row, Show } from './rows.js' */
/** @import { View } from './view.js' */

/** @typedef {{model: Model, path: Step[], compress: boolean, show: Show, selected: number | null, live: boolean}} Data */

const AXIS = 32;
/** Below this width, the name is above its bar. */
const NARROW = 640;
/** Rows beyond the visible ones, so that scrolling does not show gaps. */
const SPARE = 8;

/**
 * @param {{select: (lane: Lane | null) => void}} options
 * @returns {{element: HTMLElement, update: (data: Data) => void, tick: () => void, reveal: (lane: Lane) => void, actions: {zoom: (factor: number) => void, fit: () => void}, perPixel: () => number}}
 */
export function chart({ select }) {
  /** @type {Data | null} */
  let data = null;
  /** @type {View} */
  let view = null;
  /** @type {Row[]} */
  let all = [];
  /** @type {Paint | null} */
  let paint = null;
  let active = -1;
  let frame = 0;
  let [width, labelWidth, rowHeight] = [0, 0, 28];
  /** @type {Set<string>} */
  const expanded = new Set();

  const axis = h('div', { class: 'tl-axis-box' });
  const back = h('div', { class: 'tl-sticky' });
  const front = h('div');
  const body = h('div', { class: 'tl-body', role: 'presentation' }, back, front);
  /** The rows on the page, by their index. @type {Map<number, HTMLElement>} */
  const drawn = new Map();
  /** What is the same as long as the data is. @type {{scale: ReturnType<typeof scale>, now: number} | null} */
  let scaled = null;
  /** @type {Map<Lane, Step[]>} */
  let steps = new Map();
  /** The row of each lane. @type {Map<Lane | null, number>} */
  let places = new Map();
  const list = h('div', {
    class: 'tl-scroll', role: 'tree', tabindex: '0', 'aria-label': 'Timeline. Arrow keys move and pan, plus and minus zoom, 0 shows everything, Enter opens.',
  }, body);
  const tip = tooltip();
  const element = h('div', { class: 'tl' }, h('div', { class: 'tl-head' }, h('div', { class: 'tl-corner', 'aria-hidden': 'true' }, 'Step'), axis), list, tip.element);

  let anew = false;
  /** Draws at the next frame, once, however often it is asked for. Scrolling keeps the rows that are there. */
  const request = (all = true) => {
    anew ||= all;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      drawNow();
    });
  };
  const draw = () => request();

  function measure() {
    const full = list.clientWidth;
    const narrow = full < NARROW;
    element.classList.toggle('tl-narrow', narrow);
    labelWidth = narrow ? 0 : Math.min(320, Math.max(176, Math.round(full * 0.28)));
    rowHeight = narrow ? 46 : 28;
    width = Math.max(80, full - labelWidth - 8);
    element.style.setProperty('--tl-label', `${labelWidth}px`);
    element.style.setProperty('--tl-row', `${rowHeight}px`);
  }

  function drawNow() {
    if (!data || !element.isConnected) return;
    if (anew || !paint) drawFrame();
    anew = false;
    const [first, last] = visible();
    for (const [index, row] of drawn) {
      if (index >= first && index < last) continue;
      row.remove();
      drawn.delete(index);
    }
    for (let index = first; index < last; index += 1) {
      if (drawn.has(index)) continue;
      const row = rowElement(all[index], {
        index, count: all.length, top: index * rowHeight, begin: data.model.begin, selected: data.selected, active: index === active, paint: /** @type {Paint} */ (paint),
      });
      drawn.set(index, row);
      body.append(row);
    }
    fill(front, drawJoints(joints(), /** @type {Paint} */ (paint), { top: first * rowHeight, bottom: last * rowHeight }));
    if (drawn.has(active)) list.setAttribute('aria-activedescendant', `tl-row-${active}`);
    else list.removeAttribute('aria-activedescendant');
  }

  /** Everything but the rows, which are drawn again afterwards. */
  function drawFrame() {
    const { model, compress, live } = /** @type {Data} */ (data);
    measure();
    const now = Math.max(Date.now(), model.instants.at(-1) ?? 0);
    if (!scaled || live) scaled = { scale: scale(model, { now, compress }), now };
    paint = { scale: scaled.scale, window: windowOf(scaled.scale, view), width, now: scaled.now, live, height: rowHeight, bar: labelWidth ? 13 : 30, narrow: !labelWidth, steps };
    body.style.setProperty('height', `${all.length * rowHeight}px`);
    fill(axis, drawAxis(paint, AXIS), model.statuses.length > 0 && drawStatuses(model, paint));
    fill(back, drawBack(paint, Math.min(all.length * rowHeight, list.clientHeight)));
    for (const row of drawn.values()) row.remove();
    drawn.clear();
  }

  /** @returns {[number, number]} */
  function visible() {
    const first = Math.max(0, Math.floor(list.scrollTop / rowHeight) - SPARE);
    return [first, Math.min(all.length, Math.ceil((list.scrollTop + list.clientHeight) / rowHeight) + SPARE)];
  }

  /** Where the critical path goes from a row to another. */
  function joints() {
    const { path } = /** @type {Data} */ (data);
    const middle = /** @type {Paint} */ (paint).bar + 9;
    return path.slice(1).flatMap((step, index) => {
      const [from, to] = [places.get(path[index].lane), places.get(step.lane)];
      if (!step.lane || !path[index].lane || from === undefined || to === undefined || from === to) return [];
      return [{ at: step.from, from: from * rowHeight + middle, to: to * rowHeight + middle }];
    });
  }

  /** @param {number} index */
  function choose(index) {
    const row = all[index];
    if (!row) return;
    active = index;
    if (row.lane) select(row.lane);
    else {
      if (expanded.has(row.key)) expanded.delete(row.key);
      else expanded.add(row.key);
      arrange();
    }
    draw();
  }

  function arrange() {
    if (!data) return;
    const key = all[active]?.key;
    const onPath = new Set(data.path.flatMap(({ lane }) => lane ?? []));
    all = rows(data.model.lanes, { show: data.show, expanded, onPath });
    places = new Map(all.flatMap((row, index) => (row.group ?? [row.lane]).map((lane) => [lane, index])));
    active = key === undefined ? -1 : all.findIndex((row) => row.key === key);
  }

  /** @param {number} index */
  function moveTo(index) {
    if (!all.length) return;
    active = Math.min(all.length - 1, Math.max(0, index));
    const top = active * rowHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
    anew = true;
    drawNow();
    const box = body.querySelector(`#tl-row-${active}`)?.getBoundingClientRect();
    if (box) tell(all[active], { x: box.left + labelWidth + 16, y: box.top + 12 }, null);
  }

  /** @param {Row} row @param {{x: number, y: number}} at @param {number | null} time */
  function tell(row, at, time) {
    if (!data || !paint) return;
    const { now } = paint;
    const facts = rowFacts(row, data.model.begin, now);
    const segment = time === null ? null : row.lane?.segments.find(({ from, to }) => from <= time && time <= (to ?? now));
    if (segment && row.lane && row.lane.segments.length > 1) {
      facts.splice(1, 0, ['Here', `${segment.attempt ? `attempt ${segment.attempt}: ` : ''}${SEGMENT_NAMES[segment.kind]}, ${duration((segment.to ?? now) - segment.from)}`]);
    }
    tip.show(row.name, facts, at);
  }

  // By the place and not by the element: a row may be drawn again between press and release.
  /** @param {MouseEvent} event */
  const rowAt = (event) => Math.floor((event.clientY - list.getBoundingClientRect().top + list.scrollTop) / rowHeight);
  const area = () => ({ left: list.getBoundingClientRect().left + labelWidth, width });
  /** @param {View} next */
  const see = (next) => {
    view = next;
    draw();
  };
  const input = interact(list, area, {
    zoom: (factor, at) => paint && see(zoom(paint.scale, view, factor, Math.min(1, Math.max(0, at)))),
    pan: (part) => paint && see(pan(paint.scale, view, part)),
    fit: () => see(null), move: (by) => moveTo(active < 0 && by < 0 ? 0 : active + by), edge: (last) => moveTo(last ? all.length - 1 : 0),
    choose: () => choose(active), leave: () => (tip.element.hidden ? select(null) : tip.hide()),
  });
  list.addEventListener('scroll', () => request(false), { passive: true });
  list.addEventListener('click', (event) => input.dragged() || choose(rowAt(event)));
  list.addEventListener('pointermove', (event) => {
    const row = all[rowAt(event)];
    if (!row || !paint || event.pointerType === 'touch' || event.buttons) tip.hide();
    else tell(row, { x: event.clientX, y: event.clientY }, timeAt(paint, event.clientX - area().left));
  });
  list.addEventListener('pointerleave', tip.hide);
  list.addEventListener('blur', tip.hide);
  new ResizeObserver(draw).observe(element);

  return {
    element,
    tick: draw,
    update(next) {
      if (next.model !== data?.model || next.compress !== data.compress || next.path !== data.path) {
        scaled = null;
        steps = new Map();
        for (const step of next.path) if (step.lane) steps.set(step.lane, [...(steps.get(step.lane) ?? []), step]);
      }
      data = next;
      arrange();
      draw();
    },
    reveal(lane) {
      if (!data) return;
      let index = all.findIndex((row) => row.lane === lane);
      const group = all.findIndex((row) => row.group?.includes(lane));
      if (index < 0 && group >= 0) {
        expanded.add(all[group].key);
        arrange();
        index = all.findIndex((row) => row.lane === lane);
      }
      if (index < 0) return;
      active = index;
      list.scrollTop = Math.max(0, index * rowHeight - list.clientHeight / 2);
      if (paint && view) view = around(paint.scale, lane.begin, lane.end ?? paint.now);
      draw();
    },
    actions: { zoom: (factor) => paint && see(zoom(paint.scale, view, factor, 0.5)), fit: () => see(null) },
    perPixel: () => (paint ? (paint.window.stop - paint.window.start) / paint.width : 100),
  };
}
