import assert from 'node:assert/strict';
import test from 'node:test';
import { model } from './model.js';
import { failure, history } from './testing.test.js';

const of = (events, attempts = []) => model(events, attempts, 'i');
const brief = (lanes) => lanes.map(({ kind, name, outcome, begin, end }) => [kind, name, outcome, begin, end]);

test('each item has a lane', () => {
  const { lanes, outcome } = of(history(
    [0, 'OrchestrationStarted', { name: 'o', input: '' }],
    [0, 'ActivityScheduled', { name: 'a', input: '1' }],
    [0, 'TimerCreated', { fire_at_ms: 50 }],
    [0, 'ExternalSubscribed', { name: 'e' }],
    [0, 'SubOrchestrationScheduled', { name: 'c', instance: 'sub::5', input: '' }],
    [0, 'OrchestrationChained', { name: 'd', instance: 'other', input: '' }],
    [10, 'ActivityCompleted', { of: 2, result: 'x' }],
    [50, 'TimerFired', { of: 3, fire_at_ms: 50 }],
    [60, 'ExternalEvent', { name: 'e', data: 'y' }],
    [70, 'SubOrchestrationFailed', { of: 5, details: failure('no') }],
  ));
  assert.equal(outcome, 'running');
  assert.deepEqual(brief(lanes), [
    ['activity', 'a', 'completed', 0, 10], ['timer', 'timer', 'completed', 0, 50], ['event', 'e', 'completed', 0, 60],
    ['child', 'c', 'failed', 0, 70], ['detached', 'd', 'completed', 0, 0],
  ]);
  assert.equal(lanes[3].instance, 'i::sub::5');
  assert.equal(lanes[3].error, 'no');
  assert.equal(lanes[2].result, 'y');
});

test('retries with a back-off are one lane', () => {
  const { lanes } = of(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '1' }],
    [10, 'ActivityFailed', { of: 2, details: failure('one') }],
    [10, 'TimerCreated', { fire_at_ms: 30 }],
    [31, 'TimerFired', { of: 4, fire_at_ms: 30 }],
    [31, 'ActivityScheduled', { name: 'a', input: '1' }],
    [40, 'ActivityCompleted', { of: 6, result: 'x' }],
    [40, 'OrchestrationCompleted', { output: 'x' }],
  ));
  assert.deepEqual(brief(lanes), [['activity', 'a', 'completed', 0, 40]]);
  assert.deepEqual(lanes[0].segments.map(({ kind, from, to, attempt }) => [kind, from, to, attempt]), [
    ['failed', 0, 10, 1], ['back-off', 10, 31, undefined], ['completed', 31, 40, 2],
  ]);
  assert.equal(lanes[0].beganTimes, 2);
  assert.equal(lanes[0].troubled, true);
});

test('retries side by side are told apart by their input', () => {
  const { lanes } = of(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '1' }],
    [0, 'ActivityScheduled', { name: 'a', input: '2' }],
    [10, 'ActivityFailed', { of: 2, details: failure('one') }],
    [10, 'ActivityFailed', { of: 3, details: failure('two') }],
    [10, 'TimerCreated', { fire_at_ms: 30 }],
    [10, 'TimerCreated', { fire_at_ms: 30 }],
    [30, 'TimerFired', { of: 6, fire_at_ms: 30 }],
    [30, 'TimerFired', { of: 7, fire_at_ms: 30 }],
    [30, 'ActivityScheduled', { name: 'a', input: '1' }],
    [30, 'ActivityScheduled', { name: 'a', input: '2' }],
  ));
  assert.deepEqual(lanes.map(({ tries, backOffs, outcome }) => [tries.map(({ id }) => id), backOffs.length, outcome]), [
    [[2, 10], 1, 'open'], [[3, 11], 1, 'open'],
  ]);
});

test('retries that cannot be told apart stay separate', () => {
  const { lanes } = of(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '1' }],
    [0, 'ActivityScheduled', { name: 'a', input: '1' }],
    [10, 'ActivityFailed', { of: 2, details: failure('one') }],
    [10, 'ActivityFailed', { of: 3, details: failure('two') }],
    [10, 'ActivityScheduled', { name: 'a', input: '1' }],
  ));
  assert.equal(lanes.length, 3);
});

test('the same activity without a failure before is no retry', () => {
  const { lanes } = of(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '1' }],
    [10, 'ActivityCompleted', { of: 2, result: '' }],
    [10, 'ActivityScheduled', { name: 'a', input: '1' }],
  ));
  assert.equal(lanes.length, 2);
});

test('a back-off that has not ended keeps the lane open', () => {
  const { lanes } = of(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '1' }],
    [10, 'ActivityFailed', { of: 2, details: failure('one') }],
    [10, 'TimerCreated', { fire_at_ms: 30 }],
  ));
  assert.deepEqual(brief(lanes), [['activity', 'a', 'open', 0, null]]);
  assert.equal(lanes[0].error, 'one');
  assert.deepEqual(lanes[0].segments.at(-1), { kind: 'back-off', from: 10, to: null });
});

test('attempts of the store are segments', () => {
  const at = (ms) => new Date(ms).toISOString();
  const attempts = [{
    activity: 2, open: true, name: 'a', attempts: 3, runningSince: at(50),
    ended: [{ number: 1, beganAt: at(5), endedAt: at(10), end: 'lost' }, { number: 2, beganAt: at(20), endedAt: at(30), end: 'timed-out' }],
  }];
  const { lanes } = of(history([0, 'OrchestrationStarted'], [0, 'ActivityScheduled', { name: 'a', input: '' }]), attempts);
  assert.deepEqual(lanes[0].segments.map(({ kind, from, to }) => [kind, from, to]), [
    ['queued', 0, 5], ['lost', 5, 10], ['queued', 10, 20], ['timed-out', 20, 30], ['queued', 30, 50], ['running', 50, null],
  ]);
  assert.equal(lanes[0].beganTimes, 3);
});

test('messages go to the waits of their queue in order, and not to cancelled ones', () => {
  const { lanes } = of(history(
    [0, 'OrchestrationStarted'],
    [5, 'ExternalEventPersistent', { name: 'q', data: 'early' }],
    [10, 'ExternalSubscribedPersistent', { name: 'q' }],
    [10, 'ExternalSubscribedPersistent', { name: 'q' }],
    [10, 'ExternalSubscribedPersistent', { name: 'q' }],
    [20, 'ExternalEventPersistent', { name: 'q', data: 'late' }],
    [20, 'ExternalSubscribedPersistentCancelled', { of: 4, reason: 'dropped_future' }],
  ));
  assert.deepEqual(lanes.map(({ outcome, result, begin, end }) => [outcome, result, begin, end]), [
    ['completed', 'early', 10, 10], ['cancelled', undefined, 10, 20], ['completed', 'late', 10, 20],
  ]);
});

test('what is open at the end is not open any more', () => {
  const { lanes, outcome, end } = of(history(
    [0, 'OrchestrationStarted'],
    [0, 'TimerCreated', { fire_at_ms: 5000 }],
    [0, 'ActivityScheduled', { name: 'a', input: '' }],
    [9, 'OrchestrationCancelRequested', { reason: 'r' }],
    [9, 'OrchestrationFailed', { details: { Application: { kind: { Cancelled: { reason: 'r' } }, message: '', retryable: false } } }],
  ));
  assert.equal(outcome, 'cancelled');
  assert.equal(end, 9);
  assert.deepEqual(lanes.map((lane) => [lane.outcome, lane.end]), [['cancelled', 9], ['cancelled', 9]]);
});

test('a timer that has lost a race is marked', () => {
  const events = history(
    [0, 'OrchestrationStarted'],
    [0, 'TimerCreated', { fire_at_ms: 86_400_000 }],
    [0, 'ExternalSubscribedPersistent', { name: 'approval' }],
    [10, 'ExternalEventPersistent', { name: 'approval', data: 'yes' }],
    [10, 'ActivityScheduled', { name: 'a', input: '' }],
  );
  assert.deepEqual(of(events).lanes.map(({ unused }) => unused), [true, false, false]);
  // Before the race is decided, the timer is waited for.
  assert.deepEqual(of(events.slice(0, 3)).lanes.map(({ unused }) => unused), [false, false]);
});

test('an empty history has no lanes', () => {
  assert.deepEqual(of([]).lanes, []);
});

test('5,000 events are modelled in a moment', () => {
  const rows = [[0, 'OrchestrationStarted']];
  for (let i = 0; i < 2500; i += 1) rows.push([1, 'ActivityScheduled', { name: 'a', input: 'same' }]);
  for (let i = 0; i < 2500; i += 1) rows.push([2 + i, 'ActivityFailed', { of: i + 2, details: failure('x') }]);
  const began = performance.now();
  assert.equal(of(history(...rows)).lanes.length, 2500);
  // It takes 50 ms. The bound is for machines that are busy, and still finds an algorithm that compares all with all.
  assert.ok(performance.now() - began < 5000);
});
