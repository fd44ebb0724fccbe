// The status of an instance: a colour, a shape and the word, so that no one of them has to be recognised alone.

import { h } from '../core/dom.js';
import { icon } from './icons.js';

/** What each status is called and drawn as, and what it means. @type {Record<string, {label: string, icon: string, about: string}>} */
const STATUSES = {
  Pending: { label: 'Pending', icon: 'pending', about: 'Its start was accepted, and no turn was committed.' },
  Running: { label: 'Running', icon: 'running', about: 'Its current execution has not ended.' },
  Blocked: { label: 'Blocked', icon: 'blocked', about: 'No deployed build can go on with it.' },
  Paused: { label: 'Paused', icon: 'paused', about: 'It was paused, and continues when it is resumed.' },
  Completed: { label: 'Completed', icon: 'completed', about: 'It has ended with an output.' },
  Failed: { label: 'Failed', icon: 'failed', about: 'It has ended with an error.' },
  Cancelled: { label: 'Cancelled', icon: 'cancelled', about: 'It was cancelled.' },
  Cancelling: { label: 'Cancelling', icon: 'cancelled', about: 'It ends with its next step.' },
  ContinuedAsNew: { label: 'Continued as new', icon: 'again', about: 'Its execution has ended, and the next one is about to begin.' },
};

/** Those that can be searched for, in the order of a life. */
export const SEARCHABLE = ['Pending', 'Running', 'Blocked', 'Paused', 'Completed', 'Failed', 'Cancelled', 'ContinuedAsNew'];

/** @param {string} status */
const known = (status) => (Object.hasOwn(STATUSES, status) ? STATUSES[status] : null);

/** What a status is called. A status of a newer release is shown as it is. @param {string} status */
export const statusLabel = (status) => known(status)?.label ?? status;

/**
 * @param {string} status
 * @param {string} [about] what it means, if it is not the status of an instance
 * @returns {HTMLElement}
 */
export function badge(status, about = known(status)?.about) {
  const found = known(status);
  return h(
    'span', { class: 'badge', data: { status: found ? status : 'Unknown' }, title: about },
    icon(found?.icon ?? 'unknown'), statusLabel(status),
  );
}
