// The rows of the timeline: lanes, and groups of lanes that do the same. Pure.

/** @import { Lane } from './model.js' */

/**
 * @typedef {{
 *   key: string, lane: Lane | null, group: Lane[] | null, name: string, hint: string, failed: number, open: number, expanded: boolean, level: number,
 * }} Row a lane, or a group. `hint` tells lanes of one name apart
 */

/** @typedef {'all' | 'trouble' | 'open' | 'path'} Show */

/** Lanes are grouped if there are so many in total and so many of one name. */
const MANY = 40;
const ALIKE = 8;

/**
 * @param {Lane[]} lanes
 * @param {{show: Show, expanded: Set<string>, onPath: Set<Lane>}} options
 * @returns {Row[]}
 */
export function rows(lanes, { show, expanded, onPath }) {
  const wanted = lanes.filter((lane) => isWanted(lane, show, onPath));
  /** @type {Map<string, Lane[]>} */
  const alike = new Map();
  for (const lane of wanted) {
    const of = alike.get(groupKey(lane));
    if (of) of.push(lane);
    else alike.set(groupKey(lane), [lane]);
  }
  const many = wanted.length > MANY;
  /** @type {Row[]} */
  const all = [];
  for (const lane of wanted) {
    const key = groupKey(lane);
    const group = alike.get(key) ?? [];
    if (!many || group.length < ALIKE) all.push(laneRow(lane, 1, group.length > 1));
    else if (group[0] === lane) {
      const open = expanded.has(key);
      all.push(groupRow(key, group, open));
      if (open) all.push(...group.map((member) => laneRow(member, 2, true)));
    }
  }
  return all;
}

/** The group that a lane may be in. @param {Lane} lane */
export const groupKey = (lane) => `${lane.kind}:${lane.name}`;

/** @param {Lane} lane @param {Show} show @param {Set<Lane>} onPath */
function isWanted(lane, show, onPath) {
  if (show === 'trouble') return lane.troubled;
  if (show === 'open') return lane.outcome === 'open';
  return show === 'all' || onPath.has(lane);
}

/** @param {Lane} lane @param {number} level @param {boolean} repeated @returns {Row} */
function laneRow(lane, level, repeated) {
  return {
    key: `lane:${lane.id}`, lane, group: null, name: lane.name, hint: repeated ? hint(lane) : '', failed: Number(lane.outcome === 'failed'), open: Number(lane.outcome === 'open'),
    expanded: false, level,
  };
}

/** @param {Lane} lane */
const hint = (lane) => (lane.kind === 'child' || lane.kind === 'detached' ? lane.instance ?? '' : lane.input ?? '').slice(0, 60);

/** @param {string} key @param {Lane[]} group @param {boolean} expanded @returns {Row} */
function groupRow(key, group, expanded) {
  return {
    key, lane: null, group, name: group[0].name, hint: '', failed: group.filter(({ outcome }) => outcome === 'failed').length,
    open: group.filter(({ outcome }) => outcome === 'open').length, expanded, level: 1,
  };
}
