// Events that a rewind has undone. They are loaded when a person wants to see them, and do not change any more.

import * as api from '../../core/api.js';
import { h } from '../../core/dom.js';
import { plural } from '../../core/format.js';
import { name } from '../../parts/links.js';
import { failure, notice } from '../../parts/notice.js';
import { when } from '../../parts/time.js';
import { model } from '../../timeline/model.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { HistoryEvent, Rewind } from '../../core/types.js' */
/** @import { Model } from '../../timeline/model.js' */

/** @typedef {{events: HistoryEvent[], model: Model, rewind: Rewind | undefined}} Undone */

const PAGE = 1000;

/**
 * @param {string} id
 * @param {AbortSignal} signal
 * @param {() => void} changed called when something was loaded, or could not be
 */
export function undoneEvents(id, signal, changed) {
  /** @type {Map<number, Undone | Error | null>} null while it loads */
  const known = new Map();
  /** @param {number} undone */
  const load = async (undone) => {
    known.set(undone, null);
    try {
      /** @type {HistoryEvent[]} */
      const events = [];
      /** @type {number | undefined} */
      let after = 0;
      /** @type {Rewind | undefined} */
      let rewind;
      while (after !== undefined) {
        const page = await api.history(id, { undone, after, limit: PAGE, signal });
        events.push(...page.events);
        [after, rewind] = [page.nextAfter, page.undone];
      }
      known.set(undone, { events, model: model(events, [], id), rewind });
    } catch (error) {
      if (signal.aborted) return;
      known.set(undone, /** @type {Error} */ (error));
    }
    changed();
  };
  return {
    /** What is known of it; loads it the first time. @param {number} number */
    get: (number) => {
      if (!known.has(number)) load(number);
      const found = known.get(number) ?? null;
      return found instanceof Error || !found ? null : found;
    },
    /** What is said above the events. @param {number} number @param {Child} actions @returns {Child} */
    about: (number, actions) => {
      const found = known.get(number);
      if (!found) return h('p', { class: 'muted' }, 'Loading the undone events…');
      if (found instanceof Error) {
        return failure(found, {
          what: 'What was undone',
          retry: () => {
            load(number);
            changed();
          },
        });
      }
      const { rewind, events } = found;
      return notice({
        kind: 'info', title: `${plural(events.length, 'event')} undone by rewind ${number}`, actions,
        text: h('p', null, 'They are no part of the history any more. ', rewind && [when(rewind.at), rewind.reason && [': ', name(rewind.reason)]]),
      });
    },
  };
}
