// One batch: its progress, and how to stop it.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { live } from '../core/live.js';
import { lacks } from '../core/session.js';
import { button } from '../parts/button.js';
import { failure, notice } from '../parts/notice.js';
import { refresh } from '../parts/refresh.js';
import { toast } from '../parts/toast.js';
import { hasEnded, progressPart, whichOf } from './batches/progress.js';
import { ACTIONS } from './batches/request.js';
import { ask } from './instance/ask.js';

/** @import { Batch } from '../core/types.js' */
/** @import { Screen } from '../core/router.js' */

const EVERY_MS = 1_000;

/** @type {Screen} */
export function batchScreen({ root, params: [id], signal }) {
  const title = h('h1', null, 'Batch');
  const buttons = h('div', { class: 'screen-actions' });
  const banner = h('div');
  const which = h('section', { class: 'card pad', 'aria-label': 'Which instances', hidden: true });
  const progress = progressPart(signal);
  progress.element.hidden = true;
  const crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Place' }, h('a', { href: '#/batches' }, 'Batches'), ' / ', h('bdi', null, id));
  const why = lacks('operator');
  fill(root, crumbs, h('div', { class: 'screen-head' }, title, buttons), why ? notice({ kind: 'info', title: 'You may not see batches', text: h('p', null, why) }) : [banner, which, progress.element]);
  if (why) return;

  let ended = false;
  /** @type {number | null} */
  let shownAt = null;
  /** @param {Batch} batch */
  const show = (batch) => {
    ended = hasEnded(batch);
    shownAt = Date.now();
    fill(banner);
    fill(title, `${ACTIONS[batch.action]?.label ?? batch.action} many instances${batch.dryRun ? ' (dry run)' : ''}`);
    refresh(buttons, batch.state, () => button('Cancel the batch…', { kind: 'danger', needs: 'operator', disabled: ended ? 'The batch has ended.' : batch.state === 'Cancelling', on: cancel }));
    refresh(which, batch.filter, () => whichOf(batch.filter));
    which.hidden = progress.element.hidden = false;
    progress.update(batch);
  };
  const loop = live({
    signal, show, load: (abort) => api.batch(id, abort), everyMs: () => (ended ? null : EVERY_MS),
    fail: (error, retryMs) => fill(banner, failure(error, { what: 'The batch', retryMs, shownAt })),
  });
  const cancel = () => ask({
    title: 'Cancel this batch?', action: 'Cancel the batch', danger: true, what: 'The batch', lost: 'The request may have arrived or not. Send it again: it does no harm.',
    body: h('p', null, 'It stops after the instances that it is just handling. What it has done stays done.'),
    send: async () => {
      show(await api.cancelBatch(id));
      toast('The cancellation of the batch was requested.', 'success');
      loop.now();
    },
  });
}
