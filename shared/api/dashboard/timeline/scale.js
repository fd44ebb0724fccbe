// The scale of time. It is linear in pieces: idle time can be compressed, so that bursts days apart are readable. Pure.
//
// A position on the scale is a number of units from 0 to `total`. Outside of compressed gaps, one unit is one millisecond.

/** @import { Model } from './model.js' */

/** A compressed gap: its times, and its place on the scale. @typedef {{from: number, to: number, start: number, stop: number}} Gap */

/**
 * @typedef {{
 *   begin: number, end: number, total: number, gaps: Gap[], unit: (ms: number) => number, time: (unit: number) => number,
 * }} Scale
 */

/** A shorter gap is never compressed: true proportions are easier to understand. */
const SHORTEST_GAP_MS = 20_000;
/** A gap is compressed if it takes more than this part of what is left without the longer ones. */
const LARGE_PART = 0.25;
/** Nothing is compressed unless the gaps take this part of all: the drawing is easier to read without. */
const WORTH_PART = 0.7;
/** A compressed gap takes this part of the rest, and all of them together at most so much of it. */
const GAP_PART = 0.08;
const GAPS_PART = 0.8;

/** What a worker was busy with. Waiting, queued and back-off are idle. */
const BUSY = new Set(['running', 'completed', 'failed', 'lost', 'timed-out', 'released']);

/**
 * @param {Model} model
 * @param {{now: number, compress: boolean}} options
 * @returns {Scale}
 */
export function scale(model, { now, compress }) {
  const instants = model.instants;
  const begin = Math.min(model.begin, instants[0] ?? model.begin);
  const end = Math.max(model.end ?? now, instants.at(-1) ?? begin, begin + 1);
  const gaps = compress ? idleGaps(model, [...instants, end]) : [];
  return pieces(begin, end, gaps);
}

/**
 * The idle times that are worth compressing.
 * @param {Model} model
 * @param {number[]} instants sorted
 * @returns {{from: number, to: number}[]}
 */
function idleGaps(model, instants) {
  const busy = union(model.lanes.filter((lane) => lane.kind === 'activity').flatMap((lane) => lane.segments)
    .filter(({ kind }) => BUSY.has(kind)).map(({ from, to }) => ({ from, to: to ?? Infinity })));
  /** @type {{from: number, to: number}[]} */
  const idle = [];
  let at = 0;
  for (let index = 1; index < instants.length; index += 1) {
    const [from, to] = [instants[index - 1], instants[index]];
    if (to - from < SHORTEST_GAP_MS) continue;
    while (at < busy.length && busy[at].to <= from) at += 1;
    if (at === busy.length || busy[at].from >= to) idle.push({ from, to });
  }
  idle.sort((a, b) => (b.to - b.from) - (a.to - a.from));
  const whole = instants[instants.length - 1] - instants[0];
  let left = whole;
  const large = idle.findIndex(({ from, to }) => {
    if (to - from <= left * LARGE_PART) return true;
    left -= to - from;
    return false;
  });
  if (whole - left < whole * WORTH_PART) return [];
  return (large < 0 ? idle : idle.slice(0, large)).sort((a, b) => a.from - b.from);
}

/** @param {{from: number, to: number}[]} spans */
function union(spans) {
  /** @type {{from: number, to: number}[]} */
  const joined = [];
  for (const span of spans.sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else joined.push({ ...span });
  }
  return joined;
}

/**
 * @param {number} begin
 * @param {number} end
 * @param {{from: number, to: number}[]} idle
 * @returns {Scale}
 */
function pieces(begin, end, idle) {
  const rest = end - begin - idle.reduce((sum, { from, to }) => sum + to - from, 0);
  const width = Math.max(1, rest * Math.min(GAP_PART, GAPS_PART / Math.max(1, idle.length)));
  let saved = 0;
  const gaps = idle.map(({ from, to }) => {
    const start = from - begin - saved;
    saved += to - from - width;
    return { from, to, start, stop: start + width };
  });
  /** @param {number} ms */
  const unit = (ms) => {
    const gap = before(gaps, ({ from }) => from <= ms);
    if (!gap) return ms - begin;
    return ms < gap.to ? gap.start + ((ms - gap.from) / (gap.to - gap.from)) * width : gap.stop + ms - gap.to;
  };
  /** @param {number} at */
  const time = (at) => {
    const gap = before(gaps, ({ start }) => start <= at);
    if (!gap) return begin + at;
    return at < gap.stop ? gap.from + ((at - gap.start) / width) * (gap.to - gap.from) : gap.to + at - gap.stop;
  };
  return { begin, end, total: unit(end), gaps, unit, time };
}

/** The last one that fulfils a condition which those before it fulfil, too. @template T @param {T[]} sorted @param {(one: T) => boolean} holds */
function before(sorted, holds) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(sorted[middle])) low = middle + 1;
    else high = middle;
  }
  return sorted[low - 1];
}
