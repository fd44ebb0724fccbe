// Texts of others with characters that cannot be seen, or that turn the direction of writing: each becomes a visible mark.

import { h } from '../core/dom.js';

/** Controls except tab and line ends; marks of direction; what a decoder could not read. */
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufffd]/g;

/**
 * A text with marks for what cannot be seen.
 * @param {string} text
 * @returns {(string | HTMLElement)[]}
 */
export function visible(text) {
  /** @type {(string | HTMLElement)[]} */
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(UNSEEN)) {
    if (index > end) parts.push(text.slice(end, index));
    parts.push(h('span', { class: 'unseen' }, name(found)));
    end = index + found.length;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

/** @param {string} character */
export const name = (character) => `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
