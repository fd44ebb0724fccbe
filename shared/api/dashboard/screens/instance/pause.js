// Pausing and resuming an instance, alone or with its children. Both can be repeated: what is so already stays so.

import * as api from '../../core/api.js';
import { h } from '../../core/dom.js';
import { plural } from '../../core/format.js';
import { box, field, input } from '../../parts/field.js';
import { toast } from '../../parts/toast.js';
import { ask } from './ask.js';

const LOST = 'The request may have arrived or not. Send it again: an instance that is so already does not change.';

/** @param {string} id @param {() => void} reload */
export function pause(id, reload) {
  const reason = field('Reason', input({ maxlength: 250 }), { hint: 'Everybody who looks at the instance sees it.' });
  const children = box('Also all its children');
  ask({
    title: 'Pause this instance?', action: 'Pause', what: 'The instance', lost: LOST,
    body: [
      h('p', null, 'It takes no turn and starts no activity until it is resumed. Activities that run complete, and what arrives is kept. Cancelling it takes effect at once.'),
      reason.element, children.element,
    ],
    send: async () => {
      const { changed } = await api.pause(id, { reason: reason.control.value.trim() || undefined, children: children.control.checked });
      toast(changed === 0 ? 'It was paused already.' : `${plural(changed, 'instance')} paused.`, 'success');
      reload();
    },
  });
}

/** @param {string} id @param {() => void} reload */
export function resume(id, reload) {
  const children = box('Also all its children, whoever has paused them');
  ask({
    title: 'Resume this instance?', action: 'Resume', what: 'The instance', lost: LOST,
    body: [h('p', null, 'Everything that waits is due again. Timers that fell due meanwhile fire once.'), children.element],
    send: async () => {
      const { changed } = await api.resume(id, { children: children.control.checked });
      toast(changed === 0 ? 'It was not paused. Its wakeups were sent again.' : `${plural(changed, 'instance')} resumed.`, 'success');
      reload();
    },
  });
}
