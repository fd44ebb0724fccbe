// The keys that the workflow has set, with their values.

import * as api from '../../core/api.js';
import { fill, h } from '../../core/dom.js';
import { bytes, plural } from '../../core/format.js';
import { notice } from '../../parts/notice.js';
import { payload } from '../../parts/payload.js';
import { paged } from './paged.js';

/** @import { Tab } from '../instance.js' */

/** Up to so many characters, a value is shown without opening it. */
const SHORT = 80;

/** @type {Tab} */
export function keysTab({ root, id, signal }) {
  let etag = /** @type {string | null} */ (null);
  /** @type {Set<string>} */
  const open = new Set();
  const pages = paged({
    signal, what: 'The keys',
    load: async (/** @type {string | undefined} */ after) => {
      const page = await api.keys(id, after, signal);
      return { items: page.values, next: page.nextAfter };
    },
    show: (values) => {
      if (!values.length) return notice({ kind: 'empty', title: 'No keys', text: 'The workflow has set none, or has cleared them.' });
      return h('div', { class: 'card' }, h('p', { class: 'muted keys-count' }, plural(values.length, 'key')), h('ul', { class: 'keys' }, values.map(({ key, value }) => entry(key, value, open))));
    },
  });
  fill(root, pages.element);
  return (data) => {
    if (etag !== null && data.etag !== etag) pages.reload();
    etag = data.etag;
  };
}

/** @param {string} key @param {string} value @param {Set<string>} open */
function entry(key, value, open) {
  const body = h('div', { class: 'keys-body' });
  const show = () => fill(body, payload(value, { label: `Value of ${key}`, fileName: `key-${key}` }));
  if (open.has(key)) show();
  const shown = h('details', {
    open: open.has(key),
    on: {
      toggle: () => {
        if (shown.open) open.add(key);
        else open.delete(key);
        if (shown.open && !body.firstChild) show();
      },
    },
  }, h(
    'summary', null, h('code', { class: 'keys-name' }, key), h('code', { class: 'muted keys-value' }, value.slice(0, SHORT).replaceAll(/\s+/g, ' '), value.length > SHORT && '…'),
    value.length > SHORT && h('span', { class: 'muted' }, bytes(new Blob([value]).size)),
  ), body);
  return h('li', null, shown);
}
