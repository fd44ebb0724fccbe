// One event as a row, and when it is open a second one with its payloads. A completion shows the input of what it completes.

import { fill, h } from '../../core/dom.js';
import { duration } from '../../core/format.js';
import { href } from '../../core/router.js';
import { button } from '../../parts/button.js';
import { payload } from '../../parts/payload.js';
import { when } from '../../parts/time.js';
import { childId, isFailure, isNoise, title } from '../../timeline/events.js';
import { contentOf, fieldsOf, nameOf, payloadsOf } from './event_text.js';
import { fork } from './fork.js';

/** @import { HistoryEvent } from '../../core/types.js' */
/** @import { Model } from '../../timeline/model.js' */

/** @typedef {{id: string, byId: Map<number, HistoryEvent>, model: Model, absolute: boolean, open: boolean, named: boolean, execution: string | null, undone: string | null, from: number, toggle: (open: boolean) => void}} Context */

const LINE = 140;

/** @param {HistoryEvent} event @param {Context} context @returns {HTMLElement[]} */
export function eventRow(event, context) {
  const { model, absolute, byId } = context;
  const source = event.source_event_id === null ? undefined : byId.get(event.source_event_id);
  const content = contentOf(event);
  const line = content.slice(0, LINE).replaceAll(/\s+/g, ' ') + (content.length > LINE ? '…' : '');
  const detail = h('tr', { class: 'ev-detail', id: `event-${event.event_id}-detail`, hidden: !context.open }, h('td', { colspan: '5' }));
  const show = () => fill(/** @type {HTMLElement} */ (detail.firstElementChild), details(event, source, context));
  const toggle = h('button', { type: 'button', class: 'ev-toggle', 'aria-expanded': String(context.open), 'aria-controls': detail.id, on: { click: () => set(Boolean(detail.hidden)) } }, title(event.type));
  /** @param {boolean} open */
  const set = (open) => {
    if (open) show();
    detail.hidden = !open;
    toggle.setAttribute('aria-expanded', String(open));
    context.toggle(open);
  };
  if (context.open) show();
  const since = h('span', null, `+${duration(event.timestamp_ms - model.begin)}`);
  const row = h(
    'tr', {
      id: `event-${event.event_id}`, class: ['ev-row', isFailure(event) && 'ev-failed', isNoise(event) && 'ev-noise', context.named && 'ev-named'].filter(Boolean).join(' '),
      on: { click: (/** @type {MouseEvent} */ click) => rowClick(click) && set(Boolean(detail.hidden)) },
    },
    h('td', { class: 'number', data: { label: 'Event' } }, event.event_id), h('td', { class: 'nowrap', data: { label: 'Time' } }, absolute ? when(event.timestamp_ms) : fill(when(event.timestamp_ms), since)),
    h('td', { data: { label: 'What' } }, toggle), h('td', { data: { label: 'Name' } }, h('bdi', null, nameOf(event, source))), h('td', { class: 'ev-content', data: { label: 'Content' } }, line && h('code', null, line)),
  );
  return [row, detail];
}

/** Whether a click in a row means the row: not a control in it, and not the end of selecting a text. @param {MouseEvent} event */
const rowClick = (event) => !(event.target instanceof Element && event.target.closest('a, button')) && (getSelection()?.isCollapsed ?? true);

/** @param {HistoryEvent} event @param {HistoryEvent | undefined} source @param {Context} context */
function details(event, source, { id, model, execution, undone, from }) {
  const own = payloadsOf(event);
  const lane = model.laneOf.get(event.event_id);
  const other = source ? source.event_id : lane?.tries.find((item) => item.id === event.event_id)?.endId ?? lane?.tries.find((item) => item.endId === event.event_id)?.id;
  const input = own.input ?? source?.input;
  const pair = model.items.find((item) => item.id === event.event_id);
  const output = own.output ?? pair?.error ?? pair?.result;
  const failed = own.failed ?? pair?.outcome === 'failed';
  const child = event.instance ?? source?.instance;
  /** @param {number} to */
  const link = (to) => h('a', { href: href(['instances', id, 'events'], { execution, undone: to < from ? null : undone, event: String(to) }) }, `event ${to}`);
  return h(
    'div', { class: 'ev-details' },
    h(
      'p', { class: 'ev-links' }, when(event.timestamp_ms),
      other !== undefined && other !== null && other !== event.event_id && h('span', null, other > event.event_id ? 'Ended by ' : 'Scheduled by ', link(other)),
      lane && !undone && h('a', { href: href(['instances', id], { execution, lane: String(lane.id) }) }, 'Show in the timeline'),
      typeof child === 'string' && h('a', { href: href(['instances', event.type === 'OrchestrationChained' ? child : childId(id, child)]) }, 'Open ', h('bdi', null, child)),
      !undone && button('Fork from here…', { needs: 'operator', on: () => fork(id, { at: event.event_id, execution: Number(execution) || undefined }) }),
      h('span', { class: 'muted' }, `${event.type}, duroxide ${event.duroxide_version}`),
    ),
    fields(event),
    (input !== undefined || output !== undefined) && h(
      'div', { class: 'ev-pair' },
      input !== undefined && payload(input, { label: 'Input', fileName: `event-${event.event_id}-input` }),
      output !== undefined && output !== null && payload(output, { label: failed ? 'Error' : 'Output', fileName: `event-${event.event_id}-output` }),
    ),
  );
}

/** @param {HistoryEvent} event */
function fields(event) {
  const all = fieldsOf(event);
  return all.length > 0 && h('dl', { class: 'facts' }, all.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value.length > 500 ? `${value.slice(0, 500)}…` : value))));
}
