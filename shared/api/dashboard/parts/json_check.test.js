import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mistake } from './json_check.js';

test('a text that is JSON has no mistake', () => {
  for (const text of ['{}', ' [1, 2.5e3, -0, "a\\u00e9", null, true] ', '"x"', '12345678901234567890']) assert.equal(mistake(text), null, text);
});

test('the place and kind of a mistake is found', () => {
  /** @type {[string, number, number, RegExp][]} */
  const cases = [
    ['', 1, 1, /empty/],
    ['{"a": 1,\n "b": }', 2, 7, /a value is expected, not “}”/],
    ['{"a": 1,}', 1, 9, /comma before }/],
    ['[1, 2', 1, 6, /ends before the closing ]/],
    ['{"a" 1}', 1, 6, /colon/],
    ["{'a': 1}", 1, 2, /name in double quotes/],
    ["['a']", 1, 2, /double quotes/],
    ['{a: 1}', 1, 2, /name in double quotes is expected, not “a”/],
    ['"abc', 1, 1, /closing quote/],
    ['"a\nb"', 1, 3, /escape/],
    ['"\\x"', 1, 2, /escape does not exist/],
    ['{} {}', 1, 4, /more text/],
    ['hello', 1, 1, /not “hello”/],
    ['[01]', 1, 3, /comma or ]/],
    ['[1\n2]', 2, 1, /comma/],
    ['{"a":1', 1, 7, /closing }/],
  ];
  for (const [text, line, column, message] of cases) {
    const found = mistake(text);
    assert.ok(found, text);
    assert.deepEqual([found.line, found.column], [line, column], text);
    assert.match(found.message, message, text);
  }
});

test('deep nesting does not exhaust the stack', () => {
  assert.ok(mistake('['.repeat(200_000)));
});
