// What duroxide records, in the terms of the dashboard: titles of events, texts of errors, turns. Pure.

/** @import { HistoryEvent } from '../core/types.js' */

/** Titles of the event types. The serde names of queues differ from duroxide's own words. @type {Record<string, string>} */
const TITLES = {
  OrchestrationStarted: 'Execution started',
  OrchestrationCompleted: 'Execution completed',
  OrchestrationFailed: 'Execution failed',
  OrchestrationContinuedAsNew: 'Continued as new',
  OrchestrationCancelRequested: 'Cancellation requested',
  ActivityScheduled: 'Activity scheduled',
  ActivityCompleted: 'Activity completed',
  ActivityFailed: 'Activity failed',
  ActivityCancelRequested: 'Activity cancelled',
  TimerCreated: 'Timer created',
  TimerFired: 'Timer fired',
  ExternalSubscribed: 'Wait for event',
  ExternalEvent: 'Event received',
  ExternalSubscribedCancelled: 'Wait for event ended',
  ExternalSubscribedPersistent: 'Wait for message',
  ExternalEventPersistent: 'Message received',
  ExternalSubscribedPersistentCancelled: 'Wait for message ended',
  OrchestrationChained: 'Detached instance started',
  SubOrchestrationScheduled: 'Child scheduled',
  SubOrchestrationCompleted: 'Child completed',
  SubOrchestrationFailed: 'Child failed',
  SubOrchestrationCancelRequested: 'Child cancelled',
  CustomStatusUpdated: 'Custom status set',
  KeyValueSet: 'Key set',
  KeyValueCleared: 'Key cleared',
  KeyValuesCleared: 'All keys cleared',
};

/** @param {string} type */
export const title = (type) => TITLES[type] ?? type;

/** Events that say little about what a workflow does. */
const NOISE = new Set([
  'CustomStatusUpdated', 'KeyValueSet', 'KeyValueCleared', 'KeyValuesCleared', 'ExternalSubscribedCancelled',
  'ExternalSubscribedPersistentCancelled',
]);
/** @param {HistoryEvent} event */
export const isNoise = (event) => NOISE.has(event.type);

const FAILURES = new Set(['OrchestrationFailed', 'ActivityFailed', 'SubOrchestrationFailed']);
/** @param {HistoryEvent} event */
export const isFailure = (event) => FAILURES.has(event.type);

const ENDS = new Set(['OrchestrationCompleted', 'OrchestrationFailed', 'OrchestrationContinuedAsNew']);
/** @param {HistoryEvent} event */
export const isEnd = (event) => ENDS.has(event.type);

/** Events that begin a turn: they came from outside. The others were written by the workflow's code. */
const INPUTS = new Set([
  'OrchestrationStarted', 'OrchestrationCancelRequested', 'ActivityCompleted', 'ActivityFailed', 'TimerFired', 'ExternalEvent',
  'ExternalEventPersistent', 'SubOrchestrationCompleted', 'SubOrchestrationFailed',
]);
/** @param {HistoryEvent} event */
export const isInput = (event) => INPUTS.has(event.type);

/**
 * The turn of each event. A turn is a row of inputs followed by what the code did. Turns without an effect join the next one:
 * the history does not separate them.
 * @param {HistoryEvent[]} events
 * @returns {Map<number, number>} event id to turn
 */
export function turns(events) {
  const of = new Map();
  let turn = 0;
  let acted = false;
  for (const event of events) {
    if (isInput(event) && acted) turn += 1;
    acted = !isInput(event);
    of.set(event.event_id, turn);
  }
  return of;
}

const SYSTEM = '__duroxide_syscall:';
/** Activities of duroxide itself, such as for the time. @param {string} name */
export const isSystem = (name) => name.startsWith(SYSTEM);
/** @param {string} name */
export const activityName = (name) => (isSystem(name) ? name.slice(SYSTEM.length) : name);

/** The id of a child. duroxide prefixes those that it made with the id of the parent. @param {string} parent @param {string} child */
export const childId = (parent, child) => (child.startsWith('sub::') ? `${parent}::${child}` : child);

/**
 * The text of an error, as duroxide itself shows it.
 * @param {any} details `ErrorDetails` of duroxide
 * @returns {string}
 */
export function errorText(details) {
  if (typeof details === 'string') return details;
  const [[kind, of] = ['', {}]] = Object.entries(details ?? {});
  const fields = /** @type {any} */ (of ?? {});
  const text = fields.message ?? '';
  if (kind === 'Application') {
    const reason = fields.kind?.Cancelled?.reason;
    if (reason !== undefined) return `canceled: ${reason}`;
    return fields.kind === 'Panicked' ? `panicked: ${text}` : String(text);
  }
  if (kind === 'Infrastructure') return `infrastructure:${fields.operation}: ${text}`;
  if (kind === 'Configuration') return text ? `nondeterministic: ${text}` : `nondeterministic in ${fields.resource}`;
  if (kind === 'Poison') return `given up after ${fields.attempt_count} of ${fields.max_attempts} attempts: ${text}`;
  return JSON.stringify(details ?? null);
}

/** Whether an error says that the execution was cancelled. @param {any} details */
export const isCancellation = (details) => details?.Application?.kind?.Cancelled !== undefined;
