// A field for what a workflow is given: JSON, checked while it is typed, or any other text.
//
// The workflow gets the very text that was typed. Reading JSON and writing it again would change long numbers.

import { h } from '../core/dom.js';
import { field } from './field.js';
import { mistake } from './json_check.js';

/**
 * @param {string} label
 * @param {{value?: string, hint?: string, rows?: number, optional?: boolean}} [options] with `optional`, an empty field is right
 * @returns {{element: HTMLElement, control: HTMLTextAreaElement, text: () => string | undefined, check: () => boolean}} `text` is undefined
 * if the field is empty and may be; `check` shows the mistake and says whether there is none
 */
export function jsonField(label, { value = '', hint, rows = 10, optional = true } = {}) {
  const control = h('textarea', {
    rows, class: 'code', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', on: { input: changed },
  });
  control.value = value;
  const plain = h('input', { type: 'checkbox', on: { change: () => check() } });
  const area = field(label, control, { hint });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let pause;

  function changed() {
    clearTimeout(pause);
    // While a person types, most moments are incomplete: wait for a pause before saying so.
    pause = setTimeout(check, 400);
  }

  function check() {
    clearTimeout(pause);
    if (plain.checked || (optional && control.value === '')) {
      area.setError(null);
      return true;
    }
    const found = mistake(control.value);
    area.setError(found && [
      `Not JSON: line ${found.line}, column ${found.column}: ${found.message}. `,
      h('button', { type: 'button', class: 'link', on: { click: () => show(found) } }, 'Show the place'),
    ]);
    return found === null;
  }

  /** @param {{line: number, column: number}} found */
  function show({ line, column }) {
    const lines = control.value.split('\n');
    const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
    control.focus();
    control.setSelectionRange(at, Math.min(at + 1, control.value.length));
  }

  const choice = h('label', { class: 'check' }, plain, 'It is plain text, not JSON');
  return {
    element: h('div', { class: 'json-field' }, area.element, choice), control, check,
    text: () => (optional && !plain.checked && control.value === '' ? undefined : control.value),
  };
}
