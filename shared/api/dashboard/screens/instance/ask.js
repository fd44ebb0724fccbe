// A question whose answer is sent. It stays open with the reason if that fails.

import { fill, h } from '../../core/dom.js';
import { button } from '../../parts/button.js';
import { dialog } from '../../parts/dialog.js';
import { failure } from '../../parts/notice.js';

/** @import { Child } from '../../core/dom.js' */

/**
 * @param {{title: string, body: Child, action: string, danger?: boolean, send: () => Promise<void>, what: string, lost?: string}} question `lost`
 * says what to do if no answer came
 */
export function ask({ title, body, action, danger, send, what, lost }) {
  const problem = h('div');
  const shown = dialog({
    title, body: [body, problem],
    actions: [
      button('Back', { on: () => shown.close() }),
      button(action, {
        kind: danger ? 'danger' : 'primary',
        on: async () => {
          try {
            await send();
            shown.close();
          } catch (error) {
            fill(problem, failure(error, { what, lost }));
          }
        },
      }),
    ],
  });
}
