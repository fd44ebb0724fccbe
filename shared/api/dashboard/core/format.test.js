import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, bytes, duration, isBinary, pretty } from './format.js';

test('a duration has its two largest units', () => {
  for (const [ms, text] of /** @type {[number, string][]} */ ([
    [0, '0 ms'], [999, '999 ms'], [4200, '4.2 s'], [59_900, '60 s'], [200_000, '3 min 20 s'], [3_600_000, '1 h'], [187_200_000, '2 d 4 h'], [-1500, '-1.5 s'],
  ])) {
    assert.equal(duration(ms), text);
  }
});

test('an age is coarse', () => {
  for (const [ms, text] of /** @type {[number, string][]} */ ([
    [500, 'now'], [1999, '1 s ago'], [59_999, '59 s ago'], [119_999, '1 min ago'], [3_700_000, '1 h 1 min ago'], [-61_000, 'in 1 min'],
  ])) {
    assert.equal(ago(1_000_000_000 - ms, 1_000_000_000), text);
  }
});

test('JSON is indented, and no value changes', () => {
  const value = { a: 1, b: [], c: {}, d: [1, { e: 'x: [1, "2"] \\ {' }, []], f: null };
  for (const text of [JSON.stringify(value), JSON.stringify(value, null, 7)]) {
    assert.deepEqual(pretty(text), { text: JSON.stringify(value, null, 2), json: true });
  }
  for (const exact of ['1.50', '"x"', '12345678901234567890', '1E400']) assert.deepEqual(pretty(exact), { text: exact, json: true });
  assert.equal(pretty('{"a":12345678901234567890,"a":1.50}').text, '{\n  "a": 12345678901234567890,\n  "a": 1.50\n}');
  assert.deepEqual(pretty('{"a":'), { text: '{"a":', json: false });
  assert.equal(pretty(`["${'\\"x'.repeat(600_000)}"]`).json, true);
});

test('sizes and unprintable texts', () => {
  assert.deepEqual([bytes(999), bytes(1500), bytes(20_000), bytes(1_900_000)], ['999 B', '1.5 kB', '20 kB', '1.9 MB']);
  assert.deepEqual(['a\nb\t', 'a\u0000', '\ufffd'].map(isBinary), [false, true, true]);
});
