// The marks of the axis. Pure.

import { duration } from '../core/format.js';

/** @import { Scale } from './scale.js' */
/** @import { Window } from './view.js' */

/** The first mark of a piece is a time of day (`since` is null), the others count from there. @typedef {{x: number, at: number, since: number | null}} Tick */

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE,
  10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY,
];

/**
 * @param {Scale} scale
 * @param {Window} window
 * @param {number} width in pixels
 * @param {number} apart pixels between two marks at least
 * @returns {Tick[]}
 */
export function ticks(scale, window, width, apart) {
  const perUnit = width / (window.stop - window.start);
  const step = STEPS.find((one) => one * perUnit >= apart) ?? STEPS[STEPS.length - 1];
  /** @type {Tick[]} */
  const all = [];
  const starts = [{ at: scale.begin, unit: 0 }, ...scale.gaps.map(({ to, stop }) => ({ at: to, unit: stop }))];
  starts.forEach((start, index) => {
    const stop = Math.min(index < scale.gaps.length ? scale.gaps[index].start : Infinity, window.stop);
    const first = Math.max(0, Math.ceil((window.start - start.unit) / step));
    for (let count = first; start.unit + count * step <= stop; count += 1) {
      const since = count * step;
      const x = (start.unit + since - window.start) * perUnit;
      // The mark after a gap goes before a count that ends near to it.
      const last = all.at(-1);
      if (last && x - last.x < apart * 0.9) {
        if (since > 0) continue;
        all.pop();
      }
      all.push({ x, at: start.at + since, since: since === 0 ? null : since });
    }
  });
  return all;
}

/** The text of a count. @param {number} since */
export const tickText = (since) => `+${duration(since)}`;
