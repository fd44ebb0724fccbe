// Fields of forms: a label, the control, a hint, and a place for what is wrong with it.

import { fill, h } from '../core/dom.js';

/** @import { Child, Props } from '../core/dom.js' */

let last = 0;

/**
 * @template {HTMLElement} Control
 * @typedef {{element: HTMLElement, control: Control, setError: (text: Child) => void}} Field
 */

/**
 * @template {HTMLElement} Control
 * @param {string} label
 * @param {Control} control
 * @param {{hint?: Child, class?: string}} [options]
 * @returns {Field<Control>}
 */
export function field(label, control, { hint, class: name = '' } = {}) {
  last += 1;
  const id = control.id || `field-${last}`;
  control.id = id;
  const error = h('p', { class: 'field-error', id: `${id}-error`, 'aria-live': 'polite' });
  const described = [hint && `${id}-hint`, `${id}-error`].filter(Boolean).join(' ');
  control.setAttribute('aria-describedby', described);
  return {
    control,
    element: h(
      'div', { class: `field ${name}` }, h('label', { for: id }, label), control,
      hint && h('p', { class: 'field-hint', id: `${id}-hint` }, hint), error,
    ),
    setError: (text) => {
      if (text) control.setAttribute('aria-invalid', 'true');
      else control.removeAttribute('aria-invalid');
      fill(error, text);
    },
  };
}

/** A text field. @param {Props & {value?: string, type?: string}} [props] */
export function input({ value = '', type = 'text', ...props } = {}) {
  const element = h('input', { type, autocomplete: 'off', spellcheck: 'false', ...props });
  element.value = value;
  return element;
}

/** A box to tick. @param {string} label */
export function box(label) {
  const control = h('input', { type: 'checkbox' });
  return { control, element: h('label', { class: 'check' }, control, ' ', label) };
}

/** A form for filters: they are applied when they change, so it submits nothing. @param {string} label @param {...Child} children */
export const filterCard = (label, ...children) => h(
  'form', { class: 'card filter-card', role: 'search', 'aria-label': label, on: { submit: (/** @type {Event} */ event) => event.preventDefault() } },
  children,
);

/**
 * Suggestions for a text field; give its id as `list`.
 * @param {string} id
 */
export function suggestions(id) {
  const element = h('datalist', { id });
  return {
    element,
    /** @param {string[]} values */
    set: (values) => {
      fill(element, values.map((value) => {
        const option = h('option');
        option.value = value;
        return option;
      }));
    },
  };
}
