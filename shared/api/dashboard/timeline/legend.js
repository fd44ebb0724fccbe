// What the shapes mean.

import { h, svg } from '../core/dom.js';

/** Signs of the kinds of lanes, 14 by 14. @type {Record<string, string>} */
const KINDS = {
  activity: 'M2 4h10v6H2z', timer: 'M7 2a5 5 0 1 1 0 10a5 5 0 1 1 0-10M7 4.500V7l2 1', event: 'M8 1.500L3.500 8H7l-1 4.500L10.500 6H7z',
  queue: 'M1.500 3.500h11v7h-11zM1.500 4l5.500 4l5.500-4', child: 'M3 2v7h4M7 6.500h5v5H7z', detached: 'M2 7h8M7 3.500L10.500 7L7 10.500',
  expand: 'M5 3l4 4l-4 4', collapse: 'M3 5l4 4l4-4',
};

/** @param {string} kind */
export function kindIcon(kind) {
  return svg('svg', { viewBox: '0 0 14 14', class: 'tl-kind', 'aria-hidden': 'true' }, svg('path', { d: KINDS[kind] ?? KINDS.activity }));
}

/** @type {[string, string, string?][]} */
const SHAPES = [
  ['seg seg-completed of-activity', 'done'], ['seg seg-running of-activity', 'running'], ['seg seg-failed of-activity', 'failed attempt', 'failed'],
  ['seg seg-lost of-activity', 'lost or timed out', 'lost'], ['seg seg-waiting of-timer', 'waiting'], ['seg seg-completed of-timer', 'waited'],
  ['seg seg-cancelled of-timer', 'not waited for'], ['seg seg-queued of-activity', 'queued'], ['seg seg-back-off of-activity', 'back-off'], ['tl-path', 'critical path'],
];

export function legend() {
  return h('ul', { class: 'tl-legend' }, SHAPES.map(([name, text, cross]) => {
    const thin = /queued|back-off|path/.test(name);
    return h(
      'li', null,
      svg(
        'svg', { width: 24, height: 14, 'aria-hidden': 'true' },
        svg('rect', { class: name, x: 1, y: thin ? 5.5 : 1, width: 20, height: thin ? 3 : 12, rx: thin ? 0 : 2 }),
        cross && svg('path', { class: `tl-mark tl-mark-${cross}`, d: 'M-3-3L3 3M3-3L-3 3', transform: 'translate(20 7)' }),
      ),
      text,
    );
  }));
}
