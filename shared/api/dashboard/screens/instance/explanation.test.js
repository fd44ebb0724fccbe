import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lookAgain, stampOf } from './explanation.js';

const at = (seconds) => new Date(1_000_000_000_000 + seconds * 1000).toISOString();
const explained = (more = {}) => ({ status: 'Running', at: at(0), waits: [], chain: [{ instance: 'a' }], ...more });

test('an explanation is loaded again when something is due, and now and then with children', () => {
  assert.equal(lookAgain(explained()), null, 'an event may come at any time: then the instance changes');
  assert.equal(lookAgain(explained({ until: at(60) })), 61_500);
  assert.equal(lookAgain(explained({ until: at(60), waits: [{ due: at(10) }, { due: at(-5) }, {}] })), 11_500);
  assert.equal(lookAgain(explained({ waits: [{ due: at(-5) }] })), null, 'what is overdue is not asked for again and again');
  assert.equal(lookAgain(explained({ until: at(0.1) })), 2_000);
  assert.equal(lookAgain(explained({ chain: [{}, {}] })), 30_000);
  assert.equal(lookAgain(explained({ status: 'Failed', until: at(9) })), null);
});

test('what an explanation depends on are the version of the instance and its open attempts', () => {
  const of = (etag, ...attempts) => stampOf({ etag, attempts: new Map(attempts.map((one) => [one.activity, one])) });
  const open = { activity: 2, open: true, attempts: 1, ended: [] };
  assert.equal(of('1', open), of('1', { ...open }));
  assert.notEqual(of('1', open), of('2', open));
  assert.notEqual(of('1', open), of('1', { ...open, attempts: 2 }));
  assert.equal(of('1'), of('1', { ...open, open: false, attempts: 9 }));
});
