// Pointer, wheel and keys of the timeline. A plain wheel scrolls the page as everywhere else; with Ctrl it zooms (a pinch on a
// touchpad is the same), with Shift it moves. On a touch screen, two fingers zoom and one finger moves sideways.

/**
 * @typedef {{
 *   zoom: (factor: number, at: number) => void, pan: (part: number) => void, fit: () => void, move: (rows: number) => void,
 *   choose: () => void, leave: () => void, edge: (last: boolean) => void,
 * }} Actions `at` is the place that stays, from 0 to 1; `part` is of the visible width
 */

/** A pointer that moves less than this has clicked. */
const CLICK_PX = 4;
const [WHEEL, KEY] = [0.0022, 0.7];

/**
 * @param {HTMLElement} element takes keys, wheel and pointers
 * @param {() => {left: number, width: number}} area the drawing, in pixels of the window
 * @param {Actions} actions
 * @returns {{dragged: () => boolean}} whether the last press was a drag and no click
 */
export function interact(element, area, actions) {
  /** @type {Map<number, {x: number, first: number}>} */
  const pointers = new Map();
  let dragged = false;

  element.addEventListener('wheel', (event) => {
    const { left, width } = area();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      actions.zoom(Math.exp(pixels(event, event.deltaY) * WHEEL), (event.clientX - left) / width);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      actions.pan(pixels(event, sideways) / width);
    }
  }, { passive: false });

  element.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    if (pointers.size === 0) dragged = false;
    pointers.set(event.pointerId, { x: event.clientX, first: event.clientX });
  });
  element.addEventListener('pointermove', (event) => {
    const pointer = pointers.get(event.pointerId);
    if (!pointer) return;
    const { left, width } = area();
    if (pointers.size === 1) {
      if (!dragged && Math.abs(event.clientX - pointer.first) < CLICK_PX) return;
      if (!dragged) element.setPointerCapture(event.pointerId);
      dragged = true;
      actions.pan((pointer.x - event.clientX) / width);
    } else {
      dragged = true;
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1].x ?? 0;
      const [before, after] = [Math.abs(pointer.x - other), Math.abs(event.clientX - other)];
      if (before > 8 && after > 8) actions.zoom(before / after, ((event.clientX + other) / 2 - left) / width);
    }
    pointer.x = event.clientX;
  });
  for (const type of ['pointerup', 'pointercancel', 'lostpointercapture']) {
    element.addEventListener(type, (event) => pointers.delete(/** @type {PointerEvent} */ (event).pointerId));
  }
  // A press that ends outside is over, too.
  element.addEventListener('pointerleave', (event) => {
    if (!element.hasPointerCapture(event.pointerId)) pointers.delete(event.pointerId);
  });

  element.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keys(actions, event.shiftKey)[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  return { dragged: () => dragged };
}

/**
 * @param {Actions} actions
 * @param {boolean} shift
 * @returns {Record<string, (() => void) | undefined>}
 */
function keys(actions, shift) {
  const part = shift ? 0.8 : 0.15;
  return {
    '+': () => actions.zoom(KEY, 0.5), '=': () => actions.zoom(KEY, 0.5), '-': () => actions.zoom(1 / KEY, 0.5), _: () => actions.zoom(1 / KEY, 0.5),
    0: actions.fit, ArrowLeft: () => actions.pan(-part), ArrowRight: () => actions.pan(part),
    ArrowUp: () => actions.move(-1), ArrowDown: () => actions.move(1), PageUp: () => actions.move(-10), PageDown: () => actions.move(10),
    Home: () => actions.edge(false), End: () => actions.edge(true), Enter: actions.choose, ' ': actions.choose, Escape: actions.leave,
  };
}

/** Some browsers count a wheel in lines. @param {WheelEvent} event @param {number} delta */
const pixels = (event, delta) => (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? delta * 16 : delta);
