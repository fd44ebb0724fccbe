// Histories for tests. Not embedded.

/** @import { HistoryEvent } from '../core/types.js' */

/**
 * Events with ids from 1. Each is `[ms, type, fields]`; the source of a completion is in `fields.of`.
 * @param {...[number, string, Record<string, any>?]} rows
 * @returns {HistoryEvent[]}
 */
export function history(...rows) {
  return rows.map(([at, type, { of = null, ...fields } = {}], index) => ({
    event_id: index + 1, source_event_id: of, timestamp_ms: at, instance_id: 'i', execution_id: 1, type, ...fields,
  }));
}

/** @param {string} message */
export const failure = (message) => ({ Application: { kind: 'ActivityFailed', message, retryable: false } });
