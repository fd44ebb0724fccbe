// What an instance waits for, in one sentence, as far as its state and its history say. Pure. When the API has a route that
// explains an instance, it replaces this module.

import { ago, duration, localTime, number, plural } from '../../core/format.js';

/** @import { Instance } from '../../core/types.js' */
/** @import { Lane, Model } from '../../timeline/model.js' */

/** `lane` is the step that the sentence is about. `raise` is what a person could send. @typedef {{text: string, lane?: Lane, raise?: {name: string, to: 'events' | 'queues'}[], tone: 'normal' | 'warning'}} Explanation */

/** @type {Record<Lane['kind'], string>} */
const MANY = { activity: 'activities', child: 'children', queue: 'messages in the queue', event: 'events', timer: 'timers', detached: 'instances' };

/** Without progress for this long, something that should be done by machines is probably stuck. */
const LATE_MS = 60_000;

/**
 * @param {Instance} instance
 * @param {Model | null} model of the current execution
 * @param {number} now
 * @returns {Explanation | null} null if it has ended
 */
export function explain(instance, model, now) {
  switch (instance.status) {
    case 'Pending': {
      const since = now - Date.parse(instance.createdAt);
      return since > LATE_MS
        ? { tone: 'warning', text: `Its first turn has not run for ${duration(since)}. Check that the orchestrator function runs and that the wakeup queue is not stuck.` }
        : { tone: 'normal', text: 'Its start was accepted. It waits for its first turn.' };
    }
    case 'Blocked': {
      const why = instance.blocked;
      return { tone: 'warning', text: why ? `No deployed build can go on with it (${why.cause}, build ${why.build}, ${plural(why.tries, 'try', 'tries')}): ${why.reason}. The same build tries again ${ago(why.nextTry, now)}.` : 'No deployed build can go on with it.' };
    }
    case 'Paused':
      return { tone: 'normal', text: 'It is paused. It continues when it is resumed.' };
    case 'ContinuedAsNew':
      return { tone: 'normal', text: 'Its execution has ended. The next one is about to begin.' };
    case 'Running':
      return model ? running(model, now) : { tone: 'normal', text: 'Its history is being loaded.' };
    default:
      return null;
  }
}

/** @param {Model} model @param {number} now @returns {Explanation} */
function running(model, now) {
  const open = model.lanes.filter((lane) => lane.outcome === 'open');
  const used = open.filter((lane) => !lane.unused);
  // If only timers are open that have probably lost a race, one of them is waited for after all.
  const lanes = used.length ? used : open;
  if (lanes.length === 0) {
    const idle = now - (model.instants.at(-1) ?? now);
    return idle > LATE_MS
      ? { tone: 'warning', text: `Nothing is open, and its next turn has not run for ${duration(idle)}. Check that the orchestrator function runs.` }
      : { tone: 'normal', text: 'Its next turn is about to run.' };
  }
  const order = { activity: 0, child: 1, queue: 2, event: 3, timer: 4, detached: 5 };
  const sorted = [...lanes].sort((a, b) => order[a.kind] - order[b.kind] || (a.dueAt ?? 0) - (b.dueAt ?? 0));
  const parts = byName(sorted).map((group) => part(group, now));
  const shown = parts.slice(0, 3);
  const rest = parts.length > 3 ? `, and ${plural(parts.length - 3, 'more step')}` : '';
  const late = sorted.find((lane) => isLate(lane, now));
  const raise = sorted.flatMap((lane) => (lane.kind === 'queue' || lane.kind === 'event' ? [{ name: lane.name, to: /** @type {'queues' | 'events'} */ (lane.kind === 'queue' ? 'queues' : 'events') }] : []));
  return { tone: late ? 'warning' : 'normal', text: `It waits for ${shown.join('; ')}${rest}.`, lane: late ?? sorted[0], raise };
}

/** @param {Lane[]} lanes */
function byName(lanes) {
  /** @type {Map<string, Lane[]>} */
  const groups = new Map();
  for (const lane of lanes) groups.set(`${lane.kind}:${lane.name}`, [...(groups.get(`${lane.kind}:${lane.name}`) ?? []), lane]);
  return [...groups.values()];
}

/** @param {Lane} lane @param {number} now */
const isLate = (lane, now) => lane.attempts.some((of) => of.blocked) || (lane.kind === 'timer' && lane.dueAt !== undefined && now - lane.dueAt > LATE_MS)
  || (lane.kind === 'activity' && lane.troubled);

/** @param {Lane[]} group @param {number} now */
function part(group, now) {
  const [lane] = group;
  const since = duration(now - Math.min(...group.map(({ begin }) => begin)));
  if (group.length > 1 && lane.kind !== 'timer') return `${number(group.length)} ${MANY[lane.kind]} ${lane.name} (since ${since})`;
  switch (lane.kind) {
    case 'activity':
      return activity(lane, now);
    case 'child':
      return `the child ${lane.instance} (${lane.name}, since ${since})`;
    case 'queue':
      return `a message in the queue ${lane.name} (since ${since})`;
    case 'event':
      return `the event ${lane.name} (since ${since})`;
    default: {
      const due = Math.min(...group.map(({ dueAt }) => dueAt ?? 0));
      return due > now ? `a timer at ${localTime(due)} (in ${duration(due - now)})` : `a timer that has been due for ${duration(now - due)}`;
    }
  }
}

/** @param {Lane} lane @param {number} now */
function activity(lane, now) {
  const blocked = lane.attempts.find((of) => of.blocked)?.blocked;
  if (blocked) return `the activity ${lane.name}, which no worker can run (${blocked.cause}): ${blocked.reason}`;
  const last = lane.segments.at(-1);
  const since = duration(now - (last?.from ?? lane.begin));
  const retry = lane.tries.length > 1 || lane.backOffs.length > 0;
  const failed = lane.error && retry ? `; the last one failed: ${lane.error.length > 120 ? `${lane.error.slice(0, 120)}…` : lane.error}` : '';
  const attempt = lane.beganTimes > 1 ? `attempt ${lane.beganTimes}, ` : '';
  if (last?.kind === 'back-off') {
    const due = lane.backOffs.at(-1)?.dueAt ?? now;
    return `the next attempt of the activity ${lane.name} (${due > now ? `in ${duration(due - now)}` : 'now'}, after ${plural(lane.beganTimes, 'attempt')}${failed})`;
  }
  if (last?.kind === 'queued') return `a worker for the activity ${lane.name} (${attempt}queued for ${since}${failed})`;
  return `the activity ${lane.name} (${attempt}running for ${since}${failed})`;
}
