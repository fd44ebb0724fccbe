// The custom status over time, as a strip below the axis: the stages of a workflow as it names them itself.

import { svg } from '../core/dom.js';
import { xOf } from './draw.js';

/** @import { Model } from './model.js' */
/** @import { Paint } from './draw.js' */

/** The strip's height in pixels. */
export const STRIP = 20;
const LETTER = 6.6;

/** @param {Model} model @param {Paint} paint */
export function drawStatuses(model, paint) {
  const end = model.end ?? paint.now;
  const parts = model.statuses.flatMap(({ at, text }, index) => {
    const left = Math.max(0, xOf(paint, at));
    const right = Math.min(paint.width, xOf(paint, model.statuses[index + 1]?.at ?? end));
    if (text === null || right - left < 1) return [];
    const room = Math.floor((right - left - 8) / LETTER);
    return [
      svg('rect', { class: 'tl-stage', x: left, y: 2, width: right - left - 1, height: STRIP - 5, rx: 2 }),
      room > 2 && svg('text', { class: 'tl-stage-text', x: left + 4, y: STRIP - 7 }, text.length > room ? `${text.slice(0, room - 1)}…` : text),
    ];
  });
  return svg('svg', { class: 'tl-stages', width: paint.width, height: STRIP, 'aria-hidden': 'true' }, parts);
}
