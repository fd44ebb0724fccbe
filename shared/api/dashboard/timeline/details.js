// The details of a selected lane: what went in, what came out, when, and each attempt.

import { h } from '../core/dom.js';
import { duration, localTime } from '../core/format.js';
import { href } from '../core/router.js';
import { button } from '../parts/button.js';
import { payload } from '../parts/payload.js';
import { table } from '../parts/table.js';
import { when } from '../parts/time.js';
import { kindText, outcomeText } from './describe.js';
import { SEGMENT_NAMES } from './segments.js';

/** @import { Child } from '../core/dom.js' */
/** @import { Lane } from './model.js' */
/** @import { Segment } from './segments.js' */

/**
 * @param {Lane} lane
 * @param {{instance: string, execution: string | null, onPath: boolean, close: () => void}} options
 * @returns {HTMLElement}
 */
export function details(lane, { instance, execution, onPath, close }) {
  const ids = [...lane.tries, ...lane.backOffs].flatMap(({ id, endId }) => [id, endId]).filter((id) => id !== null).sort((a, b) => a - b);
  const events = [...new Set(ids)];
  return h(
    'section', { class: 'tl-details', 'aria-label': `Details of ${lane.name}` },
    h('div', { class: 'tl-details-head' }, h('h2', null, h('bdi', null, lane.name)), button('Close', { on: close, title: 'Escape' })),
    h('p', { class: lane.outcome === 'failed' ? 'tl-details-failed' : 'muted' }, `${kindText(lane)}, ${outcomeText(lane)}${onPath ? ', on the critical path' : ''}`),
    lane.error && payload(lane.error, { label: lane.outcome === 'failed' ? 'Error' : 'Error of the last attempt', fileName: `${lane.name}-error` }),
    lane.note && h('p', null, lane.note),
    blocked(lane),
    facts(lane),
    lane.instance && h('p', null, h('a', { href: href(['instances', lane.instance]) }, `Open ${lane.kind === 'child' ? 'the child' : 'the instance'} `, h('code', null, lane.instance))),
    lane.input !== undefined && payload(lane.input, { label: 'Input', fileName: `${lane.name}-input` }),
    lane.result !== undefined && payload(lane.result, { label: lane.kind === 'queue' || lane.kind === 'event' ? 'Data' : 'Result', fileName: `${lane.name}-result` }),
    attempts(lane),
    h(
      'p', null, events.length > 1 ? 'Events ' : 'Event ',
      events.slice(0, 12).map((id, index) => [index ? ', ' : '', h('a', { href: href(['instances', instance, 'events'], { execution, event: String(id) }) }, String(id))]),
      events.length > 12 && ` and ${events.length - 12} more`,
    ),
  );
}

/** @param {Lane} lane @returns {Child} */
function blocked(lane) {
  return lane.attempts.filter((one) => one.blocked).map(({ blocked: why }) => h(
    'p', { class: 'tl-details-failed' }, `No worker runs it (${why?.cause}): ${why?.reason}`,
  ));
}

/** @param {Lane} lane */
function facts(lane) {
  /** @type {[string, Child][]} */
  const rows = [['Begin', when(lane.begin)], [lane.outcome === 'open' ? 'Since' : 'End', lane.end === null ? duration(Date.now() - lane.begin) : when(lane.end)]];
  if (lane.end !== null) rows.push(['Duration', duration(lane.end - lane.begin)]);
  if (lane.dueAt !== undefined) rows.push(['Fires', when(lane.dueAt)]);
  if (lane.tries[0].session) rows.push(['Affinity session', h('code', null, lane.tries[0].session)]);
  if (lane.tries[0].tag) rows.push(['Worker tag', h('code', null, lane.tries[0].tag)]);
  return h('dl', { class: 'facts' }, rows.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

/** @param {Lane} lane */
function attempts(lane) {
  if (lane.kind !== 'activity' || (lane.segments.length < 2 && lane.beganTimes < 2)) return null;
  const errors = lane.tries.filter((item) => item.error !== undefined);
  return [
    table({
      caption: 'Attempts and pauses', rows: lane.segments, class: 'tl-attempts',
      columns: [
        { label: 'What', cell: (/** @type {Segment} */ { kind, attempt }) => `${attempt ? `attempt ${attempt}: ` : ''}${SEGMENT_NAMES[kind]}` },
        { label: 'Begin', cell: ({ from }) => h('span', { title: localTime(from) }, `+${duration(from - lane.begin)}`) },
        { label: 'Duration', number: true, cell: ({ from, to }) => (to === null ? 'still' : duration(to - from)) },
      ],
    }),
    errors.length > 1 && h('details', null, h('summary', null, `Errors of all ${errors.length} failed tries`), h('ol', { class: 'tl-errors' }, errors.map(({ error }) => h('li', null, error)))),
  ];
}
