import assert from 'node:assert/strict';
import { test } from 'node:test';
import { group } from './group.js';

test('counts become rows by name and columns by status', () => {
  const { statuses, rows } = group([
    { name: 'b', status: 'Failed', count: 1 }, { name: 'a', status: 'New', count: 2 }, { name: 'b', status: 'Running', count: 4 },
  ], ['Running', 'Completed', 'Failed']);
  assert.deepEqual(statuses, ['Running', 'Failed', 'New']);
  assert.deepEqual(rows, [{ name: 'b', counts: { Failed: 1, Running: 4 }, total: 5 }, { name: 'a', counts: { New: 2 }, total: 2 }]);
});
