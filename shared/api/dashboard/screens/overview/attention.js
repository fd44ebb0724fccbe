// What needs attention: one line each, with a link to what it counts. Nothing is said plainly, too.

import { h } from '../../core/dom.js';
import { number, plural } from '../../core/format.js';
import { href } from '../../core/router.js';
import { icon } from '../../parts/icons.js';
import { age } from '../../parts/time.js';
import { lateSince } from './overdue.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Overview } from '../../core/types.js' */

/**
 * @param {Overview} overview
 * @returns {Child}
 */
export function attention(overview) {
  const late = lateSince(overview);
  const overdue = href([], { show: 'overdue' });
  const all = href(['instances'], { attention: 'true' });
  const { failedRecently, blocked, stuck, overdueTimers, deadLetters } = overview;
  const lines = [
    line(failedRecently, 'failed', 'failed in the last 24 hours', href(['instances'], { status: 'Failed', endedFrom: overview.recentSince }), 'Whenever they started. The newest are below.'),
    line(blocked, 'blocked', 'blocked', href(['instances'], { status: 'Blocked' }), 'No deployed build can go on with these.'),
    line(stuck, 'stuck', 'stuck', overdue, 'Something has been due for ten minutes, and no turn is in progress.'),
    line(overdueTimers, 'overdue', overdueTimers === 1 ? 'overdue timer' : 'overdue timers', overdue, 'Due for more than two minutes.'),
    line(deadLetters, 'dead', deadLetters === 1 ? 'dead letter' : 'dead letters', '#/dead-letters', 'Work that was given up. Redrive or discard it.'),
    late && h(
      'li', { class: 'attention', data: { kind: 'overdue' } }, icon('warning'),
      h('a', { href: overdue }, 'Due work waits for long'),
      h('span', { class: 'muted' }, 'The oldest was due ', age(late), '. Check that the functions run.'),
    ),
  ].filter(Boolean);
  return [
    lines.length > 0
      ? [h('ul', { class: 'attentions' }, lines), h('p', null, h('a', { href: all }, 'All instances that need attention, with reasons'))]
      : h('p', { class: 'all-well' }, icon('completed'), 'Nothing needs attention.'),
    h('p', { class: 'muted' }, summary(overview)),
  ];
}

/** @param {number} count @param {string} kind @param {string} label @param {string} address @param {string} about */
function line(count, kind, label, address, about) {
  return count > 0 && h(
    'li', { class: 'attention', data: { kind } }, icon(kind === 'failed' ? 'failed' : kind === 'blocked' ? 'blocked' : 'warning'),
    h('a', { href: address }, h('strong', null, number(count)), ` ${label}`), h('span', { class: 'muted' }, about),
  );
}

/** @param {Overview} overview */
function summary({ startedRecently, endedRecently, messagesDue, activitiesDue, timersPending, outbox }) {
  const waiting = [
    `${plural(messagesDue, 'message')} due`, `${plural(activitiesDue, 'activity', 'activities')} due`, `${plural(timersPending, 'timer')} pending`,
    ...(outbox > 0 ? [`${plural(outbox, 'message')} not delivered yet`] : []),
  ];
  return `In the last 24 hours ${number(startedRecently)} started and ${number(endedRecently)} ended. Now: ${waiting.join(', ')}.`;
}
