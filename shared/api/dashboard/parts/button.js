// Buttons. One that needs a larger role stays focusable and gives its reason, instead of being mute or hidden.

import { h } from '../core/dom.js';
import { lacks } from '../core/session.js';
import { toast } from './toast.js';

/** @import { Child } from '../core/dom.js' */
/** @import { Role } from '../core/types.js' */

/**
 * @typedef {{
 *   on: (event: Event) => void | Promise<unknown>, needs?: Role, kind?: 'primary' | 'danger' | 'plain', title?: string,
 *   disabled?: boolean | string, type?: 'button' | 'submit',
 * }} ButtonOptions `disabled` may be the reason
 */

/**
 * While the promise of `on` is open, the button takes no second click.
 * @param {Child} label
 * @param {ButtonOptions} options
 * @returns {HTMLButtonElement}
 */
export function button(label, { on, needs, kind = 'plain', title, disabled = false, type = 'button' }) {
  const reason = (needs && lacks(needs)) || (typeof disabled === 'string' ? disabled : null);
  const off = disabled !== false || reason !== null;
  const element = h(
    'button',
    {
      type, class: `button button-${kind}`, title: reason ? null : title, 'aria-disabled': off ? 'true' : null,
      data: reason ? { reason } : {}, on: { click: clicked },
    },
    label, reason && h('span', { class: 'visually-hidden' }, ` (${reason})`),
  );
  return element;

  /** @param {Event} event */
  async function clicked(event) {
    if (element.getAttribute('aria-disabled') === 'true' || element.getAttribute('aria-busy') === 'true') {
      event.preventDefault();
      if (reason) toast(reason, 'warning');
      return;
    }
    const done = on(event);
    if (!done) return;
    element.setAttribute('aria-busy', 'true');
    try {
      await done;
    } finally {
      element.removeAttribute('aria-busy');
    }
  }
}

/** A link that looks like a button. @param {Child} label @param {string} address @param {'primary' | 'plain'} [kind] */
export const linkButton = (label, address, kind = 'plain') => h('a', { href: address, class: `button button-${kind}` }, label);
