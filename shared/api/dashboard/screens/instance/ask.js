// A question whose answer is sent. It stays open with the reason if that fails.

import { fill, h } from '../../core/dom.js';
import { button } from '../../parts/button.js';
import { dialog } from '../../parts/dialog.js';
import { failure } from '../../parts/notice.js';

/** @import { Child } from '../../core/dom.js' */

/**
 * @param {{title: string, body: Child, action: string, danger?: boolean, send: () => Promise<void | false>, what: string, lost?: string, wide?: boolean}} question `lost`
 * says what to do if no answer came; the question stays open if `send` returns false
 */
export function ask({ title, body, action, danger, send, what, lost, wide }) {
  const problem = h('div');
  const shown = dialog({
    title, wide, body: [body, problem],
    actions: [
      button('Back', { on: () => shown.close() }),
      button(action, {
        kind: danger ? 'danger' : 'primary',
        on: async () => {
          try {
            if (await send() !== false) shown.close();
          } catch (error) {
            fill(problem, failure(error, { what, lost }));
          }
        },
      }),
    ],
  });
}
