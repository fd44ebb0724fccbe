// What a rewind or a fork would do, by a dry run.

import { fill, h } from '../../core/dom.js';
import { name } from '../../parts/links.js';
import { failure } from '../../parts/notice.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Step } from '../../core/types.js' */

const MOST = 10;

/**
 * @param {() => Promise<Child>} load
 * @returns {{element: HTMLElement, look: () => Promise<void>}} `look` loads it, and again after a change of the request
 */
export function preview(load) {
  const element = h('div', { class: 'preview', 'aria-live': 'polite' }, 'Loading what would happen…');
  let last = 0;
  const look = async () => {
    last += 1;
    const own = last;
    const shown = await load().catch((error) => failure(error, { what: 'What would happen' }));
    // Of two requests, the answer to the first may be the later one.
    if (own === last) fill(element, shown);
  };
  return { element, look };
}

/** @param {[string, Step[]][]} groups */
export const steps = (groups) => h('dl', { class: 'facts' }, groups.filter(([, all]) => all.length > 0).map(([label, all]) => h(
  'div', null, h('dt', null, label), h('dd', null, all.slice(0, MOST).map((step, index) => [index ? ', ' : '', name(step.name || step.kind)]), all.length > MOST && ` and ${all.length - MOST} more`),
)));
