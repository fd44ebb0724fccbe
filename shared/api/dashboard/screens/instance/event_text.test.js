import assert from 'node:assert/strict';
import test from 'node:test';
import { failure, history } from '../../timeline/testing.test.js';
import { contentOf, fieldsOf, matches, nameOf, payloadsOf } from './event_text.js';

const [scheduled, failed, timer] = history(
  [0, 'ActivityScheduled', { name: 'charge', input: '{"cents":1}', session_id: 's' }], [5, 'ActivityFailed', { of: 1, details: failure('Declined') }],
  [5, 'TimerCreated', { fire_at_ms: 2005 }],
);

test('a completion has the name of what it completes', () => {
  assert.equal(nameOf(failed, scheduled), 'charge');
  assert.equal(nameOf(failed, undefined), '');
});

test('the line and the payloads say what an event carries', () => {
  assert.equal(contentOf(scheduled), '{"cents":1}');
  assert.equal(contentOf(failed), 'Declined');
  assert.equal(contentOf(timer), 'for 2.0 s');
  assert.deepEqual(payloadsOf(failed), { output: 'Declined', failed: true });
  assert.deepEqual(fieldsOf(scheduled), [['session_id', 's']]);
});

test('a search finds names, types and contents in any case', () => {
  assert.equal(matches(failed, 'declined'), true);
  assert.equal(matches(scheduled, 'CHARGE'), true);
  assert.equal(matches(scheduled, 'activityscheduled'), true);
  assert.equal(matches(scheduled, 'declined'), false);
});
