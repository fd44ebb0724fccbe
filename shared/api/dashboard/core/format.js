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
    const value = JSON.parse(text);
    // A number may be longer than JavaScript can hold: what would change is shown as it is.
    const exact = typeof value !== 'object' || value === null;
    return { text: exact || losesDigits(text) ? text : JSON.stringify(value, null, 2), json: true };
  } catch {
    return { text, json: false };
  }
}

/** Whether a number in a JSON text has more digits than JavaScript keeps. @param {string} text */
const losesDigits = (text) => /\d{16,}/.test(text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""'));

/** Whether a text has characters that cannot be shown. @param {string} text */
// eslint-disable-next-line no-control-regex
export const isBinary = (text) => /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffd]/.test(text);
