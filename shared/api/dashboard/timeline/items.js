// From events to items: one for each thing that the workflow asked for, with its beginning and its end. Pure.
//
//   events ─> items (here) ─> retries joined ─> lanes (model.js)

import { activityName, childId, errorText, isEnd, isSystem } from './events.js';

/** @import { HistoryEvent } from '../core/types.js' */

/** @typedef {'activity' | 'timer' | 'event' | 'queue' | 'child' | 'detached'} Kind */
/** @typedef {'open' | 'completed' | 'failed' | 'cancelled'} Outcome */

/**
 * `id` is the id of the event that scheduled it, `endId` of the one that ended it. `begin` and `end` are when the history has
 * them. `dueAt` is when a timer fires.
 * @typedef {{
 *   id: number, kind: Kind, name: string, system: boolean, begin: number, end: number | null, endId: number | null,
 *   outcome: Outcome, input?: string, result?: string, error?: string, note?: string, instance?: string, dueAt?: number,
 *   session?: string, tag?: string,
 * }} Item
 */

/** What ends an item, and how. @type {Record<string, Outcome>} */
const COMPLETIONS = {
  ActivityCompleted: 'completed', SubOrchestrationCompleted: 'completed', TimerFired: 'completed',
  ActivityFailed: 'failed', SubOrchestrationFailed: 'failed',
  ActivityCancelRequested: 'cancelled', SubOrchestrationCancelRequested: 'cancelled',
  ExternalSubscribedCancelled: 'cancelled', ExternalSubscribedPersistentCancelled: 'cancelled',
};

const REASONS = /** @type {Record<string, string>} */ ({
  dropped_future: 'The workflow stopped waiting for it.',
  orchestration_terminal: 'The execution ended first.',
});

/**
 * @param {HistoryEvent[]} events of one execution, in their order
 * @param {string} instance
 * @returns {Item[]} in the order in which they were scheduled
 */
export function items(events, instance) {
  /** @type {Map<number, Item>} */
  const byId = new Map();
  const mail = mailbox(events);
  for (const event of events) {
    const item = scheduled(event, instance);
    if (item) {
      byId.set(item.id, item);
      if (item.kind === 'queue') mail.wait(item);
      if (item.kind === 'event') mail.listen(item);
    } else if (event.type === 'ExternalEventPersistent') {
      mail.message(event);
    } else if (event.type === 'ExternalEvent') {
      mail.event(event);
    } else if (event.source_event_id !== null && COMPLETIONS[event.type]) {
      const of = byId.get(event.source_event_id);
      if (of) complete(of, event);
    }
  }
  const last = events.at(-1);
  const all = [...byId.values()];
  if (last && isEnd(last)) all.forEach((item) => leave(item, last));
  return all;
}

/**
 * @param {HistoryEvent} event
 * @param {string} instance
 * @returns {Item | null}
 */
function scheduled(event, instance) {
  /** @param {Kind} kind @param {string} name @param {Partial<Item>} [more] @returns {Item} */
  const item = (kind, name, more) => ({
    id: event.event_id, kind, name, system: false, begin: event.timestamp_ms, end: null, endId: null, outcome: 'open', ...more,
  });
  switch (event.type) {
    case 'ActivityScheduled':
      return item('activity', activityName(event.name), {
        input: event.input, system: isSystem(event.name), session: event.session_id, tag: event.tag,
      });
    case 'TimerCreated':
      return item('timer', 'timer', { dueAt: event.fire_at_ms });
    case 'ExternalSubscribed':
      return item('event', event.name);
    case 'ExternalSubscribedPersistent':
      return item('queue', event.name);
    case 'SubOrchestrationScheduled':
      return item('child', event.name, { input: event.input, instance: childId(instance, event.instance) });
    case 'OrchestrationChained':
      return item('detached', event.name, {
        input: event.input, instance: event.instance, outcome: 'completed', end: event.timestamp_ms, endId: event.event_id,
      });
    default:
      return null;
  }
}

/** @param {Item} item @param {HistoryEvent} event */
function complete(item, event) {
  // A completion may arrive after a cancellation was requested. What the workflow has acted on is the first of them.
  if (item.outcome !== 'open') return;
  const outcome = COMPLETIONS[event.type];
  Object.assign(item, { outcome, end: event.timestamp_ms, endId: event.event_id });
  if (outcome === 'failed') item.error = errorText(event.details);
  else if (outcome === 'cancelled') item.note = REASONS[event.reason] ?? event.reason;
  else if (event.result !== undefined) item.result = event.result;
}

/** An item that was open when the execution ended. @param {Item} item @param {HistoryEvent} end */
function leave(item, end) {
  if (item.outcome !== 'open') return;
  // The end belongs to no event of the item: `endId` stays null.
  Object.assign(item, { outcome: 'cancelled', end: end.timestamp_ms });
  item.note = item.kind === 'timer' ? 'It had not fired when the execution ended.' : REASONS.orchestration_terminal;
}

/**
 * Pairs messages and events with waits: neither names the other.
 * - A message is kept until a wait of its queue takes it, in order. A wait that was cancelled has taken none.
 * - An event goes to the oldest wait of its name. Without one it is dropped.
 * @param {HistoryEvent[]} events
 */
function mailbox(events) {
  const cancelled = new Set(events.filter(({ type }) => type === 'ExternalSubscribedPersistentCancelled').map((e) => e.source_event_id));
  /** @type {Map<string, {waits: Item[], messages: HistoryEvent[]}>} */
  const queues = new Map();
  /** @type {Map<string, Item[]>} */
  const listeners = new Map();
  /** @param {string} name */
  const queue = (name) => {
    const of = queues.get(name) ?? { waits: [], messages: [] };
    queues.set(name, of);
    return of;
  };
  /** @param {Item} item @param {HistoryEvent} event */
  const take = (item, event) => {
    const early = event.timestamp_ms < item.begin || event.event_id < item.id;
    Object.assign(item, {
      outcome: 'completed', end: Math.max(item.begin, event.timestamp_ms), endId: event.event_id, result: event.data,
      note: early ? 'The message was there before the workflow waited for it.' : undefined,
    });
  };
  return {
    /** @param {Item} item */
    wait(item) {
      if (cancelled.has(item.id)) return;
      const message = queue(item.name).messages.shift();
      if (message) take(item, message);
      else queue(item.name).waits.push(item);
    },
    /** @param {HistoryEvent} event */
    message(event) {
      const wait = queue(event.name).waits.shift();
      if (wait) take(wait, event);
      else queue(event.name).messages.push(event);
    },
    /** @param {Item} item */
    listen(item) {
      listeners.set(item.name, [...(listeners.get(item.name) ?? []), item]);
    },
    /** @param {HistoryEvent} event */
    event(event) {
      const open = (listeners.get(event.name) ?? []).filter((item) => item.outcome === 'open');
      const first = open.shift();
      listeners.set(event.name, open);
      if (first) take(first, event);
    },
  };
}
