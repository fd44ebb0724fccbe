// Small drawings of 16 by 16, in the colour of the text beside them. They decorate: the text says the same.

import { svg } from '../core/dom.js';

/** Each is a path that is stroked. @type {Record<string, string>} */
const PATHS = {
  pending: 'M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11M8 5v3l2 1.5',
  running: 'M4.5 3v10l8-5z',
  blocked: 'M5.5 2h5L14 5.5v5L10.500 14h-5L2 10.500v-5zM5 8h6',
  paused: 'M5.5 3.500v9M10.500 3.500v9',
  completed: 'M2.500 8.500l3.500 3.500l7.500-8',
  failed: 'M3.500 3.500l9 9M12.500 3.500l-9 9',
  cancelled: 'M8 2.500a5.500 5.500 0 1 1 0 11a5.500 5.500 0 1 1 0-11M4.200 4.200l7.600 7.600',
  again: 'M13 8a5 5 0 1 1-1.500-3.500M13 2v3h-3',
  unknown: 'M6 6a2 2 0 1 1 2.500 2c-.5.200-.5.500-.5 1.500M8 12v.3',
  warning: 'M8 2l6.500 11.500h-13zM8 6.500v3.500M8 11.700v.3',
  info: 'M8 2.500a5.500 5.500 0 1 1 0 11a5.500 5.500 0 1 1 0-11M8 7.500v3.500M8 5v.3',
  close: 'M4 4l8 8M12 4l-8 8',
  plus: 'M8 3v10M3 8h10',
  left: 'M10 3L5 8l5 5',
  right: 'M6 3l5 5l-5 5',
};

/** @param {string} name */
export function icon(name) {
  return svg(
    'svg', { viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true', focusable: 'false' },
    svg('path', { d: PATHS[name] ?? PATHS.unknown }),
  );
}
