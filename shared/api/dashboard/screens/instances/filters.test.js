import assert from 'node:assert/strict';
import { test } from 'node:test';
import { first, next, previous } from '../../parts/paging.js';
import { filtered, read, request, toLocal, toUtc, write } from './filters.js';

const view = (/** @type {string} */ text) => read(new URLSearchParams(text));

test('an address is read and written without loss', () => {
  for (const text of [
    '', 'status=Failed', 'name=a&prefix=o&tag=customer%3Aada&tag=x%3Ay%3Az&limit=100', 'status=Failed&page=3&cursor=c3&past=c2',
    'createdFrom=2026-01-01T00%3A00%3A00.000Z&parent=p', 'endedFrom=2026-01-01T00%3A00%3A00.000Z&attention=true',
  ]) {
    assert.equal(write(view(text)).toString(), text);
  }
});

test('what the address should not have is dropped', () => {
  assert.equal(write(view('limit=7&page=9&past=x&status=&tag=&other=1')).toString(), '');
});

test('pages go forward and back', () => {
  const one = view('status=Failed');
  const two = next(one, 'c2');
  const three = next(two, 'c3');
  assert.deepEqual([three.cursor, three.past, three.page], ['c3', ['c2'], 3]);
  assert.deepEqual(previous(three), two);
  assert.deepEqual(previous(two), one);
  assert.equal(previous(one), null);
  assert.deepEqual(first(three), one);
});

test('an address does not grow for ever, and does not go back to a wrong page', () => {
  let now = view('');
  for (let page = 2; page <= 40; page += 1) now = next(now, `c${page}`);
  assert.equal(now.past.length, 20);
  assert.equal(now.past.at(-1), 'c39');
  for (let page = 39; page >= 20; page -= 1) {
    now = /** @type {typeof now} */ (previous(now));
    assert.deepEqual([now.cursor, now.page], [`c${page}`, page]);
  }
  assert.equal(previous(now), null);
});

test('another filter begins at the first page', () => {
  const changed = filtered(next(view('status=Failed&tag=a%3Ab'), 'c2'), { status: undefined, name: 'n' }, ['a:b', 'c:d', 'a:b']);
  assert.equal(write(changed).toString(), 'name=n&tag=a%3Ab&tag=c%3Ad');
  assert.deepEqual(request(changed), { status: undefined, name: 'n', tag: ['a:b', 'c:d'], limit: 50, cursor: null });
});

test('instances that need attention are explained, at most 50 on a page', () => {
  assert.deepEqual(request(view('attention=true&limit=200')), { attention: 'true', explain: 'true', tag: [], limit: 50, cursor: null });
});

test('a local time is the same moment in UTC', () => {
  assert.equal(toUtc(toLocal('2026-07-01T12:00:05.000Z')), '2026-07-01T12:00:05.000Z');
  assert.equal(toLocal('yesterday'), '');
  assert.equal(toUtc(''), undefined);
});
