// What persons do, and what they see.

import assert from 'node:assert/strict';
import { PATIENCE_MS } from './stage.mjs';

const PAUSE_MS = 50;

/** Waits until `probe` returns something true, and returns it. */
export async function until(what, probe) {
  const limit = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await probe();
    if (found) return found;
    assert.ok(performance.now() < limit, `not in time: ${what}`);
    await pause(PAUSE_MS);
  }
}

/** @param {number} ms */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until a text is on the page. */
export const see = (page, text) => page.getByText(text).first().waitFor();

/** Waits until the heading of the screen is this. */
export const arrive = (page, heading) => page.getByRole('heading', { level: 1, name: heading }).waitFor();

/** The text that a person sees on the page. */
export const shown = (page) => page.locator('body').innerText();

/** A request to the API as a program makes it. */
export async function call(world, method, path, body) {
  const answer = await fetch(world.api + path, {
    method, headers: { 'Content-Type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body),
  });
  const reply = await answer.json();
  assert.ok(answer.ok, `${method} ${path}: ${JSON.stringify(reply)}`);
  return reply;
}

/** A lane of the timeline, by its name and what is said of it. */
export const step = (page, name, about) => page.getByRole('treeitem', { name: new RegExp(`^${name}\\W+${about}`) }).first();

/** The address of an instance's screen. */
export const instance = (id, tab) => `#/instances/${encodeURIComponent(id)}${tab ? `/${tab}` : ''}`;

/** A sample order that does not wait long. */
export function order(id, differs = {}) {
  return {
    id, customer: 'ada', total_cents: 4200, lines: [{ sku: 'teapot', quantity: 1 }], parcels: [{ address: '12 Mill Lane' }],
    cooling_off_ms: 200, retry_delay_ms: 200, ...differs,
  };
}

/** Starts an order, and waits for its end. */
export async function fulfil(world, id, differs) {
  await call(world, 'POST', '/v1/orchestrations/fulfil-order/instances', { id, input: order(id, differs), tags: { customer: 'ada' } });
  return until(`the end of ${id}`, async () => {
    const state = await call(world, 'GET', `/v1/instances/${encodeURIComponent(id)}?wait=20`);
    return ['Completed', 'Failed', 'Cancelled'].includes(state.status) && state;
  });
}
