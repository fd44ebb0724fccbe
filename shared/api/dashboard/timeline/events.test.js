import assert from 'node:assert/strict';
import test from 'node:test';
import { activityName, childId, errorText, isCancellation, title, turns } from './events.js';
import { failure, history } from './testing.test.js';

test('a turn is inputs followed by what the code did', () => {
  const of = turns(history(
    [0, 'OrchestrationStarted'], [0, 'ActivityScheduled'], [0, 'ActivityScheduled'],
    [1, 'ActivityCompleted', { of: 2 }], [2, 'ActivityCompleted', { of: 3 }], [2, 'CustomStatusUpdated'], [2, 'TimerCreated'],
    [3, 'TimerFired', { of: 7 }], [3, 'OrchestrationCompleted'],
  ));
  assert.deepEqual([...of.values()], [0, 0, 0, 1, 1, 1, 1, 2, 2]);
});

test('errors read as duroxide shows them', () => {
  const cancelled = { Application: { kind: { Cancelled: { reason: 'typo' } }, message: '', retryable: false } };
  for (const [details, text] of [
    [failure('no answer'), 'no answer'], [cancelled, 'canceled: typo'],
    [{ Application: { kind: 'Panicked', message: 'index out of bounds', retryable: false } }, 'panicked: index out of bounds'],
    [{ Infrastructure: { operation: 'commit', message: 'too large', retryable: false } }, 'infrastructure:commit: too large'],
    [{ Configuration: { kind: 'Nondeterminism', resource: 'o', message: null } }, 'nondeterministic in o'],
    [{ Poison: { attempt_count: 11, max_attempts: 10, message_type: {}, message: 'm' } }, 'given up after 11 of 10 attempts: m'],
    ['plain', 'plain'], [undefined, 'null'], [{ Newer: { a: 1 } }, '{"Newer":{"a":1}}'],
  ]) assert.equal(errorText(details), text);
  assert.equal(isCancellation(cancelled), true);
  assert.equal(isCancellation(failure('x')), false);
});

test('names are those that a person knows', () => {
  assert.equal(activityName('__duroxide_syscall:utc_now_ms'), 'utc_now_ms');
  assert.equal(childId('p', 'sub::5'), 'p::sub::5');
  assert.equal(childId('p', 'own-id'), 'own-id');
  assert.equal(title('ExternalSubscribedPersistent'), 'Wait for message');
  assert.equal(title('SomethingNewer'), 'SomethingNewer');
});
