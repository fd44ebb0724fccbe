import assert from 'node:assert/strict';
import { test } from 'node:test';
import { read } from '../instances/filters.js';
import { ACTIONS, filterOf, requestOf, unusable } from './request.js';

const view = (query) => read(new URLSearchParams(query));

test('a batch finds what the list shows', () => {
  assert.deepEqual(filterOf(view('status=Failed&prefix=a&tag=customer:ada&tag=when:10:30')), { status: 'Failed', prefix: 'a', tags: { customer: 'ada', when: '10:30' } });
  assert.deepEqual(filterOf(view('limit=20&cursor=x&page=2')), { all: true }, 'pages are no conditions');
  assert.deepEqual(filterOf(view('parent=p')), { parent: 'p' });
});

test('filters that a batch would widen are refused', () => {
  assert.equal(unusable(view('status=Failed&tag=a:1&tag=b:1')), null);
  assert.match(unusable(view('attention=true')), /attention/);
  assert.match(unusable(view('tag=a:1&tag=a:2')), /one value/);
});

test('an action gets its own fields, if they are set', () => {
  const values = { reason: 'x', children: true, event: 'go', dataText: '', version: undefined, inPlace: false, alone: true, force: false, discardResults: true };
  const of = (action, more = {}) => {
    const { filter, action: named, rate, ...fields } = requestOf(action, { ...values, ...more }, { all: true }, 7);
    assert.deepEqual([filter, named, rate], [{ all: true }, action, 7]);
    return fields;
  };
  assert.deepEqual(of('pause'), { reason: 'x', children: true });
  assert.deepEqual(of('resume'), { children: true });
  assert.deepEqual(of('cancel'), { reason: 'x' });
  assert.deepEqual(of('raise'), { event: 'go', dataText: '' });
  assert.deepEqual(of('delete'), {});
  assert.deepEqual(of('rewind'), { reason: 'x', discardResults: true, alone: true });
  assert.deepEqual(of('restart'), {}, 'alone belongs to inPlace');
  assert.deepEqual(of('restart', { inPlace: true, version: '2' }), { version: '2', inPlace: true, alone: true });
  assert.equal(Object.keys(ACTIONS).length, 7);
});
