// Notices, and errors in words that a person can act on.

import { Problem, Unreachable } from '../core/api.js';
import { h } from '../core/dom.js';
import { ago, localTime, milliseconds } from '../core/format.js';
import { icon } from './icons.js';
import { askToSignIn } from './sign_in.js';
import { button } from './button.js';
import { tick } from './time.js';

/** @import { Child } from '../core/dom.js' */

const ICONS = { error: 'failed', warning: 'warning', info: 'info', empty: 'info' };

/**
 * @param {{kind: 'error' | 'warning' | 'info' | 'empty', title: string, text?: Child, actions?: Child}} options
 * @returns {HTMLElement}
 */
export function notice({ kind, title, text, actions }) {
  return h(
    'div', { class: 'notice', data: { kind }, role: kind === 'error' || kind === 'warning' ? 'alert' : null },
    icon(ICONS[kind]),
    h(
      'div', { class: 'notice-text' }, h('p', { class: 'notice-title' }, title), text && h('div', null, text),
      actions && h('div', { class: 'notice-actions' }, actions),
    ),
  );
}

/**
 * @typedef {{retryMs?: number, what?: string, lost?: string, shownAt?: number | null, retry?: () => void}} FailureOptions `what` names what
 * could not be loaded, such as "The list"; `lost` says what to do when a request that changes something got no answer; `shownAt` is when
 * the page last got what it still shows; `retry` adds a button
 */

/** For a request with an idempotency key that got no answer. */
export const SAFE_TO_REPEAT = 'The request may have arrived or not. Send it again: the same request has its effect once.';

/**
 * An error as a notice.
 * @param {unknown} error
 * @param {FailureOptions} [options]
 * @returns {HTMLElement}
 */
export function failure(error, { retryMs, what, lost, shownAt, retry } = {}) {
  const { kind, title, text, signIn } = explain(error, what, lost);
  const again = retryMs && !isFinal(error) ? countdown(retryMs) : null;
  const stale = shownAt ? h('p', null, `What you see is from ${localTime(shownAt)} (`, since(shownAt), ').') : null;
  const actions = [
    signIn && button('Sign in', { kind: 'primary', on: () => askToSignIn() }),
    retry && button('Try again', { on: retry }),
  ].filter(Boolean);
  return notice({ kind, title, text: [text && h('p', null, text), stale, again], actions: actions.length > 0 ? actions : null });
}

/**
 * What an error means, in words.
 * @param {unknown} error
 * @param {string} [what]
 * @param {string} [lost]
 * @returns {{kind: 'error' | 'warning', title: string, text: string, signIn?: boolean}}
 */
export function explain(error, what, lost) {
  const subject = what ?? 'This';
  if (error instanceof Unreachable) {
    return {
      kind: 'warning', title: 'The API does not answer',
      text: `${lost ?? `${subject} could not be loaded.`} Check your network, and that the deployment or the local cloud runs.`,
    };
  }
  if (!(error instanceof Problem)) {
    const detail = error instanceof Error ? error.message : String(error);
    return { kind: 'error', title: `${subject} cannot be shown`, text: `The dashboard has a defect. ${detail}` };
  }
  const detail = sentence(error.message);
  if (error.status === 401) {
    return { kind: 'warning', title: 'You are not signed in', text: 'Sign in to go on. What you typed stays.', signIn: true };
  }
  if (error.status === 403) return { kind: 'warning', title: 'Your role does not allow this', text: detail };
  if (error.status === 404 && error.kind === 'not-found') {
    return { kind: 'warning', title: `${subject} does not exist`, text: `${detail} It may have been deleted meanwhile.` };
  }
  if (error.status === 404) return { kind: 'error', title: 'This deployment has no such route', text: detail };
  if (error.status === 503) return { kind: 'warning', title: 'The store is busy or cannot be reached', text: detail };
  if (error.status >= 500) return { kind: 'error', title: 'The API has failed', text: `${detail} The log of the API function has the reason.` };
  return { kind: 'error', title: error.title || 'The API has refused the request', text: detail };
}

/** Whether repeating the same request cannot help. @param {unknown} error */
const isFinal = (error) => error instanceof Problem && [400, 401, 403, 404].includes(error.status);

/** A detail of the API begins in lower case and has no full stop. @param {string} text */
const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}` : '');

/** @param {number} ms */
function countdown(ms) {
  const until = Date.now() + ms;
  const element = h('p', { class: 'muted', 'aria-hidden': 'true' });
  tick(element, () => (Date.now() < until ? `Trying again in ${Math.ceil((until - Date.now()) / 1000)} s.` : 'Trying again now.'));
  return element;
}

/** @param {number} at */
function since(at) {
  const element = h('span', { 'aria-hidden': 'true' });
  tick(element, () => ago(milliseconds(at)));
  return element;
}
