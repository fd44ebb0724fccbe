// Tabs that are links: each has an address, so that back, reload and a shared link work.

import { h } from '../core/dom.js';

/**
 * @param {{id: string, label: string, href: string}[]} entries
 * @param {string} current
 * @returns {HTMLElement}
 */
export function tabs(entries, current) {
  return h(
    'nav', { class: 'tabs', 'aria-label': 'Sections' },
    h('ul', null, entries.map(({ id, label, href }) => h(
      'li', null, h('a', { href, 'aria-current': id === current ? 'page' : null }, label),
    ))),
  );
}
