// One action on all instances that match filters. A dry run comes first: only what it has shown can be started.
//
//   form ── dry run ──> what would happen ── question ──> batch
//    └── any change of the form forgets the dry run

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { plural } from '../core/format.js';
import { live } from '../core/live.js';
import { go, href } from '../core/router.js';
import { lacks } from '../core/session.js';
import { button, linkButton } from '../parts/button.js';
import { box, field, input } from '../parts/field.js';
import { intent } from '../parts/intent.js';
import { jsonField } from '../parts/json_field.js';
import { SAFE_TO_REPEAT, failure, notice } from '../parts/notice.js';
import { toast } from '../parts/toast.js';
import { hasEnded, progressPart, whichOf } from './batches/progress.js';
import { ACTIONS, filterOf, requestOf, unusable } from './batches/request.js';
import { ask } from './instance/ask.js';
import { read, write } from './instances/filters.js';

/** @import { Batch, BatchRequest, BatchVerb } from '../core/types.js' */
/** @import { Screen } from '../core/router.js' */

const EVERY_MS = 500;
const MOST_RATE = 500;

/** @type {Screen} */
export function newBatchScreen({ root, query, signal }) {
  const view = read(query);
  const why = lacks('operator') ?? unusable(view);
  const head = h('div', { class: 'screen-head' }, h('h1', null, 'Act on many instances'));
  const back = linkButton('Change the filters', href(['instances'], write(view)));
  if (why) return void fill(root, head, notice({ kind: 'info', title: 'This cannot be done', text: h('p', null, why), actions: back }));

  const filter = filterOf(view);
  const form = fields();
  const problem = h('div');
  const result = h('div', { class: 'stack' });
  /** @type {AbortController | null} */
  let run = null;
  const reset = () => {
    run?.abort();
    fill(problem);
    fill(result);
  };

  const dryRun = async () => {
    reset();
    const request = form.read(filter);
    if (!request) return;
    run = new AbortController();
    const own = AbortSignal.any([signal, run.signal]);
    try {
      // Each dry run is a new one.
      const begun = await api.startBatch({ ...request, dryRun: true }, crypto.randomUUID());
      if (!own.aborted) await follow(begun, request, own);
    } catch (error) {
      if (!own.aborted) fill(problem, failure(error, { what: 'What would happen', lost: 'Do the dry run again: it changes nothing.' }));
    }
  };

  /** Shows a dry run until it has ended. @param {Batch} begun @param {BatchRequest} request @param {AbortSignal} own */
  const follow = (begun, request, own) => new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    const foot = h('div', { 'aria-live': 'polite' });
    const progress = progressPart(own, foot);
    fill(result, h('h2', null, 'What would happen'), progress.element);
    progress.update(begun);
    own.addEventListener('abort', resolve);
    let ended = false;
    live({
      signal: own, load: (abort) => api.batch(begun.batch, abort), everyMs: () => (ended ? null : EVERY_MS),
      show: (batch) => {
        fill(problem);
        progress.update(batch);
        ended = hasEnded(batch);
        if (!ended) return;
        if (batch.state === 'Completed') fill(foot, startPart(batch, request));
        foot.scrollIntoView({ block: 'nearest' });
        resolve();
      },
      fail: (error, retryMs) => fill(problem, failure(error, { what: 'What would happen', retryMs })),
    });
  });

  const keyFor = intent();
  /** @param {Batch} dry @param {BatchRequest} request */
  const startPart = ({ counts }, request) => {
    const { label, danger, about } = ACTIONS[request.action];
    const what = `${label} ${plural(counts.changed, 'instance')}`;
    return h('div', { class: 'screen-actions' }, button(`${what}…`, {
      kind: danger ? 'danger' : 'primary', needs: 'operator', disabled: counts.changed === 0 && 'Nothing would change.',
      on: () => ask({
        title: `${what}?`, action: label === ACTIONS.raise.label ? 'Send the event' : label, danger, what: 'The batch', lost: SAFE_TO_REPEAT,
        body: [h('p', null, about), whichOf(filter), h('p', null, 'The filters are applied again: instances that have changed since the dry run may match now, or no more.')],
        send: async () => {
          const { batch } = await api.startBatch(request, keyFor(request));
          toast('The batch was begun.', 'success');
          if (!signal.aborted) go(href(['batches', batch]));
        },
      }),
    }));
  };

  form.element.addEventListener('input', reset);
  fill(
    root, head, h('section', { class: 'card pad stack', 'aria-label': 'Which instances' }, h('h2', null, 'All that match these filters'), whichOf(filter), back),
    h(
      'form', { class: 'card pad stack', novalidate: true, on: { submit: (/** @type {Event} */ event) => event.preventDefault() } },
      form.element, h('div', { class: 'screen-actions' }, button('Dry run', { kind: 'primary', type: 'submit', on: dryRun })),
    ),
    problem, result,
  );
}

/** The action, its fields, and the rate. */
function fields() {
  const action = field('Action', h('select', { on: { change: () => choose() } }, Object.entries(ACTIONS).map(([value, { label }]) => h('option', { value }, label.replace(/ to$/, '')))));
  const texts = {
    reason: field('Reason', input({ maxlength: 250 })),
    version: field('Version (optional)', input({ maxlength: 128 }), { hint: 'Without one, the newest that is registered.' }),
    event: field('Name of the event', input({ maxlength: 512 })),
  };
  const data = jsonField('Data', { rows: 5, hint: 'Without data they receive the empty text.' });
  const boxes = {
    children: box('Also all their children'), force: box('Also instances that have not ended'),
    inPlace: box('As the next execution of the same instance, which must have ended'), discardResults: box('Run activities again whose results were obtained'),
    alone: box('Also children, without their parents'),
  };
  const rate = field('Instances a second, at most', input({ type: 'number', min: 1, max: MOST_RATE, value: '20' }));
  const about = h('p', { class: 'muted' });
  /** @type {Record<string, {element: HTMLElement}>} */
  const all = { ...texts, dataText: data, ...boxes };
  const chosen = () => /** @type {BatchVerb} */ (action.control.value);
  function choose() {
    const own = ACTIONS[chosen()];
    fill(about, own.about);
    for (const [name, { element }] of Object.entries(all)) element.hidden = !own.fields.includes(name);
  }
  choose();
  return {
    element: h('div', { class: 'stack-small' }, h('div', { class: 'filters' }, action.element, texts.reason.element, texts.version.element, texts.event.element, rate.element), about, data.element, Object.values(boxes).map(({ element }) => element)),
    /** The request; null if something is missing, which is then shown. @param {BatchRequest['filter']} filter @returns {BatchRequest | null} */
    read: (filter) => {
      const pace = Number(rate.control.value);
      const isPace = Number.isInteger(pace) && pace >= 1 && pace <= MOST_RATE;
      rate.setError(isPace ? null : `A whole number from 1 to ${MOST_RATE}.`);
      const isNamed = chosen() !== 'raise' || texts.event.control.value !== '';
      texts.event.setError(isNamed ? null : 'Give the name that the workflows wait for.');
      if (!isPace) rate.control.focus();
      if (!isNamed) texts.event.control.focus();
      if (!isPace || !isNamed || (chosen() === 'raise' && !data.check())) return null;
      const typed = Object.entries(texts).map(([name, { control }]) => [name, name === 'event' ? control.value : control.value.trim() || undefined]);
      const ticked = Object.entries(boxes).map(([name, { control }]) => [name, control.checked]);
      return requestOf(chosen(), { ...Object.fromEntries([...typed, ...ticked]), dataText: data.text() }, filter, pace);
    },
  };
}
