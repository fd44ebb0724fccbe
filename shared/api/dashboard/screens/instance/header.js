// The header of an instance: what it is, why it has failed, the explanation of what it waits for, its facts, and what can be done with it.

import { fill, h } from '../../core/dom.js';
import { duration, number } from '../../core/format.js';
import { href } from '../../core/router.js';
import { button } from '../../parts/button.js';
import { copy } from '../../parts/copy.js';
import { instanceLink, name } from '../../parts/links.js';
import { payload } from '../../parts/payload.js';
import { raiseDialog } from '../../parts/raise.js';
import { badge } from '../../parts/status.js';
import { age, tick, when } from '../../parts/time.js';
import { shorten } from '../../timeline/describe.js';
import { actions } from './actions.js';
import { isFinished } from './data.js';
import { explainedPart, sendable } from './explained.js';
import { explainer } from './explanation.js';
import { resume } from './pause.js';
import { rewind, rewindable } from './rewind.js';
import { usagePart } from './usage.js';

/** @import { Child } from '../../core/dom.js' */
/** @import { Instance } from '../../core/types.js' */
/** @import { Lane } from '../../timeline/model.js' */
/** @import { Data } from './data.js' */

/** So many of the steps that failed are named. */
const MOST_FAILED = 5;
/** A longer error is shown like a payload, in part at first. */
const LONG_ERROR = 10_000;
/** A custom status may be as long as a payload. */
const LONG_STATUS = 300;

/**
 * @param {{id: string, reload: () => void, signal: AbortSignal}} options
 * @returns {{element: HTMLElement, update: (data: Data) => void}}
 */
export function header({ id, reload, signal }) {
  const status = h('span', { class: 'inst-status', 'aria-live': 'polite' });
  const buttons = h('div', { class: 'screen-actions' });
  const reason = h('div', { class: 'inst-reason' });
  const explanation = h('div', { class: 'inst-explained' });
  const facts = h('dl', { class: 'facts inst-facts' });
  const output = h('div', { class: 'inst-output' });
  const element = h(
    'section', { class: 'inst-head', 'aria-label': 'Instance', hidden: true },
    h(
      'div', { class: 'screen-head' },
      h('h1', null, h('bdi', null, id), ' ', h('span', { class: 'inst-copy' }, button('Copy id', { on: () => copy(id) }))), status, buttons,
    ),
    reason, explanation, facts, output,
  );
  /** Parts are made again only if they change: a person may have selected a text or opened a payload. @type {Map<HTMLElement, string>} */
  const stamps = new Map();
  /** @param {HTMLElement} part @param {unknown} stamp @param {() => Child} make */
  const refresh = (part, stamp, make) => {
    const text = JSON.stringify(stamp) ?? '';
    if (stamps.get(part) === text) return;
    stamps.set(part, text);
    fill(part, make());
  };

  /** @type {Data | null} */
  let last = null;
  const explains = explainer(id, () => last && show(last), signal);
  return {
    element,
    update(data) {
      last = data;
      if (data.instance && data.instance.status !== 'Completed' && !isEarlier(data)) explains.follow(data);
      show(data);
    },
  };

  /** @param {Data} data */
  function show(data) {
    const { instance, gone } = data;
    element.hidden = !instance;
    if (!instance) return;
    const explained = explains.now();
    const waits = explained.explanation ? sendable(explained.explanation) : openWaits(data);
    refresh(status, [instance.status, gone], () => [badge(instance.status), gone && h('span', { class: 'muted' }, ' (deleted)')]);
    refresh(buttons, [instance.status, gone, waits, instance.parent, instance.execution, !instance.startedAt], () => actions({ id, instance, gone, reload, waits }));
    refresh(reason, [instance.status, instance.error, failedLanes(data).map((lane) => lane.id)], () => failureOf(data));
    refresh(explanation, [instance.status, gone, data.pinned, instance.execution, explained.loadedAt, String(explained.error)], () => explanationOf(data, explains, reload));
    refresh(facts, { ...instance, output: null, events: null }, () => factsOf(instance));
    refresh(output, [instance.output, inputOf(data), instance.usage], () => payloads(data, instance));
  }
}

/** What is shown is of an execution that has ended. @param {Data} data */
const isEarlier = ({ instance, pinned }) => instance !== null && pinned !== null && pinned !== instance.execution && !isFinished(instance.status);

/** @param {Data} data */
function failureOf(data) {
  const { instance } = data;
  if (instance?.error === undefined) return null;
  const failed = failedLanes(data);
  return h(
    'div', { class: 'inst-error', data: { status: instance.status } },
    h('h2', null, instance.status === 'Cancelled' ? 'Why it was cancelled' : 'Why it failed'),
    errorText(instance.error),
    h('p', null, button('Copy', { on: () => copy(instance.error ?? '') }), failed.length > 0 && [
      failed.length > 1 ? ' Steps that failed: ' : ' The step that failed: ', failed.slice(-MOST_FAILED).map((lane, index) => [index ? ', ' : '', stepLink(data, lane)]), failed.length > MOST_FAILED && ` and ${failed.length - MOST_FAILED} before`, '.',
    ]),
  );
}

/** What has completed needs no explanation. @param {Data} data @param {ReturnType<typeof explainer>} explains @param {() => void} reload */
function explanationOf(data, explains, reload) {
  const { instance, pinned, id } = data;
  if (!instance || data.gone || instance.status === 'Completed') return null;
  if (isEarlier(data)) {
    return h('p', { class: 'explained' }, `It goes on in execution ${instance.execution}. What is below is of execution ${pinned}.`);
  }
  const explained = explains.now();
  // A cancelled instance can be rewound, too; that is no advice.
  const rewound = rewindable(explained.explanation) ?? (instance.status === 'Cancelled' ? id : null);
  const sends = isFinished(instance.status) ? [] : sendable(explained.explanation).slice(0, 3);
  return explainedPart(id, explained, {
    again: explains.again,
    buttons: [
      sends.map(({ name, to }) => button(`Send ${shorten(name, 32).replace(/…$/, '')}…`, { needs: 'client', on: async () => (await raiseDialog(id, { name, to })) && reload() })),
      rewound !== null && button('Rewind…', { needs: 'operator', kind: 'primary', on: () => rewind(rewound, reload) }),
      instance.status === 'Paused' && button('Resume…', { needs: 'operator', kind: 'primary', on: () => resume(id, reload) }),
    ],
  });
}

/** In full as far as that is readable; it may scroll, so it can have the focus. @param {string} error */
function errorText(error) {
  if (error.length > LONG_ERROR) return payload(error, { label: 'Error', fileName: 'error' });
  return h('p', { class: 'inst-error-text', tabindex: '0', role: 'region', 'aria-label': 'Error of the instance' }, error || '(no text)');
}

/** @param {Data} data @param {Lane} lane */
function stepLink(data, lane) {
  const address = href(['instances', data.id], { lane: String(lane.id), execution: data.pinned ? String(data.pinned) : null });
  return [h('a', { href: address }, h('bdi', null, lane.name)), lane.beganTimes > 1 && ` (${lane.beganTimes} attempts)`];
}

/** What a person could send, as far as the history says: until the explanation is there. @param {Data} data @returns {{name: string, to: 'events' | 'queues'}[]} */
function openWaits({ model }) {
  const open = model?.lanes.filter(({ outcome, kind }) => outcome === 'open' && (kind === 'event' || kind === 'queue')) ?? [];
  return open.map(({ name: of, kind }) => ({ name: of, to: kind === 'queue' ? 'queues' : 'events' }));
}

/** In the order in which they failed. @param {Data} data @returns {Lane[]} */
function failedLanes(data) {
  const failed = data.model?.lanes.filter(({ outcome }) => outcome === 'failed') ?? [];
  return failed.sort((a, b) => (a.end ?? 0) - (b.end ?? 0));
}

/** @param {Instance} instance */
function factsOf(instance) {
  const tags = Object.entries(instance.tags);
  /** @type {[string, Child][]} */
  const rows = [
    ['Orchestration', [h('a', { href: href(['instances'], { name: instance.orchestration }) }, h('bdi', null, instance.orchestration)), instance.version && ` ${instance.version}`]],
    ['Created', [when(instance.createdAt), ' (', age(instance.createdAt), ')']],
  ];
  if (instance.customStatus !== undefined) rows.unshift(['Custom status', h('bdi', { class: 'inst-custom', title: instance.customStatus }, shorten(instance.customStatus, LONG_STATUS))]);
  if (instance.completedAt) rows.push(['Ended', [when(instance.completedAt), ' (', age(instance.completedAt), ')']]);
  else rows.push(['Last change', age(instance.updatedAt)]);
  rows.push(['Duration', took(instance)]);
  if (instance.execution > 1) rows.push(['Execution', h('a', { href: href(['instances', instance.instance, 'executions']) }, number(instance.execution))]);
  rows.push(['Events', number(instance.events)]);
  if (instance.parent) rows.push(['Parent', h('a', { href: href(['instances', instance.parent]) }, h('bdi', null, instance.parent))]);
  if (instance.restartedFrom) rows.push(['Restarted from', instanceLink(instance.restartedFrom)]);
  if (instance.forkedFrom) rows.push(['Forked from', [instanceLink(instance.forkedFrom.instance), `, event ${instance.forkedFrom.event}`]]);
  const rewound = instance.rewinds?.at(-1);
  if (rewound) rows.push(['Rewound', [when(rewound.at), ` to before event ${rewound.before}`, rewound.reason && [': ', name(rewound.reason)]]]);
  if (tags.length) rows.push(['Tags', h('span', { class: 'inst-tags' }, tags.map(([name, value]) => h('a', { class: 'tag', href: href(['instances'], { tag: `${name}:${value}` }) }, h('bdi', null, `${name}: ${value}`))))]);
  return rows.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value)));
}

/** @param {Instance} instance */
function took(instance) {
  if (instance.durationMs !== undefined) return duration(instance.durationMs);
  const element = h('span');
  tick(element, () => `${duration(Date.now() - Date.parse(instance.createdAt))} so far`);
  return element;
}

/** What it was started with: in its state while it is pending, later in its history. @param {Data} data @returns {string | undefined} */
function inputOf({ instance, events }) {
  return instance?.input === undefined ? events[0]?.input : String(instance.input);
}

/** @param {Data} data @param {Instance} instance */
function payloads(data, instance) {
  const input = inputOf(data);
  return [
    instance.output !== undefined && payload(String(instance.output), { label: 'Output', fileName: `${instance.instance}-output` }),
    usagePart(instance.usage),
    input !== undefined && h('details', { class: 'inst-input' }, h('summary', null, 'Input'), payload(input, { label: 'Input', fileName: `${instance.instance}-input` })),
  ];
}
