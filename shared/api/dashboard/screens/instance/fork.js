// Forking an instance: a new one from a point of its history, with other results, input or version. A dry run shows what would run.

import * as api from '../../core/api.js';
import { h } from '../../core/dom.js';
import { go, href } from '../../core/router.js';
import { button } from '../../parts/button.js';
import { field, input } from '../../parts/field.js';
import { jsonField } from '../../parts/json_field.js';
import { toast } from '../../parts/toast.js';
import { ask } from './ask.js';
import { preview, steps } from './preview.js';

/** @param {string} id @param {{at?: number, execution?: number}} [from] */
export function fork(id, { at, execution } = {}) {
  const newId = field('Id of the fork', input({ value: `${id}-fork`, required: true, maxlength: 1024 }));
  const last = field('Last event that is taken over', input({ type: 'number', min: 1, value: at === undefined ? '' : String(at) }), { hint: 'Empty: all of them.' });
  const version = field('Version (optional)', input({ maxlength: 128 }), { hint: 'Without one, that of the source.' });
  const data = jsonField('Another input (optional)', { rows: 3 });
  const results = edits();
  const request = () => ({
    newId: newId.control.value, execution, at: Number(last.control.value) || undefined, version: version.control.value.trim() || undefined,
    inputText: data.text(), results: results.read(),
  });
  const { element, look } = preview(async () => {
    const found = await api.fork(id, { ...request(), dryRun: true });
    const { activities, children, timers, reused, delivered } = found;
    return [
      h('p', null, `Events 1 to ${found.at} would be taken over${activities.length + children.length === 0 ? '; nothing would run at once' : ''}.`),
      steps([['Would run', [...activities, ...children]], ['Waited for', timers], ['Results used again', reused], ['Delivered', delivered]]),
    ];
  });
  ask({
    title: 'Fork this instance?', action: 'Fork', what: 'The instance', lost: 'The request may have arrived or not. Look whether the fork exists.', wide: true,
    body: h(
      'div', { class: 'stack-small', on: { change: look } }, h('p', null, 'A new instance goes on from a point of this history. What runs in it has its effects. This instance does not change.'), element,
      h('div', { class: 'filters' }, newId.element, last.element, version.element), results.element, data.element,
    ),
    send: async () => {
      if (!results.check() || !data.check()) return false;
      const { instance } = await api.fork(id, request());
      toast(`${instance} was forked.`, 'success');
      return go(href(['instances', instance]));
    },
  });
  look();
}

/** Results that the fork has instead of the recorded ones. A row without the number of an event is not used. */
function edits() {
  const rows = h('div', { class: 'stack-small' });
  /** @type {{event: HTMLInputElement, text: ReturnType<typeof jsonField>}[]} */
  const all = [];
  const used = () => all.filter(({ event }) => Number(event.value) > 0);
  const add = () => {
    const event = field('Event that has the result', input({ type: 'number', min: 1 }), { hint: 'A failure becomes a result, too.' });
    const text = jsonField('Its result in the fork', { rows: 3, optional: false });
    all.push({ event: event.control, text });
    rows.append(event.element, text.element);
    event.control.focus();
  };
  return {
    element: h('div', { class: 'stack-small' }, rows, button('Change a result', { on: add })),
    check: () => used().every(({ text }) => text.check()),
    read: () => used().map(({ event, text }) => ({ event: Number(event.value), resultText: text.control.value })),
  };
}
