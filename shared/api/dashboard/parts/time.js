// Times: local, with UTC on hovering; and texts that change by themselves while they are on the page.

import { h } from '../core/dom.js';
import { ago, localTime, utcTime } from '../core/format.js';

/** An element that is never put on the page is forgotten after this time. */
const UNUSED_MS = 60_000;

/** @type {Set<{element: HTMLElement, text: () => string, shown: boolean, madeAt: number}>} */
const ticking = new Set();
/** @type {ReturnType<typeof setInterval> | null} */
let timer = null;

/** A moment in local time. @param {number | string} at @returns {HTMLElement} */
export function when(at) {
  return moment(at, localTime(at));
}

/** How long ago a moment was; counts on until the element leaves the page. @param {number | string} at @returns {HTMLElement} */
export function age(at) {
  const element = moment(at, ago(at));
  tick(element, () => ago(at));
  return element;
}

/**
 * Keeps the text of an element current, each second, until it leaves the page.
 * @param {HTMLElement} element
 * @param {() => string} text
 */
export function tick(element, text) {
  element.textContent = text();
  ticking.add({ element, text, shown: false, madeAt: Date.now() });
  timer ??= setInterval(update, 1000);
}

function update() {
  for (const entry of ticking) {
    if (entry.element.isConnected) {
      entry.shown = true;
      const text = entry.text();
      if (entry.element.textContent !== text) entry.element.textContent = text;
    } else if (entry.shown || Date.now() - entry.madeAt > UNUSED_MS) {
      ticking.delete(entry);
    }
  }
  if (ticking.size === 0 && timer !== null) {
    clearInterval(timer);
    timer = null;
  }
}

/** @param {number | string} at @param {string} text */
function moment(at, text) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return h('span', null, String(at));
  return h('time', { datetime: date.toISOString(), title: `${date.toLocaleString()}\n${utcTime(at)}` }, text);
}
