// Shows an input, an output or another text of a workflow: JSON indented, everything else as it is. A large one is shown in part.

import { fill, h } from '../core/dom.js';
import { bytes, isBinary, pretty } from '../core/format.js';
import { button } from './button.js';
import { toast } from './toast.js';
import { visible } from './visible.js';

/** So much is shown of a large text at first, and at most: more would make the page slow. In characters. */
const FIRST = 20_000;
const MOST = 1_000_000;

/**
 * @param {string} text
 * @param {{label?: string, fileName?: string}} [options]
 * @returns {HTMLElement}
 */
export function payload(text, { label = 'Payload', fileName = 'payload' } = {}) {
  const { text: shown, json } = pretty(text);
  const size = new Blob([text]).size;
  const binary = isBinary(text);
  const kind = json ? 'JSON' : binary ? 'binary or non-printing text' : 'text';
  const code = h('pre', { class: 'payload-text', tabindex: '0', role: 'region', 'aria-label': label });
  const more = h('div', { class: 'payload-more' });

  /** @param {number} most */
  const show = (most) => {
    const part = cut(shown, most);
    fill(code, text === '' ? h('span', { class: 'muted' }, '(empty)') : visible(part));
    fill(more, part.length < shown.length && [
      h('span', null, `The first ${bytes(new Blob([part]).size)} of ${bytes(new Blob([shown]).size)}. `),
      most < MOST
        ? button(shown.length > MOST ? 'Show 1 MB' : 'Show all', { on: () => show(MOST) })
        : h('span', { class: 'muted' }, 'Download it to see the rest.'),
    ]);
  };
  show(FIRST);
  return h(
    'div', { class: 'payload' },
    h(
      'div', { class: 'payload-head' },
      h('span', { class: 'payload-label' }, label), h('span', { class: 'muted' }, `${kind}, ${bytes(size)}`),
      h(
        'span', { class: 'payload-actions' },
        button(['Copy', hidden(` ${label}`)], { on: () => copy(text, code) }),
        button(['Download', hidden(` ${label}`)], { on: () => download(text, `${safe(fileName)}.${json ? 'json' : 'txt'}`) }),
      ),
    ),
    binary && h('p', { class: 'muted' }, 'Characters that cannot be shown appear as marks. Copy and Download give the text as it is.'),
    code, more,
  );
}

/** @param {string} text */
const hidden = (text) => h('span', { class: 'visually-hidden' }, text);

/** The beginning of a text, not ending within a surrogate pair. @param {string} text @param {number} most */
function cut(text, most) {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

/** @param {string} text @param {HTMLElement} shown */
async function copy(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    toast('Copied.', 'success');
  } catch {
    // Browsers give the clipboard to pages of https and of this machine only.
    getSelection()?.selectAllChildren(shown);
    toast('The browser does not allow copying. The text is selected: press Ctrl+C.', 'warning');
  }
}

/**
 * Offers a text as a file.
 * @param {string} text
 * @param {string} fileName
 */
export function download(text, fileName) {
  const address = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
  h('a', { href: address, download: fileName }).click();
  // The browser reads the address after the click was handled.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A file name without characters that an operating system may refuse. @param {string} name */
const safe = (name) => name.replaceAll(/[^\w.-]+/g, '_').slice(0, 100) || 'payload';
