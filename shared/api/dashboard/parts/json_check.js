// Where a text stops being JSON. Browsers report the place differently or not at all, so this reads the text itself. Pure.

/** @typedef {{line: number, column: number, message: string}} Mistake */

/** @extends {Error} */
class Stop extends Error {
  /** @param {number} at @param {string} message */
  constructor(at, message) {
    super(message);
    this.at = at;
  }
}

/** Deeper nesting is left to the browser's parser: this one calls itself for each level. */
const DEEPEST = 500;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// eslint-disable-next-line no-control-regex
const CHARACTERS = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/**
 * The first mistake of a text that should be JSON; null if it has none.
 * @param {string} text
 * @returns {Mistake | null}
 */
export function mistake(text) {
  try {
    JSON.parse(text);
    return null;
  } catch {
    try {
      const end = space(text, value(text, space(text, 0), 0));
      throw new Stop(end, 'there is more text after the end of the value');
    } catch (error) {
      const stop = error instanceof Stop ? error : new Stop(0, 'this is not JSON');
      return { ...position(text, stop.at), message: stop.message };
    }
  }
}

/**
 * Line and column of an index, both from 1.
 * @param {string} text
 * @param {number} at
 */
export function position(text, at) {
  const before = text.slice(0, at).split('\n');
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 };
}

/** @param {RegExp} pattern @param {string} text @param {number} at @returns {number} the end of the match, or `at` */
function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** @param {string} text @param {number} at */
const space = (text, at) => match(SPACE, text, at);

/** @param {string} text @param {number} at @param {number} depth @returns {number} the index after the value */
function value(text, at, depth) {
  if (depth > DEEPEST) throw new Stop(at, 'there is a mistake in a deeply nested value');
  const first = text[at];
  if (first === undefined) throw new Stop(at, text.trim() === '' ? 'the text is empty' : 'the text ends before the value is complete');
  if (first === '{') return list(text, at, '}', (from) => member(text, from, depth));
  if (first === '[') return list(text, at, ']', (from) => value(text, from, depth + 1));
  if (first === '"') return string(text, at);
  for (const word of ['true', 'false', 'null']) if (text.startsWith(word, at)) return at + word.length;
  const end = match(NUMBER, text, at);
  if (end > at) return end;
  throw new Stop(at, first === "'" ? 'texts are in double quotes' : `a value is expected, not ${quoted(text, at)}`);
}

/** @param {string} text @param {number} at @param {string} close @param {(from: number) => number} entry */
function list(text, at, close, entry) {
  let next = space(text, at + 1);
  if (text[next] === close) return next + 1;
  for (;;) {
    next = space(text, entry(next));
    if (text[next] === close) return next + 1;
    if (text[next] === undefined) throw new Stop(next, `the text ends before the closing ${close}`);
    if (text[next] !== ',') throw new Stop(next, `a comma or ${close} is expected, not ${quoted(text, next)}`);
    next = space(text, next + 1);
    if (text[next] === close) throw new Stop(next, `there is a comma before ${close}`);
  }
}

/** @param {string} text @param {number} at @param {number} depth */
function member(text, at, depth) {
  if (text[at] === undefined) throw new Stop(at, 'the text ends before the closing }');
  if (text[at] !== '"') throw new Stop(at, `a name in double quotes is expected, not ${quoted(text, at)}`);
  const colon = space(text, string(text, at));
  if (text[colon] !== ':') throw new Stop(colon, 'a colon is expected after the name');
  return value(text, space(text, colon + 1), depth + 1);
}

/** @param {string} text @param {number} at */
function string(text, at) {
  let next = at + 1;
  for (;;) {
    next = match(CHARACTERS, text, next);
    if (text[next] === '"') return next + 1;
    if (text[next] === undefined) throw new Stop(at, 'the closing quote of this text is missing');
    if (text[next] !== '\\') throw new Stop(next, 'a line end or control character in a text must be written as an escape, such as \\n');
    const end = match(ESCAPE, text, next);
    if (end === next) throw new Stop(next, 'this escape does not exist');
    next = end;
  }
}

/** @param {string} text @param {number} at */
function quoted(text, at) {
  if (text[at] === undefined) return 'the end';
  return `“${text.slice(at, at + 12).match(/^(?:[\w.+-]+|.)/us)?.[0] ?? text[at]}”`;
}
