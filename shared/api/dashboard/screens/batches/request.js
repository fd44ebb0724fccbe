// What a batch is asked to do. Pure.

/** @import { BatchFilter, BatchRequest, BatchVerb } from '../../core/types.js' */
/** @import { View } from '../instances/filters.js' */

/**
 * The actions, and the fields of the API that each takes.
 * @type {Record<BatchVerb, {label: string, fields: string[], about: string, danger?: boolean}>}
 */
export const ACTIONS = {
  pause: { label: 'Pause', fields: ['reason', 'children'], about: 'They take no turn and start no activity until they are resumed.' },
  resume: { label: 'Resume', fields: ['children'], about: 'What waits is due again. An instance that is not paused does not change.' },
  cancel: { label: 'Cancel', fields: ['reason'], danger: true, about: 'They end at their next turn, with their children. Compensations do not run.' },
  rewind: {
    label: 'Rewind', fields: ['reason', 'discardResults', 'alone'], about: 'Failed and cancelled instances go on from before their end. Others refuse.',
  },
  restart: { label: 'Restart', fields: ['version', 'inPlace', 'alone'], about: 'The same input starts a new instance of each.' },
  raise: { label: 'Send an event to', fields: ['event', 'dataText'], about: 'Each instance that has not ended gets the event.' },
  delete: { label: 'Delete', fields: ['force'], danger: true, about: 'They are deleted with their histories, keys and children. This cannot be undone.' },
};

/** Why no batch can use these filters; null if one can. @param {View} view @returns {string | null} */
export function unusable({ filters, tags }) {
  if (filters.attention) return 'A batch cannot search for what needs attention. Choose a status.';
  const names = tags.map((tag) => tag.slice(0, tag.indexOf(':')));
  // An object has one value of each name: leaving one out would find more instances than the list shows.
  return new Set(names).size < names.length ? 'A batch takes one value of each tag.' : null;
}

/** The filter of a batch that finds what the list shows. @param {View} view @returns {BatchFilter} */
export function filterOf({ filters, tags }) {
  const pairs = tags.map((tag) => [tag.slice(0, tag.indexOf(':')), tag.slice(tag.indexOf(':') + 1)]);
  const filter = { ...filters, ...(pairs.length > 0 ? { tags: Object.fromEntries(pairs) } : {}) };
  return Object.keys(filter).length > 0 ? filter : { all: true };
}

/**
 * The request: a field of another action, and one that is not set, is left out.
 * @param {BatchVerb} action
 * @param {Record<string, string | boolean | undefined>} values
 * @param {BatchFilter} filter
 * @param {number} rate
 * @returns {BatchRequest}
 */
export function requestOf(action, values, filter, rate) {
  const own = ACTIONS[action].fields.filter((name) => values[name] !== undefined && values[name] !== false)
    // A new instance is nobody's child.
    .filter((name) => name !== 'alone' || action !== 'restart' || values.inPlace);
  return { filter, action, rate, ...Object.fromEntries(own.map((name) => [name, values[name]])) };
}
