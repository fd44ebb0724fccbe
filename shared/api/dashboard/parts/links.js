// Ids, names and reasons of others in lists: shown with marks for what cannot be seen, and cut where they are long.

import { h } from '../core/dom.js';
import { href } from '../core/router.js';
import { visible } from './visible.js';

/** Longer ids are cut by the style sheet; hovering shows them whole. */
const LONG = 80;

/** @param {string} id */
export const instanceLink = (id) => h('a', { href: href(['instances', id]), title: id.length > LONG ? id : null }, name(id));

/** A name or id of others. @param {string} text */
export const name = (text) => h('bdi', null, visible(text));

/** A text of which two lines are shown. @param {string} text */
export function clamped(text) {
  const most = text.slice(0, 1000);
  return h('div', { class: 'clamp', title: most }, visible(most));
}
