import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rewindable } from './rewind.js';

test('the instance to rewind is the one that the advice names, as a shell reads it', () => {
  const of = (...commands) => rewindable({ next: commands.map((command) => ({ text: '', command })) });
  assert.equal(of('duroxide-lambda rewind order-7'), 'order-7');
  assert.equal(of(undefined, "duroxide-lambda rewind 'it'\\''s a/b'"), "it's a/b");
  assert.equal(of('duroxide-lambda rewind -- -x'), '-x');
  assert.equal(of('duroxide-lambda cancel order-7'), null);
  assert.equal(rewindable(null), null);
});
