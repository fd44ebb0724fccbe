import assert from 'node:assert/strict';
import { test } from 'node:test';
import { intent } from './intent.js';

test('the same content has the same key, also after other content', () => {
  let made = 0;
  const keyFor = intent(() => `k${made += 1}`);
  assert.equal(keyFor(['a', { b: 1 }]), 'k1');
  assert.equal(keyFor(['a', { b: 2 }]), 'k2');
  assert.equal(keyFor(['a', { b: 1 }]), 'k1');
});
