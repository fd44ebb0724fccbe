// The timeline of an execution: summary, controls, chart, details of what is selected.

import { fill, h } from '../core/dom.js';
import { duration, plural } from '../core/format.js';
import { button } from '../parts/button.js';
import { notice } from '../parts/notice.js';
import { chart } from './chart.js';
import { criticalPath, sums } from './critical.js';
import { details } from './details.js';
import { legend } from './legend.js';
import { scale } from './scale.js';

/** @import { HistoryEvent } from '../core/types.js' */
/** @import { Model } from './model.js' */
/** @import { Show } from './rows.js' */

/** Changes of the address; null removes. @typedef {(changes: Record<string, string | null>) => void} SetQuery */
/** @typedef {{instance: string, events: HistoryEvent[], model: Model, query: URLSearchParams, live: boolean}} Shown */

/** An open bar grows in steps of at least this many milliseconds, and at most. */
const [FASTEST_MS, SLOWEST_MS] = [100, 5000];
/** @type {[Show, string][]} */
const SHOWS = [['all', 'All steps'], ['trouble', 'Failed and retried'], ['open', 'Open'], ['path', 'Critical path']];

/**
 * @param {{setQuery: SetQuery, signal: AbortSignal}} options
 * @returns {{element: HTMLElement, update: (shown: Shown) => void}}
 */
export function timeline({ setQuery, signal }) {
  /** @type {Shown | null} */
  let shown = null;
  /** @type {ReturnType<typeof criticalPath>} */
  let path = [];
  /** What is selected and revealed: both are done once, not with each update. @type {string | null} */
  let revealed = null;
  let detailsKey = '';

  const chosen = chart({ select: (lane) => setQuery({ lane: lane ? String(lane.id) : null }) });
  const summary = h('p', { class: 'tl-summary' });
  const side = h('div', { class: 'tl-side' });
  const empty = h('div');
  const compress = h('input', { type: 'checkbox', on: { change: () => setQuery({ idle: compress.checked ? null : 'full' }) } });
  const compressLabel = h('label', { class: 'check', title: 'Shorten times in which nothing ran; they are marked in the drawing' }, compress, 'Compress idle time');
  const show = h('select', { 'aria-label': 'Steps to show', on: { change: () => setQuery({ show: show.value === 'all' ? null : show.value }) } }, SHOWS.map(([value, text]) => h('option', { value }, text)));
  const controls = h(
    'div', { class: 'tl-controls' }, show, compressLabel,
    h('div', { class: 'tl-zoom', role: 'group', 'aria-label': 'Zoom' }, [
      button('−', { title: 'Zoom out (-)', on: () => chosen.actions.zoom(1.6) }), button('+', { title: 'Zoom in (+)', on: () => chosen.actions.zoom(0.6) }),
      button('Fit', { title: 'Show everything (0)', on: () => chosen.actions.fit() }),
    ]),
  );
  const help = h('details', { class: 'tl-help' }, h('summary', null, 'Legend and keys'), legend(), h(
    'p', { class: 'muted' }, 'Ctrl + wheel or pinch zooms, Shift + wheel or dragging moves. With the keyboard: up and down choose a step, left and right move, + and - zoom, 0 shows everything, Enter opens the details.',
  ));
  const main = h('div', { class: 'tl-main' }, chosen.element, help);
  const element = h('div', { class: 'tl-tab' }, h('div', { class: 'tl-top' }, summary, controls), empty, h('div', { class: 'tl-columns' }, main, side));
  grow(chosen, () => shown?.live === true, signal);

  return {
    element,
    update(next) {
      if (next.model !== shown?.model) path = criticalPath(next.events, next.model);
      shown = next;
      render();
    },
  };

  function render() {
    if (!shown) return;
    const { model, query, live } = shown;
    const selected = query.get('lane');
    const lane = selected === null ? undefined : model.laneOf.get(Number(selected));
    const filter = SHOWS.find(([value]) => value === query.get('show'))?.[0] ?? 'all';
    const options = { now: Date.now(), compress: true };
    show.value = filter;
    compress.checked = query.get('idle') !== 'full';
    compressLabel.hidden = scale(model, options).gaps.length === 0;
    fill(summary, summaryText(model));
    const wanted = { model, path, compress: compress.checked, show: filter, selected: lane?.id ?? null, live };
    chosen.update(wanted);
    if (lane && revealed !== selected) chosen.reveal(lane);
    revealed = selected;
    const none = model.lanes.length === 0 || (filter === 'trouble' && !model.lanes.some((one) => one.troubled)) || (filter === 'open' && !model.lanes.some((one) => one.outcome === 'open'));
    fill(empty, none && nothing(filter, live));
    main.hidden = none;
    renderDetails(lane);
  }

  /** @param {Model['lanes'][number] | undefined} lane */
  function renderDetails(lane) {
    const { instance, query } = /** @type {Shown} */ (shown);
    // A live update must not close what a person has opened in the details, unless the lane has changed.
    const key = lane ? JSON.stringify([lane.id, lane.outcome, lane.segments]) : '';
    if (key === detailsKey) return;
    detailsKey = key;
    fill(side, lane && details(lane, {
      instance, execution: query.get('execution'), onPath: path.some((step) => step.lane === lane), close: () => setQuery({ lane: null }),
    }));
  }

  /** @param {Model} model */
  function summaryText(model) {
    const failed = model.lanes.filter(({ outcome }) => outcome === 'failed').length;
    const retried = model.lanes.filter(({ beganTimes }) => beganTimes > 1).length;
    const parts = sums(path).filter(({ ms }) => ms > 0);
    return [
      h('span', null, plural(model.lanes.length, 'step')),
      failed > 0 && h('span', { class: 'tl-failed' }, `${failed} failed`), retried > 0 && h('span', { class: 'tl-retried' }, `${retried} retried`),
      parts.length > 0 && h('span', null, h('span', { class: 'tl-path-key', 'aria-hidden': 'true' }), `Critical path${model.end === null ? ' so far' : ''}: `, parts.slice(0, 4).map(({ label, ms }, index) => [index ? ', ' : '', h('bdi', null, label), ` ${duration(ms)}`])),
    ];
  }

  /** @param {Show} filter @param {boolean} live */
  function nothing(filter, live) {
    if (filter !== 'all') return notice({ kind: 'empty', title: filter === 'trouble' ? 'No step has failed or was retried' : 'No step is open', actions: button('Show all steps', { on: () => setQuery({ show: null }) }) });
    return notice({ kind: 'empty', title: 'No steps', text: live ? 'The workflow has scheduled nothing yet.' : 'The workflow has scheduled no activity, timer, wait or child.' });
  }
}

/**
 * Redraws while something is open, as often as a bar grows by a pixel. No request is made.
 * @param {ReturnType<typeof chart>} of
 * @param {() => boolean} live
 * @param {AbortSignal} signal
 */
function grow(of, live, signal) {
  const calm = matchMedia('(prefers-reduced-motion: reduce)');
  const next = () => {
    if (signal.aborted) return;
    if (live() && !document.hidden) of.tick();
    setTimeout(next, Math.min(SLOWEST_MS, Math.max(calm.matches ? 1000 : FASTEST_MS, of.perPixel())));
  };
  next();
}
