// From the overview to what needs attention: each with its reasons and an explanation. The numbers agree with their lists.

import assert from 'node:assert/strict';
import { arrive, see, until } from './kit/actions.mjs';

export default async function scenario(stage) {
  const page = await stage.open();
  await arrive(page, 'Overview');
  const failed = page.getByRole('link', { name: /failed in the last 24 hours/ });
  const count = Number((await failed.innerText()).match(/\d+/)[0]);
  assert.ok(count >= 3, `${count}`);
  await failed.click();
  await arrive(page, 'Instances');
  const results = page.getByRole('region', { name: 'Results' });
  const rows = results.getByRole('row');
  await until('the list is as long as the number', async () => (await rows.count()) === count + 1);
  assert.match(page.url(), /status=Failed&endedFrom=/);

  await page.goto(`${stage.world.api}/#/`);
  await page.getByRole('link', { name: 'All instances that need attention, with reasons' }).click();
  await arrive(page, 'Instances');
  const row = (id) => results.getByRole('row').filter({ has: page.getByRole('link', { name: id, exact: true }) });
  await row('import-1').getByText(/Has been blocked/).first().waitFor();
  await row('mail-1').getByText('dead letter', { exact: true }).waitFor();
  const child = results.getByRole('row').filter({ hasText: 'blocked activity' });
  await child.getByText(/which no deployed worker has been able to run/).waitFor();
  await row('order-1045').getByText(/Failed .* ago/).first().waitFor();
  for (const fine of ['order-1041', 'order-1047']) assert.equal(await row(fine).count(), 0, fine);
  assert.equal(await page.locator('.chip[aria-current=true]').innerText(), 'Needs attention');

  // Other filters add up, and another status leaves it.
  await page.getByLabel('Id begins with').fill('mail-');
  await page.keyboard.press('Enter');
  await row('import-1').waitFor({ state: 'detached' });
  await row('mail-1').waitFor();
  await page.getByLabel('Id begins with').fill('order-1041');
  await page.keyboard.press('Enter');
  await see(page, 'Nothing needs attention');
  await page.getByRole('link', { name: 'Completed', exact: false }).first().click();
  await row('order-1041').waitFor();
}
