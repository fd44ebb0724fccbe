// One instance: its header, and a tab of its timeline, events, tree, keys or executions.

import { fill, h } from '../core/dom.js';
import { number } from '../core/format.js';
import { go, href } from '../core/router.js';
import { button, linkButton } from '../parts/button.js';
import { failure, notice } from '../parts/notice.js';
import { tabs } from '../parts/tabs.js';
import { isFull, MOST_EVENTS, watch } from './instance/data.js';
import { eventsTab } from './instance/events.js';
import { executionBar, executionsTab } from './instance/executions.js';
import { header } from './instance/header.js';
import { keysTab } from './instance/keys.js';
import { timelineTab } from './instance/timeline_tab.js';
import { treeTab } from './instance/tree.js';

/** @import { Screen } from '../core/router.js' */
/** @import { Data } from './instance/data.js' */

/**
 * What a tab is given, and what it returns: a function that shows new data or new filters.
 * @typedef {{root: HTMLElement, id: string, signal: AbortSignal, setQuery: (changes: Record<string, string | null>) => void}} TabContext
 * @typedef {(context: TabContext) => (data: Data, query: URLSearchParams) => void} Tab
 */

/** @type {{id: string, label: string, tab: Tab}[]} */
const TABS = [
  { id: 'timeline', label: 'Timeline', tab: timelineTab }, { id: 'events', label: 'Events', tab: eventsTab },
  { id: 'tree', label: 'Tree', tab: treeTab }, { id: 'keys', label: 'Keys', tab: keysTab },
  { id: 'executions', label: 'Executions', tab: executionsTab },
];

/** @type {Screen} */
export function instanceScreen({ root, params: [id, wanted = 'timeline'], query: first, signal }) {
  const known = TABS.find((tab) => tab.id === wanted);
  if (!known) {
    fill(root, notice({ kind: 'warning', title: 'There is no such tab', actions: linkButton('Open the timeline', href(['instances', id])) }));
    return undefined;
  }
  document.title = `${id} · duroxide-lambda`;
  let query = first;
  /** @type {AbortController | null} */
  let watching = null;
  /** @type {Data | null} */
  let source = null;

  /** @param {Record<string, string | null>} changes */
  const setQuery = (changes) => {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) next.delete(name);
      else next.set(name, value);
    }
    go(href(wanted === 'timeline' ? ['instances', id] : ['instances', id, wanted], next), { replace: true });
  };

  const state = h('div');
  const nav = h('div');
  const bar = h('div');
  const body = h('div', { class: 'inst-tab' });
  const head = header({ id, reload: () => begin(), signal });
  const show = known.tab({ root: body, id, signal, setQuery });
  fill(root, h('nav', { class: 'crumbs', 'aria-label': 'Place' }, h('a', { href: '#/instances' }, 'Instances'), ' / ', h('bdi', null, id)), state, head.element, nav, bar, body);

  /** @param {Data} data */
  const render = (data) => {
    fill(state, problem(data) ?? tooMany(data));
    head.update(data);
    const execution = data.pinned === null ? {} : { execution: String(data.pinned) };
    if (!data.instance) return;
    if (!nav.firstChild || nav.dataset.execution !== String(data.pinned)) {
      nav.dataset.execution = String(data.pinned);
      fill(nav, tabs(TABS.map(({ id: tab, label }) => ({ id: tab, label, href: href(tab === 'timeline' ? ['instances', id] : ['instances', id, tab], execution) })), wanted));
    }
    executionBar(bar, data, wanted, setQuery);
    show(data, query);
  };

  /** @param {Data} data */
  const tooMany = (data) => (data.whole || !isFull(data) ? null : notice({
    kind: 'info', title: `The first ${number(data.events.length)} events are shown`,
    actions: button('Load more', {
      on: () => {
        data.most += MOST_EVENTS;
        begin();
      },
    }),
  }));

  function begin() {
    watching?.abort();
    watching = new AbortController();
    source = watch(id, pinnedOf(query), render, watching.signal);
    render(source);
  }
  signal.addEventListener('abort', () => watching?.abort());
  begin();

  return (next) => {
    const moved = pinnedOf(next) !== pinnedOf(query);
    query = next;
    if (moved) begin();
    else if (source) render(source);
  };
}

/** @param {URLSearchParams} query */
function pinnedOf(query) {
  const number = Number(query.get('execution'));
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

/** @param {Data} data */
function problem(data) {
  if (!data.problem) return data.instance ? null : h('p', { class: 'muted' }, 'Loading…');
  const { error, retryMs } = data.problem;
  if (data.gone) {
    return notice({
      kind: 'warning', title: 'This instance was deleted meanwhile', text: data.loadedAt ? 'What you see is what the page has last loaded.' : undefined,
      actions: linkButton('To the instances', '#/instances'),
    });
  }
  if (data.missing) {
    return notice({
      kind: 'warning', title: `There is no execution ${data.pinned}`, text: 'It may have been pruned.',
      actions: linkButton('Show the current execution', href(['instances', data.id])),
    });
  }
  return failure(error, { retryMs, what: 'The instance', shownAt: data.instance ? data.loadedAt : null });
}
