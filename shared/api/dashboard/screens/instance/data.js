// The data of one instance, kept current: state by long poll, history by its new events.
//
// The last instance is kept in memory, so that changing the tab does not load its history again. It is forgotten with the page.

import * as api from '../../core/api.js';
import { live } from '../../core/live.js';
import { isEnd } from '../../timeline/events.js';
import { model } from '../../timeline/model.js';

/** @import { ActivityAttempts, HistoryEvent, Instance } from '../../core/types.js' */
/** @import { Model } from '../../timeline/model.js' */

/**
 * What is known. `whole` says whether all events were loaded; `most` how many are wanted; `pinned` is an execution that was chosen;
 * `missing` says that it does not exist, and `gone` that the instance was deleted; `problem` is what the last request failed with;
 * `rewinds` is how often the instance had been rewound when the events were loaded.
 * @typedef {{
 *   id: string, etag: string | null, instance: Instance | null, execution: number | null, pinned: number | null,
 *   events: HistoryEvent[], attempts: Map<number, ActivityAttempts>, whole: boolean, missing: boolean,
 *   problem: {error: Error, retryMs: number} | null, loadedAt: number | null, model: Model | null, gone: boolean, most: number,
 *   rewinds: number,
 * }} Data
 */

const PAGE = 1000;
/** More events are loaded when a person asks for them. */
export const MOST_EVENTS = 20_000;
/** A long poll, and a shorter one while activities are open: their attempts change without a new version of the instance. */
const [WAIT_S, WAIT_OPEN_S] = [25, 10];
/** The least time between two requests. */
const PAUSE_MS = 500;

/** @type {Data | null} */
let kept = null;

/** @param {string} id @param {number | null} pinned @returns {Data} */
function begin(id, pinned) {
  if (kept?.id === id && kept.pinned === pinned && !kept.gone) return kept;
  const instance = kept?.id === id && !kept.gone ? kept.instance : null;
  kept = {
    id, etag: null, instance, execution: null, pinned, events: [], attempts: new Map(), whole: false, missing: false, problem: null, loadedAt: null, model: null, gone: false, most: MOST_EVENTS, rewinds: 0,
  };
  return kept;
}

/** @param {string} status */
export const isFinished = (status) => status === 'Completed' || status === 'Failed' || status === 'Cancelled';

/**
 * @param {string} id
 * @param {number | null} pinned an execution that was chosen; without one, the current one
 * @param {(data: Data) => void} changed
 * @param {AbortSignal} signal
 * @returns {Data}
 */
export function watch(id, pinned, changed, signal) {
  const data = begin(id, pinned);
  live({
    signal,
    load: (abort) => load(data, abort, () => changed(data)),
    show: () => {
      data.problem = null;
      data.gone = false;
      data.loadedAt = Date.now();
      changed(data);
    },
    fail: (error, retryMs) => {
      data.gone = error instanceof api.Problem && error.status === 404 && error.kind === 'not-found' && data.instance !== null && !data.missing;
      data.problem = { error, retryMs };
      changed(data);
    },
    everyMs: () => (isOver(data) ? null : PAUSE_MS),
  });
  return data;
}

/** Whether as many events were loaded as are wanted. @param {Data} data */
export const isFull = (data) => data.whole || data.events.length >= data.most;

/** Whether nothing more can come. @param {Data} data */
function isOver(data) {
  const last = data.events.at(-1);
  return isFull(data) && data.instance !== null && isFinished(data.instance.status) && (data.pinned !== null || last === undefined || !data.whole || isEnd(last));
}

/** @param {Data} data @param {AbortSignal} signal @param {() => void} part called when there is something to show */
async function load(data, signal, part) {
  const open = [...data.attempts.values()].some((of) => of.open);
  // After a failure it does not wait: a person should see at once that the API answers again.
  const patient = data.problem === null && data.etag !== null && isFull(data) && !isOver(data) && !document.hidden;
  const answer = await api.instance(data.id, { etag: data.etag, wait: patient ? (open ? WAIT_OPEN_S : WAIT_S) : undefined, raw: true, signal });
  if (answer.instance) data.instance = answer.instance;
  data.etag = answer.etag;
  if (answer.instance && !data.model) part();
  await loadHistory(data, signal, part);
}

/** @param {Data} data @param {AbortSignal} signal @param {() => void} part */
async function loadHistory(data, signal, part) {
  const instance = /** @type {Instance} */ (data.instance);
  if (!instance.startedAt && data.pinned === null) {
    data.whole = true;
    return;
  }
  const execution = data.pinned ?? instance.execution;
  if (data.execution !== execution || startOver(data, instance.rewinds?.at(-1)?.number)) Object.assign(data, { execution, ...NO_EVENTS() });
  if (data.whole && isOver(data)) return;
  let after = data.events.at(-1)?.event_id ?? 0;
  let changes = false;
  while (data.whole || data.events.length < data.most) {
    data.missing = data.pinned !== null && data.events.length === 0;
    const page = await api.history(data.id, { execution, after, limit: PAGE, signal });
    data.missing = false;
    if (startOver(data, page.rewinds) && after > 0) {
      Object.assign(data, NO_EVENTS());
      after = 0;
      continue;
    }
    changes = merge(data, page.events, page.attempts) || changes;
    data.whole = page.nextAfter === undefined;
    // The last page has all open activities: others have been cancelled since.
    if (data.whole) changes = close(data, page.attempts) || changes;
    if (data.whole) break;
    after = page.nextAfter ?? 0;
    if (changes) {
      data.model = model(data.events, [...data.attempts.values()], data.id);
      part();
    }
  }
  if (changes || !data.model) data.model = model(data.events, [...data.attempts.values()], data.id);
}

const NO_EVENTS = () => ({ events: [], attempts: new Map(), whole: false, model: null });

/**
 * Whether the instance was rewound since its events were loaded: their ids are used again, so all of them are loaded again.
 * @param {Data} data @param {number} [rewinds]
 */
function startOver(data, rewinds = 0) {
  if (rewinds <= data.rewinds) return false;
  data.rewinds = rewinds;
  return true;
}

/** @param {Data} data @param {HistoryEvent[]} events @param {ActivityAttempts[]} attempts */
function merge(data, events, attempts) {
  const last = data.events.at(-1)?.event_id ?? 0;
  const added = events.filter((event) => event.event_id > last);
  data.events.push(...added);
  let changes = added.length > 0;
  for (const of of attempts) {
    if (JSON.stringify(data.attempts.get(of.activity)) !== JSON.stringify(of)) changes = true;
    data.attempts.set(of.activity, of);
  }
  return changes;
}

/** @param {Data} data @param {ActivityAttempts[]} listed */
function close(data, listed) {
  const open = new Set(listed.filter((of) => of.open).map((of) => of.activity));
  const over = [...data.attempts.values()].filter((of) => of.open && !open.has(of.activity));
  for (const of of over) data.attempts.set(of.activity, { ...of, open: false });
  return over.length > 0;
}

/** Forgets an instance that was deleted here. */
export function forget() {
  kept = null;
}
