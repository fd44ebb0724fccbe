// Restarting an instance: the same input as a new instance, or as the next execution of the same one.

import * as api from '../../core/api.js';
import { h } from '../../core/dom.js';
import { go, href } from '../../core/router.js';
import { box, field, input } from '../../parts/field.js';
import { intent } from '../../parts/intent.js';
import { SAFE_TO_REPEAT } from '../../parts/notice.js';
import { toast } from '../../parts/toast.js';
import { ask } from './ask.js';
import { isFinished } from './data.js';

/** @import { Instance } from '../../core/types.js' */

/** @param {string} id @param {Instance} instance @param {() => void} reload */
export function restart(id, instance, reload) {
  const keyFor = intent();
  const over = isFinished(instance.status);
  const how = field('As', h('select', { on: { change: choose } }, h('option', { value: 'new' }, 'A new instance'), h('option', { value: 'same', disabled: !over }, 'The next execution of this instance')), {
    hint: over ? undefined : 'Only an instance that has ended can get another execution.',
  });
  const newId = field('Id of the new instance (optional)', input({ maxlength: 1024 }), { hint: 'Without one, the API makes one.' });
  const version = field('Version (optional)', input({ maxlength: 128 }), { hint: 'Without one, the newest that is registered.' });
  const alone = box('Although it is a child: its parent does not hear of it');
  function choose() {
    newId.element.hidden = how.control.value === 'same';
    alone.element.hidden = how.control.value === 'new' || !instance.parent;
  }
  choose();
  ask({
    title: 'Restart this instance?', action: 'Restart', what: 'The instance', lost: SAFE_TO_REPEAT,
    body: [h('p', null, 'The same input runs from the beginning: all its activities run, with their effects.'), how.element, newId.element, version.element, alone.element],
    send: async () => {
      const inPlace = how.control.value === 'same';
      const request = {
        inPlace, version: version.control.value.trim() || undefined, newId: (!inPlace && newId.control.value) || undefined, alone: inPlace && alone.control.checked,
      };
      const done = await api.restart(id, request, keyFor(request));
      toast(inPlace ? 'It was restarted.' : `${done.instance} was started.`, 'success');
      if (inPlace) reload();
      else go(href(['instances', done.instance]));
    },
  });
}
