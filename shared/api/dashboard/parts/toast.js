// Short messages about what was just done. They are read out, and leave by themselves.

import { h } from '../core/dom.js';

const SHOWN_MS = 6000;

/** @type {HTMLElement | null} */
let region = null;

/**
 * @param {string} text
 * @param {'info' | 'success' | 'warning' | 'error'} [kind]
 */
export function toast(text, kind = 'info') {
  const element = h('p', { class: 'toast', data: { kind } }, text);
  const into = container();
  into.append(element);
  // An error is read longer, and a long text too.
  const ms = (kind === 'error' ? 2 : 1) * SHOWN_MS + text.length * 30;
  setTimeout(() => element.remove(), ms);
}

function container() {
  if (!region) {
    region = h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite', popover: 'manual' });
    document.body.append(region);
  }
  // In the top layer it is above an open dialog; the last one that was shown is the topmost.
  if (region.matches(':popover-open')) region.hidePopover();
  region.showPopover();
  return region;
}
