// What an event says, in one line. Pure.

import { duration } from '../../core/format.js';
import { activityName, errorText } from '../../timeline/events.js';

/** @import { HistoryEvent } from '../../core/types.js' */

const COMMON = new Set(['event_id', 'source_event_id', 'instance_id', 'execution_id', 'timestamp_ms', 'duroxide_version', 'type', 'name']);

/** Whose event it is: its own name, or that of the event that scheduled it. @param {HistoryEvent} event @param {HistoryEvent | undefined} source @returns {string} */
export function nameOf(event, source) {
  if (typeof event.name === 'string') return activityName(event.name);
  if (typeof event.key === 'string') return event.key;
  return source ? nameOf(source, undefined) : '';
}

/** The beginning of what it carries. @param {HistoryEvent} event */
export function contentOf(event) {
  if (event.details !== undefined) return errorText(event.details);
  if (event.fire_at_ms !== undefined) return event.type === 'TimerCreated' ? `for ${duration(event.fire_at_ms - event.timestamp_ms)}` : '';
  const value = event.result ?? event.output ?? event.data ?? event.input ?? event.value ?? event.status ?? event.reason;
  return typeof value === 'string' ? value : '';
}

/** What goes in and what comes out. @param {HistoryEvent} event @returns {{input?: string, output?: string, failed?: boolean}} */
export function payloadsOf(event) {
  if (event.details !== undefined) return { output: errorText(event.details), failed: true };
  return { input: event.input, output: event.result ?? event.output ?? event.data ?? event.value };
}

/** Fields that are no payload, for the details. @param {HistoryEvent} event @returns {[string, string][]} */
export function fieldsOf(event) {
  const payloads = new Set(['input', 'result', 'output', 'data', 'value', 'details']);
  return Object.entries(event).filter(([name, value]) => !COMMON.has(name) && !payloads.has(name) && value !== null && value !== undefined)
    .map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]);
}

/** @param {HistoryEvent} event @param {string} text */
export function matches(event, text) {
  if (!text) return true;
  const wanted = text.toLowerCase();
  return Object.entries(event).some(([name, value]) => name !== 'instance_id' && name !== 'duroxide_version' && (typeof value === 'string' ? value : JSON.stringify(value) ?? '').toLowerCase().includes(wanted));
}
