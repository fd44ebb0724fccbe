// Parts of a screen that are loaded again and again: they are built again only when what they show has changed.

import { fill } from '../core/dom.js';

/** @import { Child } from '../core/dom.js' */

/** @type {WeakMap<Element, string>} */
const stamps = new WeakMap();

/**
 * Builds the content of an element for a value, unless it shows that value already. A link that has the focus keeps it.
 * @param {HTMLElement} element
 * @param {unknown} value
 * @param {() => Child} build
 */
export function refresh(element, value, build) {
  const stamp = JSON.stringify(value) ?? '';
  if (stamps.get(element) === stamp) return;
  stamps.set(element, stamp);
  const focused = document.activeElement;
  const address = focused instanceof HTMLAnchorElement && element.contains(focused) ? focused.getAttribute('href') : null;
  fill(element, build());
  if (address === null) return;
  for (const link of element.querySelectorAll('a')) {
    if (link.getAttribute('href') === address) return link.focus({ preventScroll: true });
  }
}
