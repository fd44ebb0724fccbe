// Updates while a person looks: a loop that loads, shows, and pauses; slower while the page is hidden, and after failures.

import { Problem } from './api.js';

/** A hidden page is refreshed this seldom; it is refreshed at once when it is shown again. */
const HIDDEN_MS = 60_000;
const SLOWEST_MS = 30_000;

/**
 * Loads again and again until `signal` aborts.
 * @template T
 * @param {{
 *   load: (signal: AbortSignal) => Promise<T>,
 *   show: (value: T) => void,
 *   fail: (error: Error, retryMs: number) => void,
 *   everyMs: number | (() => number | null),
 *   signal: AbortSignal,
 * }} options `everyMs` may return null: then nothing more is expected, and the loop ends
 * @returns {{now: () => void}} `now` loads without waiting for the pause to end
 */
export function live({ load, show, fail, everyMs, signal }) {
  /** @type {(() => void) | null} */
  let wake = null;
  const now = () => wake?.();
  const visible = () => document.hidden || now();
  document.addEventListener('visibilitychange', visible);
  signal.addEventListener('abort', () => {
    document.removeEventListener('visibilitychange', visible);
    now();
  });

  /** @param {number} ms */
  const pause = (ms) => new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      wake = null;
      resolve();
    }
    wake = done;
  });

  (async () => {
    let failures = 0;
    while (!signal.aborted) {
      let rest;
      try {
        const value = await load(signal);
        if (signal.aborted) return;
        failures = 0;
        show(value);
        rest = typeof everyMs === 'function' ? everyMs() : everyMs;
        if (rest === null) return;
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
        rest = backOff(failures, error);
        fail(/** @type {Error} */ (error), rest);
      }
      await pause(document.hidden ? Math.max(rest, HIDDEN_MS) : rest);
    }
  })();
  return { now };
}

/**
 * @param {number} failures
 * @param {unknown} error
 */
export function backOff(failures, error) {
  const asked = error instanceof Problem && error.retryAfter ? error.retryAfter * 1000 : 0;
  return Math.max(asked, Math.min(SLOWEST_MS, 1000 * 2 ** Math.min(failures - 1, 10)));
}
