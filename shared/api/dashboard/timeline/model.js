// The model of the timeline: lanes with segments. Pure.
//
//   events + attempts ─> items ─> retries joined ─> lanes ─> rows (rows.js) ─> drawing (draw.js)

import { isCancellation, isEnd, turns } from './events.js';
import { items } from './items.js';
import { retries } from './retries.js';
import { segments } from './segments.js';

/** @import { ActivityAttempts, HistoryEvent } from '../core/types.js' */
/** @import { Item, Kind, Outcome } from './items.js' */
/** @import { Segment } from './segments.js' */
/** @import { Retry } from './retries.js' */

/**
 * `id` is the id of the first event. `tries` are the items that it joins (more than one with retries), `backOffs` the timers
 * between. `beganTimes` counts all attempts, also those that the store has repeated. `unused` says that a timer has probably
 * lost a race, so that nothing waits for it.
 * @typedef {{
 *   id: number, kind: Kind, name: string, system: boolean, begin: number, end: number | null, outcome: Outcome,
 *   tries: Item[], backOffs: Item[], segments: Segment[], beganTimes: number, troubled: boolean, unused: boolean,
 *   attempts: ActivityAttempts[], instance?: string, dueAt?: number, error?: string, result?: string, input?: string,
 *   note?: string,
 * }} Lane
 */

/**
 * `instants` are the moments at which something happened, sorted. `laneOf` finds the lane of an event.
 * @typedef {{
 *   lanes: Lane[], items: Item[], turnOf: Map<number, number>, laneOf: Map<number, Lane>, begin: number, end: number | null,
 *   outcome: 'running' | 'completed' | 'failed' | 'cancelled' | 'continued', instants: number[],
 *   statuses: {at: number, text: string | null}[],
 * }} Model
 */

/**
 * @param {HistoryEvent[]} events of one execution, in their order
 * @param {ActivityAttempts[]} attempts
 * @param {string} instance
 * @returns {Model}
 */
export function model(events, attempts, instance) {
  const turnOf = turns(events);
  const all = items(events, instance);
  const repeated = retries(all, turnOf);
  const attemptsOf = new Map(attempts.map((of) => [of.activity, of]));
  const lanes = chains(all, repeated).map((chain) => lane(chain, attemptsOf));
  markUnused(lanes, turnOf, events);

  /** @type {Map<number, Lane>} */
  const laneOf = new Map();
  for (const one of lanes) {
    for (const item of [...one.tries, ...one.backOffs]) {
      laneOf.set(item.id, one);
      if (item.endId !== null) laneOf.set(item.endId, one);
    }
  }
  const last = events.at(-1);
  const ended = last && isEnd(last) ? last : null;
  return {
    lanes, items: all, turnOf, laneOf,
    begin: events[0]?.timestamp_ms ?? 0, end: ended?.timestamp_ms ?? null,
    outcome: outcome(ended),
    instants: instants(events, lanes),
    statuses: events.filter(({ type }) => type === 'CustomStatusUpdated').map((e) => ({ at: e.timestamp_ms, text: e.status ?? null })),
  };
}

/** @param {HistoryEvent | null} end @returns {Model['outcome']} */
function outcome(end) {
  if (!end) return 'running';
  if (end.type === 'OrchestrationCompleted') return 'completed';
  if (end.type === 'OrchestrationContinuedAsNew') return 'continued';
  return isCancellation(end.details) ? 'cancelled' : 'failed';
}

/** @typedef {{tries: Item[], backOffs: Item[], waits: boolean}} Chain */

/**
 * Joins retries. A timer between two tries has no lane of its own.
 * @param {Item[]} all
 * @param {Map<number, Retry>} repeated
 * @returns {Chain[]}
 */
function chains(all, repeated) {
  const later = new Set([...repeated.values()].flatMap(({ next, timer }) => [next?.id, timer?.id]));
  return all.filter(({ id }) => !later.has(id)).map((first) => {
    const tries = [first];
    /** @type {Item[]} */
    const backOffs = [];
    let waits = false;
    for (let retry = repeated.get(first.id); retry; retry = retry.next ? repeated.get(retry.next.id) : undefined) {
      if (retry.timer) backOffs.push(retry.timer);
      if (retry.next) tries.push(retry.next);
      else waits = true;
    }
    return { tries, backOffs, waits };
  });
}

/** @param {Chain} chain @param {Map<number, ActivityAttempts>} attemptsOf @returns {Lane} */
function lane({ tries, backOffs, waits }, attemptsOf) {
  const [first] = tries;
  const last = tries[tries.length - 1];
  const attempts = tries.flatMap(({ id }) => attemptsOf.get(id) ?? []);
  const parts = segments(tries, backOffs, attemptsOf);
  const beganTimes = first.kind === 'activity' ? tries.reduce((sum, { id }) => sum + Math.max(1, attemptsOf.get(id)?.attempts ?? 1), 0) : 0;
  const troubled = parts.some(({ kind }) => kind === 'failed' || kind === 'lost' || kind === 'timed-out')
    || attempts.some(({ blocked }) => blocked !== undefined);
  return {
    id: first.id, kind: first.kind, name: first.name, system: first.system, begin: first.begin,
    end: waits ? null : last.end, outcome: waits ? 'open' : last.outcome,
    tries, backOffs, segments: parts, beganTimes, troubled: troubled || last.outcome === 'failed', unused: false, attempts,
    instance: first.instance, dueAt: first.dueAt, input: first.input, result: last.result, note: last.note,
    error: last.error,
  };
}

/**
 * Marks timers that have lost a race. duroxide does not record that a workflow stops waiting for a timer. It is probable for
 * one that was created next to a wait or an activity which ended before it fired, and after whose end the workflow went on.
 * @param {Lane[]} lanes
 * @param {Map<number, number>} turnOf
 * @param {HistoryEvent[]} events
 */
function markUnused(lanes, turnOf, events) {
  const acted = new Set(events.filter(({ type }) => /Scheduled$|Created$|Subscribed(Persistent)?$|^Orchestration(Completed|Failed|ContinuedAsNew|Chained)$/.test(type))
    .map((event) => turnOf.get(event.event_id)));
  const byEvent = new Map(lanes.flatMap((lane) => lane.tries.map((item) => [item.id, item])));
  for (const timer of lanes) {
    if (timer.kind !== 'timer') continue;
    const beside = [timer.id - 1, timer.id + 1].map((id) => byEvent.get(id)).filter((item) => item !== undefined);
    const [own] = timer.tries;
    timer.unused = beside.some((item) => item.kind !== 'timer' && item.kind !== 'detached'
      && turnOf.get(item.id) === turnOf.get(own.id)
      && item.endId !== null && (item.outcome === 'completed' || item.outcome === 'failed')
      && (own.endId === null || item.endId < own.endId)
      && acted.has(turnOf.get(item.endId))
      && turnOf.get(item.endId) !== turnOf.get(own.endId ?? -1));
  }
}

/** @param {HistoryEvent[]} events @param {Lane[]} lanes */
function instants(events, lanes) {
  const all = new Set(events.map((event) => event.timestamp_ms));
  for (const lane of lanes) {
    for (const { from, to } of lane.segments) {
      all.add(from);
      if (to !== null) all.add(to);
    }
  }
  return [...all].sort((a, b) => a - b);
}
