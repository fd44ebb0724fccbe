// Where a list was scrolled to, for a person who looks at one entry, goes back, and looks at the next. The browser cannot restore that
// itself: the list is not there yet when it tries.

/** @type {Map<string, number>} By address. */
const places = new Map();
/** @type {number | null} */
let wanted = null;

/** Begins to remember. Browsers without the Navigation API begin at the top. */
export function rememberScroll() {
  const { navigation } = /** @type {any} */ (window);
  if (!navigation) return;
  history.scrollRestoration = 'manual';
  navigation.addEventListener('navigate', (/** @type {any} */ event) => {
    places.set(location.hash, window.scrollY);
    const back = event.navigationType === 'traverse';
    wanted = back ? places.get(new URL(event.destination.url).hash) ?? null : null;
  });
}

/** Is called by a screen that has its content. Has an effect once after going back, unless the person has scrolled meanwhile. */
export function restoreScroll() {
  if (wanted !== null && window.scrollY === 0) window.scrollTo(0, wanted);
  wanted = null;
}
