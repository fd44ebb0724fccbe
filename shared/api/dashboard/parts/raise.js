// The form that sends an event, or a message to a queue of an instance.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { button } from './button.js';
import { dialog } from './dialog.js';
import { field, input } from './field.js';
import { jsonField } from './json_field.js';
import { intent } from './intent.js';
import { SAFE_TO_REPEAT, failure } from './notice.js';
import { toast } from './toast.js';

/**
 * Opens the form. The promise has whether something was sent.
 * @param {string} id the instance
 * @param {{name?: string, to?: 'events' | 'queues'}} [options] what the instance waits for, if that is known
 * @returns {Promise<boolean>}
 */
export function raiseDialog(id, { name = '', to = 'events' } = {}) {
  return new Promise((resolve) => {
    let sent = false;
    const keyFor = intent();
    const kind = h(
      'select', null,
      h('option', { value: 'events', selected: to === 'events' }, 'Event'),
      h('option', { value: 'queues', selected: to === 'queues' }, 'Message to a queue'),
    );
    const kindField = field('Send', kind, {
      hint: 'An event reaches who waits for it at that moment. A message stays in its queue until the workflow takes it.',
    });
    const nameField = field('Name', input({ value: name, required: true, maxlength: 512 }), {
      hint: 'The name that the workflow waits for, such as approval.',
    });
    const data = jsonField('Data', { rows: 8, hint: 'What the workflow receives. Without data it receives the empty text.' });
    const problem = h('div');

    const send = async () => {
      const wanted = nameField.control.value;
      nameField.setError(wanted === '' ? 'Give the name that the workflow waits for.' : null);
      if (wanted === '') return nameField.control.focus();
      if (!data.check()) return data.control.focus();
      const text = data.text();
      const request = text === undefined ? {} : { dataText: text };
      const where = kind.value === 'queues' ? 'queues' : 'events';
      try {
        await api.raise(id, where, wanted, request, keyFor([where, wanted, request]));
        sent = true;
        toast(where === 'events' ? `The event ${wanted} was sent.` : `The message was sent to the queue ${wanted}.`, 'success');
        form.close();
      } catch (error) {
        // The form stays open with everything in it. The same key makes a second attempt safe.
        fill(problem, failure(error, { what: `The instance ${id}`, lost: SAFE_TO_REPEAT }));
      }
    };
    const submit = button('Send', { kind: 'primary', needs: 'client', type: 'submit', on: send });
    const form = dialog({
      title: 'Send an event or a message', wide: true, closed: () => resolve(sent),
      body: [h('p', { class: 'muted' }, 'To the instance ', h('code', null, id)), kindField.element, nameField.element, data.element, problem],
      actions: [button('Close', { on: () => form.close() }), submit],
    });
    // A dialog has no form around it: Enter in the name sends, too.
    nameField.control.addEventListener('keydown', (event) => event.key === 'Enter' && submit.click());
    (name ? data.control : nameField.control).focus();
  });
}
