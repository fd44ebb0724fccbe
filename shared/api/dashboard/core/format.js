// Texts of values: times, durations, numbers, sizes, payloads. Pure, except for the present time and the zone.

/** @param {number | string} when milliseconds or RFC 3339 */
export const milliseconds = (when) => (typeof when === 'number' ? when : Date.parse(when));

const DATE_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** The time in the local zone. @param {number | string} when */
export function localTime(when) {
  const date = new Date(when);
  const today = date.toDateString() === new Date().toDateString();
  return (today ? TIME : DATE_TIME).format(date);
}

/** The time in UTC, for hovering. @param {number | string} when */
export const utcTime = (when) => new Date(when).toISOString().replace('T', ' ').replace('Z', ' UTC');

/**
 * A duration in its two largest units: `340 ms`, `4.2 s`, `3 min 20 s`, `2 d 4 h`.
 * @param {number} ms
 * @returns {string}
 */
export function duration(ms) {
  if (!Number.isFinite(ms)) return '';
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'], [Math.floor(seconds / 3600) % 24, 'h'], [Math.floor(seconds / 60) % 60, 'min'], [seconds % 60, 's'],
  ];
  const first = parts.findIndex(([count]) => count !== 0);
  return parts.slice(first, first + 2).filter(([count]) => count !== 0).map((part) => part.join(' ')).join(' ');
}

/** How long ago something was, or in how long it will be. @param {number | string} when @param {number} [now] */
export function ago(when, now = Date.now()) {
  const ms = now - milliseconds(when);
  if (Math.abs(ms) < 1000) return 'now';
  const text = coarse(Math.abs(ms));
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

/** Whole seconds below a minute, else whole minutes: a text that changes each second draws the eye. @param {number} ms */
function coarse(ms) {
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  return duration(Math.floor(ms / 60_000) * 60_000);
}

const NUMBER = new Intl.NumberFormat();
/** @param {number} value */
export const number = (value) => NUMBER.format(value);

/** One or many. @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** @param {number} count */
export function bytes(count) {
  if (count < 1000) return `${count} B`;
  const kilo = count / 1000;
  return kilo < 1000 ? `${kilo.toFixed(kilo < 10 ? 1 : 0)} kB` : `${(kilo / 1000).toFixed(1)} MB`;
}

/**
 * A text for a person: indented if it is JSON. `json` says whether it was.
 * @param {string} text
 * @returns {{text: string, json: boolean}}
 */
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return { text, json: false };
  }
  return { text: indent(text), json: true };
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/**
 * Indents JSON without reading its values: `1.50`, a long number and a repeated name stay as they are written.
 * @param {string} json
 */
function indent(json) {
  let [shown, line, before] = ['', '\n', ''];
  for (const [token] of json.matchAll(TOKEN)) {
    const closes = token === '}' || token === ']';
    if (closes) line = line.slice(0, -2);
    const opened = before === '{' || before === '[';
    if (closes ? !opened : opened || before === ',') shown += line;
    shown += token === ':' ? ': ' : token;
    if (token === '{' || token === '[') line += '  ';
    before = token;
  }
  return shown;
}

/** Whether a text has characters that cannot be shown. @param {string} text */
// eslint-disable-next-line no-control-regex
export const isBinary = (text) => /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffd]/.test(text);
