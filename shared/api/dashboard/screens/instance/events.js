// The events of an execution: a table in order, each with what went in and what came out. Paged: 5,000 rows would be slow.

import { fill, h } from '../../core/dom.js';
import { localTime, number, plural } from '../../core/format.js';
import { button } from '../../parts/button.js';
import { notice } from '../../parts/notice.js';
import { download } from '../../parts/payload.js';
import { refresh } from '../../parts/refresh.js';
import { isNoise } from '../../timeline/events.js';
import { eventRow } from './event_row.js';
import { matches } from './event_text.js';
import { undoneEvents } from './undone.js';

/** @import { HistoryEvent } from '../../core/types.js' */
/** @import { Tab } from '../instance.js' */
/** @import { Data } from './data.js' */

const PAGE = 200;

/** @type {Tab} */
export function eventsTab({ root, id, signal, setQuery }) {
  /** @type {Data | null} */
  let data = null;
  let query = new URLSearchParams();
  let stamp = '';
  /** What a person has opened stays open. @type {Set<number>} */
  const open = new Set();
  /** The event that the address names is opened and shown once. @type {string | null} */
  let revealed = null;

  let typing = 0;
  const search = h('input', {
    type: 'search', placeholder: 'Search names, inputs, results', 'aria-label': 'Search in events',
    on: {
      input: () => {
        clearTimeout(typing);
        typing = window.setTimeout(() => setQuery({ q: search.value || null, page: null, event: null }), 200);
      },
    },
  });
  const noise = h('input', { type: 'checkbox', on: { change: () => setQuery({ noise: noise.checked ? null : 'show', page: null, event: null }) } });
  const absolute = h('input', { type: 'checkbox', on: { change: () => setQuery({ time: absolute.checked ? 'absolute' : null }) } });
  const undone = undoneEvents(id, signal, () => data && show(data, query));
  const which = h('select', { 'aria-label': 'Which events', on: { change: () => choose(which.value) } });
  /** @param {string} number of a rewind */
  const choose = (number) => setQuery({ undone: number || null, page: null, event: null });
  const about = h('div', { class: 'ev-about' });
  const count = h('span', { class: 'muted', role: 'status' });
  const controls = h(
    'div', { class: 'ev-controls' }, which, search,
    h('label', { class: 'check', title: 'Custom status, keys, and ends of waits' }, noise, 'Hide noise'), h('label', { class: 'check' }, absolute, 'Absolute times'), count,
    button('Download JSON', { title: 'All events of this execution', on: () => { if (shown) save(shown); } }),
  );
  const list = h('div', { class: 'ev-list' });
  const pages = h('div', { class: 'ev-pages' });
  const body = h('div', null, controls, about, list, pages);
  /** What the table shows. @type {Data | null} */
  let shown = null;

  return show;

  /** @param {Data} next @param {URLSearchParams} filters */
  function show(next, filters) {
    data = next;
    query = filters;
    if (!next.model) {
      fill(root, next.instance && !next.instance.startedAt
        ? notice({ kind: 'empty', title: 'No events yet', text: 'The first turn of this instance has not run.' })
        : !next.problem && h('p', { class: 'muted' }, 'Loading the history…'));
      return;
    }
    if (body.parentElement !== root) fill(root, body);
    const number = Number(query.get('undone')) || 0;
    const old = number > 0 ? undone.get(number) : null;
    chooser(next, number);
    fill(about, number > 0 && undone.about(number, button('Back to the history', { on: () => choose('') })));
    list.toggleAttribute('data-undone', number > 0);
    shown = number === 0 ? next : old && { ...next, ...old, attempts: new Map(), whole: true };
    const now = JSON.stringify([query.toString(), next.execution, next.rewinds, shown?.events.length]);
    if (now !== stamp) {
      if (shown) render(shown);
      else for (const part of [count, list, pages]) fill(part);
    }
    stamp = now;
  }

  /** The rewinds of this execution, if there are any. @param {Data} of @param {number} number */
  function chooser({ instance, execution }, number) {
    const rewinds = instance?.rewinds?.filter((one) => one.execution === execution) ?? [];
    refresh(which, [rewinds, number], () => [
      h('option', { value: '' }, 'History'),
      rewinds.map((one) => h('option', { value: one.number, selected: one.number === number }, `Undone by rewind ${one.number}, ${localTime(one.at)}`)),
    ]);
    which.hidden = rewinds.length === 0;
  }

  /** @param {Data} of */
  function render(of) {
    const wanted = query.get('event');
    const text = query.get('q') ?? '';
    const named = wanted === null ? undefined : of.events.find((event) => event.event_id === Number(wanted));
    const quiet = query.get('noise') !== 'show' && !(named && isNoise(named));
    const shown = of.events.filter((event) => (!quiet || !isNoise(event)) && matches(event, text));
    if (search !== document.activeElement) search.value = text;
    noise.checked = quiet;
    absolute.checked = query.get('time') === 'absolute';
    const last = Math.max(1, Math.ceil(shown.length / PAGE));
    const place = named ? shown.indexOf(named) : -1;
    const page = Math.min(last, query.has('page') || place < 0 ? Math.max(1, Number(query.get('page')) || 1) : Math.floor(place / PAGE) + 1);
    const first = wanted !== null && revealed !== wanted && named;
    if (first) open.add(named.event_id);
    // An event that was not loaded yet is revealed later.
    if (named || wanted === null) revealed = wanted;
    fill(count, shown.length === of.events.length ? plural(shown.length, 'event') : `${number(shown.length)} of ${plural(of.events.length, 'event')}`);
    fill(list, shown.length ? table(of, shown.slice((page - 1) * PAGE, page * PAGE), named) : nothing(text));
    fill(pages, last > 1 && pager(page, last));
    if (first) list.querySelector(`#event-${named.event_id}`)?.scrollIntoView({ block: 'center' });
  }

  /** @param {Data} of @param {HistoryEvent[]} events @param {HistoryEvent | undefined} named */
  function table(of, events, named) {
    // What was undone may have been scheduled by an event that was kept.
    const byId = new Map([...(data?.events ?? []), ...of.events].map((event) => [event.event_id, event]));
    return h(
      'table', { class: 'table ev-table' }, h('caption', { class: 'visually-hidden' }, query.has('undone') ? 'Undone events' : 'Events'),
      h('thead', null, h('tr', null, ['Event', 'Time', 'What', 'Name', 'Content'].map((label) => h('th', { scope: 'col', class: label === 'Event' ? 'number' : undefined }, label)))),
      h('tbody', null, events.map((event) => eventRow(event, {
        id, byId, model: /** @type {NonNullable<Data['model']>} */ (of.model), absolute: absolute.checked, open: open.has(event.event_id), named: event === named, execution: query.get('execution'), undone: query.get('undone'), from: of.events[0]?.event_id ?? 0,
        toggle: (opened) => (opened ? open.add(event.event_id) : open.delete(event.event_id)),
      }))),
    );
  }

  /** @param {number} page @param {number} last */
  function pager(page, last) {
    /** @param {string} label @param {number} to */
    const step = (label, to) => button(label, { disabled: to < 1 || to > last, on: () => setQuery({ page: String(to), event: null }) });
    return [step('First', page === 1 ? 0 : 1), step('Previous', page - 1), h('span', null, `Page ${number(page)} of ${number(last)}`), step('Next', page + 1), step('Last', page === last ? 0 : last)];
  }

  /** @param {string} text */
  function nothing(text) {
    return notice({
      kind: 'empty', title: text ? `No event contains “${text}”` : 'No events but noise',
      actions: button('Show all events', { on: () => setQuery({ q: null, noise: 'show', page: null, event: null }) }),
    });
  }
}

/** @param {Data} data */
function save(data) {
  const whole = { instance: data.id, execution: data.execution, complete: data.whole, events: data.events, attempts: [...data.attempts.values()] };
  download(JSON.stringify(whole, null, 2), `${data.id.replaceAll(/[^\w.-]+/g, '_').slice(0, 100)}-${data.execution}-history.json`);
}
