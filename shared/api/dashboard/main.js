// The beginning: settings of the deployment, sign-in, who that is, and then the screens. Each step that fails has a screen of its own.
//
//   dashboard-config ─> sign-in (JWT only) ─> /v1/me ─> header and routes

import * as api from './core/api.js';
import * as auth from './core/auth.js';
import { fill, h } from './core/dom.js';
import { applyTheme } from './core/preferences.js';
import { run } from './core/router.js';
import { rememberScroll } from './core/scroll.js';
import { setSession } from './core/session.js';
import { button } from './parts/button.js';
import { failure, notice } from './parts/notice.js';
import { shell } from './parts/shell.js';
import { interrupt, onSignedIn, prompt } from './parts/sign_in.js';
import { batchScreen } from './screens/batch.js';
import { newBatchScreen } from './screens/batch_new.js';
import { batchesScreen } from './screens/batches.js';
import { deadLetterScreen } from './screens/dead_letter.js';
import { deadLettersScreen } from './screens/dead_letters.js';
import { instanceScreen } from './screens/instance.js';
import { instancesScreen } from './screens/instances.js';
import { overviewScreen } from './screens/overview.js';
import { startScreen } from './screens/start.js';

/** @import { Child } from './core/dom.js' */
/** @import { Screen } from './core/router.js' */
/** @import { Config, Me } from './core/types.js' */

const root = /** @type {HTMLElement} */ (document.getElementById('main'));
const top = /** @type {HTMLElement} */ (document.getElementById('header'));

const ROUTES = [
  { pattern: /^$/, title: 'Overview', section: 'overview', screen: overviewScreen },
  { pattern: /^instances\/?$/, title: 'Instances', section: 'instances', screen: instancesScreen },
  { pattern: /^instances\/[^/]+(\/[^/]*)?$/, title: 'Instance', section: 'instances', screen: instanceScreen },
  { pattern: /^batches\/?$/, title: 'Batches', section: 'batches', screen: batchesScreen },
  { pattern: /^batches\/new$/, title: 'Act on many instances', section: 'batches', screen: newBatchScreen },
  { pattern: /^batches\/[^/]+$/, title: 'Batch', section: 'batches', screen: batchScreen },
  { pattern: /^dead-letters\/?$/, title: 'Dead letters', section: 'dead-letters', screen: deadLettersScreen },
  { pattern: /^dead-letters\/[^/]+\/[^/]+$/, title: 'Dead letter', section: 'dead-letters', screen: deadLetterScreen },
  { pattern: /^start\/?$/, title: 'Start an instance', section: 'start', screen: startScreen },
];

const REFUSED = {
  jwt: 'The API has refused the token. It may have expired, or be for another service.',
  iam: 'The API does not know you, or your credentials have no role in this deployment.',
  none: 'The API has refused the request.',
};

/** Shows in the header who is signed in. */
let refreshHeader = () => {};

applyTheme();
boot();

async function boot() {
  fill(root, h('p', { class: 'muted' }, 'Loading…'));
  /** @type {Config} */
  let config;
  try {
    config = await api.dashboardConfig();
  } catch (error) {
    const refused = error instanceof api.Problem && (error.status === 401 || error.status === 403);
    if (refused) return card('This deployment does not know you', prompt({ auth: 'iam', version: '' }, 'The API has refused the request.'));
    return card('The dashboard cannot begin', failure(error, { what: 'The settings of this deployment', retry: boot }));
  }
  try {
    const carried = await auth.begin(config.signIn ?? null, (reason) => {
      refreshHeader();
      interrupt(reason);
    });
    if (carried) {
      window.close();
      return card('You are signed in', h('p', null, 'Close this window, and go on where you were.'));
    }
  } catch (error) {
    return signedOut(config, error instanceof Error ? error.message : String(error));
  }
  if (config.auth === 'jwt' && !auth.isSignedIn()) return signedOut(config, 'Sign in to see this deployment.');
  await enter(config);
}

/** @param {Config} config @param {string} reason */
function signedOut(config, reason) {
  onSignedIn(() => enter(config));
  card('Sign in', prompt(config, reason));
}

/** @param {Config} config */
async function enter(config) {
  /** @type {Me} */
  let me;
  try {
    me = await api.me();
  } catch (error) {
    const status = error instanceof api.Problem ? error.status : 0;
    if (status === 401) return signedOut(config, REFUSED[config.auth]);
    if (status === 403) return card('You have no role here', config.auth === 'iam' ? prompt(config, REFUSED.iam) : noRole(error));
    return card('The dashboard cannot begin', failure(error, { what: 'Your role', retry: () => enter(config) }));
  }
  setSession(config, me);
  show(config);
}

/** @param {unknown} error */
const noRole = (error) => [failure(error), h('p', null, button('Sign out', { on: () => auth.signOut() }))];

/** @param {Config} config */
function show(config) {
  const header = shell(top);
  refreshHeader = header.refresh;
  let first = true;
  onSignedIn(async () => {
    setSession(config, await api.me());
    header.refresh();
    // Live updates wait after a failure. This makes them load at once, as when the page is shown again.
    document.dispatchEvent(new Event('visibilitychange'));
  });
  skipLink();
  rememberScroll();
  run({
    routes: ROUTES, root, missing,
    shown: (route) => {
      document.title = `${route?.title ?? 'Not found'} · duroxide-lambda`;
      header.select(route?.section ?? null);
      // Who uses a keyboard or a screen reader begins at the new screen, not at the link that is gone.
      if (!first) root.focus({ preventScroll: true });
      if (!first) window.scrollTo(0, 0);
      first = false;
    },
  });
}

/** The address after `#` is the screen's, so the skip link must not change it. */
function skipLink() {
  document.querySelector('.skip')?.addEventListener('click', (event) => {
    event.preventDefault();
    root.focus();
  });
}

/** @type {Screen} */
function missing({ root: into }) {
  fill(into, h('h1', { class: 'visually-hidden' }, 'Not found'), notice({
    kind: 'warning', title: 'There is no such screen',
    text: h('p', null, 'The address has a mistake. ', h('a', { href: '#/' }, 'Go to the overview')),
  }));
}

/** @param {string} title @param {Child} body */
function card(title, body) {
  fill(root, h('section', { class: 'card boot' }, h('h1', null, title), body));
}
