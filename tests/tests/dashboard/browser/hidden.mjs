// A page that nobody sees asks the API once a minute. It is current at once when it is shown again.

import assert from 'node:assert/strict';
import { instance, pause, see, until } from './kit/actions.mjs';

const STEP_S = 2;

export default async function scenario(stage) {
  const screens = [
    { hash: '#/', path: '/v1/overview', text: 'Needs attention' },
    { hash: '#/instances', path: '/v1/instances', text: 'order-1041' },
    // A long poll, which goes on until it ends.
    { hash: instance('order-1046'), path: '/v1/instances/order-1046', text: 'cooling-off', polls: true },
  ];
  for (const { hash, path, text, polls } of screens) {
    const page = await stage.open(null);
    await page.clock.install();
    await page.goto(`${stage.world.api}/${hash}`);
    await see(page, text);
    const visible = await during(page, stage, path, 60);
    await setHidden(page, true);
    // What was under way when the page was hidden may still end.
    await during(page, stage, path, 30);
    const hidden = await during(page, stage, path, 120);
    console.log(`        ${hash}: ${visible} requests in a minute that is seen, ${hidden} in two minutes that are not`);
    assert.ok(hidden <= 3, `${hidden} requests`);
    assert.ok(polls || visible > 2 * hidden, `${visible} requests`);
    const before = stage.count(path);
    await setHidden(page, false);
    if (!polls) await until('it is current at once', () => stage.count(path) > before);
    await page.close();
    // Requests that were under way do not end any more.
    stage.underWay = 0;
  }
}

/** Lets seconds pass, and returns how many requests were sent meanwhile. */
async function during(page, stage, path, seconds) {
  const before = stage.count(path);
  for (let passed = 0; passed < seconds; passed += STEP_S) {
    await page.clock.runFor(STEP_S * 1000);
    // The answers come in real time.
    for (let waited = 0; waited < 100 && (waited === 0 || stage.underWay > 0); waited += 1) await pause(10);
  }
  return stage.count(path) - before;
}

/** Headless Chromium shows every page, so the page is made to believe it. */
const setHidden = (page, hidden) => page.evaluate((value) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
  Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => (value ? 'hidden' : 'visible') });
  document.dispatchEvent(new Event('visibilitychange'));
}, hidden);
