import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem, Unreachable } from '../core/api.js';
import { SAFE_TO_REPEAT, explain } from './notice.js';

/** @param {number} status @param {string} kind @param {string} detail */
const problem = (status, kind, detail) => new Problem(status, { type: `urn:duroxide-lambda:problem:${kind}`, title: 'T', detail }, null);

test('each failure is explained by what a person can do', () => {
  /** @type {[unknown, string, RegExp][]} */
  const cases = [
    [new Unreachable(), 'The API does not answer', /The list could not be loaded\. Check your network/],
    [problem(401, 'unauthenticated', 'no'), 'You are not signed in', /What you typed stays/],
    [problem(403, 'forbidden', 'this needs operator'), 'Your role does not allow this', /^This needs operator\.$/],
    [problem(404, 'not-found', "no instance 'x'"), 'The list does not exist', /deleted meanwhile/],
    [problem(404, 'no-such-route', 'no path'), 'This deployment has no such route', /^No path\.$/],
    [problem(503, 'store-unavailable', 'throttled'), 'The store is busy or cannot be reached', /^Throttled\.$/],
    [problem(500, 'internal', 'failed'), 'The API has failed', /log of the API function/],
    [problem(400, 'invalid-request', 'a mistake'), 'T', /^A mistake\.$/],
    [new TypeError('x is undefined'), 'The list cannot be shown', /defect.*x is undefined/],
  ];
  for (const [error, title, text] of cases) {
    const explained = explain(error, 'The list');
    assert.equal(explained.title, title);
    assert.match(explained.text, text);
  }
});

test('a lost answer to a request that changes something says whether to repeat it', () => {
  assert.match(explain(new Unreachable(), undefined, SAFE_TO_REPEAT).text, /has its effect once/);
});
