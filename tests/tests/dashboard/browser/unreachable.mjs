// The API dies while a page is open. The page keeps what it showed and says so, and goes on when the API is back.

import assert from 'node:assert/strict';
import { arrive, instance, see, until } from './kit/actions.mjs';

export default async function scenario(stage) {
  stage.expect(/ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|Failed to load resource/);
  const list = await stage.open('#/instances');
  await list.getByRole('link', { name: 'order-1041' }).first().waitFor();
  const one = await stage.open(instance('order-1046'));
  await see(one, 'cooling-off');
  await fetch(`${stage.world.control}/down`, { method: 'POST' });
  for (const page of [list, one]) await see(page, 'The API does not answer');
  assert.ok(await list.getByRole('link', { name: 'order-1041' }).first().isVisible(), 'the list is still there');
  assert.ok((await one.locator('main').innerText()).includes('cooling-off'), 'the instance is still there');
  await see(list, 'What you see is from');
  await fetch(`${stage.world.control}/up`, { method: 'POST' });
  for (const page of [list, one]) {
    await until('the notice is gone', async () => (await page.getByText('The API does not answer').count()) === 0);
  }

  // A page that is opened while the API is down says so, and offers to try again.
  await fetch(`${stage.world.control}/down`, { method: 'POST' });
  await list.getByRole('link', { name: 'Overview' }).first().click();
  await see(list, 'The API does not answer');
  await fetch(`${stage.world.control}/up`, { method: 'POST' });
  await arrive(list, 'Overview');
  await see(list, 'Needs attention');
  await until('the notice is gone', async () => (await list.getByText('The API does not answer').count()) === 0);
}
