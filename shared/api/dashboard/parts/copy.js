// Copies a text to the clipboard, and says whether that worked.

import { toast } from './toast.js';

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast('Copied.', 'success');
  } catch {
    toast('The browser does not allow copying. Select the text instead.', 'warning');
  }
}
