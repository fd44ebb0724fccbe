// The form that starts an instance. What was typed stays until the API has accepted it.

import * as api from '../core/api.js';
import { fill, h } from '../core/dom.js';
import { go, href } from '../core/router.js';
import { lacks } from '../core/session.js';
import { button } from '../parts/button.js';
import { field, input, suggestions } from '../parts/field.js';
import { icon } from '../parts/icons.js';
import { intent } from '../parts/intent.js';
import { jsonField } from '../parts/json_field.js';
import { SAFE_TO_REPEAT, failure, notice } from '../parts/notice.js';
import { toast } from '../parts/toast.js';

/** @import { Screen } from '../core/router.js' */

const MOST_TAGS = 16;

/** @type {Screen} */
export function startScreen({ root, query, signal }) {
  const keyFor = intent();
  const names = suggestions('orchestration-names');
  const name = field('Orchestration', input({ value: query.get('name') ?? '', list: 'orchestration-names', required: true, maxlength: 512 }), {
    hint: 'The registered name, such as fulfil-order.',
  });
  const id = field('Instance id (optional)', input({ value: query.get('id') ?? '', maxlength: 1024 }), {
    hint: 'Without one, the API makes one.',
  });
  const version = field('Version (optional)', input({ value: query.get('version') ?? '', maxlength: 128 }), {
    hint: 'Without one, the newest that is registered.',
  });
  const data = jsonField('Input', {
    value: query.get('input') ?? '', rows: 14, hint: 'The workflow gets this text as it is. Without input it gets the empty text.',
  });
  const tags = tagList(query.getAll('tag'));
  const problem = h('div');

  const start = async () => {
    fill(problem);
    const wanted = name.control.value.trim();
    name.setError(wanted ? null : 'Give the name of an orchestration.');
    if (!wanted) return name.control.focus();
    if (!data.check()) return data.control.focus();
    const given = tags.read();
    if (!given) return undefined;
    const request = {
      id: id.control.value || undefined, inputText: data.text(), version: version.control.value.trim() || undefined,
      tags: Object.keys(given).length > 0 ? given : undefined,
    };
    id.setError(null);
    try {
      const { instance, repeated } = await api.start(wanted, request, keyFor([wanted, request]));
      toast(repeated ? `${instance} had been started by this form already.` : `${instance} was started.`, 'success');
      if (!signal.aborted) go(href(['instances', instance]));
    } catch (error) {
      if (error instanceof api.Problem && error.kind === 'instance-exists') {
        const existing = h('a', { href: href(['instances', id.control.value]) }, 'Look at it');
        id.setError(['An instance with this id exists. ', existing, ', or choose another id.']);
        id.control.focus();
        return;
      }
      // A second attempt with the same content has the same key: it starts nothing twice.
      fill(problem, failure(error, { what: 'The orchestration', lost: SAFE_TO_REPEAT }));
      problem.scrollIntoView({ block: 'nearest' });
    }
  };
  const submit = button('Start', { kind: 'primary', needs: 'client', type: 'submit', on: start });
  const why = lacks('client');
  fill(
    root, h('div', { class: 'screen-head' }, h('h1', null, 'Start an instance')),
    why && notice({ kind: 'info', title: 'You may not start instances', text: h('p', null, why) }),
    h(
      'form', { class: 'card pad stack start-form', novalidate: true, on: { submit: (/** @type {Event} */ event) => event.preventDefault() } },
      h('div', { class: 'filters' }, name.element, id.element, version.element), data.element, tags.element, names.element, problem,
      h('div', { class: 'screen-actions' }, submit),
    ),
  );
  api.counts(signal).then(({ counts }) => names.set([...new Set(counts.map((count) => count.name))].sort())).catch(() => {
    // Suggestions only: the form works without them.
  });
}

/**
 * Rows of a name and a value.
 * @param {string[]} given as `name:value`
 */
function tagList(given) {
  const rows = h('div', { class: 'stack-small' });
  const problem = h('p', { class: 'field-error', 'aria-live': 'polite' });
  /** @param {string} [tag] */
  const add = (tag = '') => {
    const colon = tag.indexOf(':');
    const name = input({ value: tag.slice(0, Math.max(0, colon)), placeholder: 'name', 'aria-label': 'Name of a tag' });
    const value = input({ value: colon < 0 ? '' : tag.slice(colon + 1), placeholder: 'value', 'aria-label': 'Value of the tag' });
    const row = h('div', { class: 'tag-row' }, name, value, button([icon('close'), h('span', { class: 'visually-hidden' }, 'Remove this tag')], {
      on: () => {
        row.remove();
        more.focus();
      },
    }));
    rows.append(row);
    return name;
  };
  given.filter(Boolean).forEach(add);
  const more = button([icon('plus'), 'Add a tag'], { on: () => add().focus() });
  return {
    element: h('fieldset', { class: 'tag-fields' }, h('legend', null, 'Tags (optional)'), rows, more, problem),
    /** The tags; null if they have a mistake, which is then shown. @returns {Record<string, string> | null} */
    read: () => {
      const pairs = [...rows.children].map((row) => [...row.querySelectorAll('input')].map((one) => one.value));
      const filled = pairs.filter(([name, value]) => name !== '' || value !== '');
      const wrong = filled.find(([name, value]) => name === '' || value === '' || name.includes(':'));
      const repeated = new Set(filled.map(([name]) => name)).size < filled.length;
      const mistake = wrong ? 'A tag has a name without a colon, and a value.'
        : repeated ? 'Each tag needs another name.' : filled.length > MOST_TAGS ? `At most ${MOST_TAGS} tags.` : null;
      fill(problem, mistake);
      return mistake ? null : Object.fromEntries(filled);
    },
  };
}
