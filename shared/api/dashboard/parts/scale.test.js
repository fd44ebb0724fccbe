import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ceiling } from './scale.js';

test('an axis ends at a round number with a whole middle', () => {
  for (const [most, end] of [[0, 2], [1, 2], [3, 4], [5, 6], [7, 10], [11, 20], [61, 100], [100, 100], [101, 200]]) {
    assert.equal(ceiling(most), end);
  }
});
