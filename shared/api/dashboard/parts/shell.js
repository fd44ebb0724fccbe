// The frame of all screens: navigation, the deployment's address, the theme, who is signed in.

import * as auth from '../core/auth.js';
import { fill, h, svg } from '../core/dom.js';
import { setTheme, theme } from '../core/preferences.js';
import { currentSession } from '../core/session.js';
import { button } from './button.js';
import { askToSignIn } from './sign_in.js';

/** @import { Theme } from '../core/preferences.js' */

const SECTIONS = [
  { id: 'overview', label: 'Overview', href: '#/' },
  { id: 'instances', label: 'Instances', href: '#/instances' },
  { id: 'batches', label: 'Batches', href: '#/batches' },
  { id: 'dead-letters', label: 'Dead letters', href: '#/dead-letters' },
  { id: 'start', label: 'Start', href: '#/start' },
];

/**
 * Fills the header.
 * @param {HTMLElement} root
 * @returns {{select: (section: string | null) => void, refresh: () => void}} `select` marks a section; `refresh` shows who is signed in now
 */
export function shell(root) {
  const links = SECTIONS.map(({ id, label, href }) => ({ id, element: h('a', { href }, label) }));
  const person = h('div', { class: 'who' });
  const refresh = () => fill(person, who());
  refresh();
  fill(root, h(
    'header', { class: 'header' },
    h('a', { class: 'brand', href: '#/', 'aria-label': 'duroxide-lambda, overview' }, mark(), h('span', { class: 'brand-name' }, 'duroxide-lambda')),
    h('nav', { class: 'nav', 'aria-label': 'Screens' }, h('ul', null, links.map(({ element }) => h('li', null, element)))),
    person,
  ));
  return {
    refresh,
    select: (section) => {
      for (const { id, element } of links) {
        if (id === section) element.setAttribute('aria-current', 'page');
        else element.removeAttribute('aria-current');
      }
    },
  };
}

function who() {
  const { config, me } = currentSession();
  const address = location.host + location.pathname.replace(/\/[^/]*$/, '');
  return [
    h('span', { class: 'host', title: `Deployment: ${address}\nVersion: ${config?.version ?? 'unknown'}` }, address),
    themeChoice(),
    me && h('span', { class: 'person', title: `${me.who}, role ${me.role}` }, h('span', { class: 'person-name' }, `${me.who} `), h('span', { class: 'role' }, me.role)),
    config?.auth === 'jwt' && (auth.isSignedIn()
      ? button('Sign out', { on: () => auth.signOut() })
      : button('Sign in', { kind: 'primary', on: () => askToSignIn() })),
  ];
}

function themeChoice() {
  const options = [['system', 'System'], ['light', 'Light'], ['dark', 'Dark']];
  const select = h(
    'select', { 'aria-label': 'Theme', on: { change: () => setTheme(/** @type {Theme} */ (select.value)) } },
    options.map(([value, label]) => h('option', { value }, `${label} theme`)),
  );
  select.value = theme();
  return select;
}

function mark() {
  return svg(
    'svg', { viewBox: '0 0 20 20', class: 'mark', 'aria-hidden': 'true' },
    svg('path', { d: 'M3 5h8M3 10h14M3 15h5', 'stroke-linecap': 'round' }),
    svg('circle', { cx: 15.500, cy: 5, r: 1 }), svg('circle', { cx: 12.500, cy: 15, r: 1 }),
  );
}
