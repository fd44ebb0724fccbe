import assert from 'node:assert/strict';
import test from 'node:test';
import { criticalPath, sums } from './critical.js';
import { model } from './model.js';
import { failure, history } from './testing.test.js';

const path = (events) => criticalPath(events, model(events, [], 'i'));
const brief = (steps) => steps.map(({ lane, from, to }) => [lane?.name ?? null, from, to]);

test('the slower of two activities is on the path', () => {
  const steps = path(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'fast', input: '' }],
    [0, 'ActivityScheduled', { name: 'slow', input: '' }],
    [10, 'ActivityCompleted', { of: 2, result: '' }],
    [90, 'ActivityCompleted', { of: 3, result: '' }],
    [90, 'ActivityScheduled', { name: 'then', input: '' }],
    [95, 'ActivityCompleted', { of: 6, result: '' }],
    [95, 'OrchestrationCompleted', { output: '' }],
  ));
  assert.deepEqual(brief(steps), [['slow', 0, 90], ['then', 90, 95]]);
  assert.deepEqual(sums(steps), [{ label: 'activities', ms: 95 }]);
});

test('waits and retries are on the path, and a timer that lost its race is not', () => {
  const steps = path(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '' }],
    [10, 'ActivityFailed', { of: 2, details: failure('x') }],
    [10, 'TimerCreated', { fire_at_ms: 20 }],
    [20, 'TimerFired', { of: 4, fire_at_ms: 20 }],
    [20, 'ActivityScheduled', { name: 'a', input: '' }],
    [30, 'ActivityCompleted', { of: 6, result: '' }],
    [30, 'TimerCreated', { fire_at_ms: 700 }],
    [30, 'ExternalSubscribedPersistent', { name: 'approval' }],
    [600, 'ExternalEventPersistent', { name: 'approval', data: '' }],
    [600, 'ActivityScheduled', { name: 'b', input: '' }],
    [700, 'ActivityCompleted', { of: 11, result: '' }],
    [700, 'TimerFired', { of: 8, fire_at_ms: 700 }],
    [700, 'OrchestrationCompleted', { output: '' }],
  ));
  assert.deepEqual(brief(steps), [['a', 0, 30], ['approval', 30, 600], ['b', 600, 700]]);
  assert.deepEqual(sums(steps), [{ label: 'waiting for approval', ms: 570 }, { label: 'activities', ms: 120 }, { label: 'back-off', ms: 10 }]);
});

test('a cancellation ends the path', () => {
  const steps = path(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '' }],
    [10, 'ActivityCompleted', { of: 2, result: '' }],
    [10, 'ExternalSubscribed', { name: 'e' }],
    [50, 'OrchestrationCancelRequested', { reason: '' }],
    [50, 'OrchestrationFailed', { details: {} }],
  ));
  assert.deepEqual(brief(steps), [['a', 0, 10], [null, 10, 50]]);
  assert.deepEqual(sums(steps), [{ label: 'until it was cancelled', ms: 40 }, { label: 'activities', ms: 10 }]);
});

test('a running execution has the path to its last turn', () => {
  const steps = path(history(
    [0, 'OrchestrationStarted'],
    [0, 'ActivityScheduled', { name: 'a', input: '' }],
    [10, 'ActivityCompleted', { of: 2, result: '' }],
    [10, 'TimerCreated', { fire_at_ms: 99 }],
  ));
  assert.deepEqual(brief(steps), [['a', 0, 10]]);
});

test('no events, no path', () => {
  assert.deepEqual(path([]), []);
  assert.deepEqual(path(history([0, 'OrchestrationStarted'])), []);
});
