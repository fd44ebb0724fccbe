// The filters as fields. A change is a new address; the address fills the fields.

import { h } from '../../core/dom.js';
import { number } from '../../core/format.js';
import { href } from '../../core/router.js';
import { button } from '../../parts/button.js';
import { field, filterCard, input, suggestions } from '../../parts/field.js';
import { icon } from '../../parts/icons.js';
import { first } from '../../parts/paging.js';
import { refresh } from '../../parts/refresh.js';
import { statusLabel } from '../../parts/status.js';
import { SIZES, filtered, isFiltered, toLocal, toUtc, write } from './filters.js';

/** @import { Counts } from '../../core/types.js' */
/** @import { Name, View } from './filters.js' */

/** The API takes one status at a time, so the statuses in flight are side by side. @type {[string, string[]][]} */
const GROUPS = [['In flight', ['Pending', 'Running', 'Blocked', 'Paused']], ['Ended', ['Completed', 'Failed', 'Cancelled']]];

/**
 * @param {{change: (view: View) => void}} options
 */
export function filterForm({ change }) {
  /** @type {View | null} */
  let view = null;
  /** @param {Name} name @param {string | undefined} value */
  const set = (name, value) => view && (view.filters[name] ?? '') !== (value ?? '') && change(filtered(view, { [name]: value }));
  const names = suggestions('instance-names');
  /** @param {Name} name @param {string} label @param {Record<string, any>} [props] */
  const text = (name, label, props) => field(label, input({
    ...props, on: { change: (/** @type {any} */ event) => set(name, event.target.value.trim()) },
  }));
  /** @param {Name} name @param {string} label */
  const time = (name, label) => field(label, input({
    type: 'datetime-local', step: 1, on: { change: (/** @type {any} */ event) => set(name, toUtc(event.target.value)) },
  }));
  const fields = {
    name: text('name', 'Orchestration', { list: 'instance-names' }),
    prefix: text('prefix', 'Id begins with'),
    version: text('version', 'Version'),
    createdFrom: time('createdFrom', 'Created from (local time)'),
    createdTo: time('createdTo', 'Created to (local time)'),
    endedFrom: time('endedFrom', 'Ended from (local time)'),
    endedTo: time('endedTo', 'Ended to (local time)'),
    parent: text('parent', 'Parent instance'),
  };
  const tag = field('Tag', input({ placeholder: 'name:value', on: { change: addTag } }));
  const size = field('Page size', h(
    'select', { on: { change: () => view && change(first({ ...view, limit: Number(size.control.value) })) } },
    SIZES.map((count) => h('option', { value: count }, String(count))),
  ));
  const chips = h('div', { class: 'chips' });
  const tags = h('div', { class: 'chips tag-chips' });
  const more = h('details', { class: 'more-filters' }, h('summary', null, 'More filters'), h(
    'div', { class: 'filters' },
    [fields.version, fields.createdFrom, fields.createdTo, fields.endedFrom, fields.endedTo, fields.parent, size].map((one) => one.element),
  ));

  function addTag() {
    const value = tag.control.value.trim();
    if (!view || !value) return tag.setError(null);
    if (!/^[^:]+:./.test(value)) return tag.setError('Write a tag as name:value, such as customer:ada.');
    tag.setError(null);
    tag.control.value = '';
    change(filtered(view, {}, [...view.tags, value]));
  }

  const element = filterCard(
    'Filters',
    chips, h('div', { class: 'filters' }, fields.name.element, fields.prefix.element, tag.element), tags, more, names.element,
    // Enter in a field submits the form only if it has such a button; the change itself was applied before.
    h('button', { type: 'submit', class: 'visually-hidden', tabindex: '-1', 'aria-hidden': 'true' }, 'Search'),
  );

  /** @type {Counts['counts']} */
  let counts = [];
  const showChips = () => view && statusChips(chips, view, counts);
  return {
    element,
    /** @param {View} now */
    show: (now) => {
      view = now;
      for (const [name, { control, setError }] of Object.entries(fields)) {
        const value = now.filters[/** @type {Name} */ (name)];
        control.value = /^(created|ended)/.test(name) ? toLocal(value) : value ?? '';
        setError(null);
      }
      size.control.value = String(now.limit);
      const { version, createdFrom, createdTo, endedFrom, endedTo, parent } = now.filters;
      if (version || createdFrom || createdTo || endedFrom || endedTo || parent) more.open = true;
      showChips();
      /** @param {string} tag */
      const without = (tag) => filtered(now, {}, now.tags.filter((other) => other !== tag));
      refresh(tags, write(now).toString(), () => isFiltered(now) && [
        now.tags.map((one) => tagChip(one, () => change(without(one)))),
        h('a', { class: 'clear', href: '#/instances' }, 'Clear all filters'),
      ]);
    },
    /** @param {Counts['counts']} all */
    setCounts: (all) => {
      counts = all;
      names.set([...new Set(all.map(({ name }) => name))].sort());
      showChips();
    },
    /** Shows a refusal of the API at the field that it names. @param {string} detail */
    refuse: (detail) => {
      const name = /parameter (\w+)/.exec(detail)?.[1] ?? '';
      const found = name === 'tag' ? tag : Object.hasOwn(fields, name) ? fields[/** @type {keyof typeof fields} */ (name)] : null;
      found?.setError(detail);
      if (found && found !== tag && found.element.closest('details')) more.open = true;
    },
  };
}

/** @param {HTMLElement} root @param {View} view @param {Counts['counts']} counts */
function statusChips(root, view, counts) {
  const { status, name, attention } = view.filters;
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const one of counts) if (!name || one.name === name) found.set(one.status, (found.get(one.status) ?? 0) + one.count);
  const known = GROUPS.flatMap(([, statuses]) => statuses);
  const others = [...new Set([...found.keys(), ...(status ? [status] : [])])].filter((one) => !known.includes(one));
  /** @param {string | undefined} one @param {string} label */
  const chip = (one, label) => h(
    'a',
    {
      class: 'chip', href: href(['instances'], write(filtered(view, { status: one, attention: undefined }))),
      'aria-current': (status ?? '') === (one ?? '') && !attention ? 'true' : null,
    },
    label, one && found.has(one) && h('span', { class: 'chip-count' }, number(found.get(one) ?? 0)),
  );
  refresh(root, [write(view).toString(), [...found]], () => [
    chip(undefined, 'All'),
    h('a', { class: 'chip', href: href(['instances'], write(filtered(view, { status: undefined, attention: 'true' }))), 'aria-current': attention ? 'true' : null }, 'Needs attention'),
    GROUPS.map(([label, statuses]) => [h('span', { class: 'chip-label' }, label), statuses.map((one) => chip(one, statusLabel(one)))]),
    others.length > 0 && [h('span', { class: 'chip-label' }, 'Other'), others.map((one) => chip(one, statusLabel(one)))],
  ]);
  // On a narrow screen the row scrolls: the chosen status must be seen.
  const chosen = root.querySelector('[aria-current]');
  if (chosen instanceof HTMLElement) root.scrollLeft = Math.max(0, chosen.offsetLeft - root.offsetLeft - 96);
}

/** @param {string} tag @param {() => void} remove */
function tagChip(tag, remove) {
  const chip = button([tag, icon('close'), h('span', { class: 'visually-hidden' }, ' remove this tag')], { on: remove });
  chip.classList.add('tag-chip');
  return chip;
}

