// The critical path: what the execution had to wait for, one after another, from its start to its end. Pure.
//
// Going backwards: the end was written in a turn; that turn was released by the last input that a wait of the workflow had
// been open for; what was waited for had been scheduled in an earlier turn; and so on, until the start.

import { isEnd, isInput } from './events.js';

/** @import { HistoryEvent } from '../core/types.js' */
/** @import { Item } from './items.js' */
/** @import { Lane, Model } from './model.js' */

/** A part of the path. `lane` is null where the path leads through no item, such as until a cancellation. `backOff` is the time between tries. @typedef {{lane: Lane | null, from: number, to: number, backOff: number, cancelled?: boolean}} Step */

/**
 * @param {HistoryEvent[]} events
 * @param {Model} model
 * @returns {Step[]} in the order of time. Of an execution that runs: the path to its last turn.
 */
export function criticalPath(events, { items, turnOf, laneOf, lanes }) {
  const unused = new Set(lanes.filter((lane) => lane.unused).map((lane) => lane.id));
  const byEnd = new Map(items.filter((item) => item.endId !== null && !unused.has(item.id)).map((item) => [item.endId, item]));
  const positions = new Map(events.map((event, index) => [event.event_id, index]));
  /** @type {Step[]} */
  const path = [];
  let at = lastAction(events);
  let until = events[at]?.timestamp_ms ?? 0;
  while (at > 0) {
    const released = release(events, at, byEnd, turnOf);
    if (released.item) {
      const { item } = released;
      const lane = laneOf.get(item.id) ?? null;
      path.push({ lane, from: item.begin, to: until, backOff: item.kind === 'timer' && lane?.kind === 'activity' ? until - item.begin : 0 });
      at = positions.get(item.id) ?? 0;
      until = item.begin;
      continue;
    }
    // The turn was begun by the start, or by something that nothing had waited for, such as a cancellation.
    const before = released.first - 1;
    if (before < 0) break;
    path.push({ lane: null, from: events[before].timestamp_ms, to: until, backOff: 0, cancelled: released.cancelled });
    at = before;
    until = events[at].timestamp_ms;
  }
  return join(path.reverse());
}

/** Joins steps of one lane, such as its tries and back-offs. @param {Step[]} path */
function join(path) {
  /** @type {Step[]} */
  const joined = [];
  for (const step of path) {
    const last = joined.at(-1);
    if (last && last.lane === step.lane) Object.assign(last, { to: step.to, backOff: last.backOff + step.backOff });
    else joined.push({ ...step });
  }
  return joined;
}

/** The end, or the last event that the workflow's code has written. @param {HistoryEvent[]} events */
function lastAction(events) {
  const last = events.at(-1);
  if (last && isEnd(last)) return events.length - 1;
  return events.findLastIndex((event) => !isInput(event));
}

/**
 * The item that released the turn of an event, and the index of the turn's first event.
 * @param {HistoryEvent[]} events
 * @param {number} at
 * @param {Map<number | null, Item>} byEnd
 * @param {Map<number, number>} turnOf
 * @returns {{item: Item | null, first: number, cancelled: boolean}}
 */
function release(events, at, byEnd, turnOf) {
  const turn = turnOf.get(events[at].event_id);
  let first = at;
  while (first > 0 && turnOf.get(events[first - 1].event_id) === turn) first -= 1;
  for (let index = at; index >= first; index -= 1) {
    const event = events[index];
    // A cancellation goes before everything that arrived with it.
    if (event.type === 'OrchestrationCancelRequested') return { item: null, first, cancelled: true };
    const item = isInput(event) ? byEnd.get(event.event_id) : undefined;
    if (item && item.id < event.event_id && item.outcome !== 'cancelled') return { item, first, cancelled: false };
  }
  return { item: null, first, cancelled: false };
}

/**
 * How long the path took, by what it waited for, longest first.
 * @param {Step[]} path
 * @returns {{label: string, ms: number}[]}
 */
export function sums(path) {
  /** @type {Map<string, number>} */
  const by = new Map();
  /** @param {string} name @param {number} ms */
  const add = (name, ms) => by.set(name, (by.get(name) ?? 0) + ms);
  for (const { lane, from, to, backOff, cancelled } of path) {
    add(cancelled ? 'until it was cancelled' : label(lane), to - from - backOff);
    add('back-off', backOff);
  }
  return [...by].filter(([, ms]) => ms > 0).map(([name, ms]) => ({ label: name, ms })).sort((a, b) => b.ms - a.ms);
}

/** @param {Lane | null} lane */
function label(lane) {
  switch (lane?.kind) {
    case 'activity':
      return 'activities';
    case 'timer':
      return 'timers';
    case 'child':
      return 'children';
    case 'event':
    case 'queue':
      return `waiting for ${lane.name}`;
    default:
      return 'other';
  }
}
