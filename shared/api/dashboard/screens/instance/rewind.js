// Rewinding a failed or cancelled instance: the question shows what would happen (a dry run) before anything does.
//
// For a failed instance the button is there if the explanation advises to rewind: an API without it never does.

import * as api from '../../core/api.js';
import { h } from '../../core/dom.js';
import { plural } from '../../core/format.js';
import { box, field, input } from '../../parts/field.js';
import { name } from '../../parts/links.js';
import { toast } from '../../parts/toast.js';
import { ask } from './ask.js';
import { preview, steps } from './preview.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Explanation, Rewound } from '../../core/types.js' */

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
  const request = () => ({ discardResults: discard.control.checked, reason: reason.control.value.trim() || undefined });
  const { element, look } = preview(async () => effects(await api.rewind(id, { ...request(), dryRun: true })));
  discard.control.addEventListener('change', look);
  ask({
    title: 'Rewind this instance?', action: 'Rewind', what: 'The instance',
    lost: 'The request may have arrived or not. Look at the instance: if it runs, it was rewound.',
    body: [h('p', null, 'It goes on from before its failure or cancellation. What is undone stays readable. ', name(id)), element, discard.element, reason.element],
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
  return [
    h('p', null, `${plural(undone, 'event')} from event ${before} on would be undone, ${plural(kept, 'event')} kept.`),
    steps([
      ['Run again', activities], ['Waited for again', [...children, ...timers]], ['Results used again', reused], ['Delivered again', delivered], ['Failures that stay', keptFailures],
    ]),
  ];
}
