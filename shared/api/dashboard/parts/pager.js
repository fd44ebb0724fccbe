// Next and previous pages. The links stay the same elements, so that the one that was used keeps the focus.

import { fill, h } from '../core/dom.js';
import { icon } from './icons.js';

/**
 * @param {string} label for screen readers
 * @returns {{element: HTMLElement, show: (links: {first: string | null, previous: string | null, next: string | null, text: string}) => void}}
 */
export function pager(label) {
  const text = h('span', { class: 'muted' });
  const links = {
    first: h('a', { class: 'button' }, 'First page'),
    previous: h('a', { class: 'button', rel: 'prev' }, icon('left'), 'Previous'),
    next: h('a', { class: 'button', rel: 'next' }, 'Next', icon('right')),
  };
  const element = h('nav', { class: 'pager', 'aria-label': label }, text, links.first, links.previous, links.next);
  return {
    element,
    show: (addresses) => {
      fill(text, addresses.text);
      for (const name of /** @type {const} */ (['first', 'previous', 'next'])) {
        const address = addresses[name];
        if (address) links[name].setAttribute('href', address);
        else links[name].removeAttribute('href');
        links[name].toggleAttribute('hidden', name === 'first' && !address);
        links[name].setAttribute('aria-disabled', String(!address));
      }
    },
  };
}

