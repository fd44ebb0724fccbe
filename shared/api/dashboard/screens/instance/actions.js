// What can be done with an instance. What the role or the state forbids is shown, with the reason.

import * as api from '../../core/api.js';
import { h } from '../../core/dom.js';
import { plural } from '../../core/format.js';
import { go } from '../../core/router.js';
import { button } from '../../parts/button.js';
import { field, input } from '../../parts/field.js';
import { raiseDialog } from '../../parts/raise.js';
import { toast } from '../../parts/toast.js';
import { ask } from './ask.js';
import { forget, isFinished } from './data.js';
import { fork } from './fork.js';
import { pause, resume } from './pause.js';
import { restart } from './restart.js';

/** @import { Instance } from '../../core/types.js' */

/**
 * @param {{id: string, instance: Instance, gone: boolean, reload: () => void, waits: {name: string, to: 'events' | 'queues'}[]}} options
 * @returns {HTMLElement[]}
 */
export function actions({ id, instance, gone, reload, waits }) {
  const over = isFinished(instance.status);
  const deleted = gone ? 'The instance was deleted.' : null;
  const ended = deleted ?? (over ? 'The instance has ended.' : null);
  const kept = deleted ?? (over ? null : 'Only an instance that has ended can be deleted. Cancel it first.')
    ?? (instance.parent ? 'A child is deleted with its root instance.' : null);
  const single = deleted ?? (instance.execution > 1 ? null : 'It has one execution: there is nothing to prune.');
  return [
    button('Send event…', { needs: 'client', disabled: ended ?? false, on: async () => (await raiseDialog(id, waits[0])) && reload() }),
    instance.status === 'Paused'
      ? button('Resume…', { needs: 'operator', disabled: ended ?? false, on: () => resume(id, reload) })
      : button('Pause…', { needs: 'operator', disabled: ended ?? false, on: () => pause(id, reload) }),
    button('Cancel…', { needs: 'operator', kind: 'danger', disabled: ended ?? false, on: () => cancel(id, reload) }),
    button('Restart…', { needs: 'operator', disabled: deleted ?? false, on: () => restart(id, instance, reload) }),
    button('Fork…', { needs: 'operator', disabled: deleted ?? (instance.startedAt ? false : 'It has no history yet.'), on: () => fork(id) }),
    button('Prune…', { needs: 'operator', disabled: single ?? false, on: () => prune(id, instance, reload) }),
    button('Delete…', { needs: 'operator', kind: 'danger', disabled: kept ?? false, on: () => remove(id) }),
  ];
}

/** @param {string} id @param {() => void} reload */
function cancel(id, reload) {
  const reason = field('Reason', input({ maxlength: 512 }), { hint: 'It is recorded, and shown as the error of the instance.' });
  ask({
    title: 'Cancel this instance?', action: 'Cancel the instance', danger: true, what: 'The instance',
    body: [h('p', null, 'The workflow ends at its next turn, and its children are cancelled, too. Nothing that it did is undone: compensations do not run.'), reason.element],
    send: async () => {
      await api.cancel(id, reason.control.value || undefined);
      toast('The cancellation was requested.', 'success');
      reload();
    },
  });
}

/** @param {string} id @param {Instance} instance @param {() => void} reload */
function prune(id, instance, reload) {
  const keep = field('Executions to keep', input({ type: 'number', min: 1, max: instance.execution, value: '1' }), { hint: 'The newest ones. The current one is always kept.' });
  ask({
    title: 'Prune executions?', action: 'Prune', danger: true, what: 'The instance',
    body: [h('p', null, 'The histories of older executions are deleted. This cannot be undone.'), keep.element],
    send: async () => {
      const done = await api.prune(id, Math.max(1, Math.floor(Number(keep.control.value)) || 1));
      toast(`${plural(done.executions, 'execution')} with ${plural(done.events, 'event')} deleted.`, 'success');
      reload();
    },
  });
}

/** @param {string} id */
function remove(id) {
  ask({
    title: 'Delete this instance?', action: 'Delete', danger: true, what: 'The instance',
    body: h('p', null, 'The instance, its history, its keys and its children are deleted. This cannot be undone.'),
    send: async () => {
      const done = await api.remove(id);
      toast(`${plural(done.instances, 'instance')} with ${plural(done.events, 'event')} deleted.`, 'success');
      forget();
      go('#/instances');
    },
  });
}
