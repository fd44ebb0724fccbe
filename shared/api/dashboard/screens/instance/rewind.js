// Rewinding a failed instance: the question shows what would happen (a dry run) before anything does.
//
// The button is there if the explanation advises to rewind: an API without it never does.

import * as api from '../../core/api.js';
import { fill, h } from '../../core/dom.js';
import { plural } from '../../core/format.js';
import { field, input } from '../../parts/field.js';
import { name } from '../../parts/links.js';
import { failure } from '../../parts/notice.js';
import { toast } from '../../parts/toast.js';
import { ask } from './ask.js';
import { box } from './pause.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Explanation, Rewound, Step } from '../../core/types.js' */

const ADVICE = /^duroxide-lambda rewind (?:-- )?('(?:[^']|'\\'')*'|[^\s']+)/;

/**
 * The instance that the explanation advises to rewind: itself, or the parent of a child. Pure.
 * @param {Explanation | null} explanation
 * @returns {string | null}
 */
export function rewindable(explanation) {
  for (const { command } of explanation?.next ?? []) {
    const word = ADVICE.exec(command ?? '')?.[1];
    // As a shell reads it.
    if (word) return word.startsWith("'") ? word.slice(1, -1).replaceAll("'\\''", "'") : word;
  }
  return null;
}

/** @param {string} id @param {() => void} done */
export function rewind(id, done) {
  const reason = field('Reason', input({ maxlength: 250 }), { hint: 'It is kept with what was undone.' });
  const discard = box('Run activities again whose results were obtained');
  const preview = h('div', { class: 'preview', 'aria-live': 'polite' }, 'Loading what would happen…');
  const request = () => ({ discardResults: discard.control.checked, reason: reason.control.value.trim() || undefined });
  const look = async () => {
    const of = discard.control.checked;
    try {
      const found = await api.rewind(id, { ...request(), dryRun: true });
      if (of === discard.control.checked) fill(preview, effects(found));
    } catch (error) {
      fill(preview, failure(error, { what: 'What would happen' }));
    }
  };
  discard.control.addEventListener('change', look);
  ask({
    title: 'Rewind this instance?', action: 'Rewind', what: 'The instance',
    lost: 'The request may have arrived or not. Look at the instance: if it runs, it was rewound.',
    body: [h('p', null, 'It goes on from before its failure. What is undone stays readable. ', name(id)), preview, discard.element, reason.element],
    send: async () => {
      const { undone } = await api.rewind(id, request());
      toast(`Rewound: ${plural(undone, 'event')} undone.`, 'success');
      done();
    },
  });
  look();
}

/** @param {Rewound} found @returns {Child} */
function effects({ kept, undone, before, activities, children, timers, reused, delivered, keptFailures }) {
  /** @type {[string, Step[]][]} */
  const groups = [
    ['Run again', activities], ['Waited for again', [...children, ...timers]], ['Results used again', reused], ['Delivered again', delivered], ['Failures that stay', keptFailures],
  ];
  return [
    h('p', null, `${plural(undone, 'event')} from event ${before} on would be undone, ${plural(kept, 'event')} kept.`),
    h('dl', { class: 'facts' }, groups.filter(([, steps]) => steps.length > 0).map(([label, steps]) => h(
      'div', null, h('dt', null, label), h('dd', null, steps.slice(0, 10).map((step, index) => [index ? ', ' : '', name(step.name || step.kind)]), steps.length > 10 && ` and ${steps.length - 10} more`),
    ))),
  ];
}
