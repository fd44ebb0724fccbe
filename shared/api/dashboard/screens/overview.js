// The overview: what needs attention and why, how many instances there are, and how many start and end.
//
// What a person waits for is loaded every few seconds; counts by orchestration and hours, which cost the store more, less often.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { live } from '../core/live.js';
import { restoreScroll } from '../core/scroll.js';
import { linkButton } from '../parts/button.js';
import { hoursChart } from '../parts/chart.js';
import { failure } from '../parts/notice.js';
import { refresh } from '../parts/refresh.js';
import { when } from '../parts/time.js';
import { attention } from './overview/attention.js';
import { byName, byStatus } from './overview/counts.js';
import { lateSince, overdueList } from './overview/overdue.js';
import { troubles, troublesLoader } from './overview/troubles.js';

/** @import { Screen } from '../core/router.js' */

const OFTEN_MS = 10_000;
const SELDOM_MS = 30_000;
const HOURS = 24;
/** So many overdue items are listed. */
const LISTED = 50;

/** @type {Screen} */
export function overviewScreen({ root, query, signal }) {
  const banner = h('div');
  const updated = h('span', { class: 'muted' });
  const parts = {
    attention: h('div', { class: 'card-body' }, loading()),
    troubles: h('div'),
    statuses: h('div', { class: 'tiles' }, loading()),
    names: h('div', null, loading()),
    overdue: h('div'),
  };
  const chart = hoursChart();
  fill(
    root,
    h('div', { class: 'screen-head' }, h('h1', null, 'Overview'), updated, linkButton('Start an instance', '#/start')),
    banner,
    h(
      'div', { class: 'columns' },
      h('div', { class: 'stack' }, card('Needs attention', parts.attention), parts.troubles, parts.overdue),
      h(
        'div', { class: 'stack' }, parts.statuses,
        card(`Started and ended per hour, last ${HOURS} hours`, h('div', { class: 'card-body' }, chart.element)),
        card('By orchestration', parts.names),
      ),
    ),
  );

  /** @type {number | null} */
  let shownAt = null;
  /** @type {Map<string, HTMLElement>} What has failed to load, by loop. */
  const failures = new Map();
  /** @param {string} loop @param {HTMLElement | null} element */
  const report = (loop, element) => {
    if (element) failures.set(loop, element);
    else if (!failures.delete(loop)) return;
    // One notice is enough: both loops ask the same API.
    fill(banner, [...failures.values()][0]);
  };

  let wanted = query.get('show');
  /** A link on this screen leads to a part of it. */
  const jump = () => {
    if (wanted !== 'overdue' || parts.overdue.childElementCount === 0) return;
    wanted = null;
    parts.overdue.scrollIntoView({ block: 'start' });
    parts.overdue.querySelector('h2')?.focus({ preventScroll: true });
  };

  const loadTroubles = troublesLoader();
  live({
    signal, everyMs: OFTEN_MS,
    load: async (abort) => {
      const overview = await api.overview(abort);
      const late = lateSince(overview);
      const [trouble, overdue] = await Promise.all([
        loadTroubles(overview, abort),
        overview.stuck > 0 || overview.overdueTimers > 0 || late ? api.overdue(LISTED, abort) : null,
      ]);
      return { overview, trouble, overdue: overdue?.overdue ?? [] };
    },
    show: ({ overview, trouble, overdue }) => {
      report('often', null);
      shownAt = Date.now();
      fill(updated, 'Updated ', when(shownAt));
      const { at, recentSince, ...stable } = overview;
      refresh(parts.attention, stable, () => attention(overview));
      refresh(parts.troubles, trouble, () => troubles(trouble));
      refresh(parts.statuses, overview.counts, () => byStatus(overview.counts));
      refresh(parts.overdue, overdue, () => overdueList(overdue, LISTED));
      jump();
      restoreScroll();
    },
    fail: (error, retryMs) => report('often', failure(error, { what: 'The overview', retryMs, shownAt })),
  });
  live({
    signal, everyMs: SELDOM_MS,
    load: async (abort) => Promise.all([api.counts(abort), api.throughput(HOURS, abort)]),
    show: ([counts, throughput]) => {
      report('seldom', null);
      refresh(parts.names, counts.counts, () => byName(counts.counts));
      chart.update(throughput.hours);
    },
    fail: (error, retryMs) => report('seldom', failure(error, { what: 'The counts', retryMs, shownAt })),
  });
  return (changed) => {
    wanted = changed.get('show');
    jump();
  };
}

/** @param {string} title @param {HTMLElement} body */
const card = (title, body) => h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', null, title)), body);

const loading = () => h('p', { class: 'muted pad' }, 'Loading…');
