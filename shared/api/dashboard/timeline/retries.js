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
  /** @type {Map<string, Item[]>} */
  const same = new Map();
  for (const item of all) {
    if (item.kind !== 'activity') continue;
    const key = JSON.stringify([item.name, item.input, item.session, item.tag]);
    const group = same.get(key);
    if (group) group.push(item);
    else same.set(key, [item]);
  }
  const timers = byTurns(all, turn);
  /** @type {Map<number, Retry>} */
  const found = new Map();
  /** @type {Set<number>} */
  const claimed = new Set();
  for (const group of same.values()) {
    for (const next of group.slice(1)) {
      const at = turn.get(next.id);
      const before = group.filter((item) => item.id < next.id && item.outcome === 'failed' && !found.has(item.id));
      const fits = before.flatMap((item) => {
        const failedIn = turn.get(item.endId ?? -1);
        if (failedIn === at) return [{ item, timer: null }];
        const timer = timers.get(`${failedIn}>${at}`)?.find(({ id }) => !claimed.has(id));
        return timer ? [{ item, timer }] : [];
      });
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

/**
 * Back-offs that have not ended: a turn in which one activity has failed, and in which nothing but one timer was created.
 * @param {Item[]} all
 * @param {Map<number, number>} turn
 * @returns {[Item, Item][]}
 */
function pending(all, turn) {
  const open = all.filter((item) => item.kind === 'timer' && item.outcome === 'open');
  return open.flatMap((timer) => {
    const at = turn.get(timer.id);
    const failed = all.filter((item) => item.outcome === 'failed' && turn.get(item.endId ?? -1) === at);
    const alone = !all.some((item) => item !== timer && turn.get(item.id) === at);
    return alone && failed.length === 1 && failed[0].kind === 'activity' ? [/** @type {[Item, Item]} */ ([failed[0], timer])] : [];
  });
}

/** Timers by the turn in which they were created and the one in which they fired. @param {Item[]} all @param {Map<number, number>} turn */
function byTurns(all, turn) {
  /** @type {Map<string, Item[]>} */
  const timers = new Map();
  for (const item of all) {
    if (item.kind !== 'timer' || item.outcome !== 'completed' || item.endId === null) continue;
    const key = `${turn.get(item.id)}>${turn.get(item.endId)}`;
    const of = timers.get(key);
    if (of) of.push(item);
    else timers.set(key, [item]);
  }
  return timers;
}
