// The prompt to sign in: the first screen when there is no token, and later a dialog over the page, which keeps what was typed.

import * as auth from '../core/auth.js';
import { fill, h } from '../core/dom.js';
import { currentSession } from '../core/session.js';
import { button } from './button.js';
import { dialog } from './dialog.js';
import { field, input } from './field.js';

/** @import { Child } from '../core/dom.js' */
/** @import { Config } from '../core/types.js' */

/** @type {{close: () => void} | null} */
let open = null;
/** A person who has closed the dialog is not interrupted again; the header and the notices offer it. */
let dismissed = false;
/** @type {() => void | Promise<void>} */
let afterwards = () => {};

/** @param {() => void | Promise<void>} action is called after each sign-in */
export function onSignedIn(action) {
  afterwards = action;
}

/** A request got 401: asks to sign in, once. @param {string} reason */
export function interrupt(reason) {
  if (!dismissed) askToSignIn(reason);
}

/** Opens the dialog. @param {string} [reason] */
export function askToSignIn(reason = 'Sign in to go on.') {
  const { config } = currentSession();
  if (open || !config) return;
  let done = false;
  const asked = dialog({
    title: 'Sign in',
    body: prompt(config, reason, {
      inWindow: true,
      done: () => {
        done = true;
        asked.close();
      },
    }),
    actions: button('Not now', { on: () => asked.close() }),
    closed: () => {
      open = null;
      dismissed = !done;
    },
  });
  open = asked;
}

/**
 * What a person can do to be known, by the mode of the API.
 * @param {Config} config
 * @param {string} reason
 * @param {{done?: () => void, inWindow?: boolean}} [options] `inWindow` keeps the page, where a redirect would lose it
 * @returns {Child}
 */
export function prompt(config, reason, { done = () => {}, inWindow = false } = {}) {
  if (config.auth === 'iam') return iam(reason);
  if (config.auth === 'none') return none(reason);
  const problem = h('p', { class: 'field-error', role: 'alert' });
  const finish = async () => {
    dismissed = false;
    await afterwards();
    done();
  };
  /** @param {() => Promise<void>} action */
  const attempt = async (action) => {
    fill(problem);
    try {
      await action();
    } catch (error) {
      fill(problem, error instanceof Error ? error.message : String(error));
    }
  };
  const start = () => attempt(async () => {
    if (!inWindow) return auth.signIn();
    await auth.signInInWindow();
    await finish();
  });
  const withIssuer = config.signIn && [
    h('p', null, 'You sign in at ', h('code', null, config.signIn.issuer), inWindow ? ', in another window. This page stays as it is.' : '.'),
    h('p', null, button('Sign in', { kind: 'primary', on: start })),
  ];
  return [h('p', null, reason), withIssuer ?? withToken(attempt, finish), problem];
}

/**
 * @param {(action: () => Promise<void>) => Promise<void>} attempt
 * @param {() => Promise<void>} finish
 */
function withToken(attempt, finish) {
  const token = field('Access token', input({ type: 'password', required: true }), {
    hint: 'It stays in the memory of this page, and is forgotten on reload.',
  });
  const use = () => attempt(async () => {
    const text = token.control.value.trim().replace(/^Bearer\s+/i, '');
    token.setError(text ? null : 'Paste the token.');
    if (!text) return;
    auth.useToken(text);
    token.control.value = '';
    await finish();
  });
  const submit = button('Use this token', { kind: 'primary', on: use });
  token.control.addEventListener('keydown', (event) => event.key === 'Enter' && submit.click());
  return [
    h(
      'p', null, 'This deployment accepts tokens of its OpenID Connect issuer, but has no client id for the dashboard (',
      h('code', null, 'DUROXIDE_API_JWT_CLIENT_ID'), '). Paste a token that you have from elsewhere, such as your issuer’s command line.',
    ),
    token.element, h('p', null, submit),
  ];
}

/** @param {string} reason */
const iam = (reason) => [
  h('p', null, reason),
  h(
    'p', null, 'This deployment knows callers by their AWS signature, which a browser cannot make. ',
    'Run this on your machine, with credentials that may invoke the function URL:',
  ),
  h('pre', { class: 'command', tabindex: '0' }, 'duroxide-lambda dashboard'),
  h(
    'p', null, 'It opens this page through a proxy that signs each request. ',
    'If you came here by that proxy, your credentials have expired or have no role in this deployment.',
  ),
];

/** @param {string} reason */
const none = (reason) => [
  h('p', null, reason),
  h(
    'p', null, 'This deployment only accepts requests from its own machine. Open the address that ',
    h('code', null, 'duroxide-lambda up'), ' prints.',
  ),
];
