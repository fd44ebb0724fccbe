// The details of the row under the pointer, or of the one that the keys have reached. Escape hides them.

import { fill, h } from '../core/dom.js';

/** @returns {{element: HTMLElement, show: (title: string, facts: [string, string][], at: {x: number, y: number}) => void, hide: () => void}} */
export function tooltip() {
  const element = h('div', { class: 'tl-tip', role: 'tooltip', hidden: true });
  const hide = () => {
    element.hidden = true;
  };
  return {
    element,
    hide,
    show(title, facts, { x, y }) {
      fill(
        element, h('p', { class: 'tl-tip-title' }, title),
        h('dl', null, facts.map(([name, text]) => (name ? [h('dt', null, name), h('dd', null, text)] : h('dd', { class: 'tl-tip-wide' }, text)))),
      );
      element.hidden = false;
      const { width, height } = element.getBoundingClientRect();
      const below = y + 20 + height < innerHeight;
      element.style.setProperty('left', `${Math.max(8, Math.min(x + 12, innerWidth - width - 8))}px`);
      element.style.setProperty('top', `${Math.max(8, below ? y + 16 : y - height - 12)}px`);
    },
  };
}
