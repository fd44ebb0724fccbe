// The segments of a lane: what an item did from when to when. Pure.

/** @import { ActivityAttempts } from '../core/types.js' */
/** @import { Item } from './items.js' */

/**
 * - `queued`: no worker has begun it
 * - `turn`: its result waits for the next turn of the workflow
 * - `running`, `completed`, `failed`, `lost`, `timed-out`, `released`: an attempt, by its end
 * - `back-off`: the pause before the next try
 * - `waiting`: a timer, a wait or a child
 * - `cancelled`: what was given up by the workflow
 * @typedef {'queued' | 'turn' | 'running' | 'completed' | 'failed' | 'lost' | 'timed-out' | 'released' | 'back-off' | 'waiting' | 'cancelled'} SegmentKind
 */

/** `to` is null while it lasts. `attempt` counts over all tries. @typedef {{kind: SegmentKind, from: number, to: number | null, attempt?: number}} Segment */

/**
 * @param {Item[]} tries
 * @param {Item[]} backOffs
 * @param {Map<number, ActivityAttempts>} attemptsOf
 * @returns {Segment[]}
 */
export function segments(tries, backOffs, attemptsOf) {
  if (tries[0].kind !== 'activity') return [whole(tries[0])];
  /** @type {Segment[]} */
  const all = [];
  let before = 0;
  for (const item of tries) {
    const attempts = attemptsOf.get(item.id);
    all.push(...ofActivity(item, attempts, before));
    before += Math.max(1, attempts?.attempts ?? 1);
  }
  all.push(...backOffs.map((timer) => /** @type {Segment} */ ({ kind: 'back-off', from: timer.begin, to: timer.end })));
  return all.sort((a, b) => a.from - b.from);
}

/** @param {Item} item @returns {Segment} */
function whole(item) {
  /** @type {Record<string, SegmentKind>} */
  const kinds = { open: 'waiting', completed: 'completed', failed: 'failed', cancelled: 'cancelled' };
  return { kind: kinds[item.outcome], from: item.begin, to: item.end };
}

/**
 * @param {Item} item
 * @param {ActivityAttempts | undefined} attempts
 * @param {number} before attempts of earlier tries
 * @returns {Segment[]}
 */
function ofActivity(item, attempts, before) {
  const ended = attempts?.ended ?? [];
  if (!ended.length && !attempts?.runningSince) return [unknown(item, attempts, before)];
  /** @type {Segment[]} */
  const all = [];
  let at = item.begin;
  /** @param {number} to */
  const queued = (to) => {
    if (to > at) all.push({ kind: 'queued', from: at, to });
  };
  for (const { number, beganAt, endedAt, end } of ended) {
    const [from, to] = [Date.parse(beganAt), Date.parse(endedAt)];
    queued(from);
    all.push({ kind: attemptKind(end), from, to, attempt: before + number });
    at = Math.max(at, to);
  }
  // A completed attempt is the last, whatever else is known.
  if (attempts?.runningSince && item.outcome === 'open') {
    const from = Date.parse(attempts.runningSince);
    queued(from);
    all.push({ kind: 'running', from, to: null, attempt: before + attempts.attempts });
  } else if (item.end === null) {
    all.push({ kind: 'queued', from: at, to: null });
  } else if (item.end > at) {
    all.push({ kind: 'turn', from: at, to: item.end });
  }
  return all;
}

/** Without a record of attempts, the history is all there is. @param {Item} item @param {ActivityAttempts | undefined} attempts @param {number} before @returns {Segment} */
function unknown(item, attempts, before) {
  if (item.outcome === 'open') return { kind: attempts && attempts.attempts === 0 ? 'queued' : 'running', from: item.begin, to: null, attempt: before + 1 };
  return { kind: item.outcome, from: item.begin, to: item.end, attempt: before + Math.max(1, attempts?.attempts ?? 1) };
}

/** @param {string} end @returns {SegmentKind} */
function attemptKind(end) {
  switch (end) {
    case 'completed':
    case 'failed':
    case 'lost':
    case 'timed-out':
    case 'released':
      return end;
    default:
      return 'lost';
  }
}

/** Names of segments for people. @type {Record<SegmentKind, string>} */
export const SEGMENT_NAMES = {
  queued: 'queued', turn: 'result waits for a turn', running: 'running', completed: 'completed', failed: 'failed', lost: 'lost', 'timed-out': 'timed out',
  released: 'released', 'back-off': 'back-off', waiting: 'waiting', cancelled: 'cancelled',
};
