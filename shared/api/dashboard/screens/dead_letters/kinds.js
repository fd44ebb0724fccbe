// The kinds of dead letters in words: what happened, and what a redrive does.

import { h } from '../../core/dom.js';
import { href } from '../../core/router.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { DeadLetterSummary } from '../../core/types.js' */

/** @type {Record<string, string>} */
export const KINDS = {
  undeliverable: 'Undeliverable message',
  'no-instance': 'Message without an instance',
  'poison-turn': 'Turn given up',
  'poison-activity': 'Activity given up',
};

/** @param {string} kind */
export const kindLabel = (kind) => (Object.hasOwn(KINDS, kind) ? KINDS[kind] : kind);

/** What has happened. @param {DeadLetterSummary} letter @returns {string} */
export function meaning({ kind }) {
  switch (kind) {
    case 'undeliverable': return 'A message to another instance could not be delivered. Its sender may still wait for an answer.';
    case 'no-instance': return 'A message came for an instance that did not exist, and none was started in time.';
    case 'poison-turn': return 'A turn was tried as often as allowed and never committed. The instance has failed.';
    case 'poison-activity': return 'An activity was tried as often as allowed and never completed. Its workflow has seen the failure.';
    default: return 'This dashboard does not know the kind. The deployment may be newer.';
  }
}

/** What a redrive will do. @param {DeadLetterSummary} letter @returns {Child} */
export function redriveEffect({ kind, instance, target }) {
  if (kind === 'undeliverable') {
    return h(
      'p', null, 'The message is sent to ', code(target ?? 'its receiver'), ' again, once. ',
      'If it was delivered after all, the receiver ignores it. The dead letter is removed.',
    );
  }
  if (kind === 'no-instance') {
    return h(
      'p', null, 'The message is queued for ', code(instance), ' again. Start that instance first: ',
      'if it does not exist, the message is given up once more. The dead letter is removed.',
    );
  }
  return [
    h(
      'p', null, 'A new instance starts from the beginning, with the input of ', code(instance), '. ',
      'The failed instance stays as it is. The dead letter is removed.',
    ),
    h(
      'p', null, 'Activities that were done run again: what they do must be safe to repeat, or must have been undone. ',
      'A child with a fixed id starts only once: delete it before.',
    ),
  ];
}

/** @param {string} text */
const code = (text) => h('code', null, text);

/** @param {DeadLetterSummary} letter */
export const letterAddress = ({ instance, id }) => href(['dead-letters', instance, id]);
