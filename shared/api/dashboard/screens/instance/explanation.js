// Why an instance is where it is, as the API explains it, loaded when that may have changed. An explanation costs the store two requests, so
// it is not polled: it is loaded again when the instance or an attempt has changed, when a time has passed at which something was to
// happen, and now and then while it names children, whose changes the instance does not show.

import * as api from '../../core/api.js';

/** @import { Explanation } from '../../core/types.js' */
/** @import { Data } from './data.js' */

/** The least time between two requests, and the time after a due time: what is due takes a moment. */
const PAUSE_MS = 2_000;
const DUE_MS = 1_500;
/** With children, and after a failure. */
const CHAIN_MS = 30_000;

/** @typedef {{explanation: Explanation | null, error: Error | null, loadedAt: number | null}} Explained */

/**
 * When to look again, if nothing of the instance changes before. Pure.
 * @param {Explanation} explanation
 * @returns {number | null} milliseconds from now
 */
export function lookAgain(explanation) {
  if (explanation.status === 'Completed' || explanation.status === 'Failed' || explanation.status === 'Cancelled') return null;
  // By the API's clock: the browser's may differ.
  const at = Date.parse(explanation.at);
  const times = [explanation.until, ...explanation.waits.map(({ due }) => due)].flatMap((time) => (time ? [Date.parse(time)] : []));
  const next = times.filter((time) => time > at).map((time) => Math.max(PAUSE_MS, time - at + DUE_MS));
  if (explanation.chain.length > 1) next.push(CHAIN_MS);
  return next.length > 0 ? Math.min(...next) : null;
}

/** What of an instance an explanation depends on. @param {Data} data */
export function stampOf({ etag, attempts }) {
  const open = [...attempts.values()].filter((of) => of.open).map((of) => [of.activity, of.attempts, of.runningSince, of.ended.length, of.blocked?.tries]);
  return JSON.stringify([etag, open]);
}

/** A timer takes no longer time than this. */
const MOST_MS = 2 ** 31 - 1;

/**
 * @param {string} id
 * @param {() => void} changed
 * @param {AbortSignal} signal
 * @returns {{follow: (data: Data) => void, again: () => Promise<void>, now: () => Explained}}
 */
export function explainer(id, changed, signal) {
  /** @type {Explained} */
  let explained = { explanation: null, error: null, loadedAt: null };
  let [stamp, begun] = ['', 0];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Promise<void> | null} */
  let loading = null;
  signal.addEventListener('abort', () => clearTimeout(timer));

  /** @param {number} ms */
  const plan = (ms) => {
    clearTimeout(timer);
    timer = setTimeout(() => (document.hidden ? plan(CHAIN_MS) : again()), Math.min(MOST_MS, ms));
  };

  async function load() {
    if (signal.aborted) return;
    clearTimeout(timer);
    const of = stamp;
    begun = Date.now();
    try {
      explained = { explanation: await api.explanation(id, signal), error: null, loadedAt: Date.now() };
    } catch (error) {
      if (signal.aborted) return;
      explained = { ...explained, error: /** @type {Error} */ (error) };
    }
    // What changed meanwhile is explained anew.
    if (of !== stamp) plan(PAUSE_MS);
    else if (explained.error) plan(CHAIN_MS);
    else if (explained.explanation) {
      const rest = lookAgain(explained.explanation);
      if (rest !== null) plan(rest);
    }
    changed();
  }

  /** One request at a time. */
  const again = () => {
    loading ??= load().finally(() => { loading = null; });
    return loading;
  };

  return {
    again,
    now: () => explained,
    follow(data) {
      if (signal.aborted || data.gone || data.etag === null) return;
      const next = stampOf(data);
      // After a failure, an answer to another request is a reason to try again.
      const failed = explained.error !== null && data.problem === null;
      if (next === stamp && !failed) return;
      stamp = next;
      const rest = begun + PAUSE_MS - Date.now();
      if (loading || rest > 0) plan(Math.max(rest, 100));
      else again();
    },
  };
}
