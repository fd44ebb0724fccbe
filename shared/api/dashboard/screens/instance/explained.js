// The explanation of an instance: the sentence, the chain to the true cause, what it waits for, the facts, and what to do next.

import { h } from '../../core/dom.js';
import { href } from '../../core/router.js';
import { button } from '../../parts/button.js';
import { copy } from '../../parts/copy.js';
import { instanceLink, name } from '../../parts/links.js';
import { badge } from '../../parts/status.js';
import { table } from '../../parts/table.js';
import { age, when } from '../../parts/time.js';
import { visible } from '../../parts/visible.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Explanation } from '../../core/types.js' */
/** @import { Explained } from './explanation.js' */

const KINDS = { activity: 'Activity', event: 'Event', queue: 'Queue', timer: 'Timer', child: 'Child' };

/**
 * What a person could send to it.
 * @param {Explanation | null} explanation
 * @returns {{name: string, to: 'events' | 'queues'}[]}
 */
export function sendable(explanation) {
  const waits = explanation?.waits.filter(({ kind, name: of }) => (kind === 'event' || kind === 'queue') && of) ?? [];
  /** @type {[string, {name: string, to: 'events' | 'queues'}][]} */
  const named = waits.map((wait) => [wait.kind + wait.name, { name: wait.name ?? '', to: wait.kind === 'queue' ? 'queues' : 'events' }]);
  return [...new Map(named).values()];
}

/**
 * @param {string} id
 * @param {Explained} explained
 * @param {{again: () => Promise<void>, buttons: Child}} options
 * @returns {Child}
 */
export function explainedPart(id, { explanation, error, loadedAt }, { again, buttons }) {
  if (!explanation) {
    return h('p', { class: 'muted' }, error ? ['The explanation could not be loaded. ', button('Explain again', { on: again })] : 'Loading the explanation…');
  }
  const { status, sentence, needsAttention, waits, chain, evidence, next } = explanation;
  // The error is above, and does not change.
  const isOver = status === 'Failed' || status === 'Cancelled';
  const tone = isOver ? 'normal' : needsAttention ? 'warning' : status === 'Paused' ? 'paused' : 'normal';
  return h(
    'section', { class: 'explained', data: { tone, status }, 'aria-label': 'Explanation' },
    !isOver && h('p', { class: 'explained-sentence' }, marked(sentence)),
    h('div', { class: 'explained-actions' }, step(id, explanation), buttons, !isOver && [
      button('Explain again', { on: again }), loadedAt && h('span', { class: 'muted' }, 'Explained ', age(loadedAt)),
    ]),
    error && h('p', { class: 'muted' }, 'A newer explanation could not be loaded.'),
    chain.length > 1 && chainPart(chain),
    next.length > 0 && nextPart(next),
    (waits.length > 1 || evidence.length > 0) && h(
      'details', { class: 'explained-facts' }, h('summary', null, waits.length > 1 ? `All ${waits.length + explanation.moreWaits} waits, and the facts` : 'The facts'),
      waits.length > 1 && waitsTable(explanation), facts(explanation),
    ),
  );
}

/** The step that it waits for, in the timeline. @param {string} id @param {Explanation} explanation */
function step(id, { waits: [wait], status }) {
  if (!wait || !['Running', 'Paused', 'Blocked'].includes(status)) return null;
  if (wait.kind === 'child' && wait.instance) return h('a', { href: href(['instances', wait.instance]) }, 'Open the child');
  return h('a', { href: href(['instances', id], { lane: String(wait.id) }) }, 'Show the step');
}

/** @param {Explanation['chain']} chain */
const chainPart = (chain) => h(
  'div', null, h('h2', null, 'The way to the cause'),
  h('ol', { class: 'chain' }, chain.map(({ instance, orchestration, status, sentence }, index) => h(
    'li', { 'aria-current': index === chain.length - 1 ? 'true' : null },
    h('div', { class: 'chain-head' }, status && badge(status), instanceLink(instance), orchestration && h('span', { class: 'muted' }, name(orchestration))),
    index > 0 && h('p', null, marked(sentence)),
  ))),
);

/** @param {Explanation['next']} next */
const nextPart = (next) => h(
  'div', null, h('h2', null, 'What to do next'),
  h('ul', { class: 'next' }, next.map(({ text, command }) => h(
    'li', null, h('p', null, marked(text)),
    command && h('div', { class: 'next-command' }, h('code', null, visible(command)), button([
      'Copy', h('span', { class: 'visually-hidden' }, ' this command'),
    ], { on: () => copy(command) })),
  ))),
);

/** @param {Explanation} explanation */
function waitsTable({ waits, moreWaits }) {
  return [
    table({
      caption: 'What it waits for', rows: waits,
      columns: [
        { label: 'Waits for', cell: ({ kind }) => KINDS[kind] ?? kind },
        { label: 'Name', cell: (wait) => (wait.instance ? instanceLink(wait.instance) : wait.name && name(wait.name)) },
        { label: 'Cause', cell: ({ cause }) => cause },
        { label: 'Since', cell: ({ since }) => since && age(since) },
        { label: 'Due', cell: ({ due }) => due && when(due) },
      ],
    }),
    moreWaits > 0 && h('p', { class: 'muted' }, `And ${moreWaits} more.`),
  ];
}

/** @param {Explanation} explanation */
function facts({ cause, since, until, evidence }) {
  /** @type {{what: string, value: string, at?: string}[]} */
  const rows = [{ what: 'cause', value: cause, at: since }, ...(until ? [{ what: 'goes on by itself', value: '', at: until }] : []), ...evidence];
  return h('dl', { class: 'facts' }, rows.map(({ what, value, at }) => h(
    'div', null, h('dt', null, visible(what)), h('dd', null, visible(value), value && at && ', ', at && when(at)),
  )));
}

/** Names are between backticks. @param {string} text @returns {Child} */
export const marked = (text) => text.split('`').map((part, index) => (index % 2 === 1 ? h('code', null, visible(part)) : visible(part)));
