// Retries. duroxide has no event for a retry: `schedule_activity_with_retry` schedules an activity, and after its failure a timer
// (the back-off, none if it is zero) and then the same activity again. Items are joined where the history leaves no doubt:
//
//   ActivityScheduled x ─> ActivityFailed ─┬─> TimerCreated ─> TimerFired ─> ActivityScheduled y    (same name, same input)
//                                          └─> ActivityScheduled y                                 (without back-off)
//
// Pure.

/** @import { Item } from './items.js' */

/** The next try of an activity, and the timer before it. Without `next`, the timer has not fired. @typedef {{next: Item | null, timer: Item | null}} Retry */

/**
 * @param {Item[]} all
 * @param {Map<number, number>} turn the turn of each event
 * @returns {Map<number, Retry>} by the id of the activity that failed
 */
export function retries(all, turn) {
  const timers = firedTimers(all, turn);
  /** @type {Map<number, Retry>} */
  const found = new Map();
  /** @type {Set<number>} */
  const claimed = new Set();
  for (const group of alike(all)) {
    const failed = multiMap(group.filter((item) => item.outcome === 'failed'), (item) => turn.get(item.endId ?? -1));
    for (const next of group.slice(1)) {
      const at = turn.get(next.id);
      /** @param {number | undefined} when */
      const open = (when) => (failed.get(when) ?? []).filter((item) => item.id < next.id && !found.has(item.id));
      const direct = open(at).map((item) => ({ item, timer: /** @type {Item | null} */ (null) }));
      const delayed = [...(timers.get(at) ?? [])].flatMap(([created, between]) => {
        const timer = between.find(({ id }) => !claimed.has(id));
        return timer ? open(created).map((item) => ({ item, timer })) : [];
      });
      const fits = [...direct, ...delayed];
      // With two tries that fit, nothing says which one was repeated.
      if (fits.length !== 1) continue;
      const [{ item, timer }] = fits;
      if (timer) claimed.add(timer.id);
      found.set(item.id, { next, timer });
    }
  }
  for (const [item, timer] of pending(all, turn)) if (!found.has(item.id)) found.set(item.id, { next: null, timer });
  return found;
}

/** Activities of the same name and input. @param {Item[]} all */
function alike(all) {
  const activities = all.filter((item) => item.kind === 'activity');
  return multiMap(activities, (item) => JSON.stringify([item.name, item.input, item.session, item.tag])).values();
}

/** @template T, Key @param {T[]} all @param {(one: T) => Key} key @returns {Map<Key, T[]>} */
function multiMap(all, key) {
  /** @type {Map<Key, T[]>} */
  const by = new Map();
  for (const one of all) {
    const of = by.get(key(one));
    if (of) of.push(one);
    else by.set(key(one), [one]);
  }
  return by;
}

/**
 * Back-offs that have not ended: a turn in which one activity has failed, and in which nothing but one timer was created.
 * @param {Item[]} all
 * @param {Map<number, number>} turn
 * @returns {[Item, Item][]}
 */
function pending(all, turn) {
  const created = multiMap(all, (item) => turn.get(item.id));
  const failed = multiMap(all.filter((item) => item.outcome === 'failed'), (item) => turn.get(item.endId ?? -1));
  return [...created].flatMap(([at, [timer, ...others]]) => {
    const [first, ...more] = failed.get(at) ?? [];
    const certain = others.length === 0 && timer.kind === 'timer' && timer.outcome === 'open' && first?.kind === 'activity' && more.length === 0;
    return certain ? [/** @type {[Item, Item]} */ ([first, timer])] : [];
  });
}

/** Timers by the turn in which they fired, then by the one in which they were created. @param {Item[]} all @param {Map<number, number>} turn */
function firedTimers(all, turn) {
  const fired = all.filter((item) => item.kind === 'timer' && item.outcome === 'completed' && item.endId !== null);
  const byEnd = multiMap(fired, (item) => turn.get(item.endId ?? -1));
  return new Map([...byEnd].map(([at, timers]) => [at, multiMap(timers, (item) => turn.get(item.id))]));
}
