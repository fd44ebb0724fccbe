// An instance is deleted while its page is open. The page says so, and keeps what it showed.

import assert from 'node:assert/strict';
import { arrive, call, fulfil, instance, order, see } from './kit/actions.mjs';

export default async function scenario(stage) {
  stage.expect(/status of 404/);
  const { world } = stage;
  const id = 'order-to-delete';
  await call(world, 'POST', '/v1/orchestrations/fulfil-order/instances', { id, input: order(id, { total_cents: 250_000 }) });
  const page = await stage.open(instance(id));
  await see(page, 'awaiting-approval');
  await call(world, 'DELETE', `/v1/instances/${id}?force=true`);
  await see(page, 'This instance was deleted meanwhile');
  assert.ok((await page.locator('main').innerText()).includes('awaiting-approval'), 'what it showed is still there');

  // From the page itself: an instance that has ended.
  await fulfil(world, 'order-that-ended');
  await page.goto(`${world.api}/${instance('order-that-ended')}`);
  await arrive(page, 'order-that-ended');
  await page.getByRole('button', { name: /^Delete/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await arrive(page, 'Instances');
  await see(page, /instances? with \d+ events deleted/);
  await page.goto(`${world.api}/${instance('order-that-ended')}`);
  await see(page, /does not exist/);
}
