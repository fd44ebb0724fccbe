// Dialogs on <dialog>: the browser keeps the focus inside, closes on Escape and returns the focus afterwards.

import { h } from '../core/dom.js';
import { button } from './button.js';

/** @import { Child } from '../core/dom.js' */

let last = 0;

/**
 * @param {{title: string, body: Child, actions?: Child, closed?: () => void, wide?: boolean}} options `closed` is called once, however
 * it was closed
 * @returns {{close: () => void, element: HTMLDialogElement}}
 */
export function dialog({ title, body, actions, closed, wide = false }) {
  last += 1;
  const heading = `dialog-${last}`;
  const element = h(
    'dialog', { class: wide ? 'dialog dialog-wide' : 'dialog', 'aria-labelledby': heading },
    h('h2', { id: heading }, title), h('div', { class: 'dialog-body' }, body),
    actions && h('div', { class: 'dialog-actions' }, actions),
  );
  element.addEventListener('close', () => {
    element.remove();
    closed?.();
  });
  // A person who leaves the screen has left its dialog, too.
  const close = () => element.close();
  window.addEventListener('hashchange', close, { once: true });
  element.addEventListener('close', () => window.removeEventListener('hashchange', close));
  document.body.append(element);
  element.showModal();
  return { close, element };
}

/**
 * Asks before something is done. Escape means no.
 * @param {{title: string, text?: string, body?: Child, action: string, danger?: boolean}} question
 * @returns {Promise<boolean>}
 */
export function confirm({ title, text, body, action, danger = false }) {
  return new Promise((resolve) => {
    let agreed = false;
    const no = button('Back', { on: () => asked.close() });
    const yes = button(action, {
      kind: danger ? 'danger' : 'primary',
      on: () => {
        agreed = true;
        asked.close();
      },
    });
    const asked = dialog({
      title, body: [text && h('p', null, text), body], actions: [no, yes], closed: () => resolve(agreed),
    });
    // Enter must not do harm by itself.
    (danger ? no : yes).focus();
  });
}
