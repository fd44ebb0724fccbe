// The tree: the instance and all that it has started, directly or not.

import * as api from '../../core/api.js';
import { fill, h } from '../../core/dom.js';
import { duration, plural } from '../../core/format.js';
import { href } from '../../core/router.js';
import { badge } from '../../parts/status.js';
import { shorten } from '../../timeline/describe.js';
import { paged } from './paged.js';

/** @import { Instance } from '../../core/types.js' */
/** @import { Tab } from '../instance.js' */

/** @type {Tab} */
export function treeTab({ root, id, signal }) {
  /** What a person has closed stays closed. @type {Set<string>} */
  const closed = new Set();
  let etag = /** @type {string | null} */ (null);
  const pages = paged({
    signal, what: 'The tree',
    load: async (/** @type {string | undefined} */ after) => {
      const page = await api.tree(id, after, signal);
      return { items: page.instances, next: page.nextAfter };
    },
    show: (instances, whole) => {
      const children = byParent(instances);
      const first = instances.find((one) => one.instance === id);
      if (!first) return h('p', { class: 'muted' }, 'No instances.');
      return h('div', { class: 'card tree' }, instances.length === 1 && h('p', { class: 'muted tree-none' }, 'This instance has started no children.'), h('ul', null, node(first, { children, closed, whole }, 0)));
    },
  });
  fill(root, pages.element);
  return (data) => {
    // The version of the instance changes when a child is scheduled or ends.
    if (etag !== null && data.etag !== etag) pages.reload();
    etag = data.etag;
  };
}

/** @param {Instance[]} instances */
function byParent(instances) {
  /** @type {Map<string | undefined, Instance[]>} */
  const children = new Map();
  for (const one of instances) {
    const of = children.get(one.parent);
    if (of) of.push(one);
    else children.set(one.parent, [one]);
  }
  return children;
}

/**
 * @param {Instance} instance
 * @param {{children: Map<string | undefined, Instance[]>, closed: Set<string>, whole: boolean}} tree
 * @param {number} depth
 * @returns {HTMLElement}
 */
function node(instance, tree, depth) {
  const { children, closed, whole } = tree;
  const own = depth > 50 ? [] : children.get(instance.instance) ?? [];
  const failed = own.filter(({ status }) => status === 'Failed').length;
  const line = [
    badge(instance.status), h('a', { href: href(['instances', instance.instance]) }, h('bdi', null, instance.instance)), h('bdi', { class: 'muted' }, instance.orchestration),
    instance.customStatus !== undefined && h('bdi', { class: 'inst-custom' }, shorten(instance.customStatus)), instance.durationMs !== undefined && h('span', { class: 'muted' }, duration(instance.durationMs)),
  ];
  if (own.length === 0) return h('li', { class: 'tree-line tree-leaf' }, line);
  const list = h('ul', { hidden: closed.has(instance.instance) }, own.map((child) => node(child, tree, depth + 1)));
  const toggle = h('button', {
    type: 'button', class: 'tree-toggle', 'aria-expanded': String(!list.hidden), 'aria-label': `Children of ${instance.instance}`,
    on: {
      click: () => {
        list.hidden = !list.hidden;
        toggle.setAttribute('aria-expanded', String(!list.hidden));
        if (list.hidden) closed.add(instance.instance);
        else closed.delete(instance.instance);
      },
    },
  });
  const count = h('span', { class: 'muted' }, plural(own.length, 'child', 'children') + (whole ? '' : ' so far'));
  return h('li', null, h('div', { class: 'tree-line' }, toggle, line, count, failed > 0 && h('span', { class: 'tl-failed' }, `${failed} failed`)), list);
}
