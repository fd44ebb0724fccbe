// Counts by name and status as the rows and columns of a table. Pure.

/** @typedef {{name: string, counts: Record<string, number>, total: number}} Row */

/**
 * @param {{name: string, status: string, count: number}[]} counts
 * @param {string[]} order of the statuses
 * @returns {{statuses: string[], rows: Row[]}} only statuses that exist; the names with most instances first
 */
export function group(counts, order) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  const present = new Set();
  for (const { name, status, count } of counts) {
    present.add(status);
    const row = rows.get(name) ?? { name, counts: {}, total: 0 };
    row.counts[status] = (row.counts[status] ?? 0) + count;
    row.total += count;
    rows.set(name, row);
  }
  const known = order.filter((status) => present.has(status));
  const statuses = [...known, ...[...present].filter((status) => !order.includes(status)).sort()];
  return { statuses, rows: [...rows.values()].sort((a, b) => b.total - a.total || a.name.localeCompare(b.name)) };
}
