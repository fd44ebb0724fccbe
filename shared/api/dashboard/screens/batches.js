// The list of batches, the newest first.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { number } from '../core/format.js';
import { live } from '../core/live.js';
import { href } from '../core/router.js';
import { restoreScroll } from '../core/scroll.js';
import { lacks } from '../core/session.js';
import { linkButton } from '../parts/button.js';
import { name } from '../parts/links.js';
import { failure, notice } from '../parts/notice.js';
import { pager } from '../parts/pager.js';
import { pageLinks, readPlace, writePlace } from '../parts/paging.js';
import { liveTable } from '../parts/table.js';
import { age } from '../parts/time.js';
import { stateBadge, whichOf } from './batches/progress.js';
import { ACTIONS } from './batches/request.js';

/** @import { Batch, BatchList } from '../core/types.js' */
/** @import { Screen } from '../core/router.js' */
/** @import { Place } from '../parts/paging.js' */

const EVERY_MS = 5_000;

/** @type {import('../parts/table.js').Column<Batch>[]} */
const COLUMNS = [
  { label: 'Begun', class: 'nowrap', cell: ({ createdAt }) => age(createdAt) },
  { label: 'State', class: 'nowrap', cell: stateBadge },
  { label: 'Batch', cell: ({ batch, action, dryRun }) => h('div', null, h('a', { href: href(['batches', batch]) }, `${ACTIONS[action]?.label ?? action} many instances`), dryRun && ' (dry run)') },
  { label: 'Which', class: 'cell-custom', cell: ({ filter }) => whichOf(filter) },
  { label: 'Handled', number: true, cell: ({ counts }) => number(counts.examined) },
  { label: 'Changed', number: true, cell: ({ counts }) => number(counts.changed) },
  { label: 'Failed', number: true, cell: ({ counts }) => number(counts.failed) },
  { label: 'By', cell: ({ by }) => by && name(by) },
];

/** @type {Screen} */
export function batchesScreen({ root, query, signal }) {
  const head = h('div', { class: 'screen-head' }, h('h1', null, 'Batches'), linkButton('Choose instances', '#/instances'));
  const why = lacks('operator');
  if (why) {
    fill(root, head, notice({ kind: 'info', title: 'You may not see batches', text: h('p', null, why) }));
    return undefined;
  }
  let view = readPlace(query);
  const banner = h('div');
  const results = liveTable({ caption: 'Batches, the newest first', columns: COLUMNS, rows: /** @type {Batch[]} */ ([]), key: ({ batch }) => batch });
  const empty = h('div');
  const pages = pager('Pages');
  fill(root, head, banner, h('section', { class: 'card list-card', 'aria-label': 'Results' }, results.element, empty), pages.element);
  /** @type {number | null} */
  let shownAt = null;
  /** @type {AbortController | null} */
  let loop = null;
  /** @param {BatchList} list */
  const show = ({ batches, nextCursor }) => {
    shownAt = Date.now();
    fill(banner);
    results.update(batches);
    results.element.hidden = batches.length === 0;
    fill(empty, batches.length === 0 && notice({
      kind: 'empty', title: 'There are no batches', text: h('p', null, 'Choose instances by filters, then act on all that match. Batches are listed for 30 days after their end.'),
    }));
    pages.show({ ...pageLinks(view, nextCursor, address), text: batches.length > 0 ? `Page ${view.page}` : '' });
    restoreScroll();
  };
  const load = () => {
    loop?.abort();
    loop = new AbortController();
    live({
      signal: AbortSignal.any([signal, loop.signal]), everyMs: EVERY_MS, show, load: (abort) => api.batches({ cursor: view.cursor }, abort),
      fail: (error, retryMs) => fill(banner, failure(error, { what: 'The list', retryMs, shownAt })),
    });
  };
  load();
  return (changed) => {
    view = readPlace(changed);
    load();
  };
}

/** @param {Place} view */
function address(view) {
  const query = new URLSearchParams();
  writePlace(view, query);
  return href(['batches'], query);
}
