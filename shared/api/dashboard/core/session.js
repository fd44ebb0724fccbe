// Who uses the page, and what they may do.

/** @import { Config, Me, Role } from './types.js' */

/** @type {Role[]} */
const ROLES = ['reader', 'client', 'operator'];

/** @type {{config: Config | null, me: Me | null}} */
const session = { config: null, me: null };

/** @param {Config} config @param {Me | null} me */
export function setSession(config, me) {
  session.config = config;
  session.me = me;
}

export const currentSession = () => session;

/**
 * Why the person may not do what needs a role; null if they may.
 * @param {Role} role
 * @returns {string | null}
 */
export function lacks(role) {
  const own = session.me?.role;
  if (own && ROLES.indexOf(own) >= ROLES.indexOf(role)) return null;
  return `This needs the role ${role}. You have the role ${own ?? 'none'}.`;
}
