import assert from 'node:assert/strict';
import test from 'node:test';
import { model } from './model.js';
import { rows } from './rows.js';
import { scale } from './scale.js';
import { failure, history } from './testing.test.js';
import { ticks } from './ticks.js';
import { around, pan, windowOf, zoom } from './view.js';

const DAYS = 3 * 86_400_000;
const bursts = () => model(history(
  [0, 'OrchestrationStarted'],
  [0, 'ActivityScheduled', { name: 'a', input: '' }],
  [40, 'ActivityCompleted', { of: 2, result: '' }],
  [40, 'TimerCreated', { fire_at_ms: DAYS }],
  [DAYS, 'TimerFired', { of: 4, fire_at_ms: DAYS }],
  [DAYS, 'ActivityScheduled', { name: 'b', input: '' }],
  [DAYS + 60, 'ActivityCompleted', { of: 6, result: '' }],
  [DAYS + 60, 'OrchestrationCompleted', { output: '' }],
), [], 'i');

test('idle time is compressed, and times are found again', () => {
  const of = scale(bursts(), { now: 0, compress: true });
  assert.equal(of.gaps.length, 1);
  assert.deepEqual([of.gaps[0].from, of.gaps[0].to], [40, DAYS]);
  assert.ok(of.total < 120);
  for (const at of [0, 17, 40, 1000, DAYS / 2, DAYS, DAYS + 60]) assert.ok(Math.abs(of.time(of.unit(at)) - at) < 1e-3, String(at));
  assert.equal(scale(bursts(), { now: 0, compress: false }).total, DAYS + 60);
});

test('a long activity is not idle time', () => {
  const events = history(
    [0, 'OrchestrationStarted'], [0, 'ActivityScheduled', { name: 'a', input: '' }],
    [DAYS, 'ActivityCompleted', { of: 2, result: '' }], [DAYS, 'OrchestrationCompleted', { output: '' }],
  );
  assert.deepEqual(scale(model(events, [], 'i'), { now: 0, compress: true }).gaps, []);
});

test('marks are apart, and begin again after a gap', () => {
  const of = scale(bursts(), { now: 0, compress: true });
  const marks = ticks(of, windowOf(of, null), 1000, 90);
  assert.ok(marks.some(({ at, since }) => at === DAYS && since === null));
  marks.slice(1).forEach((mark, index) => assert.ok(mark.x - marks[index].x > 70));
  assert.ok(marks.length > 4 && marks.length < 13);
});

test('zooming keeps the place under the pointer, and ends at everything', () => {
  const of = scale(bursts(), { now: 0, compress: false });
  const view = zoom(of, null, 0.5, 0.25);
  const { start, stop } = windowOf(of, view);
  assert.ok(Math.abs(start + (stop - start) * 0.25 - windowOf(of, null).stop * 0.25) < 1);
  assert.equal(zoom(of, view, 4, 0.5), null);
  assert.equal(pan(of, null, 0.5), null);
  assert.ok(pan(of, view, 99).to >= of.end);
  assert.ok(around(of, 0, 40).to < 100);
});

test('many lanes that are alike are grouped, and failures counted', () => {
  const list = [[0, 'OrchestrationStarted'], [0, 'ActivityScheduled', { name: 'one', input: '' }]];
  for (let i = 0; i < 1000; i += 1) list.push([0, 'ActivityScheduled', { name: 'charge-card', input: String(i) }]);
  for (let i = 0; i < 3; i += 1) list.push([9, 'ActivityFailed', { of: 10 + i, details: failure('no') }]);
  const { lanes } = model(history(...list), [], 'i');
  const options = { show: /** @type {const} */ ('all'), expanded: new Set(), onPath: new Set() };
  const grouped = rows(lanes, options);
  assert.deepEqual(grouped.map(({ name, failed, open }) => [name, failed, open]), [['one', 0, 1], ['charge-card', 3, 997]]);
  assert.equal(rows(lanes, { ...options, expanded: new Set([grouped[1].key]) }).length, 1002);
  assert.equal(rows(lanes, { ...options, show: 'trouble' }).length, 3);
});
