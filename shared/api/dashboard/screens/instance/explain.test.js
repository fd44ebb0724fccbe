import assert from 'node:assert/strict';
import test from 'node:test';
import { model } from '../../timeline/model.js';
import { failure, history } from '../../timeline/testing.test.js';
import { explain } from './explain.js';

const running = { status: 'Running', createdAt: new Date(0).toISOString(), tags: {} };
const of = (events, attempts = [], now = 5000) => explain(running, model(events, attempts, 'i'), now);

test('a wait names its queue and offers to send', () => {
  const found = of(history(
    [0, 'OrchestrationStarted'], [0, 'TimerCreated', { fire_at_ms: 86_400_000 }], [0, 'ExternalSubscribedPersistent', { name: 'approval' }],
  ));
  assert.match(found.text, /^It waits for a message in the queue approval \(since 5\.0 s\); a timer at .* \(in 23 h 59 min\)\.$/);
  assert.deepEqual(found.raise, [{ name: 'approval', to: 'queues' }]);
});

test('a retry names the attempt and the last error', () => {
  const found = of(history(
    [0, 'OrchestrationStarted'], [0, 'ActivityScheduled', { name: 'charge', input: '' }], [10, 'ActivityFailed', { of: 2, details: failure('bank down') }],
    [10, 'TimerCreated', { fire_at_ms: 9000 }],
  ));
  assert.equal(found.text, 'It waits for the next attempt of the activity charge (in 4.0 s, after 1 attempt; the last one failed: bank down).');
  assert.equal(found.tone, 'warning');
});

test('a timer that has lost its race is not waited for', () => {
  const found = of(history(
    [0, 'OrchestrationStarted'], [0, 'TimerCreated', { fire_at_ms: 86_400_000 }], [0, 'ExternalSubscribedPersistent', { name: 'approval' }],
    [10, 'ExternalEventPersistent', { name: 'approval', data: '' }], [10, 'ActivityScheduled', { name: 'ship', input: '' }],
  ));
  assert.equal(found.text, 'It waits for the activity ship (running for 5.0 s).');
});

test('what has ended waits for nothing, and a pending instance says why it may be late', () => {
  assert.equal(explain({ ...running, status: 'Completed' }, null, 0), null);
  assert.equal(explain({ ...running, status: 'Pending' }, null, 100).tone, 'normal');
  assert.equal(explain({ ...running, status: 'Pending' }, null, 600_000).tone, 'warning');
});

test('nothing open for long is a warning', () => {
  const events = history([0, 'OrchestrationStarted'], [0, 'ActivityScheduled', { name: 'a', input: '' }], [10, 'ActivityCompleted', { of: 2, result: '' }]);
  assert.equal(of(events).tone, 'normal');
  assert.equal(of(events, [], 600_000).tone, 'warning');
});
