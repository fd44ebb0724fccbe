// What a batch has done so far, or would do: counts, rate, statuses, the first instances, and those that failed.

import * as api from '../../core/api.js';
import { fill, h } from '../../core/dom.js';
import { number, plural } from '../../core/format.js';
import { instanceLink, name } from '../../parts/links.js';
import { notice } from '../../parts/notice.js';
import { refresh } from '../../parts/refresh.js';
import { badge } from '../../parts/status.js';
import { table } from '../../parts/table.js';
import { age, when } from '../../parts/time.js';
import { visible } from '../../parts/visible.js';
import { paged } from '../instance/paged.js';
import { filterNames } from '../instances/words.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Batch } from '../../core/types.js' */

const ABOUT = {
  Running: 'It goes on.', Cancelling: 'It ends with its next step.', Completed: 'Every instance was handled.', Cancelled: 'What it had done stays done.', Failed: 'It cannot go on.',
};

/** @param {Batch} batch */
export const hasEnded = ({ state }) => state !== 'Running' && state !== 'Cancelling';

/** @param {Batch} batch */
export const stateBadge = ({ state }) => badge(state, ABOUT[state]);

/** Which instances, in words. @param {Batch['filter']} filter */
export const whichOf = ({ tags = {}, all, ...filters }) => (all ? h('p', null, 'All instances') : filterNames(filters, Object.entries(tags).map((tag) => tag.join(':'))));

/**
 * @param {AbortSignal} signal
 * @param {HTMLElement} [below] what is between the numbers and the instances
 * @returns {{element: HTMLElement, update: (batch: Batch) => void}}
 */
export function progressPart(signal, below) {
  const state = h('div', { class: 'batch-state' });
  const problem = h('div');
  const facts = h('dl', { class: 'facts' });
  const found = h('div');
  const failed = h('section', { class: 'card pad', hidden: true });
  /** @type {ReturnType<typeof paged> | null} */
  let failures = null;
  let listed = 0;

  /** @param {Batch} batch */
  const update = (batch) => {
    const { batch: id, counts, dryRun, error } = batch;
    refresh(state, [batch.state, counts.examined, dryRun], () => [
      stateBadge(batch), h('span', { class: 'strong' }, `${plural(counts.examined, 'instance')} ${dryRun ? 'looked at' : 'handled'}${hasEnded(batch) ? '' : ' so far'}`),
    ]);
    refresh(problem, error, () => error !== undefined && notice({ kind: 'error', title: 'The batch cannot go on', text: h('p', null, visible(error)) }));
    refresh(facts, batch, () => factsOf(batch).map(([label, value]) => h('div', null, h('dt', null, label), h('dd', null, value))));
    refresh(found, [batch.byStatus, batch.sample], () => foundPart(batch));
    failed.hidden = counts.failed === 0;
    if (counts.failed === listed) return;
    listed = counts.failed;
    if (failures) return failures.reload();
    failures = paged({
      what: 'The list', signal,
      load: async (/** @type {string | undefined} */ after) => {
        const page = await api.batchFailures(id, after, signal);
        return { items: page.failures, next: page.nextCursor };
      },
      show: (items) => table({
        caption: 'Instances that failed in this batch', rows: items,
        columns: [
          { label: 'Instance', class: 'cell-id', cell: ({ instance }) => instanceLink(instance) }, { label: 'Reason', cell: ({ reason }) => visible(reason) },
        ],
      }),
    });
    fill(failed, h('h2', null, dryRun ? 'Would refuse' : 'Failed'), failures.element);
  };
  return { element: h('div', { class: 'stack' }, h('section', { class: 'card pad stack', 'aria-label': 'Progress' }, state, problem, facts), below, found, failed), update };
}

/** @param {Batch} batch @returns {[string, Child][]} */
function factsOf({ counts, dryRun, rate, slowed, by, createdAt, updatedAt, endedAt }) {
  const seconds = (Date.parse(endedAt ?? updatedAt) - Date.parse(createdAt)) / 1000;
  /** @type {[string, Child][]} */
  const rows = [
    [dryRun ? 'Would change' : 'Changed', number(counts.changed)], ['Nothing to do', number(counts.unchanged)],
    [dryRun ? 'Would refuse' : 'Failed', number(counts.failed)],
  ];
  if (counts.gone > 0) rows.push(['Deleted meanwhile', number(counts.gone)]);
  rows.push(['Rate', [`at most ${number(rate)} a second`, seconds >= 1 && `, ${number(Math.round(counts.examined / seconds * 10) / 10)} so far`, slowed && '; slower now, because the store or the turns are busy']]);
  rows.push(['Begun', [when(createdAt), ' (', age(createdAt), ')', by && [' by ', name(by)]]]);
  if (endedAt) rows.push(['Ended', when(endedAt)]);
  return rows;
}

/** @param {Batch} batch */
function foundPart({ byStatus, sample }) {
  const statuses = Object.entries(byStatus);
  return sample.length > 0 && h(
    'section', { class: 'card pad stack' }, h('h2', null, 'The first that were found'),
    h('p', { class: 'batch-statuses' }, statuses.map(([status, count]) => h('span', { class: 'nowrap' }, badge(status), ` ${number(count)}`))),
    table({
      caption: 'The first instances', rows: sample,
      columns: [{ label: 'Instance', class: 'cell-id', cell: ({ instance }) => instanceLink(instance) }, { label: 'Status', cell: ({ status }) => badge(status) }],
    }),
  );
}
