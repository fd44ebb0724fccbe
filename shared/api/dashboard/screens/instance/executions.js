// The executions of an instance that has continued as new: the list, and the bar that says which one is shown.

import * as api from '../../core/api.js';
import { fill, h } from '../../core/dom.js';
import { duration, number } from '../../core/format.js';
import { href } from '../../core/router.js';
import { button } from '../../parts/button.js';
import { notice } from '../../parts/notice.js';
import { badge } from '../../parts/status.js';
import { table } from '../../parts/table.js';
import { when } from '../../parts/time.js';
import { paged } from './paged.js';

/** @import { Execution } from '../../core/types.js' */
/** @import { Tab } from '../instance.js' */
/** @import { Data } from './data.js' */

/** @type {Tab} */
export function executionsTab({ root, id, signal }) {
  let etag = /** @type {string | null} */ (null);
  const pages = paged({
    signal, what: 'The executions',
    load: async (/** @type {number | undefined} */ after) => {
      const page = await api.executions(id, after, signal);
      return { items: page.executions, next: page.nextAfter };
    },
    show: (executions) => {
      if (!executions.length) return notice({ kind: 'empty', title: 'No execution yet', text: 'The first turn of this instance has not run.' });
      return h('div', { class: 'card' }, table({
        caption: 'Executions', rows: executions,
        columns: [
          { label: 'Execution', cell: (/** @type {Execution} */ { execution }) => h('a', { href: href(['instances', id], { execution: String(execution) }) }, `Execution ${number(execution)}`) },
          { label: 'Status', cell: ({ status }) => badge(status) }, { label: 'Started', cell: ({ startedAt }) => when(startedAt) },
          { label: 'Ended', cell: ({ completedAt }) => (completedAt ? when(completedAt) : '') },
          { label: 'Duration', number: true, cell: ({ startedAt, completedAt }) => (completedAt ? duration(Date.parse(completedAt) - Date.parse(startedAt)) : '') },
          { label: 'Events', number: true, cell: ({ events }) => number(events) },
        ],
      }));
    },
  });
  fill(root, pages.element);
  return (data) => {
    if (etag !== null && data.etag !== etag) pages.reload();
    etag = data.etag;
  };
}

/**
 * Says which execution is shown, if there are several, and leads to those beside it.
 * @param {HTMLElement} root
 * @param {Data} data
 * @param {string} tab
 * @param {(changes: Record<string, string | null>) => void} setQuery
 */
export function executionBar(root, data, tab, setQuery) {
  const current = data.instance?.execution ?? 1;
  const shown = data.pinned ?? current;
  const stamp = `${current}/${data.pinned}`;
  if (root.dataset.stamp === stamp) return;
  root.dataset.stamp = stamp;
  if ((current === 1 && shown === 1) || (tab !== 'timeline' && tab !== 'events')) {
    fill(root);
    return;
  }
  /** @param {number} to */
  const pick = (to) => setQuery({ execution: to === current ? null : String(to), lane: null, event: null, page: null });
  fill(root, h(
    'div', { class: 'exec-bar' },
    button('Older', { disabled: shown <= 1 ? 'This is the first execution.' : false, on: () => pick(shown - 1) }),
    h('span', null, `Execution ${number(shown)} of ${number(current)}`, shown === current ? ' (current)' : ''),
    button('Newer', { disabled: shown >= current ? 'This is the current execution.' : false, on: () => pick(shown + 1) }),
    data.pinned !== null && shown !== current && button('Current', { on: () => pick(current) }),
  ));
}
