// What an instance has used, if the API counts it.

import { h } from '../../core/dom.js';
import { bytes, duration, number } from '../../core/format.js';

/** @import { Usage } from '../../core/types.js' */

/** @param {Usage | undefined} usage */
export function usagePart(usage) {
  if (!usage) return null;
  const seconds = (/** @type {number} */ value) => duration(value * 1000);
  const attempts = usage.attempts > usage.activities ? ` in ${number(usage.attempts)} attempts` : '';
  /** @type {[string, string][]} */
  const rows = [
    ['Turns', number(usage.turns)], ['Activities', `${number(usage.activities)}${attempts}`], ['Wakeups', number(usage.wakeups)],
    ['Requests to the store', number(usage.requests)], ['Request units', number(Math.round(usage.requestUnits * 10) / 10)],
    ['Read', bytes(usage.bytesRead)], ['Written', bytes(usage.bytesWritten)], ['In turns', seconds(usage.turnSeconds)],
    ['In activities', seconds(usage.activitySeconds)], ['Waiting', seconds(usage.waitingSeconds)],
  ];
  return h('details', { class: 'inst-input' }, h('summary', null, 'What it has used'), h(
    'dl', { class: 'facts inst-facts' }, rows.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))),
  ));
}
