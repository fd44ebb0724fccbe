// A list that is loaded page by page, each with the `after` of the one before.

import { fill, h } from '../../core/dom.js';
import { button } from '../../parts/button.js';
import { failure } from '../../parts/notice.js';

/**
 * @template Item, After
 * @param {{
 *   load: (after: After | undefined) => Promise<{items: Item[], next: After | undefined}>,
 *   show: (items: Item[], whole: boolean) => Node, what: string, signal: AbortSignal,
 * }} options
 * @returns {{element: HTMLElement, reload: () => void}} `reload` loads as much as was loaded, and shows it when it is there
 */
export function paged({ load, show, what, signal }) {
  const list = h('div');
  const foot = h('div', { class: 'paged-foot' });
  const element = h('div', null, list, foot);
  /** @type {Item[]} */
  let items = [];
  /** @type {After | undefined} */
  let next;
  let busy = false;

  /** @param {boolean} anew */
  async function run(anew) {
    if (busy) return;
    busy = true;
    try {
      /** @type {Item[]} */
      let got = anew ? [] : items;
      let after = anew ? undefined : next;
      const enough = anew ? Math.max(1, items.length) : items.length + 1;
      do {
        const page = await load(after);
        if (signal.aborted) return;
        got = [...got, ...page.items];
        after = page.next;
      } while (after !== undefined && got.length < enough);
      [items, next] = [got, after];
      fill(list, show(items, next === undefined));
      fill(foot, next !== undefined && button('Load more', { on: () => run(false) }));
    } catch (error) {
      if (!signal.aborted) fill(foot, failure(error, { what, retry: () => run(anew) }));
    } finally {
      busy = false;
    }
  }
  fill(list, h('p', { class: 'muted' }, 'Loading…'));
  run(true);
  return { element, reload: () => run(true) };
}
