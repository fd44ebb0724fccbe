// Tables that become cards on a narrow screen (style/parts.css), and that can be updated in place.

import { fill, h } from '../core/dom.js';

/** @import { Child } from '../core/dom.js' */

/**
 * @template Row
 * @typedef {{label: string, cell: (row: Row) => Child, class?: string, number?: boolean, hideLabel?: boolean}} Column
 */

/**
 * @template Row
 * @typedef {{
 *   columns: Column<Row>[], rows: Row[], caption: string, key?: (row: Row) => string, class?: string,
 *   rowClass?: (row: Row) => string | null | undefined,
 * }} TableOptions `caption` is for screen readers
 */

/**
 * @template Row
 * @param {TableOptions<Row>} options
 * @returns {HTMLElement}
 */
export function table(options) {
  return liveTable(options).element;
}

/**
 * A table whose rows can be replaced. A row that has not changed keeps its elements, and so the focus, the selection and the place.
 * @template Row
 * @param {TableOptions<Row>} options
 * @returns {{element: HTMLElement, update: (rows: Row[]) => void}}
 */
export function liveTable({ columns, rows, caption, key, class: name = '', rowClass }) {
  const body = h('tbody', { role: 'rowgroup' });
  const header = h('tr', { role: 'row' }, columns.map(({ label, number, hideLabel }) => h(
    'th', { scope: 'col', role: 'columnheader', class: number ? 'number' : null },
    hideLabel ? h('span', { class: 'visually-hidden' }, label) : label,
  )));
  /** @type {Map<string, {stamp: string, element: HTMLElement}>} */
  let present = new Map();
  /** @param {Row[]} wanted */
  const update = (wanted) => {
    /** @type {typeof present} */
    const next = new Map();
    wanted.forEach((row, index) => {
      const id = key ? key(row) : String(index);
      const stamp = JSON.stringify(row) ?? '';
      const kept = present.get(id);
      next.set(id, kept?.stamp === stamp ? kept : { stamp, element: tableRow(columns, row, rowClass) });
    });
    place(body, [...next.values()].map(({ element }) => element));
    present = next;
  };
  update(rows);
  const element = h(
    'div', { class: 'table-wrap' },
    h(
      'table', { class: `table ${name}`, role: 'table' }, h('caption', { class: 'visually-hidden' }, caption),
      h('thead', { role: 'rowgroup' }, header), body,
    ),
  );
  return { element, update };
}

/**
 * @template Row
 * @param {Column<Row>[]} columns
 * @param {Row} row
 * @param {TableOptions<Row>['rowClass']} rowClass
 */
function tableRow(columns, row, rowClass) {
  return h('tr', { role: 'row', class: rowClass?.(row) }, columns.map((column) => {
    const classes = [column.class, column.number && 'number'].filter(Boolean).join(' ');
    return h('td', { role: 'cell', class: classes || null, data: { label: column.hideLabel ? '' : column.label } }, column.cell(row));
  }));
}

/**
 * Makes these the children, in this order, without moving those that are in place: a moved element loses the focus.
 * @param {HTMLElement} parent
 * @param {HTMLElement[]} wanted
 */
function place(parent, wanted) {
  if (parent.childElementCount === 0) {
    fill(parent, wanted);
    return;
  }
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(/** @type {HTMLElement} */ (child))) child.remove();
  wanted.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}
