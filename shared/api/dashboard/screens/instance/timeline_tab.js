// The tab of the timeline.

import { fill, h } from '../../core/dom.js';
import { notice } from '../../parts/notice.js';
import { timeline } from '../../timeline/timeline.js';

/** @import { Tab } from '../instance.js' */

/** @type {Tab} */
export function timelineTab({ root, id, signal, setQuery }) {
  const shown = timeline({ setQuery, signal });
  return (data, query) => {
    if (!data.model) {
      const pending = data.instance && !data.instance.startedAt;
      fill(root, pending
        ? notice({ kind: 'empty', title: 'No history yet', text: 'The first turn of this instance has not run. The page shows it when it does.' })
        : !data.problem && h('p', { class: 'muted' }, 'Loading the history…'));
      return;
    }
    if (shown.element.parentElement !== root) fill(root, shown.element);
    shown.update({ instance: id, events: data.events, model: data.model, query, live: data.model.end === null && !data.gone });
  };
}
