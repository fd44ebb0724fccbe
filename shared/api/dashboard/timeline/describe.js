// Lanes in words: for tooltips, for the details, and for those who do not see the drawing. Pure, except for the present time.

import { duration, localTime, number, plural } from '../core/format.js';

/** @import { Lane } from './model.js' */
/** @import { Row } from './rows.js' */

const KINDS = {
  activity: 'activity', timer: 'timer', event: 'wait for event', queue: 'wait for message', child: 'child', detached: 'detached start',
};
/** @param {Lane} lane */
export const kindText = (lane) => KINDS[lane.kind];

/** What became of it, or what it does. @param {Lane} lane */
export function outcomeText(lane) {
  const tries = lane.beganTimes > 1 ? ` (${plural(lane.beganTimes, 'attempt')})` : '';
  switch (lane.outcome) {
    case 'completed':
      return `${lane.kind === 'timer' ? 'fired' : lane.kind === 'queue' || lane.kind === 'event' ? 'received' : lane.kind === 'detached' ? 'started' : 'completed'}${tries}`;
    case 'failed':
      return `failed${tries}`;
    case 'cancelled':
      return `not waited for${tries}`;
    default:
      return openText(lane) + tries;
  }
}

/** @param {Lane} lane */
function openText(lane) {
  if (lane.unused) return 'probably not waited for any more';
  if (lane.kind !== 'activity') return 'waiting';
  if (lane.attempts.some(({ blocked }) => blocked)) return 'blocked';
  const last = lane.segments.at(-1)?.kind;
  return last === 'back-off' ? 'waits for the next attempt' : last === 'queued' ? 'queued' : 'running';
}

/** @param {Lane} lane @param {number} now */
export const laneMs = (lane, now) => Math.max(0, (lane.end ?? now) - lane.begin);

/** Short, beside a bar. @param {Lane} lane @param {number} now */
export function barText(lane, now) {
  const took = duration(laneMs(lane, now));
  if (lane.outcome === 'failed') return `failed, ${took}`;
  if (lane.outcome === 'open' && lane.kind === 'timer' && lane.dueAt && !lane.unused) {
    return lane.dueAt > now ? `fires in ${duration(lane.dueAt - now)}` : `due for ${duration(now - lane.dueAt)}`;
  }
  if (lane.outcome === 'open') return `${openText(lane)}, ${took}`;
  return lane.kind === 'detached' ? 'started' : took;
}

/** What a row says besides its name, for those who do not see the drawing. @param {Row} row @param {number} begin @param {number} now */
export function rowText(row, begin, now) {
  const { lane } = row;
  if (!lane) return KINDS[row.group?.[0].kind ?? 'activity'];
  return `${KINDS[lane.kind]}, ${outcomeText(lane)}, ${duration(laneMs(lane, now))}, begins after ${duration(lane.begin - begin)}`;
}

/** The lines of a tooltip. @param {Row} row @param {number} begin @param {number} now @returns {[string, string][]} */
export function rowFacts(row, begin, now) {
  const lanes = row.group ?? [/** @type {Lane} */ (row.lane)];
  const first = Math.min(...lanes.map((lane) => lane.begin));
  const last = Math.max(...lanes.map((lane) => lane.end ?? now));
  /** @type {[string, string][]} */
  const facts = [['', row.lane ? `${kindText(row.lane)}, ${outcomeText(row.lane)}` : groupText(row)]];
  facts.push(['Begin', `${localTime(first)} (+${duration(first - begin)})`]);
  facts.push([row.group ? 'From first to last' : 'Duration', duration(last - first)]);
  if (row.lane?.dueAt) facts.push(['Fires', localTime(row.lane.dueAt)]);
  if (row.lane?.error) facts.push(['Error', shorten(row.lane.error)]);
  if (row.lane?.note) facts.push(['', row.lane.note]);
  return facts;
}

/** How many a group has. @param {Row} row */
export const groupCount = (row) => `× ${number(row.group?.length ?? 0)}${row.failed ? `: ${number(row.failed)} failed` : ''}${row.open ? `, ${number(row.open)} open` : ''}`;

/** @param {Row} row */
const groupText = (row) => `${rowText(row, 0, 0)} ${groupCount(row)}`;

/** @param {string} text */
export const shorten = (text, most = 160) => (text.length > most ? `${text.slice(0, most)}…` : text);
