// What a person prefers, kept in the browser. Nothing else is kept there: no data of workflows and no token.

/** @typedef {'system' | 'light' | 'dark'} Theme */

const THEME = 'duroxide.theme';

/** @returns {Theme} */
export function theme() {
  const kept = read(THEME);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

/** @param {Theme} theme */
export function setTheme(theme) {
  write(THEME, theme);
  applyTheme();
}

export function applyTheme() {
  const chosen = theme();
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

// A browser may forbid storage. Preferences are then forgotten, and nothing fails.

/** @param {string} name */
function read(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value */
function write(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The preference holds until the page is closed.
  }
}
