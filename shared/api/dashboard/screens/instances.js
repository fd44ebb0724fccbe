// The list of instances: filters and pages are in the address, and the page that is shown stays current.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { plural } from '../core/format.js';
import { live } from '../core/live.js';
import { go, href } from '../core/router.js';
import { restoreScroll } from '../core/scroll.js';
import { button, linkButton } from '../parts/button.js';
import { explain, failure, notice } from '../parts/notice.js';
import { pager } from '../parts/pager.js';
import { first, next, pageLinks } from '../parts/paging.js';
import { refresh } from '../parts/refresh.js';
import { liveTable } from '../parts/table.js';
import { unusable } from './batches/request.js';
import { isFiltered, read, request, write } from './instances/filters.js';
import { filterForm } from './instances/form.js';
import { columns } from './instances/rows.js';
import { filterNames } from './instances/words.js';

/** @import { Instance, InstanceList } from '../core/types.js' */
/** @import { Screen } from '../core/router.js' */
/** @import { View } from './instances/filters.js' */

const FIRST_PAGE_MS = 5_000;
const LATER_PAGE_MS = 30_000;
/** A page may be short and still continue. So many requests are made to fill one. */
const REQUESTS = 5;

/** @type {Screen} */
export function instancesScreen({ root, query, signal }) {
  let view = read(query);
  const form = filterForm({ change: (changed) => go(address(changed)) });
  const banner = h('div');
  const fresh = h('div', { class: 'fresh', 'aria-live': 'polite' });
  const results = liveTable({
    caption: 'Instances, the newest first', columns: columns(() => view), rows: /** @type {Instance[]} */ ([]), key: ({ instance }) => instance,
  });
  const act = h('div');
  const empty = h('div');
  const incomplete = h('div');
  const card = h('section', { class: 'card list-card', 'aria-label': 'Results' }, results.element, empty);
  const pagers = [pager('Pages'), pager('Pages, below the list')];
  fill(
    root,
    h('div', { class: 'screen-head' }, h('h1', null, 'Instances'), act, linkButton('Start an instance', '#/start')),
    form.element, banner, incomplete, h('div', { class: 'list-head' }, fresh, pagers[0].element), card, pagers[1].element,
  );

  /** @type {Instance[]} What the table shows. */
  let shown = [];
  /** @type {number | null} */
  let shownAt = null;
  /** @type {AbortController | null} */
  let loop = null;

  /** @param {InstanceList} list */
  const put = ({ instances, nextCursor, truncated }) => {
    shown = instances;
    results.update(instances);
    results.element.hidden = instances.length === 0;
    fill(empty, instances.length === 0 && nothing(view, nextCursor));
    fill(fresh);
    fill(incomplete, truncated && notice({
      kind: 'info', title: 'There may be more', text: h('p', null, 'More than 200 items are overdue, blocked or given up. Deal with these first, or look at the dead letters and at what is overdue.'),
      actions: [linkButton('Dead letters', '#/dead-letters'), linkButton('What is overdue', href([], { show: 'overdue' }))],
    }));
    const text = instances.length > 0 ? `Page ${view.page}` : '';
    const links = { ...pageLinks(view, nextCursor, address), text };
    for (const { show } of pagers) show(links);
  };

  /** New rows would push what a person reads or is about to click: they wait behind a button. @param {InstanceList} list */
  const update = (list) => {
    const known = new Map(list.instances.map((instance) => [instance.instance, instance]));
    const added = list.instances.filter(({ instance }) => !shown.some((other) => other.instance === instance)).length;
    if (added === 0 || shown.length === 0 || !isRead(card)) return put(list);
    shown = shown.map((instance) => known.get(instance.instance) ?? instance);
    results.update(shown);
    fill(fresh, button(`Show ${plural(added, 'new instance')}`, { on: () => put(list) }));
  };

  const load = () => {
    loop?.abort();
    const own = new AbortController();
    loop = own;
    form.show(view);
    refresh(act, write(view).toString(), () => button('Act on all that match…', {
      needs: 'operator', disabled: unusable(view) ?? false, on: () => go(href(['batches', 'new'], write(first(view)))),
    }));
    card.setAttribute('aria-busy', 'true');
    let begun = false;
    live({
      signal: AbortSignal.any([signal, own.signal]), everyMs: view.cursor || view.filters.attention ? LATER_PAGE_MS : FIRST_PAGE_MS,
      load: (abort) => page(view, abort),
      show: (list) => {
        card.removeAttribute('aria-busy');
        fill(banner);
        shownAt = Date.now();
        if (begun) update(list);
        else put(list);
        if (!begun) restoreScroll();
        begun = true;
      },
      fail: (error, retryMs) => {
        card.removeAttribute('aria-busy');
        if (!(error instanceof api.Problem) || error.status !== 400) {
          fill(banner, failure(error, { what: 'The list', retryMs, shownAt }));
          return;
        }
        // The same request would be refused again.
        own.abort();
        put({ instances: [] });
        fill(empty);
        refused(error);
      },
    });
  };

  /** @param {api.Problem} error */
  const refused = (error) => {
    form.refuse(error.message);
    fill(banner, notice({
      kind: 'error', title: view.cursor ? 'This page cannot be shown' : 'The API cannot search like this',
      text: h('p', null, explain(error).text),
      actions: [view.cursor && linkButton('First page', address(first(view))), linkButton('Clear all filters', '#/instances')],
    }));
  };

  load();
  api.counts(signal).then(({ counts }) => form.setCounts(counts)).catch(() => {
    // Without counts there are no suggestions, and the list says itself if the API does not answer.
  });
  return (changed) => {
    const paged = (changed.get('cursor') ?? '') !== (view.cursor ?? '');
    view = read(changed);
    load();
    if (paged) window.scrollTo(0, 0);
  };
}

/** @param {View} view */
const address = (view) => href(['instances'], write(view));

/** Whether a person reads the list: the pointer or the focus is in it, or it was scrolled. @param {HTMLElement} list */
const isRead = (list) => list.matches(':hover, :focus-within') || list.getBoundingClientRect().top < 0;

/**
 * A full page, if that takes few requests.
 * @param {View} view
 * @param {AbortSignal} signal
 * @returns {Promise<InstanceList>}
 */
async function page(view, signal) {
  const { limit, ...filters } = request(view);
  let list = await api.instances({ ...filters, limit }, signal);
  const found = [...list.instances];
  for (let more = 1; more < REQUESTS && list.nextCursor && found.length < limit; more += 1) {
    list = await api.instances({ ...filters, cursor: list.nextCursor, limit: limit - found.length }, signal);
    found.push(...list.instances);
  }
  return { instances: found, nextCursor: list.nextCursor, truncated: list.truncated };
}

/** @param {View} view @param {string | undefined} cursor */
function nothing(view, cursor) {
  if (cursor) {
    return notice({
      kind: 'empty', title: 'Nothing found so far', text: h('p', null, 'The search has not seen everything yet.'),
      actions: linkButton('Search on', address(next(view, cursor)), 'primary'),
    });
  }
  if (view.filters.attention) {
    return notice({ kind: 'empty', title: 'Nothing needs attention', text: h('p', null, 'No instance with these filters is blocked, overdue or has a dead letter, and none failed within 24 hours.'), actions: linkButton('All instances', '#/instances') });
  }
  if (!isFiltered(view)) {
    const title = view.cursor ? 'There are no more instances' : 'There are no instances yet';
    return notice({ kind: 'empty', title, actions: linkButton('Start an instance', '#/start', 'primary') });
  }
  return notice({
    kind: 'empty', title: 'No instance matches these filters',
    text: filterNames(view.filters, view.tags),
    actions: linkButton('Clear all filters', '#/instances'),
  });
}
