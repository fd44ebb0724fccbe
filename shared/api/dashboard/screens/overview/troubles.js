// The newest failed and blocked instances, each with its reason: a person sees why without a click.

import * as api from '../../core/api.js';
import { h } from '../../core/dom.js';
import { href } from '../../core/router.js';
import { instanceLink } from '../../parts/links.js';
import { badge } from '../../parts/status.js';
import { age } from '../../parts/time.js';
import { visible } from '../../parts/visible.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Instance, Overview } from '../../core/types.js' */

/** @typedef {{instance: string, orchestration: string, status: string, at: string, reason: string}} Trouble */

/** So many failed and blocked ones are shown. Those that are blocked often share one reason. */
const FAILED = 6;
const BLOCKED = 3;
/** So much of a reason, in characters. */
const SHOWN = 400;

/**
 * Returns a function that loads them. Lists have no errors, so each failed instance is read for itself, once: it does not change.
 * @returns {(overview: Overview, signal: AbortSignal) => Promise<Trouble[]>}
 */
export function troublesLoader() {
  /** @type {Map<string, string>} The errors of instances, by id and time of their last change. */
  const errors = new Map();
  return async ({ counts, blocked }, signal) => {
    const failed = counts.find(({ status }) => status === 'Failed')?.count ?? 0;
    const [failures, blocks] = await Promise.all([
      failed > 0 ? api.instances({ status: 'Failed', limit: FAILED }, signal) : null,
      blocked > 0 ? api.instances({ status: 'Blocked', limit: BLOCKED }, signal) : null,
    ]);
    const listed = [...(failures?.instances ?? []), ...(blocks?.instances ?? [])];
    return Promise.all(listed.map(async (instance) => ({
      instance: instance.instance, orchestration: instance.orchestration, status: instance.status,
      at: instance.completedAt ?? instance.updatedAt, reason: instance.blocked?.reason ?? await error(instance),
    })));

    /** @param {Instance} instance */
    async function error({ instance: id, updatedAt }) {
      const key = JSON.stringify([id, updatedAt]);
      const known = errors.get(key);
      if (known !== undefined) return known;
      try {
        const found = (await api.instance(id, { signal })).instance?.error ?? '';
        errors.set(key, found);
        return found;
      } catch (problem) {
        // It was deleted since the list was read.
        if (problem instanceof api.Problem && problem.status === 404) return '';
        throw problem;
      }
    }
  };
}

/**
 * @param {Trouble[]} list
 * @returns {Child}
 */
export function troubles(list) {
  if (list.length === 0) return null;
  return h(
    'section', { class: 'card' },
    h(
      'div', { class: 'card-head' }, h('h2', null, 'Newest failed and blocked instances'),
      h('a', { href: href(['instances'], { status: 'Failed' }) }, 'All that ever failed'),
    ),
    h('ul', { class: 'troubles' }, list.map(trouble)),
  );
}

/** @param {Trouble} trouble */
function trouble({ instance, orchestration, status, at, reason }) {
  const text = reason.length > SHOWN ? `${reason.slice(0, SHOWN)}…` : reason;
  return h(
    'li', { class: 'trouble' },
    h(
      'div', { class: 'trouble-head' }, badge(status), instanceLink(instance),
      h('bdi', { class: 'muted' }, orchestration), h('span', { class: 'muted' }, age(at)),
    ),
    h('p', { class: 'reason' }, text ? visible(text) : h('span', { class: 'muted' }, 'It has given no reason.')),
  );
}
