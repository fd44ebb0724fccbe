// The list of dead letters: what was given up, and why.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { number } from '../core/format.js';
import { live } from '../core/live.js';
import { go, href } from '../core/router.js';
import { restoreScroll } from '../core/scroll.js';
import { lacks } from '../core/session.js';
import { linkButton } from '../parts/button.js';
import { field, filterCard, input } from '../parts/field.js';
import { clamped, instanceLink, name as nameOf } from '../parts/links.js';
import { failure, notice } from '../parts/notice.js';
import { pager } from '../parts/pager.js';
import { first, next, pageLinks, readPlace, writePlace } from '../parts/paging.js';
import { liveTable } from '../parts/table.js';
import { age } from '../parts/time.js';
import { KINDS, kindLabel, letterAddress } from './dead_letters/kinds.js';

/** @import { DeadLetterList, DeadLetterSummary } from '../core/types.js' */
/** @import { Screen } from '../core/router.js' */
/** @import { Place } from '../parts/paging.js' */

/** @typedef {Place & {kind: string, instance: string}} View */

const LIMIT = 50;
const EVERY_MS = 10_000;

/** @type {Screen} */
export function deadLettersScreen({ root, query, signal }) {
  const head = h('div', { class: 'screen-head' }, h('h1', null, 'Dead letters'));
  const why = lacks('operator');
  if (why) {
    fill(root, head, notice({ kind: 'info', title: 'You may not see dead letters', text: h('p', null, why) }));
    return undefined;
  }

  let view = read(query);
  const kind = field('Kind', h(
    'select', { on: { change: () => go(address({ ...first(view), kind: kind.control.value })) } },
    h('option', { value: '' }, 'All'), Object.entries(KINDS).map(([value, label]) => h('option', { value }, label)),
  ));
  const instance = field('Instance', input({ on: { change: () => go(address({ ...first(view), instance: instance.control.value.trim() })) } }));
  const banner = h('div');
  const results = liveTable({
    caption: 'Dead letters, the newest first', columns: COLUMNS, rows: /** @type {DeadLetterSummary[]} */ ([]), key: letterAddress,
  });
  const empty = h('div');
  const pages = pager('Pages');
  fill(
    root, head,
    filterCard('Filters', h('div', { class: 'filters' }, kind.element, instance.element)),
    banner, h('section', { class: 'card list-card', 'aria-label': 'Results' }, results.element, empty), pages.element,
  );

  /** @type {number | null} */
  let shownAt = null;
  /** @type {AbortController | null} */
  let loop = null;

  /** @param {DeadLetterList} list */
  const show = ({ deadLetters, nextCursor }) => {
    shownAt = Date.now();
    fill(banner);
    results.update(deadLetters);
    results.element.hidden = deadLetters.length === 0;
    fill(empty, deadLetters.length === 0 && nothing(view, nextCursor));
    pages.show({ ...pageLinks(view, nextCursor, address), text: deadLetters.length > 0 ? `Page ${view.page}` : '' });
    restoreScroll();
  };
  const load = () => {
    loop?.abort();
    loop = new AbortController();
    kind.control.value = view.kind;
    instance.control.value = view.instance;
    live({
      signal: AbortSignal.any([signal, loop.signal]), everyMs: EVERY_MS, show,
      load: (abort) => api.deadLetters({ kind: view.kind, instance: view.instance, cursor: view.cursor, limit: LIMIT }, abort),
      fail: (error, retryMs) => fill(banner, failure(error, { what: 'The list', retryMs, shownAt })),
    });
  };
  load();
  return (changed) => {
    view = read(changed);
    load();
  };
}

/** @param {URLSearchParams} query @returns {View} */
const read = (query) => ({ ...readPlace(query), kind: query.get('kind') ?? '', instance: query.get('instance') ?? '' });

/** @param {View} view */
function address(view) {
  const query = new URLSearchParams();
  if (view.kind) query.set('kind', view.kind);
  if (view.instance) query.set('instance', view.instance);
  writePlace(view, query);
  return href(['dead-letters'], query);
}

/** @type {import('../parts/table.js').Column<DeadLetterSummary>[]} */
const COLUMNS = [
  { label: 'Given up', class: 'nowrap', cell: ({ givenUpAt }) => age(givenUpAt) },
  { label: 'Kind', cell: (letter) => h('a', { href: letterAddress(letter) }, kindLabel(letter.kind)) },
  { label: 'Name', cell: ({ name }) => name && nameOf(name) },
  { label: 'Instance', class: 'cell-id', cell: ({ instance }) => instanceLink(instance) },
  { label: 'Reason', class: 'cell-custom', cell: ({ reason }) => clamped(reason) },
  { label: 'Attempts', number: true, cell: ({ attempts }) => number(attempts) },
];

/** @param {View} view @param {string | undefined} cursor */
function nothing(view, cursor) {
  if (cursor) {
    return notice({ kind: 'empty', title: 'Nothing found so far', actions: linkButton('Search on', address(next(view, cursor)), 'primary') });
  }
  if (!view.kind && !view.instance) return notice({ kind: 'empty', title: 'There are no dead letters', text: 'Nothing was given up.' });
  const parts = [view.kind && `kind: ${kindLabel(view.kind)}`, view.instance && `instance: ${view.instance}`].filter(Boolean);
  return notice({
    kind: 'empty', title: 'No dead letter matches these filters', text: h('p', null, parts.join(', ')),
    actions: linkButton('Clear all filters', '#/dead-letters'),
  });
}
