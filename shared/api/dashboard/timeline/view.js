// What part of the timeline is visible. Pure. A view is kept in times, so that it stays where it is when the scale changes.

/** @import { Scale } from './scale.js' */

/** The visible part in units of the scale. @typedef {{start: number, stop: number}} Window */
/** The visible part in milliseconds; null shows everything, also what is still to come. @typedef {{from: number, to: number} | null} View */

/** The closest view shows so many units. */
const CLOSEST = 4;

/** Room behind the end for the texts of the last bars. */
const ROOM = 1.18;

/** @param {Scale} scale */
const length = (scale) => Math.max(scale.total * ROOM, CLOSEST);

/** @param {Scale} scale @param {View} view @returns {Window} */
export function windowOf(scale, view) {
  if (!view) return { start: 0, stop: length(scale) };
  const [start, stop] = [scale.unit(view.from), scale.unit(view.to)];
  return { start, stop: Math.max(stop, start + CLOSEST) };
}

/** Zooms: a `factor` below 1 comes closer. `at` is the place that stays, from 0 to 1. @param {Scale} scale @param {View} view @param {number} factor @param {number} at @returns {View} */
export function zoom(scale, view, factor, at) {
  const { start, stop } = windowOf(scale, view);
  const fixed = start + (stop - start) * at;
  const span = Math.max(CLOSEST, (stop - start) * factor);
  return clamp(scale, fixed - span * at, span);
}

/** Moves by a part of what is visible. @param {Scale} scale @param {View} view @param {number} part @returns {View} */
export function pan(scale, view, part) {
  const { start, stop } = windowOf(scale, view);
  return clamp(scale, start + (stop - start) * part, stop - start);
}

/** Shows a span of time with some space around it. @param {Scale} scale @param {number} from @param {number} to @returns {View} */
export function around(scale, from, to) {
  const [start, stop] = [scale.unit(from), scale.unit(to)];
  const span = Math.max(CLOSEST, (stop - start) * 1.4);
  return clamp(scale, (start + stop - span) / 2, span);
}

/** @param {Scale} scale @param {number} start @param {number} span @returns {View} */
function clamp(scale, start, span) {
  if (span >= length(scale)) return null;
  const first = Math.min(Math.max(0, start), length(scale) - span);
  return { from: scale.time(first), to: scale.time(first + span) };
}
