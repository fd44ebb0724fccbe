// One dead letter: what was given up, why, its payload; redrive and discard.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { number, plural } from '../core/format.js';
import { go, href } from '../core/router.js';
import { lacks } from '../core/session.js';
import { button, linkButton } from '../parts/button.js';
import { confirm } from '../parts/dialog.js';
import { instanceLink, name } from '../parts/links.js';
import { failure, notice } from '../parts/notice.js';
import { payload } from '../parts/payload.js';
import { age, when } from '../parts/time.js';
import { toast } from '../parts/toast.js';
import { visible } from '../parts/visible.js';
import { kindLabel, meaning, redriveEffect } from './dead_letters/kinds.js';

/** @import { Child } from '../core/dom.js' */
/** @import { DeadLetter } from '../core/types.js' */
/** @import { Screen } from '../core/router.js' */

/** @type {Screen} */
export function deadLetterScreen({ root, params: [instance, id], signal }) {
  const why = lacks('operator');
  if (why) return fillWith(root, notice({ kind: 'info', title: 'You may not see dead letters', text: h('p', null, why) }));
  fill(root, h('p', { class: 'muted' }, 'Loading…'));
  const load = async () => {
    try {
      const letter = await api.deadLetter(instance, id, signal);
      fill(root, shown(letter));
    } catch (error) {
      if (signal.aborted) return;
      const gone = error instanceof api.Problem && error.status === 404;
      fillWith(root, gone
        ? notice({
          kind: 'info', title: 'This dead letter does not exist any more', text: h('p', null, 'It was redriven or discarded, or has expired.'),
          actions: [linkButton('All dead letters', '#/dead-letters'), linkButton('The instance', href(['instances', instance]))],
        })
        : failure(error, { what: 'The dead letter', retry: load }));
    }
  };
  load();
}

/** @param {HTMLElement} root @param {Child} content */
function fillWith(root, content) {
  fill(root, h('div', { class: 'screen-head' }, h('h1', null, 'Dead letter')), content);
}

/** @param {DeadLetter} letter @returns {Child} */
function shown(letter) {
  const problem = h('div');
  const { instance, id } = letter;
  const redrive = async () => {
    if (!await confirm({ title: 'Redrive this dead letter?', body: redriveEffect(letter), action: 'Redrive' })) return;
    await attempt(problem, async () => {
      const { target, delivered } = await api.redrive(instance, id);
      toast(delivered ? `Redriven: ${target} continues.` : `Redriven: maintenance will deliver it to ${target}.`, 'success');
      go(href(['instances', target]));
    });
  };
  const discard = async () => {
    const text = 'The dead letter and its payload are deleted for good. Nothing runs again, and the instance stays as it is.';
    if (!await confirm({ title: 'Discard this dead letter?', text, action: 'Discard', danger: true })) return;
    await attempt(problem, async () => {
      await api.discard(instance, id);
      toast('The dead letter was discarded.', 'success');
      go('#/dead-letters');
    });
  };
  return [
    h(
      'div', { class: 'screen-head' }, h('h1', null, kindLabel(letter.kind)),
      h(
        'div', { class: 'screen-actions' }, button('Discard', { kind: 'danger', needs: 'operator', on: discard }),
        button('Redrive', { kind: 'primary', needs: 'operator', on: redrive }),
      ),
    ),
    problem,
    h('section', { class: 'card pad stack' }, h('p', null, meaning(letter)), facts(letter)),
    items(letter),
  ];
}

/** @param {HTMLElement} problem @param {() => Promise<void>} action */
async function attempt(problem, action) {
  fill(problem);
  try {
    await action();
  } catch (error) {
    const lost = 'It may be done or not. Load the page again: a dead letter that was redriven or discarded is gone.';
    fill(problem, failure(error, { what: 'The dead letter', lost }));
    problem.scrollIntoView({ block: 'nearest' });
  }
}

/** @param {DeadLetter} letter */
function facts(letter) {
  /** @type {[string, Child][]} */
  const rows = [
    ['Reason', h('strong', { class: 'reason' }, visible(letter.reason))],
    ['Instance', [instanceLink(letter.instance), letter.execution && `, execution ${letter.execution}`]],
    ['Name', letter.name && name(letter.name)],
    ['Receiver', letter.target && instanceLink(letter.target)],
    ['Attempts', number(letter.attempts)],
    ['Given up', [when(letter.givenUpAt), ' (', age(letter.givenUpAt), ')']],
    ['Id', h('code', null, letter.id)],
  ];
  return h('dl', { class: 'letter-facts' }, rows.filter(([, value]) => value).map(([label, value]) => [h('dt', null, label), h('dd', null, value)]));
}

/** @param {DeadLetter} letter */
function items({ items: list, omitted, id }) {
  return h(
    'section', { class: 'card pad stack' },
    h('h2', null, list.length === 1 ? 'Work item' : `Work items (${number(list.length)})`),
    list.length === 0 && h('p', { class: 'muted' }, 'No work item was kept.'),
    list.map((item, index) => payload(JSON.stringify(item), { label: itemName(item, index), fileName: `${id}-${index + 1}` })),
    omitted > 0 && h('p', { class: 'muted' }, `${plural(omitted, 'work item was', 'work items were')} too large to keep.`),
  );
}

/** duroxide writes a work item as an object with its type as the only name. @param {any} item @param {number} index */
function itemName(item, index) {
  const names = typeof item === 'object' && item !== null && !Array.isArray(item) ? Object.keys(item) : [];
  return names.length === 1 ? names[0] : `Item ${index + 1}`;
}
